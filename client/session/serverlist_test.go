package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/zk/jute"
)

// fakeResolver has the SRV records of one name, or fails.
type fakeResolver struct {
	mu      sync.Mutex
	records []*net.SRV
	fails   bool
	hangs   bool
	lookups int
}

func (r *fakeResolver) set(fails bool, targets ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fails, r.records = fails, nil
	for _, target := range targets {
		r.records = append(r.records, &net.SRV{Target: target, Port: 2181})
	}
}

func (r *fakeResolver) LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lookups++
	if r.hangs {
		<-ctx.Done()
		return "", nil, ctx.Err()
	}
	if r.fails || service+proto != "" || name != "_zk._tcp.example.com" {
		return "", nil, fmt.Errorf("no such host %s", name)
	}
	return name, r.records, nil
}

const srvEntry = "srv:_zk._tcp.example.com"

// take returns the next n servers of a list.
func take(t *testing.T, r *reader, n int) string {
	t.Helper()
	var addrs []string
	for range n {
		next, _, err := r.takeServer(ctx)
		if err != nil {
			return strings.Join(addrs, " ") + " " + err.Error()
		}
		addrs = append(addrs, strings.TrimSuffix(next.addr, ":2181"))
	}
	return strings.Join(addrs, " ")
}

func listReader(t *testing.T, cfg Config) *reader {
	t.Helper()
	c, err := newSession(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &reader{c: c}
}

// SRV records are resolved again for each round, and keep their order. A failed lookup leaves the last good list.
func TestSRVRounds(t *testing.T) {
	res := &fakeResolver{}
	r := listReader(t, Config{Servers: []string{srvEntry, "z", "z"}, Resolver: res, Shuffle: false})
	check := func(n int, want string) {
		t.Helper()
		if got := take(t, r, n); got != want {
			t.Errorf("%d servers: %s, want %s", n, got, want)
		}
	}
	res.set(true)
	check(3, "z z z") // one that is known is enough
	res.set(false, "a.x.", "b.x.", ".", "c.x")
	check(4, "a.x b.x c.x z")
	res.set(true)
	check(4, "a.x b.x c.x z")
	res.set(false, "b.x.", "a.x.")
	check(2, "b.x a.x")
	if res.lookups != 6 {
		t.Errorf("%d lookups", res.lookups)
	}
	r.c.servers.forgetRound() // a connection to a.x is lost
	check(3, "b.x z a.x")
	res.set(false, ".")
	check(3, "b.x z a.x") // a service that is not there is a failed lookup
	many := make([]string, maxServers+1)
	for i := range many {
		many[i] = fmt.Sprintf("m%d", i)
	}
	res.set(false, many...)
	if got := take(t, r, maxServers); !strings.HasPrefix(got, "m0 m1 ") || strings.Contains(got, "z") {
		t.Errorf("%s", got)
	}
	if n := len(r.c.servers.all); n != maxServers {
		t.Errorf("%d servers in a round", n)
	}
}

// A list of hosts is tried in turn. Another round begins after the server that was tried last.
func TestRoundsOfHosts(t *testing.T) {
	r := listReader(t, Config{Servers: []string{"a", "b", "c"}})
	if got := take(t, r, 5); got != "a b c a b" {
		t.Error(got)
	}
	r.c.servers.forgetRound()
	r.c.servers.prefer(candidate{"c", "c"})
	if got := take(t, r, 4); got != "c a b c" {
		t.Error(got)
	}
	r.c.servers.prefer(candidate{"b", "b"})
	if got := take(t, r, 4); got != "b c a b" {
		t.Error(got)
	}
	r.c.servers.prefer(candidate{"a", "a"})
	if got := take(t, r, 3); got != "a b c" {
		t.Error(got)
	}
	r.c.servers.setServers([]string{"a", "b", "c", "d"}, []string{"d", "c", "a", "b"}, false)
	if got := take(t, r, 6); got != "d c a b c d" {
		t.Error(got)
	}
	if got := take(t, listReader(t, Config{Servers: []string{"a"}}), 3); got != "a a a" {
		t.Error(got)
	}
	seen := map[string]bool{}
	for range 200 {
		seen[take(t, listReader(t, Config{Servers: []string{"a", "b"}, Shuffle: true}), 3)] = true
	}
	if len(seen) != 2 {
		t.Errorf("shuffled lists: %v", seen)
	}
}

// If no server is known, an attempt fails, and the next one repeats the lookup. A lookup that hangs ends.
func TestLookupFails(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		res := &fakeResolver{fails: true}
		go func() {
			time.Sleep(5 * time.Second)
			res.set(false, "a")
			p := <-f.peers
			p.accept()
			if p.addr != "a:2181" {
				t.Errorf("server %s", p.addr)
			}
		}()
		c, err := Open(ctx, Config{Servers: []string{srvEntry}, Resolver: res, Timeout: 30 * time.Second, Dial: f.dial})
		if err != nil {
			t.Fatal(err)
		}
		if n := res.lookups; n < 3 || n > 20 {
			t.Errorf("%d lookups in 5 s", n)
		}
		c.Abandon()
		limited, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		res.hangs = true
		_, err = Open(limited, Config{Servers: []string{srvEntry}, Resolver: res, Timeout: 30 * time.Second, Dial: f.dial})
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "SRV records of _zk") || res.lookups > 30 {
			t.Errorf("%v after %d lookups", err, res.lookups)
		}
	})
}

