package hostile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"

	"rollcall/integration/needs"
	"rollcall/lab/process"
	"rollcall/quorum/trust"
	"rollcall/quorum/wire"
)

// hangTime is longer than the time for which a lock may be held before /livez fails.
const hangTime = 4 * time.Second

// extremes are the values of each number in the requests of raft: ends of types, and where sums of them pass 2^64.
var extremes = []uint64{0, 1, 1 << 48, 1<<48 + 1<<20, math.MaxUint64 - 1, math.MaxUint64}

// ends are the extremes that are tried where each takes a connection, because a member accepts only some in a second.
var ends = []uint64{1<<48 + 1<<20, math.MaxUint64}

// An attacker has stolen one member's identity, and sends numbers that no log has in requests of raft, in frames and
// over gRPC. The members reply or close the connection, and name the wrong number. None of them hangs, none ends, and
// their clients continue to write.
func TestImpossibleNumbers(t *testing.T) {
	needs.Check(t, needs.Nightly)
	secret := secretFile(t)
	e, o := startMembers(t, "", "ensembleSecretFile="+secret+"\n"+process.AnyHTTP)
	guard, err := trust.New(trust.Config{Settings: trust.Settings{SecretFile: secret}, MemberID: thief})
	if err != nil {
		t.Fatal(err)
	}
	s := stolen{ensemble: known(t, e.Members[0])}
	book := wire.NewAddressBook(thief, s.list)
	book.SetDiskID(strangerDisk)
	book.SetEnsembleID(s.id)
	s.hello = wire.NewHello(book).WithGuard(guard)
	e.Members[thief-1].Process.Kill()
	o.sessions = slices.DeleteFunc(o.sessions, func(c *other) bool { return c.member.ID == thief })
	e.Settle()
	named := map[string]bool{}
	for id := uint32(1); id < thief; id++ {
		for _, n := range extremes {
			for _, request := range extremeRequests(s, n) {
				s.sendAny(t, id, request)
			}
		}
		for _, n := range ends {
			for name, request := range extremeSnapshots(s, n) {
				s.sendBytes(t, id, name, encodeRequest(t, installSnapshot, request))
			}
		}
		for name, frame := range extremeFrames() {
			s.sendBytes(t, id, name, slices.Concat(encodeRequest(t, appendEntries, &raft.AppendEntriesRequest{RPCHeader: s.header(thief)}), frame))
		}
		s.sendsImpossibleMessages(t, id, named)
	}
	for _, field := range rejectedFields {
		if !named[field] {
			t.Errorf("no error names %s", field)
		}
	}
	time.Sleep(hangTime)
	for _, m := range e.Members[:thief-1] {
		if !m.Process.IsRunning() {
			t.Errorf("member %d has ended", m.ID)
		}
		for _, reason := range []string{"which is too far above", "refused a request between members"} {
			if !strings.Contains(output(t, m), reason) {
				t.Errorf("member %d does not log %q", m.ID, reason)
			}
		}
		addr, err := m.HTTP()
		if err != nil {
			t.Fatal(err)
		}
		reply, err := (&http.Client{Timeout: process.Patience}).Get("http://" + addr + "/livez")
		if err != nil {
			t.Errorf("livez of member %d: %v", m.ID, err)
			continue
		}
		_ = reply.Body.Close()
		if reply.StatusCode != http.StatusOK {
			t.Errorf("livez of member %d: %s", m.ID, reply.Status)
		}
	}
	o.measure(t, 2*time.Second)
}

// extremeRequests are requests of a stale term in which one number is n.
func extremeRequests(s stolen, n uint64) []any {
	h := s.header(thief)
	return []any{
		&raft.AppendEntriesRequest{RPCHeader: h, PrevLogEntry: n - 1, Entries: []*raft.Log{{Index: n}}},
		&raft.AppendEntriesRequest{RPCHeader: h, PrevLogEntry: n}, &raft.AppendEntriesRequest{RPCHeader: h, LeaderCommitIndex: n},
		&raft.RequestVoteRequest{RPCHeader: h, LastLogIndex: n}, &raft.RequestVoteRequest{RPCHeader: h, LastLogTerm: n},
		&raft.RequestPreVoteRequest{RPCHeader: h, LastLogIndex: n}, &raft.RequestPreVoteRequest{RPCHeader: h, LastLogTerm: n},
	}
}

// sendAny sends a request of raft's on a connection of its own. Any reply, and the end of the connection, are right.
func (s stolen) sendAny(t *testing.T, to uint32, request any) {
	t.Helper()
	c, err := s.dial(t.Context(), to, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	kind := byte(appendEntries)
	switch request.(type) {
	case *raft.RequestVoteRequest:
		kind = requestVote
	case *raft.RequestPreVoteRequest:
		kind = preVote
	}
	var reply map[string]any
	if err := sendRequest(c, kind, request, &reply); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("member %d does not reply to %+v: %v", to, request, err)
	}
}

