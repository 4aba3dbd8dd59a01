package integration

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/operator/backup"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// digests has the digest of a member's state after each entry of the log.
type digests struct {
	znode.Hooks // that do nothing
	state       atomic.Pointer[znode.State]
	mu          *sync.Mutex
	all         map[uint64]uint64 // of all members, by index
	t           *testing.T
}

// EntryFinished implements znode.Hooks. The tree's lock is held.
func (d *digests) EntryFinished(index uint64) {
	s := d.state.Load()
	if s == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if other, known := d.all[index]; known && other != s.Digest() {
		d.t.Errorf("members differ after entry %d", index)
	}
	d.all[index] = s.Digest()
}

// An ensemble under load is backed up while its members, leaders most of all, are killed and come back. Each complete
// backup has the state that the members had at its index, and every write that was acknowledged before it began. Each
// truncated backup is rejected.
func TestBackupUnderKills(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		all, hooks := map[uint64]uint64{}, map[uint32]*digests{}
		e := cluster.Start(t, 3, cluster.Options{HTTP: true, Adjust: func(cfg *member.Config) {
			hooks[cfg.ID] = &digests{Hooks: new(hanging), mu: &mu, all: all, t: t}
			cfg.Hooks = hooks[cfg.ID]
		}})
		for _, id := range e.IDs() {
			hooks[id].state.Store(e.Member(id).State())
		}
		e.Ready()
		e.Joined()
		c := e.Connect(20*time.Second, e.IDs()...)
		for i := range 40 { // more than one second of the lowest rate
			if _, err := c.Create(fmt.Sprint("/big", i), bytes.Repeat([]byte{byte(i)}, 64<<10), jute.Persistent); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Create("/w", nil, jute.Persistent); err != nil {
			t.Fatal(err)
		}
		var acknowledged atomic.Int64
		over, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for {
				if path, err := c.Create("/w/n", nil, jute.PersistentSequential); err == nil {
					var n int64
					if _, err := fmt.Sscanf(path, "/w/n%d", &n); err != nil {
						t.Error(err)
					}
					acknowledged.Store(n + 1)
				}
				select {
				case <-over:
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
		}()
		rng, whole, cut := rand.New(rand.NewPCG(3, 7)), 0, 0
		for range 40 {
			at := e.IDs()[rng.IntN(3)]
			killed := at
			if rng.IntN(2) == 0 {
				killed = cmp.Or(e.Leader(), at)
			}
			before := acknowledged.Load()
			done := make(chan error, 1)
			var head backup.Head
			numbers := int64(0)
			go func() {
				done <- e.Operator(at).GetStream(t.Context(), "backup", url.Values{"rate": {"1"}}, func(r io.Reader) (err error) {
					head, _, err = backup.Read(r, znode.ImageVisitor{Node: func(n znode.ImageNode) error {
						if strings.HasPrefix(n.Path, "/w/") {
							numbers++
						}
						return nil
					}})
					return err
				})
			}()
			time.Sleep(time.Duration(rng.IntN(4000)) * time.Millisecond)
			if e.Running(killed) {
				e.Kill(killed)
			}
			err := <-done
			mu.Lock()
			digest, known := all[head.Index]
			mu.Unlock()
			switch {
			case err != nil:
				cut++
				if killed != at {
					t.Errorf("the backup of member %d failed, and member %d was killed: %v", at, killed, err)
				}
			case !known || backup.FormatDigest(digest) != head.Digest:
				t.Errorf("index %d: digest %s, the members had %016x (%t)", head.Index, head.Digest, digest, known)
			case !head.Confirmed || numbers < before:
				t.Errorf("index %d: %d writes, %d were acknowledged before; confirmed: %t", head.Index, numbers, before, head.Confirmed)
			default:
				whole++
			}
			if !e.Running(killed) {
				e.Boot(killed)
				hooks[killed].state.Store(e.Member(killed).State())
			}
			e.Healed()
			e.Joined()
		}
		close(over)
		<-ended
		t.Logf("%d backups were whole, %d were cut; %d writes", whole, cut, acknowledged.Load())
		if whole < 10 || cut < 5 {
			t.Errorf("%d backups were whole, and %d were cut: the test has shown too little", whole, cut)
		}
	})
}
