package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"rollcall/operator/api"
)

// The line about voters says what the next loss does, whatever else is wrong with the members.
func TestVoterLine(t *testing.T) {
	for _, tt := range []struct {
		voters  int
		working []uint32
		want    string
	}{
		{0, nil, ""},
		{1, []uint32{1}, "1 of 1 voters work: one more loss stops writes"},
		{3, []uint32{1, 2, 3}, "3 of 3 voters work: writes stop when 2 more are lost"},
		{3, []uint32{1, 3}, "2 of 3 voters work: one more loss stops writes"},
		{3, []uint32{2}, "1 of 3 voters work, and writes need 2: writes have stopped"},
		{5, []uint32{1, 2, 3, 4}, "4 of 5 voters work: writes stop when 2 more are lost"},
	} {
		var list api.Members
		for id := range uint32(tt.voters) {
			list.Items = append(list.Items, api.Server{MemberID: id + 1, IsVoter: true})
		}
		list.Items = append(list.Items, api.Server{MemberID: 9}) // an observer
		status := api.List[api.Member]{Items: []api.Member{{MemberID: 9, LeaderID: 1}, {MemberID: 8, LeaderID: 1}}}
		for _, id := range tt.working {
			status.Items = append(status.Items, api.Member{MemberID: id, LeaderID: 1})
		}
		if got := voterLine(list, status); got != tt.want {
			t.Errorf("%d voters, of which %v work: %q, want %q", tt.voters, tt.working, got, tt.want)
		}
	}
	list := api.Members{Items: []api.Server{{MemberID: 1, IsVoter: true}, {MemberID: 2, IsVoter: true}, {MemberID: 3, IsVoter: true}}}
	bad := api.List[api.Member]{Items: []api.Member{{MemberID: 1, LeaderID: 1}, {MemberID: 2, LeaderID: 1, StallReason: "its disk hangs"}, {MemberID: 3}}}
	if got, want := voterLine(list, bad), "1 of 3 voters work, and writes need 2: writes have stopped"; got != want {
		t.Errorf("one hangs and one knows no leader: %q, want %q", got, want)
	}
}

// Voters that do not reply are named, with the command for those that are gone for good. Observers have no vote that is missing.
func TestDeadVotersLine(t *testing.T) {
	server := func(id uint32, state string, votes bool) api.Server {
		return api.Server{MemberID: id, State: state, IsVoter: votes}
	}
	for _, tt := range []struct {
		list api.Members
		want string
	}{
		{api.Members{Items: []api.Server{server(1, "leader", true), server(2, "follower", true), server(3, api.StateSilent, false)}}, ""},
		{
			api.Members{Items: []api.Server{server(1, "leader", true), server(2, api.StateSilent, true), server(3, "follower", true)}},
			"voter 2 does not answer: start it, or if it is gone for good, run rollcall members remove 2",
		},
		{
			api.Members{Items: []api.Server{server(1, "leader", true), server(4, api.StateSilent, true), server(5, api.StateSilent, true)}},
			"voters 4, 5 do not answer: start them, or for each that is gone for good, run rollcall members remove NUMBER",
		},
		{api.Members{WasRemoved: true, Items: []api.Server{server(1, api.StateSilent, true)}}, ""},
	} {
		if got := deadVotersLine(tt.list); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.list.Items, got, tt.want)
		}
	}
}

// Below the table, status has the effect of one more loss, the causes of the last changes of the leader, and the numbers of expired
// sessions and of their addresses. JSON has only the members.
func TestStatusSummary(t *testing.T) {
	f := newFakeMember(t)
	at := testNow.Add(-time.Hour)
	f.leaders = []api.LeaderEvent{
		{At: at, LeaderID: 2, Term: 2, Cause: "started"},
		{At: at.Add(time.Minute), LeaderID: 3, Term: 3, Cause: "silent", FormerID: 2, SilentMs: 1200},
		{At: at.Add(2 * time.Minute), LeaderID: 1, Term: 4, Cause: "died", FormerID: 3},
	}
	f.ends = nil
	for i := range 290 {
		f.ends = append(f.ends, api.End{Reason: "expired", EndedAt: testNow.Add(-10 * time.Second), Address: fmt.Sprintf("10.0.0.%d:%d", i%5, 4000+i)})
	}
	f.ends = append(f.ends, api.End{Reason: "closed", EndedAt: testNow.Add(-20 * time.Second), Address: "10.0.0.8:1"},
		api.End{Reason: "expired", EndedAt: testNow.Add(-2 * time.Minute), Address: "10.0.0.9:1"})
	out := mustRunStatus(t, f, "status")
	for _, want := range []string{
		" voters work",
		"\nmember 1 has led since " + at.Add(2*time.Minute).UTC().Format("2006-01-02 15:04:05 UTC") + ", in term 4: the process of member 3 ended\n",
		"\nmember 3 led from " + at.Add(time.Minute).UTC().Format("2006-01-02 15:04:05 UTC") + ", in term 3: member 2 sent no heartbeat for 1.2s\n",
		"\n290 sessions expired in the last minute, from 5 addresses: rollcall why --since 1m lists them\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if json := mustRunStatus(t, f, "status -o json"); strings.Contains(json, "voters work") || strings.Contains(json, "expired in") {
		t.Errorf("JSON has the lines for people:\n%s", json)
	}
}

// With --watch, status prints the table again and again until it is stopped.
func TestStatusWatch(t *testing.T) {
	f := newFakeMember(t)
	w, out, _ := testWorld("ROLLCALL_ADMIN="+f.URL, "ROLLCALL_TOKEN_FILE="+tokenFile(t))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	tables := 0
	w.Out = writerFunc(func(b []byte) (int, error) {
		if tables++; tables == 2 {
			stop()
		}
		return out.Write(b)
	})
	if err := runArgs(ctx, w, "status", "--watch", "--every", "200ms"); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "MEMBER"); n != 2 {
		t.Errorf("%d tables, want 2:\n%s", n, out)
	}
	if err := runArgs(t.Context(), w, "status", "--watch", "--every", "1ms"); StatusOf(err) != UsageError {
		t.Errorf("every millisecond: %v", err)
	}
}

type writerFunc func(b []byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func mustRunStatus(t *testing.T, f *fakeMember, line string) string {
	t.Helper()
	w, _, _ := testWorld("ROLLCALL_ADMIN="+f.URL, "ROLLCALL_TOKEN_FILE="+tokenFile(t))
	return mustRun(t, w, line)
}
