package member_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/internal/serverlist"
	"rollcall/member"
	"rollcall/operator/admin"
	"rollcall/operator/api"
	"rollcall/operator/view"
)

// failed checks that an error is a failure with a status and a text, and returns it.
func failed(t *testing.T, err error, status int, want string) {
	t.Helper()
	f, ok := errors.AsType[*admin.Failure](err)
	if !ok || f.Status != status || !strings.Contains(f.Text, want) {
		t.Errorf("%v, want status %d and %q", err, status, want)
	}
}

// Any member lists the servers, and names those that do not answer. A change that would leave too few of them alive
// is refused before the leader is asked.
func TestMembersFromAnyMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		leader := e.Ready()
		voting(t, e, leader) // one that does not vote yet is catching up, and not a follower
		down, asked := e.Followers()[0], e.Followers()[1]
		e.Kill(down)
		ops := e.Member(asked).Operations()
		e.Wait("the member to be silent", time.Minute, func() bool {
			m, err := ops.Members(t.Context())
			return err == nil && m.Servers[down-1].State == api.StateSilent
		})
		m, err := ops.Members(t.Context())
		if err != nil || len(m.Servers) != 3 || m.Leader != leader || !m.LeaderReplied || !m.IsSettled() {
			t.Fatalf("%+v, %v", m, err)
		}
		for _, s := range m.Servers {
			want := map[uint32]string{leader: api.StateLeader, asked: api.StateFollower, down: api.StateSilent}[s.MemberID]
			if s.State != want || !s.IsVoter || s.ListEntry.ID != s.MemberID || s.ListEntry.QuorumAddr() == "" || (s.Detail != "") != (s.MemberID == down) {
				t.Errorf("%+v, want %s", s, want)
			}
		}
		_, err = ops.ChangeMembers(t.Context(), admin.MembersChange{Change: serverlist.Change{Leaving: fmt.Sprint(asked)}, Version: -1})
		failed(t, err, http.StatusConflict, "too few voters would be alive")
		_, err = ops.ChangeMembers(t.Context(), admin.MembersChange{Change: serverlist.Change{Leaving: fmt.Sprintf("%d,%d", asked, down)}, Version: -1})
		failed(t, err, http.StatusConflict, "one voter would be left, and no other member could take over from it; force makes")
		_, err = ops.ChangeMembers(t.Context(), admin.MembersChange{Change: serverlist.Change{Joining: "server.9=x:1"}, Version: -1})
		failed(t, err, http.StatusBadRequest, "server.9: must be host:quorumPort:electionPort")
	})
}

// voting waits until all members answer, and raft's configuration is the list, each with the disk that it runs with.
func voting(t *testing.T, e *cluster.Ensemble, asked uint32) {
	t.Helper()
	e.Wait("every disk to vote", time.Minute, func() bool {
		m, err := e.Member(asked).Operations().Members(t.Context())
		return err == nil && m.LeaderReplied && len(m.Silent) == 0 && m.IsSettled()
	})
}

// A member that has lost its disk is no voter before its new one has the log. Any member says so.
func TestMemberWithANewDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		leader := e.Ready()
		voting(t, e, leader)
		emptied, asked := e.Followers()[0], e.Followers()[1]
		e.Kill(emptied)
		e.Wipe(emptied)
		e.BlockLog(leader, emptied)
		e.Boot(emptied)
		for _, id := range []uint32{asked, leader} {
			var s view.Server
			e.Wait("the new disk to be shown", time.Minute, func() bool {
				m, err := e.Member(id).Operations().Members(t.Context())
				if err != nil {
					return false
				}
				s = m.Servers[emptied-1]
				return s.HasReplied && s.LostDisk && !m.IsSettled()
			})
			if s.IsVoter || s.State != api.StateCatchingUp || s.Detail == "" {
				t.Errorf("member %d shows %+v", id, s)
			}
		}
		failed(t, e.Member(asked).Operations().TransferLeadership(t.Context(), emptied), http.StatusConflict, "does not vote yet (catching up)")
		_, err := e.Member(asked).Operations().ChangeMembers(t.Context(), admin.MembersChange{Change: serverlist.Change{Leaving: fmt.Sprint(asked)}, Version: -1})
		failed(t, err, http.StatusConflict, "too few voters would be alive")
		e.UnblockLog(leader, emptied)
		voting(t, e, asked)
	})
}

