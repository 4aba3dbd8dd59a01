package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client/internal/fakezk"
	"rollcall/zk/jute"
)

// follower knows a tree by the events of a Watch. After a Gap it reads the server.
type follower struct {
	t     *testing.T
	seed  uint64
	s     *fakezk.Server
	nodes map[string]string // by path: the data when an event of the node came
	last  map[string]Zxid   // of the events of each node
}

func (f *follower) follow(e Event) {
	if e.Zxid != NoZxid && e.Type != Gap {
		if e.Zxid <= f.last[e.Path] && e.Type != ChildrenChanged {
			f.t.Errorf("seed %d: %s comes after transaction %d", f.seed, text(e), f.last[e.Path])
		}
		f.last[e.Path] = max(f.last[e.Path], e.Zxid)
	}
	switch e.Type {
	case NodeCreated, DataChanged:
		f.read(e.Path, false)
	case NodeDeleted:
		delete(f.nodes, e.Path)
	case Gap:
		for path := range f.nodes {
			if path == e.Path || e.Below && strings.HasPrefix(path, e.Path+"/") {
				delete(f.nodes, path)
			}
		}
		f.read(e.Path, e.Below)
	}
}

// read reads a node from the server, or also all nodes below it.
func (f *follower) read(path string, below bool) {
	for _, line := range f.s.ListSubtree(path) {
		if found, data, _ := strings.Cut(line, "="); below || found == path {
			f.nodes[found] = data
		}
	}
}

// A program that follows a tree by the events of a Watch, and reads at each Gap, ends with the same nodes, whatever
// connections and replies are lost; and each transaction is reported once.
func TestWatchLosesNothing(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) { watchRandomly(t, seed) })
	}
}

func watchRandomly(t *testing.T, seed uint64) {
	random, losses := rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, 1))
	s := fakezk.New(t)
	s.Before39 = seed%3 == 0
	var settled atomic.Bool
	s.OnRequest = func(jute.Op, string, int) bool { return !settled.Load() && losses.IntN(30) == 0 }
	c := dialFake(t, s, Config{})
	if random.IntN(4) > 0 {
		s.CreateNode("/a")
	}
	mode := []WatchMode{Tree, TreeWithoutState}[seed%2]
	f := &follower{t: t, seed: seed, s: s, nodes: map[string]string{}, last: map[string]Zxid{}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e, err := range c.Watch(ctx, "/a", mode) {
			if err == nil {
				f.follow(e)
			}
		}
	}()
	for i := range 200 {
		path := "/a"
		for range random.IntN(3) {
			if s.HasNode(path) {
				path += fmt.Sprintf("/%d", random.IntN(3))
			}
		}
		switch {
		case !s.HasNode(path):
			s.CreateNode(path)
		case random.IntN(2) == 0 && len(s.ListSubtree(path)) == 1:
			s.DeleteNode(path)
		default:
			s.SetData(path, fmt.Sprint(i))
		}
		switch random.IntN(12) {
		case 0:
			time.Sleep(time.Duration(random.IntN(80)) * time.Millisecond)
		case 1:
			s.Disconnect(false)
		case 2:
			synctest.Wait()
		case 3: // a read that sets a watch which older servers keep in place of the other
			short, stop := context.WithTimeout(ctx, time.Second)
			_, _, once, err := c.ExistsWatch(short, "/a")
			if err == nil && random.IntN(2) == 0 {
				once.Stop()
			}
			stop()
		}
	}
	settled.Store(true)
	s.Disconnect(false)
	time.Sleep(time.Minute)
	synctest.Wait()
	cancel()
	<-done
	var got []string
	for path, data := range f.nodes {
		got = append(got, path+"="+data)
	}
	slices.Sort(got)
	want := s.ListSubtree("/a")
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("seed %d: the nodes are %q, want %q", seed, got, want)
	}
}
