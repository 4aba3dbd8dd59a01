// Package witness asks the members of an ensemble, after a drill, what only they know: which of them led in which term,
// whether their states agree, how sessions ended, and which sessions they have. It asks each member about itself, over
// the HTTP of Rollcall for operators, so that package judge can compare them.
package witness

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"rollcall/lab/judge"
	"rollcall/lab/result"
	"rollcall/lab/target"
	"rollcall/operator/api"
)

// These limits bound what is asked of one member.
const (
	// maxEnds is more than members remember.
	maxEnds = 20_000
	// maxLive is a hundred pages. The drill's own sessions are fewer.
	maxLive = 100_000
	// maxFrames is far more frames than a stream of events begins with.
	maxFrames = 64
	// maxFrame is more than an event about an ensemble of nine takes, in bytes.
	maxFrame = 1 << 20
	// lagPause is the time between two looks at a member that has not applied everything yet.
	lagPause = 50 * time.Millisecond
	// framesLimit is the time for the first frames of a stream of events. The status follows them within a second.
	framesLimit = 3 * time.Second
)

// Mark returns the number of the last end of a session that members remember, for Gather after the drill. It is 0 if
// no member says so.
func Mark(ctx context.Context, members []target.Member) (last uint64) {
	for _, m := range members {
		if m.Admin == "" {
			continue
		}
		newest, err := api.Get[api.List[api.End]](ctx, clientOf(m), "ends", map[string][]string{"limit": {"1"}})
		if err == nil && len(newest.Items) > 0 {
			last = max(last, newest.Items[0].Number)
		}
	}
	return last
}

// Gather asks all members whose HTTP is known. It waits until each has applied what was committed when Gather began. It
// returns nil if no member's HTTP is known. mark is what Mark returned before the drill.
func Gather(ctx context.Context, members []target.Member, mark uint64) (all []judge.Testimony) {
	if !slices.ContainsFunc(members, func(m target.Member) bool { return m.Admin != "" }) {
		return nil
	}
	all = make([]judge.Testimony, len(members))
	var asked sync.WaitGroup
	for i, m := range members {
		asked.Go(func() { all[i] = testify(ctx, m, mark) })
	}
	asked.Wait()
	return all
}

func clientOf(m target.Member) *api.Client {
	c := &api.Client{BaseURL: m.Admin}
	if m.Token != "" {
		c.Authorization = "Bearer " + m.Token
	}
	return c
}

// testify asks one member.
func testify(ctx context.Context, m target.Member, mark uint64) judge.Testimony {
	t := judge.Testimony{Member: m.Name}
	if m.Admin == "" {
		t.Silent = "its HTTP for operators is not known"
		return t
	}
	c := clientOf(m)
	for _, ask := range []func() error{
		func() error { return askDigest(ctx, c, &t) }, // first: it waits for what was committed
		func() error { return askEnds(ctx, c, &t, mark) },
		func() error { return askSessions(ctx, c, &t) },
		func() error { return askLeaders(ctx, c, &t) },
	} {
		if err := ask(); err != nil {
			return judge.Testimony{Member: m.Name, Silent: err.Error()}
		}
	}
	return t
}

// askDigest asks the member for its own status, until it has applied what was committed at the first answer.
func askDigest(ctx context.Context, c *api.Client, t *judge.Testimony) error {
	who, err := api.Get[api.Caller](ctx, c, "whoami", nil)
	for goal := uint64(0); err == nil; {
		var status api.List[api.Member]
		if status, err = api.Get[api.List[api.Member]](ctx, c, "status", nil); err != nil {
			break
		}
		own := slices.IndexFunc(status.Items, func(s api.Member) bool { return s.MemberID == who.MemberID })
		if own < 0 {
			return fmt.Errorf("its status has no row for itself, member %d", who.MemberID)
		}
		if goal == 0 {
			for _, s := range status.Items {
				goal = max(goal, s.CommittedIndex)
			}
		}
		if s := status.Items[own]; s.AppliedIndex >= goal {
			t.Digest, t.DigestAt = s.DigestVerdict, s.DigestIndex
			return nil
		}
		select {
		case <-time.After(lagPause):
		case <-ctx.Done():
			return fmt.Errorf("it has not applied entry %d of the log: %w", goal, context.Cause(ctx))
		}
	}
	return err
}

// askEnds asks for the ends of sessions after the one with the number mark.
func askEnds(ctx context.Context, c *api.Client, t *judge.Testimony, mark uint64) error {
	oldest := uint64(0)
	for d, err := range api.AllRows[api.End](ctx, c, "ends", nil, nil) {
		if err != nil {
			return err
		}
		if d.Number <= mark || len(t.Ends) == maxEnds {
			oldest = 0
			break
		}
		zxid, err := strconv.ParseUint(strings.TrimPrefix(d.Zxid, "0x"), 16, 64)
		if err != nil {
			return fmt.Errorf("the end of session %s: the zxid is %.40q: %w", d.ID, d.Zxid, err)
		}
		t.Ends = append(t.Ends, judge.End{
			Number: d.Number, Session: d.ID, Reason: d.Reason, By: d.EndedBy, At: d.EndedAt.UTC().Format(time.RFC3339Nano),
			Zxid: int64(zxid), Lead: judge.Lead{Term: d.Term, Leader: d.LeaderID},
			Silent: result.Millis(d.SilentMs), Timeout: result.Millis(d.TimeoutMs), Ephemerals: d.EphemeralCount,
		})
		oldest = d.Number
	}
	if oldest > mark+1 {
		t.Forgotten = oldest - mark - 1
	}
	slices.Reverse(t.Ends)
	return nil
}

// askSessions asks for the sessions in the member's state.
func askSessions(ctx context.Context, c *api.Client, t *judge.Testimony) error {
	for s, err := range api.AllRows[api.Session](ctx, c, "sessions", nil, nil) {
		if err != nil {
			return err
		}
		if len(t.Live) == maxLive {
			t.LiveMore = true
			return nil
		}
		t.Live = append(t.Live, s.ID)
	}
	return nil
}

// errEnough ends a stream of events.
var errEnough = errors.New("enough")

// askLeaders reads the changes of the leader with which a stream of events begins. They end with the first other event.
func askLeaders(ctx context.Context, c *api.Client, t *judge.Testimony) error {
	ctx, stop := context.WithTimeout(ctx, framesLimit)
	defer stop()
	err := c.GetStream(ctx, "events", nil, func(body io.Reader) error {
		lines := bufio.NewScanner(body)
		lines.Buffer(nil, maxFrame)
		event := ""
		for frames := 0; frames < maxFrames && lines.Scan(); {
			if name, is := strings.CutPrefix(lines.Text(), "event: "); is {
				if event = name; event != "leader" {
					return errEnough
				}
				frames++
			}
			data, is := strings.CutPrefix(lines.Text(), "data: ")
			if !is || event != "leader" {
				continue
			}
			var e api.LeaderEvent
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				return fmt.Errorf("an event about the leader: %w", err)
			}
			t.Leads = append(t.Leads, judge.Lead{Term: e.Term, Leader: e.LeaderID})
		}
		return lines.Err()
	})
	if errors.Is(err, errEnough) || ctx.Err() != nil && len(t.Leads) > 0 {
		return nil
	}
	return err
}