// A change that an operator asks any member for goes through the leader's log: all members have the new list. A
// change of a version that is over is refused.
func TestOperatorsChangeTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		leader := e.Ready()
		asked, other := e.Followers()[0], e.Followers()[1]
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for _, at := range []uint32{leader, asked} {
			ops := e.Member(at).Operations()
			before, err := ops.Members(ctx)
			if err != nil {
				t.Fatal(err)
			}
			line, _ := before.List.Find(other)
			line.Observer = !line.Observer
			change := admin.MembersChange{Change: serverlist.Change{Joining: line.String()}, Version: before.Version, RequestedBy: "alice"}
			after, err := ops.ChangeMembers(ctx, change)
			if got, _ := after.List.Find(other); err != nil || got != line || after.Version <= before.Version || len(after.List) != 3 {
				t.Fatalf("member %d was asked for %q: %+v, %v", at, change.Joining, after, err)
			}
			e.Wait("the new list at all members", time.Minute, func() bool {
				for _, id := range e.IDs() {
					m, err := e.Member(id).Operations().Members(ctx)
					if err != nil || m.Version != after.Version || m.List.CanonicalText() != after.List.CanonicalText() {
						return false
					}
				}
				return true
			})
			_, err = ops.ChangeMembers(ctx, change)
			failed(t, err, http.StatusConflict, fmt.Sprintf("its version is 0x%x now", after.Version))
		}
	})
}

// One of two members is replaced. The new one cannot vote yet, but it must answer the leader before it may be
// put into the list. raft's configuration follows the list, and the leader serves with the new member alone.
func TestReplaceOneOfTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 2, cluster.Options{})
		leader := e.Ready()
		old := e.Followers()[0]
		e.Add(3)
		ops := e.Member(leader).Operations()
		change := func() (admin.MembersChanged, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			return ops.ChangeMembers(ctx, admin.MembersChange{
				Change: serverlist.Change{Joining: e.ServerLine(3, false), Leaving: fmt.Sprint(old)}, Version: -1, Force: true,
			})
		}
		_, err := change()
		failed(t, err, http.StatusConflict, "does not reach [3]")
		e.Boot(3)
		e.Wait("the leader to reach the new member", time.Minute, func() bool {
			_, err = change()
			return err == nil
		})
		e.Wait("raft's configuration to follow", time.Minute, func() bool {
			m, err := ops.Members(t.Context())
			return err == nil && m.IsSettled() && len(m.Servers) == 2 && m.Servers[1].MemberID == 3 && m.Servers[1].IsVoter
		})
		e.Kill(old)
		if got := e.Ready(); got != leader {
			t.Errorf("member %d leads, want %d", got, leader)
		}
	})
}

// An observer serves clients as long as most voters answer the leader, and no longer. It may then vote, and the
// leader may leave: another member leads, and the one that has left serves nobody.
func TestObserverServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		leader := e.Ready()
		e.Add(4)
		e.Boot(4)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		change := func(c serverlist.Change) {
			t.Helper()
			e.Wait("enough members to be seen alive for the change", time.Minute, func() bool {
				_, err := e.Member(leader).Operations().ChangeMembers(ctx, admin.MembersChange{Change: c, Version: -1})
				return err == nil
			})
			e.Wait("raft's configuration to follow", time.Minute, func() bool {
				m, err := e.Member(4).Operations().Members(ctx)
				return err == nil && m.IsSettled()
			})
		}
		serves := func() bool {
			c, err := e.Dial(4)
			if err != nil {
				return false
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(5 * time.Second)) // fails only on a closed connection
			resp, err := c.Open(10 * time.Second)
			return err == nil && resp.SessionID != 0
		}
		change(serverlist.Change{Joining: e.ServerLine(4, true)})
		e.Wait("the observer to serve", time.Minute, serves)

		voters := slices.DeleteFunc(e.Followers(), func(id uint32) bool { return id == 4 })
		for _, id := range voters {
			e.Kill(id)
		}
		time.Sleep(time.Minute)
		if serves() {
			t.Error("an observer serves, though the leader alone answers of three voters")
		}
		for _, id := range voters {
			e.Boot(id)
		}
		e.Wait("the observer to serve", time.Minute, serves)

		leader = e.Ready()
		change(serverlist.Change{Joining: e.ServerLine(4, false)})
		change(serverlist.Change{Leaving: fmt.Sprint(leader)})
		if next := e.Ready(); next == leader {
			t.Errorf("member %d leads, and it has left", next)
		}
		e.AwaitSilent(leader)
	})
}

// Any member is asked to let another one lead.
func TestLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		leader := e.Ready()
		next, asked := e.Followers()[0], e.Followers()[1]
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for _, at := range []uint32{asked, leader, next} {
			to := next
			if at == leader {
				to = asked
			}
			if err := e.Member(at).Operations().TransferLeadership(ctx, to); err != nil {
				t.Errorf("member %d is asked to let member %d lead: %v", at, to, err)
			}
			if got := e.Ready(); got != to {
				t.Errorf("member %d leads, want %d", got, to)
			}
		}
		ops := e.Member(asked).Operations()
		failed(t, ops.TransferLeadership(ctx, 9), http.StatusNotFound, "the ensemble has no member 9; rollcall members lists them")
		e.Kill(leader)
		e.Wait("the member to be silent", time.Minute, func() bool {
			m, err := ops.Members(t.Context())
			return err == nil && m.Servers[leader-1].State == api.StateSilent
		})
		failed(t, ops.TransferLeadership(ctx, leader), http.StatusConflict, "does not reply: ")
	})
}

