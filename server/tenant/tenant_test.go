package tenant

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/proto"
)

// mustRule returns the rule of a text.
func mustRule(tb testing.TB, text string) Rule {
	tb.Helper()
	r, err := ParseRule("test", text)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func mustTable(tb testing.TB, texts ...string) *Table {
	tb.Helper()
	var rules []Rule
	for i, text := range texts {
		r := mustRule(tb, text)
		r.Name = fmt.Sprint("rule", i)
		rules = append(rules, r)
	}
	return newTable(rules)
}

// In each span of time a tenant gets what its rate has for the span, and one burst. Requests become due in the order in which they came.
func TestRate(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, perSecond := range []int64{1, 7, 1000, maxRequests} {
		var b bucket
		var due []time.Duration
		now := time.Duration(0)
		for range 2000 {
			now += time.Duration(random.Int64N(2 * int64(time.Second) / perSecond))
			if random.IntN(100) == 0 {
				now += 3 * time.Second
			}
			due = append(due, now+b.take(now, 1, perSecond))
		}
		for i := range due {
			if i > 0 && due[i] < due[i-1] {
				t.Fatalf("rate %d: request %d is due at %v, before its predecessor at %v", perSecond, i, due[i], due[i-1])
			}
			for j := i; j < min(i+50, len(due)); j++ {
				if most := float64(perSecond) * (due[j] - due[i] + burst + time.Microsecond).Seconds(); float64(j-i+1) > most+1e-6 {
					t.Fatalf("rate %d: %d requests are due within %v", perSecond, j-i+1, due[j]-due[i])
				}
			}
		}
	}
}

// A tenant owes at most MaxDebt, also after the longest reply, so no request waits longer. What is not owed is paid as time passes.
func TestDebtIsBounded(t *testing.T) {
	var b bucket
	if wait := b.take(0, 8<<20, minBytes); wait != 0 {
		t.Errorf("the first request waits %v", wait)
	}
	for range 3 {
		if wait := b.take(0, 8<<20, minBytes); wait > MaxDebt || wait < MaxDebt-burst {
			t.Errorf("a request waits %v, want about %v", wait, MaxDebt)
		}
	}
	if b.isPaid(MaxDebt - 1) {
		t.Error("the debt is paid too early")
	}
	if !b.isPaid(MaxDebt) {
		t.Error("the debt is not paid after MaxDebt")
	}
	if wait := b.take(MaxDebt, 1, minBytes); wait != 0 {
		t.Errorf("a request waits %v after MaxDebt", wait)
	}
}

// A charge neither allocates nor takes a lock.
func TestChargeDoesNotAllocate(t *testing.T) {
	table := mustTable(t, "each subtree /apps requests=1000 bytes=1M")
	path, of := []byte("/apps/kafka/brokers/1"), make([]*Tenant, 0, 4)
	if n := testing.AllocsPerRun(100, func() {
		of = table.OfPath(of[:0], path, 0)
		of[0].Charge(0, 1, 100)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Which rules count a client or a path.
func TestTenantsOf(t *testing.T) {
	table := mustTable(t, "address 10.0.0.0/8 requests=1", "each address requests=1", "identity sasl:bob requests=1", "each identity digest requests=1",
		"each identity requests=1", "subtree /a/b requests=1", "each subtree /a requests=1", "subtree / requests=1", "each subtree / requests=1")
	ids := func(texts ...string) (all []*proto.Identity) {
		for i := 0; i < len(texts); i += 2 {
			all = append(all, &proto.Identity{Scheme: texts[i], Id: texts[i+1]})
		}
		return all
	}
	same := map[string]*Tenant{}
	for _, tt := range []struct {
		host string
		ids  []*proto.Identity
		want string // names of the rules
	}{
		{"10.1.2.3", ids("ip", "10.1.2.3"), "rule1 rule0"},
		{"11.1.2.3", ids("ip", "11.1.2.3"), "rule1"},
		{"2001:db8::1", ids("ip", "2001:db8::1"), "rule1"},
		{"pipe", ids("ip", "pipe"), "rule1"},
		{"11.1.2.3", ids("ip", "11.1.2.3", "sasl", "bob"), "rule1 rule4 rule2"},
		{"11.1.2.3", ids("ip", "11.1.2.3", "sasl", "eve", "digest", "a:b"), "rule1 rule3 rule4 rule4"},
		{"10.1.2.3", ids("ip", "10.1.2.3", "super", ""), ""},
	} {
		got := ""
		for _, to := range table.OfClient(tt.host, tt.ids, 0) {
			got += " " + to.rule.Name
		}
		if want := tt.want; got != want && got != " "+want {
			t.Errorf("%s %v: %q, want %q", tt.host, tt.ids, got, want)
		}
	}
	for _, tt := range []struct{ path, want string }{
		{"/", "rule7"},
		{"/a", "rule7 rule8"},
		{"/a/b", "rule5 rule6 rule7 rule8"},
		{"/a/b/c", "rule5 rule6 rule7 rule8"},
		{"/a/bc", "rule6 rule7 rule8"},
		{"/ab/b", "rule7 rule8"},
		{"", "rule7"},
	} {
		got := ""
		for _, to := range table.OfPath(nil, []byte(tt.path), 0) {
			got += " " + to.rule.Name
			same[tt.path+to.rule.Name] = to
		}
		if got != " "+tt.want {
			t.Errorf("%s: %q, want %q", tt.path, got, tt.want)
		}
	}
	if same["/a/brule6"] != same["/a/b/crule6"] || same["/a/brule6"] == same["/a/bcrule6"] {
		t.Error("a child of a subtree is not one tenant, or two children are one")
	}
	if one, two := table.OfClient("2001:db8::1", nil, 0), table.OfClient("2001:db8::2", nil, 0); one[0] != two[0] {
		t.Error("two addresses of an IPv6 network are two tenants")
	}
}

// Strangers choose addresses and paths: a table keeps a bounded number of tenants, and all further ones share one. Idle ones make room, and
// those that owe something or have a connection are kept.
func TestTenantsAreBounded(t *testing.T) {
	table := mustTable(t, "each subtree /apps requests=1", "each address requests=1")
	first := table.OfPath(nil, []byte("/apps/first"), 0)[0]
	first.Charge(time.Hour, 5, 0) // owes something for a while
	joined := table.OfClient("10.9.9.9", nil, 0)[0]
	for i := range 3 * MaxTracked {
		for _, to := range table.OfPath(nil, fmt.Appendf(nil, "/apps/%d", i), time.Hour) {
			to.Charge(time.Hour, 1, 0)
		}
	}
	if n, want := table.numTracked(), MaxTracked/2+1; n != want {
		t.Errorf("%d tenants are kept, want %d: half of the bound of the subtree, and an address", n, want)
	}
	if to := table.OfClient("10.9.9.8", nil, time.Hour)[0]; to == table.shared[1] {
		t.Error("tenants of one rule have taken the places of another")
	}
	if to := table.OfPath(nil, []byte("/apps/late"), time.Hour)[0]; to != table.shared[0] {
		t.Error("a tenant beyond the bound is not the shared one")
	}
	if to := table.OfPath(nil, []byte("/apps/first"), time.Hour)[0]; to != first {
		t.Error("a tenant that owes something was forgotten")
	}
	later := time.Hour + 10*time.Second
	for i := range 3 * MaxTracked {
		table.OfPath(nil, fmt.Appendf(nil, "/apps/later%d", i), later)
	}
	if n := table.numTracked(); n > MaxTracked {
		t.Errorf("%d tenants are kept, want at most %d", n, MaxTracked)
	}
	if to := table.OfPath(nil, []byte("/apps/latest"), later)[0]; to == table.shared[0] {
		t.Error("idle tenants make no room")
	}
	if to := table.OfClient("10.9.9.9", nil, later)[0]; to != joined {
		t.Error("a tenant with a connection was forgotten")
	}
	if to := table.OfPath(nil, fmt.Appendf(nil, "/apps/%0*d", maxKey+1, 0), later)[0]; to != table.shared[0] {
		t.Error("a tenant with a long name is kept")
	}
}

// A new session beyond the number waits for the end of another one, first come, first served. One that is resumed does not wait.
func TestSessionsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := mustTable(t, "address sessions=2")
		to := table.shared[0]
		for i := range 3 {
			if to.TryAddSession() != (i < 2) {
				t.Fatal("the number is not 2")
			}
		}
		to.AddSession()
		var order []int
		for i := range 3 {
			go func() {
				if to.AwaitSession(t.Context()) == nil {
					order = append(order, i)
				}
			}()
			synctest.Wait()
		}
		gone, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() { left <- to.AwaitSession(gone) }()
		synctest.Wait()
		leave()
		if <-left == nil {
			t.Error("a handshake that left has a place")
		}
		to.EndSession() // of 3
		synctest.Wait()
		if len(order) != 0 {
			t.Error("a handshake got a place beyond the number")
		}
		to.EndSession()
		synctest.Wait()
		to.EndSession()
		synctest.Wait()
		if fmt.Sprint(order) != "[0 1]" {
			t.Errorf("places went to %v, want 0 and 1", order)
		}
		if to.TryAddSession() {
			t.Error("a session overtook one that waits")
		}
		table.close()
		synctest.Wait()
		if fmt.Sprint(order) != "[0 1 2]" {
			t.Errorf("places went to %v after other limits came, want 0, 1 and 2", order)
		}
	})
}

// A place that comes when its handshake leaves is not lost.
func TestPlaceOfAHandshakeThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := mustTable(t, "address sessions=1").shared[0]
		gone := 0
		for range 50 {
			to.AddSession()
			ctx, leave := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- to.AwaitSession(ctx) }()
			synctest.Wait()
			leave()
			to.EndSession()
			if <-done == nil {
				to.EndSession()
			} else {
				gone++
			}
			if n := to.sessions.n; n != 0 {
				t.Fatalf("%d sessions are counted, and there are none", n)
			}
		}
		if gone == 0 {
			t.Error("no handshake left")
		}
	})
}

