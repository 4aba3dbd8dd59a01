package bench

import (
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"rollcall/zk/jute"
)

// Sessions in another process watch nodes, and what they count comes back: an event for each watch, from when its write was due.
func TestWatchesInProcess(t *testing.T) {
	nodes := &watchedNodes{Parent: "/a", Count: 2, PerSession: 2}
	f := &fakeEnsemble{
		nodes: map[string]*fakeNode{}, requests: map[jute.Op]int{}, sizes: map[int]int{},
		watchers: map[string][]*fakeConn{}, recursiveWatchers: map[string][]*fakeConn{}, lasting: map[string][]*fakeConn{},
	}
	for i := range nodes.Count {
		f.nodes[nodes.path(i)] = &fakeNode{data: encodeNumber(0)}
	}
	w, err := startKeeperProcess(t.Context(), []string{os.Args[0], keepArgument})
	if err != nil {
		t.Fatal(err)
	}
	defer w.abandonSessions()
	var sources sync.Map
	server := listenTCP(t, func(c net.Conn) {
		sources.Store(c.RemoteAddr().(*net.TCPAddr).IP.String(), true)
		f.serve(c)
	})
	share := sessionShare{Servers: []string{server}, Count: 3, Timeout: time.Minute, Burst: 3, Sources: 2, Watched: nodes}
	if err := w.openSessions(t.Context(), share); err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{"127.0.0.2", "127.0.0.3"} {
		if _, came := sources.Load(source); !came {
			t.Errorf("no session comes from %s", source)
		}
	}
	start := time.Now().Add(-time.Hour)
	if err := w.expectWrites(writeSchedule{Start: start, From: start, Rate: 1, Nodes: 2}); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	op := jute.MultiOp{Op: jute.OpSetData}
	op.SetData.Path, op.SetData.Data = []byte(nodes.path(1)), encodeNumber(1)
	_, code := f.write(nil, &op, false)
	f.mu.Unlock()
	if code != jute.OK {
		t.Fatal(code)
	}
	for until := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		got, err := w.fetchCounts()
		if err != nil {
			t.Fatal(err)
		}
		if got.Watches.Delivered == 3 {
			if h := got.Watches.Events; h.Count() != 3 || h.min < 50*time.Minute {
				t.Errorf("%d events, the first after %v; want 3 of a write that was due about an hour ago", h.Count(), h.min)
			}
			break
		}
		if time.Now().After(until) {
			t.Fatalf("%+v, want 3 events", got.Watches)
		}
	}
	if n, err := w.closeSessions(t.Context()); n != 3 || err != nil {
		t.Errorf("%d sessions closed, %v", n, err)
	}
}

// listenTCP serves a TCP port, for clients in other processes, and returns its address.
func listenTCP(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return ln.Addr().String()
}
