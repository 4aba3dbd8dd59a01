package judge

import "fmt"

var afterEnd = judgeRule{
	name:    "nothing-after-end",
	promise: "No reply to a read of a session shows the transaction that ended the session, or a later one.",
	page:    "docs/sessions.md#how-a-session-ended",
	judge:   judgeAfterEnd,
}

// judgeAfterEnd judges reads by their transactions, so that no clock plays a part: a member that has applied the end
// of a session answers nothing more for it.
func judgeAfterEnd(e *Evidence, _ Limits, f *findings) {
	f.nothingJudged, f.kinds = "no read of a session whose end is known", []string{KindReads}
	all := e.answeringMembers(f)
	known, from := firstEnds(all)
	for i := range e.Reads {
		r := &e.Reads[i]
		d, ended := known[r.Session]
		if !ended || r.Zxid == 0 {
			continue
		}
		f.judged++
		if r.Zxid >= d.Zxid {
			f.addViolation(r.At, fmt.Sprintf("session %s ended with zxid %#x, and a read of it shows zxid %#x", r.Session, d.Zxid, r.Zxid),
				lineAt(r.At, "%s answers a read of %s, sent at %s, with zxid %#x", memberName(r.Member), r.Path, formatTime(r.Sent), r.Zxid),
				from[r.Session].lineOfEnd(e, d))
		}
	}
}
