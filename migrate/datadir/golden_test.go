package datadir

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"rollcall/zk/jute"
)

// golden are the directories that testdata/make.sh has written.
var golden = []string{"plain", "gz", "snappy"}

// described is a server's description of its state.
type described struct {
	Zxid     int64
	Sessions map[string][2]any // time-out, password
	Nodes    []describedNode
}

type describedNode struct {
	Path                        string
	Data                        *string
	ACL                         [][3]any
	Czxid, Mzxid, Pzxid         int64
	Ctime, Mtime                int64
	Version, Cversion, Aversion int32
	Owner                       int64
	Children                    int32
}

// Read has every node and session as the server that wrote the files said it was.
func TestReadGolden(t *testing.T) {
	for _, name := range golden {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join("testdata", name)
			s, report, err := Read([]Directory{{Data: dir}}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if report.Digests == 0 || report.Transactions == 0 || report.SnapshotZxid == 0 {
				t.Errorf("snapshot %#x, %d transactions, %d digests: want some of each", report.SnapshotZxid, report.Transactions, report.Digests)
			}
			if len(report.Notes)+len(report.Losses) != 0 {
				t.Errorf("notes %q, losses %q", report.Notes, report.Losses)
			}
			compareDescribed(t, s, filepath.Join(dir, "state.json"))
		})
	}
}

func compareDescribed(t *testing.T, s *State, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want described
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	if len(s.Sessions) != len(want.Sessions) || len(want.Sessions) == 0 {
		t.Errorf("%d sessions; want %d", len(s.Sessions), len(want.Sessions))
	}
	for id, timeout := range s.Sessions {
		password := SessionPassword(id)
		if got := want.Sessions[id.String()]; got != [2]any{float64(timeout), hex.EncodeToString(password[:])} {
			t.Errorf("session %v: time-out %d, password %x; want %v", id, timeout, password, got)
		}
	}
	if s.Len() != len(want.Nodes) {
		t.Errorf("%d nodes; want %d", s.Len(), len(want.Nodes))
	}
	i := 0
	err = s.Walk(func(n *Node) error {
		if i == len(want.Nodes) {
			return errors.New("more nodes than the server had")
		}
		if got, want := describe(s, n), want.Nodes[i]; !equalJSON(got, want) {
			a, _ := json.Marshal(got)
			b, _ := json.Marshal(want)
			t.Errorf("node\n%s; want\n%s", a, b)
		}
		i++
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func equalJSON(a, b any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// describe says of n what a server says of it.
func describe(s *State, n *Node) describedNode {
	d := describedNode{
		Path: n.Path, Czxid: n.Czxid, Mzxid: n.Mzxid, Pzxid: n.Pzxid, Ctime: n.Ctime, Mtime: n.Mtime,
		Version: n.Version, Aversion: n.Aversion,
	}
	if n.Data != nil {
		text := hex.EncodeToString(n.Data)
		d.Data = &text
	}
	for _, a := range n.ACL {
		d.ACL = append(d.ACL, [3]any{float64(a.Perms), string(a.ID.Scheme), string(a.ID.ID)})
	}
	for c := n.child; c != nil; c = c.next {
		d.Children++
	}
	d.Cversion = n.Creates*2 - d.Children
	if s.Kind(n) == Ephemeral {
		d.Owner = n.Owner
	}
	return d
}

// The password of a session is the one that ZooKeeper gave it.
func TestPassword(t *testing.T) {
	got := SessionPassword(jute.SessionID(0x0100000df1d70036))
	if want := "9399c612eb6b53174f64f562b6b71d29"; hex.EncodeToString(got[:]) != want {
		t.Errorf("%x; want %s", got, want)
	}
}
