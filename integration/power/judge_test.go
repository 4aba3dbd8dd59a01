package power

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	protobuf "google.golang.org/protobuf/proto"

	"rollcall/config"
	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// kept is the contents of a member's directory after a loss of power, as its start reads it.
type kept struct {
	state     *znode.State // nil: no member has begun there
	term      uint64       // raft's current one
	voted     uint64       // the last term in which the member voted
	lastIndex uint64
	lastTerm  uint64 // of the last entry or snapshot
}

// read opens a member's directory as a start does, and closes it again.
func read(dir string, member uint32, servers []string) (k kept, err error) {
	return readBoth(dir, "", member, servers)
}

// readBoth does the same for a member whose log is in another directory, unless that is "".
func readBoth(dir, logs string, member uint32, servers []string) (k kept, err error) {
	d, err := disk.Open(disk.Config{
		MemberID: member, ServerList: servers, DataDir: dir, LogDir: logs,
		RaftRunning: func() bool { return false }, Logger: slog.New(slog.DiscardHandler), RaftLogger: hclog.NewNullLogger(), StallLimit: config.DefaultStallLimit,
	})
	if err != nil {
		return k, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := d.RepairLog(verify); err != nil {
		return k, err
	}
	if k.term, err = d.Stable().Term(); err != nil {
		return k, err
	}
	if k.voted, err = d.Stable().GetUint64([]byte("LastVoteTerm")); err != nil {
		return k, err
	}
	return k, k.replay(d)
}

func verify(r io.Reader) (disk.SnapshotContents, error) {
	index, term, err := znode.VerifySnapshot(r)
	return disk.SnapshotContents{Index: index, Term: term}, err
}

// replay brings a state to the end of the log.
func (k *kept) replay(d *disk.Data) error {
	k.state = znode.New(znode.Config{EnsembleText: []byte{}})
	list, err := d.Snapshots().List()
	if err != nil {
		return err
	}
	next := uint64(1)
	if len(list) > 0 {
		_, r, err := d.Snapshots().Open(list[0].ID)
		if err != nil {
			return err
		}
		if err := errors.Join(k.state.RestoreSnapshot(r), r.Close()); err != nil {
			return fmt.Errorf("snapshot %s: %w", list[0].ID, err)
		}
		next, k.lastTerm = list[0].Index+1, list[0].Term
	}
	last, err := d.Log().LastIndex()
	if err != nil {
		return err
	}
	k.state.Lock()
	defer k.state.Unlock()
	k.lastIndex = max(last, next-1)
	for ; next <= last; next++ {
		var l raft.Log
		if err := d.Log().GetLog(next, &l); err != nil {
			return fmt.Errorf("entry %d: %w", next, err)
		}
		var entry *proto.Entry // nil: an entry of raft's own
		if l.Type == raft.LogCommand && len(l.Data) > 0 {
			entry = &proto.Entry{}
			if err := protobuf.Unmarshal(l.Data, entry); err != nil {
				return fmt.Errorf("entry %d: %w", next, err)
			}
		}
		if err := k.state.ApplyEntry(l.Index, l.Term, entry); err != nil {
			return err
		}
		k.lastTerm = l.Term
	}
	return nil
}

// has reports whether a state has what was acknowledged.
func (k kept) has(a acknowledged) bool {
	k.state.RLock()
	defer k.state.RUnlock()
	if a.session != 0 {
		_, ok := k.state.Session(a.session)
		return ok
	}
	data, _, code := k.state.GetData([]byte(a.path), nil, nil)
	return code == jute.OK && string(data) == a.data
}

// readAll reads the directories of all members after a loss of power. A start rejects none of them.
func readAll(dirs []string, servers []string) (all []kept, err error) {
	for i, dir := range dirs {
		k, err := read(dir, uint32(i+1), servers)
		if err != nil {
			return nil, fmt.Errorf("member %d does not start after a loss of power: %w", i+1, err)
		}
		if k.term < k.lastTerm {
			return nil, fmt.Errorf("member %d has an entry of term %d, and has forgotten that term: it is in term %d", i+1, k.lastTerm, k.term)
		}
		all = append(all, k)
	}
	return all, nil
}

// judge checks that a majority of the members has every acknowledged write and session.
func judge(all []kept, acked []acknowledged, majority int) error {
	for _, a := range acked {
		have := 0
		for _, k := range all {
			if k.has(a) {
				have++
			}
		}
		if have < majority {
			return fmt.Errorf("%d of %d members have kept %v; the last of %d", have, len(all), a, len(acked))
		}
	}
	return nil
}

// cut takes the power after some changes, in the way of a seed, and writes what the disks, which have the numbers 1 to
// disks, keep to directories.
func cut(t *testing.T, changes []change, place, disks int, seed uint64) (dirs []string, o *outage) {
	t.Helper()
	o = newOutage(seed, place)
	return cutAll(t, changes, place, disks, o), o
}

func cutAll(t *testing.T, changes []change, place, disks int, l loss) (dirs []string) {
	t.Helper()
	base, err := os.MkdirTemp(memory(), "rollcall-power-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	for number := 1; number <= disks; number++ {
		dir := filepath.Join(base, fmt.Sprint(number))
		v := after(changes, place, number)
		if err := v.cut(l).put(dir, v.root); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	return dirs
}

// memory returns a directory whose files are in memory, where an fsync takes no time, or "" if there is none.
func memory() string {
	const shared = "/dev/shm"
	if info, err := os.Stat(shared); err != nil || !info.IsDir() {
		return ""
	}
	return shared
}
