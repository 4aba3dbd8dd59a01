package member_test

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/operator/admin"
	"rollcall/operator/backup"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// backedUp returns a backup of a member, as HTTP sends it.
func backedUp(t *testing.T, c admin.StateCopy) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := backup.NewWriter(&file, c.Head)
	if err == nil {
		_, err = c.WriteTo(w)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// A backup of any member has every write that was acknowledged before it began, and none that came after it. It is
// restored to the same state.
func TestCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		leader := e.Ready()
		e.Joined()
		c := e.Connect(20*time.Second, leader)
		if _, err := c.Create("/e", nil, jute.Ephemeral); err != nil {
			t.Fatal(err)
		}
		for _, id := range e.IDs() {
			if _, err := c.Create("/n", []byte("data"), jute.PersistentSequential); err != nil {
				t.Fatal(err)
			}
			written, err := e.Member(id).Operations().CopyState(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Create("/later", nil, jute.PersistentSequential); err != nil {
				t.Fatal(err)
			}
			file := backedUp(t, written)
			nodes, later := 0, 0
			h, _, err := backup.Read(bytes.NewReader(file), znode.ImageVisitor{Node: func(n znode.ImageNode) error {
				if strings.HasPrefix(n.Path, "/n0") {
					nodes++
				}
				if strings.HasPrefix(n.Path, "/later") {
					later++
				}
				return nil
			}})
			if err != nil || nodes != int(id) || later != int(id)-1 || !h.Confirmed || h.Member != id || len(h.Servers) != 3 || h.Sessions != 1 || h.Servers[2].ID != 3 {
				t.Errorf("member %d: %d nodes, %d later ones, %+v: %v", id, nodes, later, h, err)
			}
			r, err := backup.NewReader(bytes.NewReader(file))
			if err != nil {
				t.Fatal(err)
			}
			restored := znode.New(znode.Config{Self: 1})
			if err := restored.RestoreSnapshot(r); err != nil {
				t.Fatal(err)
			}
			restored.RLock()
			size := restored.TreeView().DataSize()
			if backup.FormatDigest(restored.Digest()) != h.Digest || size != h.DataBytes || restored.Zxid() != h.Zxid {
				t.Errorf("member %d: restored to digest %016x with %d bytes, %+v", id, restored.Digest(), size, h)
			}
			restored.RUnlock()
			stored(t, e.Member(id).Operations(), h.Index)
		}
	})
}

// stored has a member write a snapshot to its disk, which must go to an index or further, and have the zxid of the state.
func stored(t *testing.T, ops admin.Operations, index uint64) {
	t.Helper()
	c, err := ops.CopyState(t.Context()) // waits until the member has applied what is committed; a snapshot on demand does not
	if err != nil {
		t.Fatal(err)
	}
	s, err := ops.StoreSnapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Index < index || s.Index > c.Head.Index || s.Zxid != c.Head.Zxid || s.Bytes == 0 {
		t.Errorf("snapshot %+v of the state at %d, zxid 0x%x", s, c.Head.Index, c.Head.Zxid)
	}
}

// A member without a majority makes a backup of what it has, and says that the last writes may be missing.
func TestCopyWithoutLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		e.Ready()
		e.Joined()
		last := e.Followers()[0]
		for _, id := range e.IDs() {
			if id != last {
				e.Kill(id)
			}
		}
		for _, wait := range []time.Duration{0, time.Minute} { // it does not know yet; it knows
			time.Sleep(wait)
			begun := time.Now()
			c, err := e.Member(last).Operations().CopyState(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if h, _, err := backup.Verify(bytes.NewReader(backedUp(t, c))); err != nil || h.Confirmed || h.AsOf.IsZero() || time.Since(begun) > 5*time.Second {
				t.Errorf("after %v: %+v in %v: %v", wait, h, time.Since(begun), err)
			}
		}
	})
}

// A member that has not caught up, or whose state is damaged, makes no backup.
func TestNoCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		e.Ready()
		e.Joined()
		one := e.Followers()[0]
		refused := func(want string) {
			t.Helper()
			_, err := e.Member(one).Operations().CopyState(t.Context())
			f, ok := errors.AsType[*admin.Failure](err)
			if !ok || f.Status != http.StatusServiceUnavailable || !strings.Contains(f.Text, want) || !strings.Contains(f.Text, "from another member") {
				t.Errorf("%v, want %q", err, want)
			}
		}
		e.Kill(one)
		e.Wipe(one)
		e.Boot(one)
		e.BlockLog(e.Leader(), one)
		e.Wait("the member to join", time.Minute, e.Member(one).IsJoining)
		refused("is joining the ensemble")
		e.UnblockLog(e.Leader(), one)
		e.Wait("the member to have caught up", time.Minute, func() bool {
			_, err := e.Member(one).Operations().CopyState(t.Context())
			return err == nil && !e.Member(one).IsJoining()
		})
		e.Member(one).Break("a test says so")
		e.Wait("the member to know of its damage", time.Minute, func() bool { return e.Member(one).DamageReason() != "" })
		refused("a test says so")
		if _, err := e.Member(one).Operations().StoreSnapshot(t.Context()); err == nil || !strings.Contains(err.Error(), "would replace a sound one") {
			t.Errorf("a snapshot of a damaged state: %v", err)
		}
	})
}
