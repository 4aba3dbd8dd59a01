package hostile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/integration/wire"
	"rollcall/lab/process"
	"rollcall/zk/jute"
)

const (
	mostFiles    = 1200 // of each member's process, of which a quarter is its own
	fileTakers   = 1300 // connections that are wanted on one member
	filesFrom    = "127.66.66.74"
	retakeEvery  = 100 * time.Millisecond
	filesTimeout = 20 * time.Second // of the session beside them
)

// A stranger opens more connections to a member than its process may open files. The member keeps the descriptors that
// it needs itself: it rejects the other connections at once, its operators get in, and it follows a new leader for its
// clients when the current one is killed.
func TestMoreConnectionsThanOpenFiles(t *testing.T) {
	needs.Check(t, needs.Usual)
	limited := filepath.Join(t.TempDir(), "rollcall")
	script := fmt.Sprintf("#!/bin/sh\nulimit -n %d && exec %q \"$@\"\n", mostFiles, rollcall)
	if err := os.WriteFile(limited, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	e := process.StartEnsemble(t, process.Config{Size: 3, Tick: time.Second, Binary: limited, Lines: "maxClientCnxns=0\n" + process.AnyHTTP})
	leader := e.Settle()
	victim := e.Members[0]
	if victim == leader {
		victim = e.Members[1]
	}
	sock, err := dialFrom(t.Context(), victim, "")
	if err != nil {
		t.Fatal(err)
	}
	_ = sock.SetDeadline(time.Now().Add(process.Patience)) // if it fails, so will the next call
	c := wire.New(sock)
	if _, err := c.Open(filesTimeout); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var takers sync.WaitGroup
	var refused atomic.Int64
	for range fileTakers {
		takers.Go(func() { takeFile(ctx, victim, &refused) })
	}
	defer takers.Wait()
	defer cancel()
	if err := process.Until(t.Context(), "connections to be refused", func() bool { return refused.Load() > fileTakers }); err != nil {
		t.Fatal(err)
	}
	checkProbe(t, victim)
	leader.Process.Kill()
	if r, _, err := c.Call(1, jute.OpCreate, jute.CreateRequest{Path: []byte("/n"), Data: []byte{}, ACL: jute.OpenACL}); err != nil || r.Err != 0 {
		t.Errorf("a write at the member: %+v, %v", r, err)
	}
	checkProbe(t, victim)
}

// takeFile keeps a connection to a member that sends nothing, until ctx ends, and counts those that end.
func takeFile(ctx context.Context, m *process.Member, refused *atomic.Int64) {
	for ctx.Err() == nil {
		sock, err := dialFrom(ctx, m, filesFrom)
		if err == nil {
			stop := context.AfterFunc(ctx, func() { _ = sock.Close() })
			if _, err = sock.Read(make([]byte, 1)); err != nil {
				refused.Add(1)
			}
			stop()
			_ = sock.Close()
		}
		select {
		case <-ctx.Done():
		case <-time.After(retakeEvery):
		}
	}
}