// raft's request of a snapshot, and the frames, as quorum/wire numbers them.
const (
	installSnapshot = 2
	preVote         = 4
	frameEntries    = 5
	frameNotice     = 6
)

// extremeSnapshots are requests to install a snapshot in which one number is n. No bytes of the snapshot follow.
func extremeSnapshots(s stolen, n uint64) map[string]*raft.InstallSnapshotRequest {
	made := map[string]*raft.InstallSnapshotRequest{}
	for name, set := range map[string]func(r *raft.InstallSnapshotRequest){
		"term of a snapshot":           func(r *raft.InstallSnapshotRequest) { r.Term = n },
		"index of a snapshot":          func(r *raft.InstallSnapshotRequest) { r.LastLogIndex = n },
		"term of a snapshot's entry":   func(r *raft.InstallSnapshotRequest) { r.LastLogTerm = n },
		"index of a configuration":     func(r *raft.InstallSnapshotRequest) { r.ConfigurationIndex = n },
		"size of a snapshot":           func(r *raft.InstallSnapshotRequest) { r.Size = int64(n) },
		"version of a snapshot":        func(r *raft.InstallSnapshotRequest) { r.SnapshotVersion = raft.SnapshotVersion(n) },
		"size and index of a snapshot": func(r *raft.InstallSnapshotRequest) { r.Size, r.LastLogIndex = int64(n), 1<<48+n%1000 },
	} {
		r := &raft.InstallSnapshotRequest{RPCHeader: s.header(thief), SnapshotVersion: raft.SnapshotVersionMax, Size: 1}
		set(r)
		made[name] = r
	}
	return made
}

// extremeFrames are frames in which one number is extreme: a word of the position, the number of entries, or a number of the only
// entry. Bytes that a length promises are missing. Marks that no frame begins with are there, too.
func extremeFrames() map[string][]byte {
	made := map[string][]byte{}
	const positionWords, entryWords = 5, 6
	for _, n := range ends {
		for word := range positionWords {
			position := make([]byte, 8*positionWords)
			binary.BigEndian.PutUint64(position[8*word:], n)
			name := fmt.Sprintf("word %d is %d", word, n)
			made["notice, "+name] = append([]byte{frameNotice}, position...)
			made["entries, "+name] = append(append([]byte{frameEntries}, position...), 0, 0)
		}
		made[fmt.Sprintf("%d entries", uint16(n))] = binary.BigEndian.AppendUint16(append([]byte{frameEntries}, make([]byte, 8*positionWords)...), uint16(n))
		for number := range entryWords {
			words := [entryWords]uint64{0: 1}
			words[number] = n
			frame := append(append([]byte{frameEntries}, make([]byte, 8*positionWords)...), 0, 1)
			frame = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(frame, words[0]), words[1]) // index and term
			frame = binary.BigEndian.AppendUint64(append(frame, byte(words[2])), words[3])                  // type and time
			frame = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(frame, uint32(words[4])), uint32(words[5]))
			made[fmt.Sprintf("number %d of an entry is %d", number, n)] = frame
		}
	}
	for _, mark := range []byte{frameNotice + 1, math.MaxInt8, math.MaxUint8} {
		made[fmt.Sprintf("mark %d", mark)] = []byte{mark}
	}
	return made
}

// encodeRequest returns the bytes of a request of raft's.
func encodeRequest(t *testing.T, kind byte, request any) []byte {
	t.Helper()
	b := []byte{kind}
	handle := new(codec.MsgpackHandle)
	handle.TimeNotBuiltin = true
	var body []byte
	if err := codec.NewEncoderBytes(&body, handle).Encode(request); err != nil {
		t.Fatal(err)
	}
	return append(b, body...)
}

// patienceWithSilence is the time for which a member is left waiting for the rest of a request.
const patienceWithSilence = 50 * time.Millisecond

// sendBytes sends bytes on a connection of its own, reads what comes for a moment, and closes it. A member may wait for the rest.
func (s stolen) sendBytes(t *testing.T, to uint32, name string, b []byte) {
	t.Helper()
	c, err := s.dial(t.Context(), to, 1)
	if err != nil {
		t.Fatalf("member %d takes no connection for %s: %v", to, name, err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(patienceWithSilence)) // if it fails, so will the rest
	if _, err := c.Write(b); err == nil {
		_, _ = io.Copy(io.Discard, c)
	}
}