// Servers are added, promoted, demoted and removed while clients are served, and any member shows where each of them is.
// An observer serves, and counts as one everywhere.
func TestMembersAreChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		e.Ready()
		e.Joined()
		ops := e.Member(e.Followers()[0]).Operations()
		change := func(c serverlist.Change) {
			t.Helper()
			e.Wait("the change to be made", time.Minute, func() bool {
				_, err := ops.ChangeMembers(t.Context(), admin.MembersChange{Change: c, Version: -1, RequestedBy: "boss"})
				if err != nil {
					t.Logf("%+v: %v", c, err)
				}
				return err == nil
			})
		}
		shows := func(id uint32, state string, voter bool) {
			t.Helper()
			var last view.Members
			e.Wait(fmt.Sprintf("member %d to be shown as %s", id, state), time.Minute, func() bool {
				m, err := ops.Members(t.Context())
				if last = m; err != nil || !m.IsSettled() {
					return false
				}
				for _, s := range m.Servers {
					if s.MemberID == id {
						return s.State == state && s.IsVoter == voter && s.HasReplied
					}
				}
				return state == "gone"
			})
			if len(last.ID) != 64 || last.Version <= 0 {
				t.Errorf("ensemble %q, version %x", last.ID, last.Version)
			}
		}
		e.Add(4)
		e.Boot(4)
		change(serverlist.Change{Joining: e.ServerLine(4, true)})
		shows(4, api.StateObserver, false)
		if role := e.Member(4).Role(); role != "observer" {
			t.Errorf("the observer's role is %q", role)
		}
		leader := e.Leader()
		e.Wait("the leader to count the observer", time.Minute, func() bool { return e.Member(leader).Shown().SyncedObservers == 1 })
		if shown := e.Member(4).Shown(); shown.Voters != 3 || shown.Role != "observer" {
			t.Errorf("the observer shows %d voters and its role %q", shown.Voters, shown.Role)
		}
		if s := e.Connect(20*time.Second, 4); s == nil {
			t.Error("the observer takes no client")
		}
		failed(t, ops.TransferLeadership(t.Context(), 4), http.StatusConflict, "member 4 is an observer")

		change(serverlist.Change{Joining: e.ServerLine(4, false)})
		shows(4, api.StateFollower, true)
		change(serverlist.Change{Leaving: fmt.Sprint(e.Followers()[1])})
		change(serverlist.Change{Joining: e.ServerLine(4, true)})
		shows(4, api.StateObserver, false)
		change(serverlist.Change{Leaving: "4"})
		shows(4, "gone", false)
		e.Wait("the removed member to serve no more", time.Minute, func() bool {
			text, serves := e.Member(4).Health().StatusText()
			return !serves && strings.Contains(text, "this member was removed from the ensemble (the list of version 0x")
		})
	})
}

// A server that cannot work is not added, as a voter or as an observer: the answer names the cause, within 3 s. One has data of another
// ensemble, and another one would take clients at the port of a member of its host.
func TestServersThatCannotWorkAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alone := func(cfg *member.Config) { // member 4 begins an ensemble of its own
			if cfg.ID == 4 {
				cfg.Servers = slices.DeleteFunc(slices.Clone(cfg.Servers), func(s member.Server) bool { return s.ID != 4 })
				cfg.EnsembleText = []byte("server.4=m4:2888:3888:participant;0.0.0.0:2181")
			}
		}
		e := cluster.Start(t, 3, cluster.Options{Adjust: alone})
		leader := e.Ready()
		e.Joined()
		e.Add(4)
		e.Boot(4)
		e.Wait("member 4 to serve by itself", time.Minute, func() bool { return e.Member(4).Role() == "leader" })
		for _, asked := range []uint32{leader, e.Followers()[0]} {
			ops := e.Member(asked).Operations()
			before, err := ops.Members(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, tt := range []struct {
				joining string
				status  int
				want    string
			}{
				{e.ServerLine(4, false), http.StatusConflict, "member 4 at m4:2888 has data of another ensemble"},
				{e.ServerLine(4, true), http.StatusConflict, "member 4 at m4:2888 has data of another ensemble"},
				{"server.5=m1:2889:3889;2181", http.StatusBadRequest, "server.5 would have the address m1:2181 (clientPort), which server.1 has (clientPort); give it a port that is free"},
			} {
				begun := time.Now()
				_, err := ops.ChangeMembers(t.Context(), admin.MembersChange{Change: serverlist.Change{Joining: tt.joining}, Version: -1})
				failed(t, err, tt.status, tt.want)
				if took := time.Since(begun); took > 3*time.Second {
					t.Errorf("member %d refuses %s after %v", asked, tt.joining, took)
				}
			}
			if after, err := ops.Members(t.Context()); err != nil || after.Version != before.Version {
				t.Errorf("the list has the version 0x%x, and had 0x%x: %v", after.Version, before.Version, err)
			}
		}
	})
}
