package quorum

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
)

// requestLog records how many entries each write has, which is what a follower's raft stores of one
// AppendEntries.
type requestLog struct {
	*raft.InmemStore
	most atomic.Int64
}

func (s *requestLog) StoreLogs(logs []*raft.Log) error {
	s.most.Store(max(s.most.Load(), int64(len(logs))))
	return s.InmemStore.StoreLogs(logs)
}

// A follower that is far behind gets at most eight entries in a request: a heartbeat waits in its
// main loop for only those to be stored.
func TestFewEntriesPerRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		logs := map[uint32]*requestLog{}
		for id, m := range e.members {
			logs[id] = &requestLog{InmemStore: m.stores.Log.(*raft.InmemStore)}
			m.stores.Log = logs[id]
		}
		e.begin()
		lead := e.leader(1, 2, 3)
		late, all := others(lead)[0], []string{"a"}
		e.net.partition(late, lead)
		e.net.partition(late, others(lead)[1])
		logs[late].most.Store(0)
		for i := range 50 {
			all = append(all, fmt.Sprint(i))
			e.propose(all[len(all)-1], lead)
		}
		e.net.heal()
		e.applied(all, 1, 2, 3)
		if most := logs[late].most.Load(); most != 8 {
			t.Errorf("%d entries came with one request, want 8", most)
		}
	})
}
