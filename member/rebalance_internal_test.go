package member

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rollcall/operator/api"
	"rollcall/operator/view"
	"rollcall/proto"
)

// A member moves no clients by itself without autoRebalance, closes connections for one rebalance at a time, and keeps to the bounds of a request.
func TestRebalanceBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithTimeout(t.Context(), time.Hour)
		defer end()
		b := &rebalancer{m: new(Member)}
		if err := b.autoRebalanceLoop(ctx); err != nil || ctx.Err() != nil {
			t.Errorf("%v, and a loop without the key", err)
		}
		b.closingConns.Store(true)
		if _, err := b.closeConnections(ctx, 1, 0); status.Code(err) != codes.Aborted {
			t.Errorf("beside another rebalance: %v", err)
		}
	})
	for _, tt := range []struct {
		asked, overMs uint64
		n             int
		over          time.Duration
	}{{7, 5000, 7, 5 * time.Second}, {5001, 5000, 5000, 5 * time.Second}, {1 << 60, 1 << 60, 60_000, time.Minute}, {7, 0, 0, 0}} {
		if n, over := clampCloseRequest(&proto.RebalanceRequest{Connections: tt.asked, OverMs: tt.overMs}); n != tt.n || over != tt.over {
			t.Errorf("%+v: %d over %v", tt, n, over)
		}
	}
}

// A member is over if it has clearly more clients than its share. Those that take no clients have no share.
func TestExcess(t *testing.T) {
	for _, tt := range []struct {
		clients      []int
		slack, least int
		want         string
	}{
		{[]int{300, 300, 0}, 5, 2, "[{1 100} {2 100}]"},
		{[]int{12, 0, 0}, 5, 2, "[{1 8}]"},
		{[]int{5, 4, 3}, 5, 2, "[]"},             // one more than the share
		{[]int{6, 3, 3}, 5, 2, "[{1 2}]"},        // two more
		{[]int{210, 195, 195}, 5, 2, "[]"},       // 5 % more
		{[]int{211, 195, 194}, 5, 2, "[{1 11}]"}, // more than that
		{[]int{18, 6, 6}, 20, 10, "[]"},
		{[]int{20, 6, 4}, 20, 10, "[{1 10}]"},
		{[]int{2, 1, 0}, 0, 1, "[{1 1}]"},
		{[]int{100}, 5, 2, "[]"},
		{nil, 5, 2, "[]"},
	} {
		var loads []memberLoad
		for i, n := range tt.clients {
			loads = append(loads, memberLoad{uint32(i + 1), n})
		}
		if got := fmt.Sprint(excessLoads(loads, tt.slack, tt.least)); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.clients, got, tt.want)
		}
	}
	serving := api.Member{MemberID: 1, Role: "observer", ClientAddress: "a:1", Sessions: 7}
	rows := []api.Member{serving, {MemberID: 2, ClientAddress: "a:1"}, {MemberID: 3, Role: api.RoleReadOnly, ClientAddress: "a:1"}}
	for i, unfit := range []func(*api.Member){
		func(s *api.Member) { s.ClientAddress = "" }, func(s *api.Member) { s.IsDrained = true }, func(s *api.Member) { s.IsJoining = true },
		func(s *api.Member) { s.WasRemoved = true }, func(s *api.Member) { s.StallReason = "disk" }, func(s *api.Member) { s.DamageReason = "entry 7" },
	} {
		row := serving
		row.MemberID = uint32(10 + i)
		unfit(&row)
		rows = append(rows, row)
	}
	if got := fmt.Sprint(memberLoads(rows)); got != "[{1 7}]" {
		t.Errorf("members that take clients: %s", got)
	}
}

// counted is an answer in which members 1, 2 and so on have so many clients. One with -1 does not answer.
func counted(clients ...int) (a api.List[api.Member]) {
	for i, n := range clients {
		id := uint32(i + 1)
		if n < 0 {
			a.Silent = append(a.Silent, api.Silence{MemberID: id, Reason: view.ReasonDown})
			continue
		}
		a.Items = append(a.Items, api.Member{MemberID: id, Role: "follower", ClientAddress: "a:1", Sessions: n})
	}
	return a
}

