package member_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/internal/serverlist"
	"rollcall/member"
	"rollcall/operator/admin"
)

// The decisions of operators last over restarts. A member that was removed stays out, also if it did not hear of that, and one that was
// demoted observes, although the voters could be five. An operator adds the member again, or empties its disk.
func TestOperatorsDecisionsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 7, comingByThemselves(t, nil))
		e.Ready()
		w := startWriter(t, e, 1, 2, 3)
		change := func(c serverlist.Change) {
			t.Helper()
			if err := changeList(t, e, 1, c); err != nil {
				t.Fatal(err)
			}
			settled(t, e)
		}
		for _, id := range []uint32{4, 5} {
			change(serverlist.Change{Joining: e.ServerLine(id, true)})
		}
		change(serverlist.Change{Leaving: "6"})
		e.Stop(7) // it does not hear of its removal
		change(serverlist.Change{Leaving: "7"})
		for _, id := range []uint32{4, 5, 6} {
			e.Stop(id)
		}
		for _, id := range []uint32{4, 5, 6, 7} {
			e.Boot(id)
		}
		time.Sleep(time.Minute)
		awaitVoters(t, e, 1, 2, 3)
		if got := e.Members(); !slices.Equal(got, []uint32{1, 2, 3, 4, 5}) {
			t.Errorf("the list has %v", got)
		}
		change(serverlist.Change{Joining: e.ServerLine(6, false)})
		awaitVoters(t, e, 1, 2, 3, 6)
		e.Kill(7)
		e.Wipe(7)
		e.Boot(7)
		awaitVoters(t, e, 1, 2, 3, 6, 7)
		w.end(t, e, 1, 2, 3, 4, 5, 6, 7)
	})
}

// An operator's removal of a member that came by itself lasts, also if nobody could reach the port of its log, so that it never had a leader.
func TestRemovalOfAMemberWithoutALog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, comingByThemselves(t, nil))
		e.Ready()
		e.Add(4)
		e.Shut(4, cluster.RaftPort, cluster.In)
		e.Boot(4)
		e.Wait("member 4 to be in the list", time.Minute, func() bool { return slices.Contains(e.Members(), 4) })
		time.Sleep(10 * time.Second)
		if err := changeList(t, e, 1, serverlist.Change{Leaving: "4"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		if got := e.Members(); !slices.Equal(got, []uint32{1, 2, 3}) {
			t.Errorf("the list has %v", got)
		}
	})
}

// leaveByItself has a member ask for its own removal, as a pod does before it stops. The others send nothing to a member that was removed, so
// it may not see that, and then it is no error.
func leaveByItself(ctx context.Context, e *cluster.Ensemble, id uint32, force bool) error {
	ctx, cancel := context.WithTimeout(ctx, 8*time.Second)
	defer cancel()
	_, err := e.Member(id).Operations().ChangeMembers(ctx, admin.MembersChange{
		Change: serverlist.Change{Leaving: fmt.Sprint(id)}, Version: -1, BySelf: true, Force: force,
	})
	if err != nil && strings.Contains(err.Error(), "not confirmed in time") {
		err = nil
	}
	return err
}

// A member that has left by itself comes in again with its old data, and votes.
func TestMemberLeavesByItselfAndComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 5, comingByThemselves(t, nil))
		e.Ready()
		w := startWriter(t, e, 1, 2, 3)
		for _, id := range []uint32{5, 4} {
			if err := leaveByItself(t.Context(), e, id, false); err != nil {
				t.Fatal(err)
			}
			settled(t, e)
			time.Sleep(20 * time.Second) // it does not come again before it restarts
			if slices.Contains(e.Members(), id) {
				t.Errorf("the list has %v", e.Members())
			}
			e.Stop(id)
		}
		e.Boot(4)
		e.Boot(5)
		awaitVoters(t, e, 1, 2, 3, 4, 5)
		if err := changeList(t, e, 1, serverlist.Change{Leaving: "5"}); err != nil { // an operator has the last word
			t.Fatal(err)
		}
		settled(t, e)
		e.Stop(5)
		e.Boot(5)
		time.Sleep(30 * time.Second)
		if got := e.Members(); !slices.Equal(got, []uint32{1, 2, 3, 4}) {
			t.Errorf("the list has %v", got)
		}
		w.end(t, e, 1, 2, 3, 4)
	})
}

