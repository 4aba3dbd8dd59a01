package history

import (
	"fmt"

	"rollcall/lab/judge"
)

// checkLeaders judges (h): one member leads in a term. `rollcall drill` judges members of real ensembles by the same
// function.
func checkLeaders(b *indexedHistory, found func(Violation)) {
	var said []judge.Lead
	for _, t := range b.Terms {
		said = append(said, judge.Lead{Term: t.Term, Leader: t.Leader})
	}
	for _, leaders := range judge.TwoLeaders(said) {
		found(Violation{
			Fault: twoLeaders, At: b.findTerm(leaders[0].Term, 0).From,
			Detail: fmt.Sprintf("members %d and %d both opened term %d", leaders[0].Leader, leaders[1].Leader, leaders[0].Term),
		})
	}
}
