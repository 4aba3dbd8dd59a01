package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/operator/api"
)

// A command that waits for a server that catches up says every few seconds how far it is, and from the second time on how fast.
func TestWaitingTellsTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs bytes.Buffer
		p := &serverProgress{command: newMembersCommand(IOStreams{Err: &errs}), id: 4}
		defer p.endProgress()
		committed := uint64(9000)
		tell := func(state string, applied uint64) {
			p.reportServer(api.Members{CommittedIndex: &committed, Items: []api.Server{{MemberID: 4, State: state, AppliedIndex: applied}}})
		}
		tell(api.StateJoining, 0)
		for second := range uint64(12) {
			tell(api.StateCatchingUp, 1000+100*second)
			time.Sleep(time.Second)
		}
		tell(api.StateFollower, 9000)
		want := []string{
			"rollcall: member 4: joining", "rollcall: member 4: catching up 1000 of 9000",
			"rollcall: member 4: catching up 1500 of 9000, 100/s", "rollcall: member 4: catching up 2000 of 9000, 100/s", "rollcall: member 4: follower",
		}
		if got := strings.TrimSpace(errs.String()); got != strings.Join(want, "\n") {
			t.Errorf("it says\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
	})
}

// A command that waits for a server that reads its data says every few seconds how far it is.
func TestWaitingForAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs bytes.Buffer
		p := &serverProgress{command: newMembersCommand(IOStreams{Err: &errs}), id: 4}
		for percent := range 12 {
			p.reportServer(api.Members{Items: []api.Server{{MemberID: 4, State: api.StateNotServing, Detail: fmt.Sprintf("it reads its log, %d %%", percent)}}})
			time.Sleep(time.Second)
		}
		var want []string
		for _, percent := range []int{0, 5, 10} {
			want = append(want, fmt.Sprintf("rollcall: member 4: not serving: it reads its log, %d %%", percent))
		}
		if got := strings.TrimSpace(errs.String()); got != strings.Join(want, "\n") {
			t.Errorf("it says\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
	})
}
