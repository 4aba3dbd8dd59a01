package znode

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"rollcall/zk/jute"
)

// An entry reads maxHashed bytes of long data for their hashes, however many nodes it changes. Damage to data that it does not read
// shows with the next snapshot.
func TestHashesOfLongDataAreKept(t *testing.T) {
	const size = 1 << 20
	parents := maxHashedBytes/size + 4
	for _, tt := range []struct {
		name    string
		damaged int // the parent with the wrong byte
		shows   bool
	}{
		{"data that the entry reads", 0, true},
		{"data beyond maxHashed", parents - 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			healthy, spoiled := New(Config{}), New(Config{})
			w := newWorld(t, healthy, spoiled)
			k := w.connect()
			var ops []jute.MultiOp
			for i := range parents {
				path := fmt.Sprintf("/%04d", i)
				k.must(k.do(jute.OpCreate, createOp(path, strings.Repeat("x", size), 0, jute.OpenACL).Append(nil)))
				ops = append(ops, mk(path+"/child", 0))
			}
			spoiled.replicated.tree.nodeAt(fmt.Sprintf("/%04d", tt.damaged)).data.bytes()[0]++
			k.must(k.multi(ops...))
			if shows := spoiled.Digest() != healthy.Digest(); shows != tt.shows {
				t.Errorf("the digest shows the damage: %v, want %v", shows, tt.shows)
			}
			if _, err := spoiled.Snapshot().WriteTo(io.Discard); !errors.Is(err, ErrDamaged) {
				t.Errorf("a snapshot: %v", err)
			}
			if _, err := healthy.Snapshot().WriteTo(io.Discard); err != nil {
				t.Errorf("a snapshot of the healthy state: %v", err)
			}
		})
	}
}
