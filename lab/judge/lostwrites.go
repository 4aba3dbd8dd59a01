package judge

import (
	"fmt"
	"strings"
)

var lostWrites = judgeRule{
	name:    "lost-writes",
	promise: "A write that was acknowledged is there, on every member.",
	page:    "docs/sessions.md#what-it-guarantees",
	judge:   judgeLost,
}

// judgeLost judges acknowledged writes: by what each member shows at the end after a sync, and by the versions in the
// replies of one key, which must grow. No fault excuses a lost write, so there is no slack.
func judgeLost(e *Evidence, _ Limits, f *findings) {
	f.nothingJudged, f.kinds = "no write was acknowledged", []string{KindWrites, KindCreates}
	for i := range e.Keys {
		k := &e.Keys[i]
		f.judged += k.Acked
		lostInReplies(e, k, f)
		lostAtEnd(e, k, f)
	}
	for _, l := range e.Listings {
		names := l.countByID()
		for _, c := range e.Creates {
			if c.Outcome == Acked && names[c.ID] == 0 {
				f.addViolation(c.At, fmt.Sprintf("%s was created, and member %s does not have it", c.Name, l.Member),
					append(e.faultLines(c.Sent, l.At), c.toLine(), lineAt(l.At, "member %s lists the children after a sync, without %s", l.Member,
						c.Name))...)
			}
		}
	}
	for _, c := range e.Creates {
		if c.Outcome == Acked {
			f.judged++
		}
	}
	f.judgedAtEnd(e)
}

// judgedAtEnd says which members could not be read at the end. If none could, the rule has judged nothing, but what
// the replies show counts all the same.
func (f *findings) judgedAtEnd(e *Evidence) {
	if len(e.Unread) == 0 {
		return
	}
	unread := "not read at the end: " + strings.Join(e.Unread, ", ")
	if len(e.Listings) > 0 {
		f.reason = unread
		return
	}
	f.nothingJudged, f.judged = unread, 0
}

// lostInReplies finds writes whose version is not above that of an earlier one.
func lostInReplies(e *Evidence, k *Key, f *findings) {
	var last Put
	for _, p := range k.Puts {
		if p.Outcome != Acked {
			continue
		}
		if last.At > 0 && p.Version <= last.Version {
			f.addViolation(p.At, fmt.Sprintf("%s got version %d after version %d: the earlier write is lost", k.Path, p.Version,
				last.Version),
				append(e.faultLines(last.Sent, p.At), last.toLine(), p.toLine())...)
		}
		last = p
	}
}

// lostAtEnd finds members that do not have the last acknowledged write of a key.
func lostAtEnd(e *Evidence, k *Key, f *findings) {
	for _, final := range k.Finals {
		if k.Acked == 0 || !final.Missing && final.Value >= k.Last.Value && final.Version >= k.Last.Version {
			continue
		}
		f.addViolation(k.Last.At, fmt.Sprintf("%s: the write of %d was acknowledged, and member %s shows %s at the end",
			k.Path, k.Last.Value, final.Member, final),
			append(e.faultLines(k.Last.Sent, final.At), k.Last.toLine(), lineAt(final.At, "member %s shows after a sync: %s",
				final.Member, final))...)
	}
}

// String returns what the member showed.
func (f Final) String() string {
	if f.Missing {
		return "no node"
	}
	return fmt.Sprintf("%d, version %d", f.Value, f.Version)
}

func (p Put) toLine() historyLine {
	if p.Outcome != Acked {
		return lineAt(p.At, "session %s: write of %d, sent at %s: %s", p.Session, p.Value, formatTime(p.Sent), p.Outcome)
	}
	return lineAt(p.At, "session %s: write of %d, sent at %s, is acknowledged with version %d", p.Session, p.Value,
		formatTime(p.Sent), p.Version)
}

func (c Create) toLine() historyLine {
	if c.Outcome != Acked {
		return lineAt(c.At, "session %s: create of %s, sent at %s: %s", c.Session, c.ID, formatTime(c.Sent), c.Outcome)
	}
	return lineAt(c.At, "session %s: create of %s, sent at %s, is acknowledged as %s", c.Session, c.ID, formatTime(c.Sent), c.Name)
}

// sequenceDigits is the length of the number that servers append to the name of a sequential node.
const sequenceDigits = 10

// countByID counts the nodes of each Create.
func (l Listing) countByID() map[string]int {
	ids := make(map[string]int, len(l.Names))
	for _, name := range l.Names {
		ids[name[:max(0, len(name)-sequenceDigits)]]++ // a name begins with the ID of its Create
	}
	return ids
}