// A list that is replaced while its names are being resolved is not tried any more.
func TestUpdateServersInLookup(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		res := &fakeResolver{hangs: true}
		c, err := newSession(Config{Servers: []string{srvEntry, "a"}, Resolver: res, Dial: f.dial, Clock: f.clock})
		if err != nil {
			t.Fatal(err)
		}
		go (&reader{c: c}).keepConnected()
		synctest.Wait()
		if err := c.UpdateServers([]string{"b"}); err != nil {
			t.Error(err)
		}
		p := <-f.peers
		if p.accept(); p.addr != "b" {
			t.Errorf("connected to %s", p.addr)
		}
		synctest.Wait()
		c.Abandon()
	})
}

// When the connection to a server of SRV records is lost, the records are resolved again.
func TestLookupAfterLoss(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		res := &fakeResolver{}
		res.set(false, "a", "b")
		var p *peer
		f.open(Config{Servers: []string{srvEntry}, Resolver: res}, func() {
			p = <-f.peers
			p.accept()
		})
		time.Sleep(time.Second)
		res.set(false, "c")
		_ = p.Close()
		p = <-f.peers
		if p.accept(); p.addr != "c:2181" {
			t.Errorf("connected to %s", p.addr)
		}
		synctest.Wait()
	})
}

// The rule of moves, with random numbers on either side of each threshold.
func TestServersToMoveTo(t *testing.T) {
	for _, tt := range []struct {
		old, list, current string
		random             float64
		want               string // the group that comes first, or "stays"
	}{
		{"abc", "abc", "a", 0, "stays"},
		{"abc", "ab", "a", 0, "stays"},
		{"abc", "abcd", "a", 0.26, "stays"},
		{"abc", "abcd", "a", 0.24, "d"},
		{"abc", "abcdef", "a", 0.51, "stays"},
		{"abc", "abcdef", "a", 0.49, "def"},
		{"abc", "bcde", "a", 0, "de"},
		{"abc", "bc", "a", 0.99, "bc"},
		{"abcd", "abe", "d", 0.32, "ab"}, // 2·1/(3·2)
		{"abcd", "abe", "d", 0.34, "e"},
		{"abc", "def", "a", 0, "def"},
		{"abc", "bcd", "a", 0, "d"},
		{"abc", "abc", "x", 0, "abc"},
		{"abc", "abc", "", 0, "abc"},
	} {
		split := func(s string) []string { return strings.Split(s, "") }
		got := serversToMoveTo(split(tt.old), split(tt.list), tt.current, func() float64 { return tt.random })
		if got == nil {
			if tt.want != "stays" {
				t.Errorf("%+v: stays", tt)
			}
			continue
		}
		first := slices.Sorted(slices.Values(got[:min(len(tt.want), len(got))]))
		if strings.Join(first, "") != tt.want || len(got) != len(tt.list) {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}

// If all clients follow the rule, the load is even after each change of the list.
func TestLoadIsEven(t *testing.T) {
	const clients = 60_000
	rng := rand.New(rand.NewPCG(3, 4))
	at := make([]string, clients)
	list := []string{"a", "b", "c"}
	for i := range at {
		at[i] = list[i%len(list)]
	}
	for _, next := range []string{"abcd", "abcdefg", "bcdefg", "bcxy", "bc", "bcdefghijk", "lmn"} {
		after := strings.Split(next, "")
		load, moved := map[string]int{}, 0
		for i := range at {
			if order := serversToMoveTo(list, after, at[i], rng.Float64); order != nil {
				at[i] = order[0]
				moved++
			}
			load[at[i]]++
		}
		even := clients / len(after)
		for _, server := range after {
			if n := load[server]; n < even*9/10 || n > even*11/10 {
				t.Errorf("%v to %v: %s has %d of %d clients", list, after, server, n, clients)
			}
		}
		if len(after) > len(list) && slices.Contains(after, list[0]) && moved > clients*(len(after)-len(list)+1)/len(after) {
			t.Errorf("%v to %v: %d of %d clients move", list, after, moved, clients)
		}
		list = after
	}
}

// A Session leaves a server that has left the list at once. It stays with one that is still in a list that has not
// grown, and uses the new list when the connection is lost.
func TestUpdateServers(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var h heard
		var p *peer
		c := f.open(Config{Servers: []string{"a", "b"}, OnState: func(s Change) {
			h.add("%v %s %t", s.State, s.Server, errors.Is(s.Err, errServersChanged))
		}}, func() {
			p = <-f.peers
			p.accept()
		})
		time.Sleep(time.Second)
		for _, list := range [][]string{nil, make([]string, maxServers+1)} {
			if err := c.UpdateServers(list); err == nil {
				t.Errorf("a list of %d servers was accepted", len(list))
			}
		}
		update := func(list ...string) {
			t.Helper()
			if err := c.UpdateServers(list); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		update("c", "a", "c")
		if c.Server() != "a" {
			t.Error("the client has left a server that is still in the list")
		}
		update("d")
		p.ended()
		p = <-f.peers
		p.accept()
		synctest.Wait()
		time.Sleep(time.Second)
		update("e", "d")
		if c.Server() == "" { // it has moved to e, with a probability of 1/2
			p = <-f.peers
			if p.accept(); p.addr != "e" {
				t.Errorf("moved to %s", p.addr)
			}
		} else {
			_ = p.Close()
			p = <-f.peers
			if p.accept(); p.addr != "e" {
				t.Errorf("after a loss: %s", p.addr)
			}
		}
		synctest.Wait()
		want := []string{
			"connecting  false", "connected a false", "suspended a true", "reconnected d false",
		}
		if got := h.take(); len(got) != 6 || !slices.Equal(got[:4], want) || got[5] != "reconnected e false" {
			t.Errorf("states %q", got)
		}
	})
}

// A list that changes during a handshake with a server that leaves it moves the Session as soon as the handshake is done.
func TestUpdateServersInHandshake(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var p *peer
		c := f.open(Config{Servers: []string{"a", "b"}}, func() {
			p = <-f.peers
			p.accept()
		})
		time.Sleep(time.Second)
		_ = p.Close()
		p = <-f.peers
		p.connectRequest()
		if err := c.UpdateServers([]string{"c", "d"}); err != nil {
			t.Error(err)
		}
		p.write(jute.ConnectResponse{TimeOut: 30000, SessionID: fakeSession, Passwd: make([]byte, 16), HasReadOnly: true})
		p.ended()
		p = <-f.peers
		if p.accept(); p.addr != "c" && p.addr != "d" {
			t.Errorf("then to %s", p.addr)
		}
		synctest.Wait()
	})
}

// After a loss, the first attempt begins at once, and at another server. The pauses before the next ones grow.
func TestAttemptsAfterLoss(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var p *peer
		f.open(Config{Servers: []string{"a", "b", "c"}}, func() {
			p = <-f.peers
			p.accept()
		})
		time.Sleep(time.Second)
		f.mu.Lock()
		f.down = map[string]bool{"b": true, "c": true}
		f.mu.Unlock()
		lost := time.Now()
		_ = p.Close()
		p = <-f.peers
		pause := time.Since(lost)
		if got := strings.Join(f.dials, ""); got != "abca" {
			t.Errorf("attempts at %s", got)
		}
		least, most := retryPauseLimits(30*time.Second, 1)
		least2, most2 := retryPauseLimits(30*time.Second, 2)
		if pause < least+least2 || pause > most+most2 {
			t.Errorf("the third attempt %v after the loss, want %v to %v", pause, least+least2, most+most2)
		}
		p.accept()
		synctest.Wait()
	})
}

// retryPauseLimits returns the documented limits of a pause.
func retryPauseLimits(timeout time.Duration, failed int) (least, most time.Duration) {
	most = timeout / 128 << min(failed-1, 4)
	return most / 2, most
}
