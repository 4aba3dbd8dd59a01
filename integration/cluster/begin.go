package cluster

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"rollcall/lab/simulated"
	"rollcall/member"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// This file makes disks with which an ensemble begins: see Options.Disks.

// formerRoot is the name of the node that FormerEnsemble makes. No client of the later ensemble has written it and what is below, so no history
// has them.
const formerRoot = "former"

// FormerEnsemble returns the disks and the state of an ensemble of n members that has ended. It has some nodes, and its log has
// so many committed entries without content at its end.
func FormerEnsemble(t *testing.T, n int, entries uint64) (map[uint32]*simulated.Disk, *znode.State) {
	t.Helper()
	e := Start(t, n, Options{Reconfig: true})
	e.Ready()
	c := e.Connect(10 * e.opts.Tick)
	for _, path := range []string{"", "/a", "/b", "/c"} {
		if _, err := c.Create("/"+formerRoot+path, make([]byte, 1000), jute.Persistent); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Do(jute.OpCloseSession, nil); err != nil {
		t.Fatal(err)
	}
	c.Abandon()
	e.Equal()
	state := e.Member(1).State()
	disks := map[uint32]*simulated.Disk{}
	for _, id := range e.IDs() {
		e.crashMember(id, nil)
		disks[id] = e.Disk(id)
	}
	lengthenLogs(disks, entries)
	return disks, state
}

// lengthenLogs appends n entries to the longest logs. A majority of disks has that log, because all members were equal.
func lengthenLogs(disks map[uint32]*simulated.Disk, n uint64) {
	last := uint64(0)
	for _, d := range disks {
		last = max(last, d.LastIndex())
	}
	for _, d := range disks {
		if d.LastIndex() < last {
			continue
		}
		log := d.Log()
		newest := log[len(log)-1]
		for i := range n {
			d.Append(raft.Log{Index: last + 1 + i, Term: newest.Term, Type: raft.LogCommand, AppendedAt: newest.AppendedAt})
		}
	}
}

// RecoverDisk does to a disk whose member is down what the operator of three members does after the loss of the two others.
func RecoverDisk(t *testing.T, id uint32, d *simulated.Disk) {
	t.Helper()
	stores := d.Mount()
	if err := member.Recover(member.RecoverConfig{ID: id, Servers: serverLines(3), Stores: &stores}); err != nil {
		t.Fatal(err)
	}
	d.Crash(nil)
}

// PlantedDisk returns a disk with a state, with which a member begins an ensemble of three.
func PlantedDisk(t *testing.T, id uint32, s *znode.State) *simulated.Disk {
	t.Helper()
	s.RLock()
	image := s.Snapshot()
	s.RUnlock()
	head := image.Head()
	return seedDisk(t, member.SeedConfig{
		ID: id, Index: head.Index, Term: head.Term.Term, WriteImage: func(w io.Writer) error {
			_, err := image.WriteTo(w)
			return err
		},
	})
}

// CountedDisk does the same with a state that has plain nodes below the root. created has the number of children that were
// ever created below each of them. The nodes have no children.
func CountedDisk(t *testing.T, id uint32, created map[string]int64) *simulated.Disk {
	t.Helper()
	const index = 2
	nodes := []znode.ImageNode{{Path: "/", CreateCount: int64(len(created))}}
	for path, n := range created {
		nodes = append(nodes, znode.ImageNode{Path: path, Data: []byte{}, CreateCount: n})
	}
	for _, path := range []string{"/zookeeper", "/zookeeper/config", "/zookeeper/quota"} {
		nodes = append(nodes, znode.ImageNode{Path: path})
	}
	slices.SortFunc(nodes, func(a, b znode.ImageNode) int { return strings.Compare(a.Path, b.Path) })
	return seedDisk(t, member.SeedConfig{ID: id, Index: index, Term: 1, WriteImage: func(w io.Writer) error {
		image, err := znode.NewImageWriter(w, znode.ImageHead{
			Index: index, Zxid: 1 << 32, Term: znode.Term{Term: 1, Index: index}, NodeCount: uint64(len(nodes)),
		})
		if err != nil {
			return err
		}
		for _, n := range nodes {
			n.ACL = jute.OpenACL
			if err := image.WriteNode(n); err != nil {
				return err
			}
		}
		_, err = image.Close()
		return err
	}})
}

// RestoredDisk does the same with the state that a new ensemble gets from a backup.
func RestoredDisk(t *testing.T, id uint32, from *member.RestoredState) *simulated.Disk {
	t.Helper()
	return seedDisk(t, member.SeedConfig{ID: id, Index: from.ImageHead().Index, Term: from.RaftTerm(), WriteImage: func(w io.Writer) error {
		_, err := from.WriteImage(w)
		return err
	}})
}

func seedDisk(t *testing.T, p member.SeedConfig) *simulated.Disk {
	t.Helper()
	d := simulated.NewDisk()
	stores := d.Mount()
	p.Servers, p.Stores = serverLines(3), &stores
	if err := member.SeedMember(p); err != nil {
		t.Fatal(err)
	}
	d.Crash(nil)
	return d
}

// serverLines returns the lines of members 1 to n.
func serverLines(n uint32) (list []member.Server) {
	for id := range n {
		list = append(list, serverLine(id+1, 0))
	}
	return list
}