// scripted returns a rebalancer whose members have the clients that look returns, and close connections as ask says, and its log.
func scripted(look func() (api.List[api.Member], error), ask func(closeRequest) (int, error)) (*rebalancer, *bytes.Buffer) {
	var log bytes.Buffer
	b := &rebalancer{m: &Member{cfg: Config{ID: 1}, log: slog.New(slog.NewTextHandler(&log, nil))}}
	b.pollMembers = func(context.Context) (api.List[api.Member], error) { return look() }
	b.requestCloses = func(_ context.Context, r closeRequest) (int, error) { return ask(r) }
	return b, &log
}

// A rebalance is done only if all members have been compared. A look that fails is a round in vain, and what was done before is kept.
// The reason why a member closed no connections stays only as long as it has too many clients.
func TestRebalanceCompares(t *testing.T) {
	for name, tt := range map[string]struct {
		looks    [][]int // what the members have by turns, the last again and again; nil: nobody can ask
		refuse   bool    // member 1 closes no connections
		balanced bool
		closed   int
		rows     int
		failed   string // of member 1
		fails    bool
		looked   int
	}{
		"all answer":            {looks: [][]int{{4, 4, 4}}, balanced: true, rows: 3, looked: 1},
		"one is silent":         {looks: [][]int{{4, 4, -1}}, rows: 2, looked: 3},
		"one was silent":        {looks: [][]int{{4, 4, -1}, {4, 4, 4}}, balanced: true, rows: 3, looked: 2},
		"one alone":             {looks: [][]int{{4}}, rows: 1, looked: 3},
		"two":                   {looks: [][]int{{4, 4}}, balanced: true, rows: 2, looked: 1},
		"silent, and too many":  {looks: [][]int{{12, 0, -1}, {6, 6, -1}}, closed: 6, rows: 2, looked: 4},
		"one look fails":        {looks: [][]int{{12, 0, 0}, nil, {4, 4, 4}}, balanced: true, closed: 8, rows: 3, looked: 3},
		"all other looks fail":  {looks: [][]int{{12, 0, 0}, nil}, closed: 8, rows: 3, looked: 4},
		"the first look fails":  {looks: [][]int{nil}, fails: true, looked: 1},
		"refused":               {looks: [][]int{{12, 0, 0}}, refuse: true, rows: 3, failed: "older", looked: 4},
		"refused, then too few": {looks: [][]int{{12, 0, 0}, {0, 12, 0}}, refuse: true, closed: 16, rows: 3, looked: 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				looked := 0
				b, _ := scripted(func() (api.List[api.Member], error) {
					clients := tt.looks[min(looked, len(tt.looks)-1)]
					if looked++; clients == nil {
						return api.List[api.Member]{}, view.ErrBusy
					}
					return counted(clients...), nil
				}, func(r closeRequest) (int, error) {
					if tt.refuse && r.member == 1 {
						return 0, errors.New("older")
					}
					return r.connections, nil
				})
				r := &rebalanceRun{perSecond: 100, requestedBy: "a test"}
				err := b.rebalanceClients(t.Context(), r)
				failed := ""
				if len(r.result.Members) > 0 {
					failed = r.result.Members[0].FailureReason
				}
				if got := r.result; (err != nil) != tt.fails || got.Balanced != tt.balanced || got.ClosedConnections != tt.closed || len(got.Members) != tt.rows || failed != tt.failed || looked != tt.looked {
					t.Errorf("%+v after %d looks: %v", got, looked, err)
				}
			})
		})
	}
}

