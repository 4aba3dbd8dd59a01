package quorum

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"rollcall/quorum/wire"
)

// snapshotRequest returns the request for a follower's next snapshot from member 2, in term 9.
func snapshotRequest(e *ensemble, index uint64) (*raft.InstallSnapshotRequest, string) {
	body, err := json.Marshal(&machine{Index: index, Commands: []string{"from", "afar"}})
	if err != nil {
		e.t.Fatal(err)
	}
	return &raft.InstallSnapshotRequest{
		RPCHeader:       raft.RPCHeader{ProtocolVersion: 3, ID: []byte(e.members[2].server.ServerID()), Addr: []byte("m2:3888")},
		SnapshotVersion: 1, Term: 9, LastLogIndex: index, LastLogTerm: 8, Configuration: raft.EncodeConfiguration(wire.RaftConfiguration(e.servers())),
		ConfigurationIndex: 1, Size: int64(len(body)),
	}, string(body)
}

// send sends a snapshot to a member in the name of another one.
func (e *ensemble) send(from, to uint32, req *raft.InstallSnapshotRequest, body string) (raft.InstallSnapshotResponse, error) {
	e.t.Helper()
	book := wire.NewAddressBook(from, e.peers)
	book.SetDiskID(e.members[from].server.DiskID)
	ensemble, _ := e.members[to].node.record.EnsembleID()
	book.SetEnsembleID(ensemble)
	trans := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: e.stream(book, newMemListener()), MaxPool: 1, Timeout: time.Minute, Logger: hclog.NewNullLogger(),
	})
	defer trans.Close()
	var resp raft.InstallSnapshotResponse
	p := e.members[to].server
	err := trans.InstallSnapshot(p.ServerID(), p.ServerAddress(), req, &resp, strings.NewReader(body))
	return resp, err
}

// A snapshot that is incomplete, or does not match its request, is rejected. The receiver keeps its log, its state, its
// term and its snapshots, and accepts the next one.
func TestBadSnapshotIsRefused(t *testing.T) {
	t.Parallel()
	bad := map[string]func(req *raft.InstallSnapshotRequest, body *string){
		"garbage":                  func(_ *raft.InstallSnapshotRequest, body *string) { *body = "no" + (*body)[2:] },
		"a bit":                    func(_ *raft.InstallSnapshotRequest, body *string) { *body = "[" + (*body)[1:] },
		"cut short":                func(req *raft.InstallSnapshotRequest, body *string) { *body = (*body)[:9]; req.Size = 9 },
		"longer":                   func(req *raft.InstallSnapshotRequest, body *string) { *body += "}"; req.Size++ },
		"goes to an earlier index": func(req *raft.InstallSnapshotRequest, _ *string) { req.LastLogIndex++ },
		"goes to a later index":    func(req *raft.InstallSnapshotRequest, _ *string) { req.LastLogIndex-- },
		"ends in a later term":     func(req *raft.InstallSnapshotRequest, _ *string) { req.LastLogTerm = 10 },
		"ends in an earlier term":  func(req *raft.InstallSnapshotRequest, _ *string) { req.LastLogTerm = 0 },
		"later configuration":      func(req *raft.InstallSnapshotRequest, _ *string) { req.ConfigurationIndex = 1 << 40 },
		"no servers": func(req *raft.InstallSnapshotRequest, _ *string) {
			req.Configuration = raft.EncodeConfiguration(raft.Configuration{})
		},
		"only observers": func(req *raft.InstallSnapshotRequest, _ *string) {
			req.Configuration = raft.EncodeConfiguration(wire.RaftConfiguration([]wire.Peer{{ID: 1, DiskID: 1, Addr: "m1:3888", Observer: true}}))
		},
	}
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 2)
		e.members[1].dir = t.TempDir()
		e.begin()
		all := e.proposeMany(3, 1, 2)
		e.awaitApplied(all, 1, 2)
		e.kill(2)
		n := e.members[1].node
		e.wait("it to follow nobody", func() bool { return n.status.LeaderID() == 0 })
		next := n.status.LastIndex() + 10
		for name, spoil := range bad {
			req, body := snapshotRequest(e, next)
			spoil(req, &body)
			if got, err := e.send(2, 1, req, body); err == nil || name != "ends in a later term" && !strings.Contains(err.Error(), "snapshot rejected") { // no request names such a term
				t.Errorf("%s: %+v, %v", name, got, err)
			}
			if m := e.members[1]; n.failure.endError() != nil || e.snapshot(1) || m.machine.restored != 0 || m.node.status.Term() >= 9 {
				t.Fatalf("%s: it cost the receiver something: %v, term %d", name, n.failure.endError(), n.status.Term())
			}
		}
		e.awaitApplied(all, 1)
		left, err := os.ReadDir(own(e.members[1].dir))
		for _, f := range left {
			if strings.HasPrefix(f.Name(), receiving) {
				t.Errorf("%s is left", f.Name())
			}
		}
		req, body := snapshotRequest(e, next)
		got, err2 := e.send(2, 1, req, body)
		if !got.Success || errors.Join(err, err2) != nil {
			t.Errorf("the good one: %+v, %v", got, errors.Join(err, err2))
		}
		e.awaitApplied([]string{"from", "afar"}, 1)
	})
}
