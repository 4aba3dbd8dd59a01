package hostile

import (
	"errors"
	"math"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/integration/needs"
	"rollcall/lab/process"
	"rollcall/quorum/trust"
	"rollcall/quorum/wire"
)

// hangTime is longer than the time for which a lock may be held before /livez fails.
const hangTime = 4 * time.Second

// Somebody has stolen one member's identity, and sends terms and indexes that no log has, with the terms of the past and of the
// future. The members answer or close the connection. None of them hangs, none ends, and their clients write on.
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
	for id := uint32(1); id < thief; id++ {
		for _, n := range []uint64{0, 1, 1 << 48, 1<<48 + 1<<20, math.MaxUint64 - 1, math.MaxUint64} {
			for _, request := range extremeRequests(s, n) {
				s.sendAny(t, id, request)
			}
		}
	}
	time.Sleep(hangTime)
	for _, m := range e.Members[:thief-1] {
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
	if _, isVote := request.(*raft.RequestVoteRequest); isVote {
		kind = requestVote
	}
	var reply map[string]any
	if err := ask(c, kind, request, &reply); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("member %d does not reply to %+v: %v", to, request, err)
	}
}
