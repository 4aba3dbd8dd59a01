package hostile

import (
	"fmt"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/lab/process"
	"rollcall/zk/jute"
)

const (
	shortLimit = 96 << 20 // the members' memoryLimit
	// shortMost is the number of large nodes that may be created before the limit is reached: twice as many as it holds,
	// because the collector finds the used memory only when it runs.
	shortMost = 2 * shortLimit / bigSize
	// shortResident is the most memory that a member may have had. The collector lets the heap grow to twice the used
	// memory, and clients may write more than the limit between two checks, a second apart: here as much again, on a
	// fast machine.
	shortResident = 4 * shortLimit
	// shortPatience is the time in which a member must notice that nodes were deleted: some runs of the collector.
	shortPatience = 30 * time.Second
)

// A client fills the memory of the members with nodes. Past their limit its creates are rejected, and the others
// continue to write and read nodes of the same size. When the nodes are deleted, creates are accepted again.
func TestShortOfMemory(t *testing.T) {
	needs.Check(t, needs.Nightly)
	e, o := startMembers(t, "", fmt.Sprintf("memoryLimit=%dM\n", shortLimit>>20))
	filler := &other{Conn: dial(t, e.Members[0], ""), member: e.Members[0], path: []byte("/fill")}
	if _, err := filler.Open(process.Patience); err != nil {
		t.Fatal(err)
	}
	create := func(i int) jute.Code {
		reply, err := filler.try(jute.OpCreate, jute.CreateRequest{Path: fillPath(i), Data: make([]byte, bigSize), ACL: jute.OpenACL})
		if err != nil && reply.Err == jute.OK {
			t.Fatal(err)
		}
		return reply.Err
	}
	made := 0
	for ; ; made++ {
		code := create(made)
		if code == jute.NoRoom {
			break
		}
		if code != jute.OK || made == shortMost {
			t.Fatalf("create %d: %v, want %v after some", made, code, jute.NoRoom)
		}
	}
	o.measure(t, calmTime)
	for i := range made {
		filler.call(t, jute.OpDelete, jute.DeleteRequest{Path: fillPath(i), Version: -1})
	}
	for until := time.Now().Add(shortPatience); create(0) != jute.OK; time.Sleep(stormLook) {
		if time.Now().After(until) {
			t.Fatal("creates are still refused after the nodes were deleted")
		}
	}
	t.Logf("%d nodes of %d bytes were created", made, bigSize)
	for _, m := range e.Members {
		if peak := peakMemory(t, m); peak > shortResident {
			t.Errorf("member %d had %d MiB in memory, want at most %d", m.ID, peak>>20, shortResident>>20)
		}
	}
}

func fillPath(i int) []byte { return fmt.Appendf(nil, "/fill%d", i) }
