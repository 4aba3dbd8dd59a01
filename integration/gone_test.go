package integration

import (
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	"rollcall/integration/cluster"
	"rollcall/internal/serverlist"
	"rollcall/member"
	"rollcall/operator/api"
)

// A removed member shows nothing of the ensemble to operators, and serves no client. What is about itself it shows.
func TestRemovedMemberIsSilent(t *testing.T) {
	ensembleWith(t, cluster.Options{Reconfig: true, HTTP: true}, func(t *testing.T, e *cluster.Ensemble, leader, _, b uint32) {
		sessions := func() error {
			_, err := api.Get[api.List[api.Session]](t.Context(), e.Operator(b), "sessions", nil)
			return err
		}
		if err := sessions(); err != nil {
			t.Fatal(err)
		}
		mustChange(t, e, leader, serverlist.Change{Leaving: strconv.Itoa(int(b))})
		e.Follow()
		time.Sleep(member.RemovedGracePeriod + 2*tick)
		e.Wait("the member to learn that it was removed", 20*time.Second, func() bool { // it asks the others every 5 s once it knows no leader
			list, err := api.Get[api.Members](t.Context(), e.Operator(b), "members", nil)
			return err == nil && list.WasRemoved
		})
		failure, refused := errors.AsType[*api.Error](sessions())
		if !refused || failure.Status != http.StatusServiceUnavailable || failure.Reason != api.ReasonRemoved {
			t.Errorf("the sessions at a removed member: %v", failure)
		}
		if list, err := api.Get[api.Members](t.Context(), e.Operator(b), "members", nil); err != nil || !list.WasRemoved {
			t.Errorf("the list at a removed member: removed %t, %v", list.WasRemoved, err)
		}
		if role := e.Member(b).Role(); role != "" {
			t.Errorf("a removed member has the role %q, so it answers four-letter words", role)
		}
		e.AwaitSilent(b)
	})
}
