package quorum

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// requestLog records the largest number of entries in one write. A follower's raft stores each AppendEntries request in
// one write.
type requestLog struct {
	*raft.InmemStore
	most atomic.Int64
}

func (s *requestLog) StoreLogs(logs []*raft.Log) error {
	s.most.Store(max(s.most.Load(), int64(len(logs))))
	return s.InmemStore.StoreLogs(logs)
}

// A follower that is far behind receives many short entries per request, so it catches up in few round trips. Long entries come in
// several requests, because a heartbeat waits in raft's main loop until a request is stored.
func TestEntriesPerRequest(t *testing.T) {
	for _, tt := range []struct{ size, want int }{{1, 50}, {40_000, 14}, {600_000, 1}} {
		t.Run(fmt.Sprint(tt.size), func(t *testing.T) { entriesPerRequest(t, tt.size, int64(tt.want)) })
	}
}

// entriesPerRequest checks the largest number of entries of size bytes in a request to a follower that is far behind.
func entriesPerRequest(t *testing.T, size int, want int64) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		logs := map[uint32]*requestLog{}
		for id, m := range e.members {
			logs[id] = &requestLog{InmemStore: m.stores.Log.(*raft.InmemStore)}
			m.stores.Log = logs[id]
			// raft takes a while for each request, so that the disk has written one before the next
			m.adjust = func(c *Config) { c.EntryStored = func(uint64, []byte) { time.Sleep(time.Microsecond) } }
		}
		e.begin()
		lead := e.leader(1, 2, 3)
		late, all := others(lead)[0], []string{"a"}
		e.net.partition(late, lead)
		e.net.partition(late, others(lead)[1])
		logs[late].most.Store(0)
		for i := range 50 {
			all = append(all, fmt.Sprintf("%0*d", size, i))
			e.propose(all[len(all)-1], lead)
		}
		e.net.heal()
		e.awaitApplied(all, 1, 2, 3)
		if most := logs[late].most.Load(); most != want {
			t.Errorf("%d entries came with one request, want %d", most, want)
		}
	})
}
