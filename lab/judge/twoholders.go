package judge

import (
	"cmp"
	"fmt"
	"slices"
)

var twoHolders = judgeRule{
	name:    "two-holders",
	promise: "While a client holds a lock, no other client gets it, and each token is greater than all earlier ones.",
	page:    "docs/recipes/lock.md#guarantees",
	judge:   judgeHolders,
}

// judgeHolders judges the times in which Held returned true. A Hold begins when its first call has returned and ends
// when its last call began, so two that overlap were surely held together. It needs no slack: all times are of one
// clock. No fault excuses anything.
func judgeHolders(e *Evidence, _ Limits, f *findings) {
	f.nothingJudged, f.kinds = "no client held a lock", []string{KindHolds}
	for _, holds := range groupBy(e.Holds, func(h Hold) string { return h.Lock }) {
		f.judged += len(holds)
		slices.SortStableFunc(holds, func(a, b Hold) int { return cmp.Compare(a.From, b.From) })
		// of the earlier ones, the one that lasted longest, and that with the greatest token
		longest, greatest := holds[0], holds[0]
		for _, h := range holds[1:] {
			judgeNext(e, longest, greatest, h, f)
			if h.To > longest.To {
				longest = h
			}
			if h.Token > greatest.Token {
				greatest = h
			}
		}
	}
}

// judgeNext judges a hold by earlier ones.
func judgeNext(e *Evidence, longest, greatest, h Hold, f *findings) {
	if until := min(longest.To, h.To); until > h.From {
		f.addViolation(h.From, fmt.Sprintf("%s and %s both held %s for %.0f ms", longest.Client, h.Client, h.Lock,
			float64(until-h.From)),
			append(e.faultLines(longest.From, h.To), append(longest.toLines(), h.toLines()...)...)...)
		return
	}
	if h.Token <= greatest.Token {
		f.addViolation(h.From, fmt.Sprintf("%s got %s with token %d after a holder with token %d", h.Client, h.Lock, h.Token,
			greatest.Token),
			append(e.faultLines(greatest.From, h.From), append(greatest.toLines(), h.toLines()...)...)...)
	}
}

func (h Hold) toLines() []historyLine {
	return []historyLine{
		lineAt(h.From, "%s, session %s: Held is true, token %d", h.Client, h.Session, h.Token),
		lineAt(h.To, "%s: Held was true for the last time (%d calls)", h.Client, h.Checks),
	}
}
