package judge

import "fmt"

var statesEqual = judgeRule{
	name:    "states-equal",
	promise: "Members have the same state at the same place of the log: their digests and the ends of sessions that they have applied.",
	page:    "docs/damage.md#when-a-members-state-differs",
	judge:   judgeStates,
}

// judgeStates judges the digests of members as they compare them themselves, and each end of a session that two
// members remember.
func judgeStates(e *Evidence, _ Limits, f *findings) {
	f.nothingJudged = "no two members could be compared"
	all := e.answeringMembers(f)
	for _, t := range all {
		switch t.Digest {
		case "agrees":
			f.judged++
		case "differs":
			f.judged++
			f.addViolation(e.End, fmt.Sprintf("the state of member %s is not that of the others", t.Member), statesOf(e, all)...)
		}
	}
	type word struct {
		End
		by *Testimony
	}
	first := map[uint64]word{}
	for _, t := range all {
		for _, d := range t.Ends {
			other, known := first[d.Number]
			if !known {
				first[d.Number] = word{d, t}
				continue
			}
			f.judged++
			if other.End != d {
				f.addViolation(e.End, fmt.Sprintf("members %s and %s have different ends of sessions at number %d", other.by.Member, t.Member, d.Number),
					other.by.lineOfEnd(e, other.End), t.lineOfEnd(e, d))
			}
		}
	}
}

// statesOf returns each member's digest by its own words.
func statesOf(e *Evidence, all []*Testimony) (lines []historyLine) {
	for _, t := range all {
		lines = append(lines, lineAt(e.End, "member %s: its digest %s at entry %d of the log", t.Member, t.Digest, t.DigestAt))
	}
	return lines
}
