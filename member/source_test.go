package member_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/jute"
	"rollcall/member"
)

// A long list is taken in parts, on every member: each session and node is in it once. Who
// asks for it and does not read it holds up nobody.
func TestLongLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sessions, nodes = 2100, 2500
		e := cluster.Start(t, 3, cluster.Options{Adjust: func(cfg *member.Config) { cfg.Limits.MaxClientConns = -1 }})
		leader := e.Ready()
		owner := e.Connect(20*time.Second, leader)
		var calls []*cluster.Call
		for i := range nodes {
			calls = append(calls, owner.Go(jute.OpCreate, jute.CreateRequest{
				Path: fmt.Appendf(nil, "/%04d-%s", i, strings.Repeat("x", 100)), ACL: jute.OpenACL, Flags: jute.Ephemeral,
			}))
		}
		for _, call := range calls {
			if _, err := call.Wait(); err != nil {
				t.Fatal(err)
			}
		}
		var ids []jute.SessionID
		for i := range sessions {
			_, granted := e.Open(e.IDs()[i%3], 20*time.Second)
			ids = append(ids, granted.SessionID)
		}
		e.Equal()
		for _, id := range e.IDs() {
			lazy, err := e.Dial(id)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := lazy.Write([]byte("dump")); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			began := time.Now()
			if _, err := owner.Create(fmt.Sprintf("/n%d", id), nil, jute.Persistent); err != nil || time.Since(began) > time.Second {
				t.Errorf("a write beside a dump that nobody reads: %v, after %v", err, time.Since(began))
			}
			text, err := io.ReadAll(lazy.Conn)
			if err != nil {
				t.Error(err)
			}
			lines := map[string]int{}
			for line := range strings.Lines(string(text)) {
				line, _, _ = strings.Cut(strings.TrimSpace(line), "-")
				line, _, _ = strings.Cut(line, "\t")
				lines[line]++
			}
			for n := range nodes {
				if c := lines[fmt.Sprintf("/%04d", n)]; c != 1 {
					t.Fatalf("member %d: node %d is listed %d times", id, n, c)
				}
			}
			head, _, _ := strings.Cut(string(text), "ephemeral nodes dump:\nSessions with Ephemerals (1):\n")
			if want := fmt.Sprintf("(%d):\n", sessions+1); !strings.Contains(head, want) || head == string(text) {
				t.Errorf("member %d: %q, want %q", id, head[:min(len(head), 100)], want)
			}
			for _, session := range ids {
				if c := lines[fmt.Sprintf("0x%x", uint64(session))]; c != 1 {
					t.Fatalf("member %d: session %v is listed %d times", id, session, c)
				}
			}
		}
	})
}
