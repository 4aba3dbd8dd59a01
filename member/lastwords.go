package member

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"rollcall/internal/admission"
	"rollcall/internal/serverlist"
	"rollcall/operator/view"
	"rollcall/proto"
)

const (
	// maxLastWords limits the last words of a member, in bytes.
	maxLastWords = 300
	// lastWordsTimeout limits the time by which last words delay the end of a member, and so its restart: they are worth some round
	// trips to the members that are there, and no wait for one that is not.
	lastWordsTimeout = 200 * time.Millisecond
)

// lastWords remembers the reasons for which other members have ended. Each member that ends because of an error sends it to the
// others in a Hello, as far as it can, so that an operator need not find its log. There is one entry at most for each member. It
// is safe for concurrent use.
type lastWords struct {
	now   func() time.Time // wall clock
	lines *admission.LogLimiter

	mu       sync.Mutex
	byMember map[uint32]farewell
}

// farewell is the last message of one process of a member.
type farewell struct {
	process uint64 // as in HelloRequest.start
	at      time.Time
	text    string
}

func newLastWords(now func() time.Time) *lastWords {
	return &lastWords{now: now, lines: admission.NewLogLimiter(), byMember: map[uint32]farewell{}}
}

// record takes a Hello of another member, and reports whether it has new last words that are to be logged. A Hello of another process of that member
// shows that the member is back, so its words are forgotten. Followers send each other none, so an answered query shows it, too.
func (l *lastWords) record(member uint32, r *proto.HelloRequest) (text string, isNew bool) {
	text = truncateWords(r.GetLastWords())
	l.mu.Lock()
	defer l.mu.Unlock()
	last, known := l.byMember[member]
	switch {
	case text != "":
		l.byMember[member] = farewell{process: r.GetStart(), at: l.now(), text: text}
		if isNew = last.text != text || last.process != r.GetStart(); isNew {
			_, isNew = l.lines.AllowLine(l.now())
		}
		return text, isNew
	case known && last.process != r.GetStart():
		delete(l.byMember, member)
	}
	return "", false
}

// forget forgets the words of a member that answers again.
func (l *lastWords) forget(member uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byMember, member)
}

// describe returns the last words of a member, with their time, or "".
func (l *lastWords) describe(member uint32) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, known := l.byMember[member]
	if !known {
		return ""
	}
	return fmt.Sprintf("its last words, at %s: %s", last.at.UTC().Format("2006-01-02 15:04:05 UTC"), last.text)
}

// truncateWords returns the first maxLastWords bytes of text, as valid UTF-8.
func truncateWords(text string) string {
	return strings.Clone(strings.ToValidUTF8(text[:min(len(text), maxLastWords)], "")) // not with all that a caller sends
}

// rememberedPeer adds the last words of a member to the error of a query that it does not answer.
type rememberedPeer struct {
	viewPeer
	id    uint32
	words *lastWords
}

// View implements view.Peer.
func (p rememberedPeer) View(ctx context.Context, r *proto.ViewRequest) (*proto.ViewReply, error) {
	reply, err := p.viewPeer.View(ctx, r)
	if err == nil {
		p.words.forget(p.id)
	}
	words := p.words.describe(p.id)
	if err == nil || words == "" || errors.Is(err, view.ErrBusy) || errors.Is(err, view.ErrTooLong) {
		return reply, err
	}
	return nil, fmt.Errorf("%w; %s", err, words)
}

// sendLastWords sends the reason for which this member ends to all others at once. It waits for at most lastWordsTimeout, and
// nothing comes of an error: the member ends all the same.
func (c *helloClient) sendLastWords(list serverlist.List, reason error) {
	ctx, cancel := context.WithTimeout(context.Background(), lastWordsTimeout)
	defer cancel()
	request := c.helloRequest()
	request.LastWords = truncateWords(reason.Error())
	var all sync.WaitGroup
	for _, s := range list {
		if s.ID != c.cfg.ID {
			all.Go(func() { _, _ = c.sendRequestTo(ctx, s, request) })
		}
	}
	all.Wait()
}
