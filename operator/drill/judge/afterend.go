package judge

import "fmt"

var afterEnd = rule{
	name:    "nothing-after-end",
	promise: "No reply to a read of a session shows the transaction that ended the session, or a later one.",
	page:    "docs/sessions.md#how-a-session-ended",
	judge:   judgeAfterEnd,
}

// judgeAfterEnd judges reads by their transactions, so that no clock plays a part: a member that has applied the end
// of a session answers nothing more for it.
func judgeAfterEnd(e *Evidence, _ Limits, f *finding) {
	f.none, f.kinds = "no read of a session whose end is known", []string{KindReads}
	all := e.testifying(f)
	known, from := ends(all)
	for i := range e.Reads {
		r := &e.Reads[i]
		d, ended := known[r.Session]
		if !ended || r.Zxid == 0 {
			continue
		}
		f.judged++
		if r.Zxid >= d.Zxid {
			f.broken(r.At, fmt.Sprintf("session %s ended with zxid %#x, and a read of it shows zxid %#x", r.Session, d.Zxid, r.Zxid),
				at(r.At, "%s answers a read of %s, sent at %s, with zxid %#x", memberName(r.Member), r.Path, clock(r.Sent), r.Zxid),
				from[r.Session].line(e, d))
		}
	}
}
