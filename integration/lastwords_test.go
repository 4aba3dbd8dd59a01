package integration

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/zk/jute"
)

// silence returns the reason that a member gives for another one that does not reply, or "" if it replies.
func silence(t *testing.T, e *cluster.Ensemble, of, about uint32) string {
	t.Helper()
	status, err := e.Member(of).View().MemberStatuses(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range status.Silent {
		if s.MemberID == about {
			return s.Reason + ": " + s.Detail
		}
	}
	return ""
}

// A member whose disk is full says so to the others before it ends, and they show it until it is back. A member that is killed later says
// nothing, and what it said before is not shown any more.
func TestLastWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{Tick: time.Second})
		e.Ready()
		e.Joined()
		full := e.Followers()[0]
		c := e.Connect(20*time.Second, e.Leader())
		e.Disk(full).FillUp()
		if _, err := c.Create("/a", nil, jute.Persistent); err != nil {
			t.Fatal(err)
		}
		e.Wait("the member to end", time.Minute, func() bool { return !e.Running(full) })
		time.Sleep(10 * time.Second)
		for _, id := range e.IDs() {
			if id == full {
				continue
			}
			if text := silence(t, e, id, full); !strings.Contains(text, "its last words, at 20") ||
				!strings.Contains(text, "no space left on device") {
				t.Errorf("member %d says of the member whose disk is full: %q", id, text)
			}
		}
		e.Disk(full).FreeSpace()
		e.Restart()
		e.Ready()
		e.Joined()
		for _, id := range e.IDs() {
			e.Wait("the others to reach the member again", time.Minute, func() bool { return silence(t, e, id, full) == "" })
		}
		e.Kill(full)
		time.Sleep(10 * time.Second)
		for _, id := range e.IDs() {
			if id == full {
				continue
			}
			if text := silence(t, e, id, full); text == "" || strings.Contains(text, "its last words") {
				t.Errorf("member %d says of the member that was killed: %q", id, text)
			}
		}
	})
}