// A limiter reports changes, and only these.
func TestReplace(t *testing.T) {
	var l Limiter
	changes := 0
	l.OnChange(func() { changes++ })
	rule := mustRule(t, "address requests=5")
	for i, step := range []struct {
		rules   []Rule
		changes int
		inForce bool
	}{
		{nil, 0, false},
		{[]Rule{rule}, 1, true},
		{[]Rule{rule}, 1, true},
		{nil, 2, false},
	} {
		if err := l.Replace(step.rules); err != nil || changes != step.changes || (l.Table() != nil) != step.inForce ||
			len(l.Rules()) != len(step.rules) {
			t.Errorf("step %d: %v, %d changes, rules %v", i, err, changes, l.Rules())
		}
	}
	if err := l.Replace([]Rule{rule, rule}); err == nil {
		t.Error("two limits have one name")
	}
	if err := l.Replace(make([]Rule, MaxRules+1)); err == nil {
		t.Error("there are more limits than MaxRules")
	}
}

func BenchmarkChargePath(b *testing.B) {
	table := mustTable(b, "each subtree /apps requests=10000000", "subtree /config requests=10000000")
	path, of := []byte("/apps/kafka/brokers/1"), make([]*Tenant, 0, 4)
	b.ReportAllocs()
	now := time.Duration(0)
	for b.Loop() {
		now += time.Microsecond
		of = table.OfPath(of[:0], path, now)
		of[0].Charge(now, 1, 100)
	}
}
