package member_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/zk/jute"
)

// A long list is taken in parts, on every member, and each session and node is in it once. A reader
// that stops reading delays nothing.
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

// The command srst resets the counters of all packages: those of requests, of the log and of the
// member's work as a leader.
func TestResetStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 1, cluster.Options{Write: time.Millisecond})
		id := e.Ready()
		k := e.Connect(20*time.Second, id)
		if _, err := k.Create("/n", nil, jute.Persistent); err != nil {
			t.Fatal(err)
		}
		counters := []string{"cnt_updatelatency", "cnt_fsynctime", "cnt_election_time", "looking_count", "proposal_count", "commit_count"}
		before := figures(t, e, id)
		for _, name := range counters {
			if n := before[name]; n == "" || n == "0" {
				t.Errorf("before the reset zk_%s is %q: it shows nothing", name, n)
			}
		}
		if got := word(t, e, id, "srst"); got != "Server stats reset.\n" {
			t.Errorf("srst: %q", got)
		}
		after := figures(t, e, id)
		for _, name := range counters {
			if n := after[name]; n != "0" {
				t.Errorf("after the reset zk_%s is %q", name, n)
			}
		}
	})
}

// word returns the answer to a four-letter word.
func word(t *testing.T, e *cluster.Ensemble, id uint32, name string) string {
	t.Helper()
	c, err := e.Dial(id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte(name)); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(c.Conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// figures returns the output of mntr, by name without zk_.
func figures(t *testing.T, e *cluster.Ensemble, id uint32) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(word(t, e, id, "mntr")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
		all[strings.TrimPrefix(name, "zk_")] = value
	}
	return all
}