// A member stores that it leaves, and dies before it is removed. The next process is a member, so an operator's removal lasts.
func TestMemberDiesWhileItLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 4, comingByThemselves(t, nil))
		e.Ready()
		e.Isolate(4) // its request reaches nobody
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := leaveByItself(ctx, e, 4, false); err == nil {
			t.Fatal("a member without a leader has left")
		}
		if err := member.BeginLeaving(e.Member(4)); err != nil {
			t.Fatal(err)
		}
		e.Kill(4)
		e.Rejoin(4)
		e.Boot(4)
		e.Ready()
		time.Sleep(10 * time.Second)
		if err := changeList(t, e, 1, serverlist.Change{Leaving: "4"}); err != nil {
			t.Fatal(err)
		}
		settled(t, e)
		e.Stop(4)
		e.Boot(4)
		time.Sleep(30 * time.Second)
		if got := e.Members(); !slices.Equal(got, []uint32{1, 2, 3}) {
			t.Errorf("the list has %v", got)
		}
	})
}

// A member whose removal is rejected leaves no more, so an operator's removal lasts. One that stays in the list without a reply leaves for
// leavingTime, whatever becomes of a later request. One that left, and that an operator has added again, votes like any other: no observer gets a vote in its place.
func TestLeavingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, comingByThemselves(t, nil))
		e.Ready()
		w := startWriter(t, e, 1, 2)
		want := func(step string, leaves bool) {
			t.Helper()
			if got := member.IsLeaving(e.Member(3)); got != leaves {
				t.Errorf("%s: member 3 leaves: %t, want %t", step, got, leaves)
			}
		}
		rejected := func() {
			t.Helper()
			_, err := e.Member(3).Operations().ChangeMembers(t.Context(), admin.MembersChange{
				Change: serverlist.Change{Leaving: "3"}, Version: 1, BySelf: true,
			})
			if err == nil || !strings.Contains(err.Error(), "the list was changed meanwhile") {
				t.Fatalf("a removal from another list: %v", err)
			}
		}
		asked := time.Now()
		if err := member.BeginLeaving(e.Member(3)); err != nil {
			t.Fatal(err)
		}
		rejected()
		want("after a request without a reply, and one that was rejected", true)
		time.Sleep(time.Until(asked.Add(29 * time.Second)))
		want("before the time is over", true)
		time.Sleep(2 * time.Second)
		want("after that", false)
		rejected()
		want("after a rejection", false)

		if err := leaveByItself(t.Context(), e, 3, false); err != nil {
			t.Fatal(err)
		}
		settled(t, e)
		time.Sleep(time.Minute)
		want("out of the list", true)
		if got := e.Members(); !slices.Equal(got, []uint32{1, 2}) {
			t.Errorf("the list has %v", got)
		}
		if err := changeList(t, e, 1, serverlist.Change{Joining: e.ServerLine(3, false)}); err != nil {
			t.Fatal(err)
		}
		e.Wait("member 3 to end, so that it starts again", time.Minute, func() bool { return e.Exited(3) != nil })
		e.Restart()
		awaitVoters(t, e, 1, 2, 3)
		want("added again", false)
		bootNew(e, 4)
		e.Wait("member 4 to observe", time.Minute, func() bool { return e.Settled() && e.Member(4).Role() == "observer" })
		time.Sleep(20 * time.Second)
		awaitVoters(t, e, 1, 2, 3)

		rejected()
		time.Sleep(5 * time.Second)
		if err := changeList(t, e, 1, serverlist.Change{Leaving: "3"}); err != nil {
			t.Fatal(err)
		}
		settled(t, e)
		e.Stop(3)
		e.Boot(3)
		time.Sleep(30 * time.Second)
		if slices.Contains(e.Members(), 3) {
			t.Errorf("an operator has removed member 3, and it is in the list: %v", e.Members())
		}
		w.end(t, e, 1, 2, 4)
	})
}

