package integration

import (
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/integration/wire"
	"rollcall/zk/jute"
)

// A client reads at one member right after another member has acknowledged its write. The read sees it, although the
// reader's member is later: as a follower with a slower disk, and as the leader, which has
// not heard of the followers' copies yet. Reads of other paths do not wait.
func TestFirstReadElsewhereIsFresh(t *testing.T) {
	t.Parallel()
	const late = 4 * time.Millisecond
	for _, tt := range []struct {
		name   string
		reader func(e *cluster.Ensemble, leader uint32) uint32
	}{
		{"a follower with a slow disk", func(e *cluster.Ensemble, _ uint32) uint32 {
			third := e.Followers()[1]
			e.Disk(third).SetLatency(late)
			return third
		}},
		{"the leader", func(e *cluster.Ensemble, leader uint32) uint32 {
			for _, follower := range e.Followers() {
				e.Network.DelayBy(follower, leader, late)
			}
			return leader
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := cluster.Start(t, 3, cluster.Options{Tick: 2 * time.Second})
				leader := e.Ready()
				for _, id := range e.IDs() {
					e.Disk(id).SetLatency(time.Millisecond)
				}
				writer := e.Connect(20*time.Second, e.Followers()[0])
				reader := e.Connect(20*time.Second, tt.reader(e, leader))
				if _, err := reader.Exists("/", false); err != nil {
					t.Fatal(err)
				}
				exists := func(path string) (jute.Code, time.Duration) {
					begun := time.Now()
					reply, _ := reader.Do(jute.OpExists, &jute.ExistsRequest{Path: []byte(path)})
					return reply.Err, time.Since(begun)
				}
				numWaited := 0
				for _, write := range []struct {
					op      jute.Op
					request wire.Record
					path    string
					want    jute.Code
				}{
					{jute.OpCreate, &jute.CreateRequest{Path: []byte("/node"), ACL: jute.OpenACL}, "/node", jute.OK},
					{jute.OpCreate, &jute.CreateRequest{Path: []byte("/node/n-"), ACL: jute.OpenACL, Flags: jute.PersistentSequential}, "/node/n-0000000000", jute.OK},
					{jute.OpMulti, raw(jute.AppendMulti(nil, []jute.MultiOp{{Op: jute.OpCreate, Create: jute.CreateRequest{Path: []byte("/multi"), ACL: jute.OpenACL}}})), "/multi", jute.OK},
					{jute.OpDelete, &jute.DeleteRequest{Path: []byte("/multi"), Version: -1}, "/multi", jute.NoNode},
				} {
					time.Sleep(time.Second) // nothing is under way
					if reply, err := writer.Do(write.op, write.request); err != nil {
						t.Fatal(write.op, reply.Err, err)
					}
					if code, took := exists("/zookeeper"); code != jute.OK || took > 0 {
						t.Errorf("after %v, a read of another path: %v after %v", write.op, code, took)
					}
					code, took := exists(write.path)
					if code != write.want {
						t.Errorf("after %v, a read of %s: %v, want %v", write.op, write.path, code, write.want)
					}
					if took > 0 {
						numWaited++
					}
				}
				if numWaited != 4 {
					t.Errorf("%d of 4 reads had to wait, so this test shows too little", numWaited)
				}
			})
		})
	}
}
