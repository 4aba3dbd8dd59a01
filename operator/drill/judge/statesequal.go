package judge

import "fmt"

var statesEqual = rule{
	name:    "states-equal",
	promise: "Members have the same state at the same place of the log: their digests and the ends of sessions that they have applied.",
	page:    "docs/damage.md#when-a-member's-state-differs",
	judge:   judgeStates,
}

// judgeStates judges the digests of members as they compare them themselves, and each end of a session that two
// members remember.
func judgeStates(e *Evidence, _ Limits, f *finding) {
	f.none = "no two members could be compared"
	all := e.testifying(f)
	for _, t := range all {
		switch t.Digest {
		case "agrees":
			f.judged++
		case "differs":
			f.judged++
			f.broken(e.End, fmt.Sprintf("the state of member %s is not that of the others", t.Member), statesOf(e, all)...)
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
				f.broken(e.End, fmt.Sprintf("members %s and %s have different ends of sessions at number %d", other.by.Member, t.Member, d.Number),
					other.by.line(e, other.End), t.line(e, d))
			}
		}
	}
}

// statesOf returns each member's digest by its own words.
func statesOf(e *Evidence, all []*Testimony) (lines []line) {
	for _, t := range all {
		lines = append(lines, at(e.End, "member %s: its digest %s at entry %d of the log", t.Member, t.Digest, t.DigestAt))
	}
	return lines
}