// With autoRebalance, rounds that do not help become rare, which is logged once, until the members or their clients change clearly.
func TestAutoRebalanceInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const helpless = "autoRebalance does not help"
		clients, begun := []int{60, 0, 0}, time.Now()
		var rounds []int // the minutes in which member 1 closed connections
		var p rebalanceBackoff
		b, log := scripted(func() (api.List[api.Member], error) { return counted(clients...), nil }, func(r closeRequest) (int, error) {
			rounds = append(rounds, int(time.Since(begun)/time.Minute))
			return r.connections, nil
		})
		for _, tt := range []struct {
			name     string
			clients  []int
			minutes  int
			rounds   []int
			helpless int // lines in the log
		}{
			{"clients that know one address", []int{60, 0, 0}, 300, []int{0, 1, 2, 3, 5, 9, 17, 33, 65, 125, 185, 245}, 1},
			{"a few clients more or less", []int{62, 1, 0}, 7, []int{5}, 0},
			{"a member does not answer", []int{62, 1, -1}, 3, nil, 0},
			{"it answers again", []int{60, 0, 0}, 30, nil, 0},
			{"more clients everywhere", []int{90, 30, 30}, 8, []int{0, 1, 2, 3, 5}, 1},
			{"a little less excess", []int{87, 31, 32}, 2, []int{0, 1}, 0},
			{"fewer clients elsewhere", []int{90, 0, 0}, 8, []int{0, 1, 2, 3, 5}, 1},
			{"a new member", []int{90, 0, 0, 0}, 2, []int{0, 1}, 0},
			{"a round helps", []int{50, 14, 13, 13}, 4, []int{0, 1, 2, 3}, 1},
			{"all have as many", []int{23, 23, 22, 22}, 4, nil, 0},
			{"all on one again", []int{90, 0, 0, 0}, 2, []int{0, 1}, 0},
		} {
			clients, begun, rounds = tt.clients, time.Now(), nil
			log.Reset()
			for range tt.minutes {
				b.autoRebalanceRound(t.Context(), 1, &p)
				time.Sleep(autoRebalanceInterval)
			}
			if n := strings.Count(log.String(), helpless); !slices.Equal(rounds, tt.rounds) || n != tt.helpless {
				t.Errorf("%s: rounds in the minutes %v, want %v; %d lines say that they do not help\n%s", tt.name, rounds, tt.rounds, n, log)
			}
			if n := strings.Count(log.String(), "autoRebalance has moved clients"); n != len(tt.rounds) {
				t.Errorf("%s: %d lines about moved clients", tt.name, n)
			}
		}
	})
}

// A member that does not serve clients yet is about to get its own back. With autoRebalance nobody moves meanwhile.
func TestAutoRebalanceAwaitsMembers(t *testing.T) {
	a := counted(60, 0, 0, 0)
	a.Items[3].IsJoining = true
	closed := 0
	b, _ := scripted(func() (api.List[api.Member], error) { return a, nil }, func(r closeRequest) (int, error) {
		closed += r.connections
		return r.connections, nil
	})
	b.autoRebalanceRound(t.Context(), 1, new(rebalanceBackoff))
	if closed > 0 {
		t.Errorf("%d connections are closed while a member joins", closed)
	}
	a.Items[3].IsJoining = false
	b.autoRebalanceRound(t.Context(), 1, new(rebalanceBackoff))
	if closed == 0 {
		t.Error("no connection is closed when it has joined")
	}
}

// With autoRebalance, the log says why a member closed no connections and why nobody was counted, and of moved clients only if there are any.
func TestAutoRebalanceFails(t *testing.T) {
	var busy error
	b, log := scripted(func() (api.List[api.Member], error) { return counted(60, 0, 0), busy }, func(closeRequest) (int, error) { return 0, errors.New("older") })
	b.autoRebalanceRound(t.Context(), 1, new(rebalanceBackoff))
	if got := log.String(); strings.Contains(got, "has moved clients") || !strings.Contains(got, "closed no connections for autoRebalance") || !strings.Contains(got, "peer=1 reason=older") {
		t.Errorf("logged %s", got)
	}
	busy = view.ErrBusy
	b.autoRebalanceRound(t.Context(), 1, new(rebalanceBackoff))
	if got := log.String(); !strings.Contains(got, "clients not counted for a rebalance") || !strings.Contains(got, busy.Error()) {
		t.Errorf("logged %s", got)
	}
}