// One member, which knows its own line alone, becomes three by starting the others. It loses its disk, and the others find it late: it joins
// them, and begins no other ensemble. Three become one and three again, and no acknowledged write is lost.
func TestOneBecomesThreeAndOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := one(t, comingByThemselves(t, nil))
		w := startWriter(t, e, 1, 2, 3)
		bootNew(e, 2, 3)
		awaitVoters(t, e, 1, 2, 3)
		e.Wait("all to know that three vote", time.Minute, func() bool { // before that, two disks are a majority, and one is about to be lost
			return !slices.ContainsFunc([]uint32{1, 2, 3}, func(id uint32) bool { return e.Member(id).Shown().Voters != 3 })
		})
		e.Kill(1)
		e.Wipe(1)
		e.Isolate(1)
		e.Boot(1)
		time.Sleep(10 * time.Second) // the name of its host is not known before
		e.Rejoin(1)
		awaitVoters(t, e, 1, 2, 3)
		e.Wait("member 1 to serve", time.Minute, func() bool { return e.Member(1).Role() != "" })
		for _, id := range []uint32{3, 2} {
			if err := leaveByItself(t.Context(), e, id, id == 2); err != nil {
				t.Fatal(err)
			}
			settled(t, e)
			e.Stop(id)
		}
		awaitVoters(t, e, 1)
		time.Sleep(10 * time.Second) // writes go on
		e.Boot(2)
		e.Boot(3)
		awaitVoters(t, e, 1, 2, 3)
		w.end(t, e, 1, 2, 3)
	})
}

// The vote of a member that leaves by itself goes to an observer that wants it first, so there are no fewer voters meanwhile.
func TestLeavingMembersVoteGoesToAnObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, comingByThemselves(t, nil))
		e.Ready()
		w := startWriter(t, e, 1, 2)
		bootNew(e, 4)
		e.Wait("member 4 to observe", time.Minute, func() bool { return e.Settled() && e.Member(4).Role() == "observer" })
		leader, left := e.Leader(), uint32(3)
		if leader == left {
			left = 2
		}
		done := make(chan error, 1)
		go func() { done <- leaveByItself(t.Context(), e, left, false) }()
		fewest := 3
		for ended := false; !ended || slices.Contains(e.Members(), left) || !e.Settled(); time.Sleep(20 * time.Millisecond) {
			select {
			case err := <-done:
				if ended = true; err != nil {
					t.Fatal(err)
				}
			default:
			}
			fewest = min(fewest, e.Member(leader).Shown().Voters)
		}
		if want := slices.DeleteFunc([]uint32{1, 2, 3, 4}, func(id uint32) bool { return id == left }); fewest != 3 || !slices.Equal(voters(e), want) {
			t.Errorf("there were %d voters, and they are %v now, want %v", fewest, voters(e), want)
		}
		w.end(t, e, 1, 4)
	})
}

// A member leaves by itself only if its own number is one of those that leave.
func TestAnotherMemberDoesNotLeaveByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, comingByThemselves(t, nil))
		e.Ready()
		_, err := e.Member(1).Operations().ChangeMembers(t.Context(), admin.MembersChange{
			Change: serverlist.Change{Leaving: "2,31"}, Version: -1, BySelf: true,
		})
		if err == nil || !strings.Contains(err.Error(), `leaving is "2,31"; must have this member's number, 1`) {
			t.Errorf("member 1 says %v", err)
		}
	})
}
