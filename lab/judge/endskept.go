package judge

import "fmt"

var endsKept = judgeRule{
	name:    "ends-kept",
	promise: "No member still has a session that has ended.",
	page:    "docs/sessions.md#how-a-session-ended",
	judge:   judgeEndsKept,
}

// judgeEndsKept judges the lists of sessions of all members by the ends that clients received and by those in the log.
// The lists are read when each member has applied all that was committed when the drill ended.
func judgeEndsKept(e *Evidence, _ Limits, f *findings) {
	f.nothingJudged, f.kinds = "no session ended", []string{KindSessions}
	all := e.answeringMembers(f)
	known, from := firstEnds(all)
	over := map[string]historyLine{}
	for id, d := range known {
		over[id] = from[id].lineOfEnd(e, d)
	}
	for i := range e.Sessions {
		if s := &e.Sessions[i]; s.Ended == Expired || s.Ended == Closed {
			over[s.ID] = lineAt(s.EndedAt, "the client of session %s knows that it is %s", s.ID, s.Ended)
		}
	}
	for _, t := range all {
		f.judged += len(over)
		for _, id := range t.Live {
			if why, ended := over[id]; ended {
				f.addViolation(e.End, fmt.Sprintf("member %s still has session %s", t.Member, id), why, lineAt(e.End, "member %s lists session %s", t.Member, id))
			}
		}
		if t.LiveMore {
			f.reason = joinSentences(f.reason, fmt.Sprintf("member %s has more sessions than were listed", t.Member))
		}
	}
}
