package judge

import "fmt"

var oneLeader = judgeRule{
	name:    "one-leader",
	promise: "In one term, one member leads: all members name the same one.",
	page:    "docs/sessions.md#change-of-leader",
	judge:   judgeLeaders,
}

// judgeLeaders judges the terms that members remember, and those in which sessions ended.
func judgeLeaders(e *Evidence, _ Limits, f *findings) {
	f.nothingJudged = "no member knows a leader"
	var said []Lead
	by := map[Lead][]historyLine{}
	add := func(t *Testimony, l Lead, format string, args ...any) {
		said = append(said, l)
		if len(by[l]) == 0 {
			by[l] = append(by[l], lineAt(e.End, format, args...))
		}
	}
	for _, t := range e.answeringMembers(f) {
		for _, l := range t.Leads {
			add(t, l, "member %s: member %d opened term %d", t.Member, l.Leader, l.Term)
		}
		for _, d := range t.Ends {
			add(t, d.Lead, "member %s: %s", t.Member, d)
		}
	}
	terms := map[uint64]bool{}
	for _, l := range said {
		terms[l.Term] = true
	}
	f.judged = len(terms)
	for _, leaders := range TwoLeaders(said) {
		var lines []historyLine
		for _, l := range leaders {
			lines = append(lines, by[l]...)
		}
		f.addViolation(e.End, fmt.Sprintf("members %d and %d both led in term %d", leaders[0].Leader, leaders[1].Leader, leaders[0].Term), lines...)
	}
}
