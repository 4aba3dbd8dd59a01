package hostile

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"rollcall/integration/needs"
	"rollcall/lab/process"
	"rollcall/proto"
	"rollcall/quorum/trust"
	"rollcall/quorum/wire"
)

const (
	thief    = 3                      // the member whose identity is stolen
	thiefFor = 4 * time.Second        // how long it leads and says that another member is damaged, at least
	beat     = 100 * time.Millisecond // its heartbeats
	// leastLies is the least number of these claims.
	leastLies = 20
	// raft's requests, as quorum/wire numbers them.
	appendEntries = 0
	requestVote   = 1
)

// stolen speaks as member 3, which is down, with the secret of the ensemble.
type stolen struct {
	ensemble
	hello wire.Hello
}

// dial opens a connection to one of a member's ports.
func (s stolen) dial(ctx context.Context, to uint32, port int) (net.Conn, error) {
	return s.hello.Dial(ctx, wire.DialTCP, s.ports[to-1][port], to)
}

// grpc returns a gRPC connection to a member.
func (s stolen) grpc(t *testing.T, to uint32) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient("passthrough:///member", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return s.dial(ctx, to, 0) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// header returns the header of a member's raft requests.
func (s stolen) header(as uint32) raft.RPCHeader {
	p := s.list[as-1]
	p.DiskID = strangerDisk
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(p.ServerID()), Addr: []byte(p.Addr)}
}

// sendRequest sends a request of raft's on a connection and reads the reply.
func sendRequest(c net.Conn, kind byte, request, answer any) error {
	_ = c.SetDeadline(time.Now().Add(process.Patience)) // if it fails, so will the rest
	if _, err := c.Write([]byte{kind}); err != nil {
		return err
	}
	handle := new(codec.MsgpackHandle)
	handle.TimeNotBuiltin = true
	if err := codec.NewEncoder(c, handle).Encode(request); err != nil {
		return err
	}
	var text string
	dec := codec.NewDecoder(c, new(codec.MsgpackHandle))
	if err := errors.Join(dec.Decode(&text), dec.Decode(answer)); err != nil {
		return err
	}
	if text != "" {
		return errors.New(text)
	}
	return nil
}

// view returns a member's report about itself.
func (s stolen) view(t *testing.T, c *grpc.ClientConn) *proto.MemberStatus {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), process.Patience)
	defer cancel()
	reply, err := proto.NewFollowerClient(c).View(ctx, &proto.ViewRequest{About: &proto.ViewRequest_Status{Status: &proto.ViewStatus{}}})
	if err != nil {
		t.Fatal(err)
	}
	return reply.GetStatus()
}

// An attacker has stolen one member's identity. It may speak as that member, and only as that one: requests and messages
// for others are rejected, on both ports. It may take the leadership, because raft believes a member that claims to lead
// a later term. But as a leader it retires no member: the members themselves refute its verdicts. Once it is gone the
// ensemble works as before.
func TestStolenIdentity(t *testing.T) {
	needs.Check(t, needs.Nightly)
	secret := secretFile(t)
	e, o := startMembers(t, "", "ensembleSecretFile="+secret+"\n")
	o.measure(t, 2*time.Second) // the members have marks by then
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

	s.speaksForOthers(t)
	s.namesNoEnsemble(t, guard)
	victim, witness := s.grpc(t, 1), s.grpc(t, 2)
	var before *proto.MemberStatus
	err = process.Until(t.Context(), "the others have the marks of the victim, and can refute the thief", func() bool {
		before = s.view(t, victim)
		marks := before.GetStateHashes().GetIndexes()
		return len(marks) > 0 && slices.Equal(marks, s.view(t, witness).GetStateHashes().GetIndexes())
	})
	if err != nil {
		t.Fatal(err)
	}
	s.lies(t, before)
	for id := uint32(1); id < thief; id++ {
		if why := s.view(t, s.grpc(t, id)).GetDamaged(); why != "" {
			t.Errorf("member %d is out of service: %s", id, why)
		}
	}
	if !strings.Contains(output(t, e.Members[0]), "but a majority has the same state: check the leader") {
		t.Error("the member does not log that its leader is wrong")
	}
	e.Start(e.Members[thief-1])
	e.Settle()
	for _, m := range e.Members {
		if m.Mode() == "" {
			t.Errorf("member %d serves no more", m.ID)
		}
	}
}

// namesNoEnsemble checks that a member whose hello names no ensemble, like a new member's, is shown nothing.
func (s stolen) namesNoEnsemble(t *testing.T, guard *trust.Guard) {
	t.Helper()
	book := wire.NewAddressBook(thief, s.list)
	book.SetDiskID(strangerDisk + 1) // another process has the other one
	s.hello = wire.NewHello(book).WithGuard(guard)
	ctx, cancel := context.WithTimeout(t.Context(), process.Patience)
	defer cancel()
	conn := s.grpc(t, 1)
	_, err := proto.NewFollowerClient(conn).View(ctx, &proto.ViewRequest{About: &proto.ViewRequest_Status{Status: &proto.ViewStatus{}}})
	if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "has not named the ensemble") {
		t.Errorf("a view without an ensemble: %v", err)
	}
	_, err = proto.NewLeaderClient(conn).HandOver(ctx, &proto.HandOverRequest{})
	if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "has not named the ensemble") {
		t.Errorf("a transfer of leadership without an ensemble: %v", err)
	}
}

// speaksForOthers checks that messages in the name of another member are rejected, and do not change a term.
func (s stolen) speaksForOthers(t *testing.T) {
	t.Helper()
	const refusal = "a member may speak for itself only"
	for kind, request := range map[byte]any{
		appendEntries: &raft.AppendEntriesRequest{RPCHeader: s.header(2), Term: 1 << 20},
		requestVote:   &raft.RequestVoteRequest{RPCHeader: s.header(2), Term: 1 << 20, LeadershipTransfer: true},
	} {
		c, err := s.dial(t.Context(), 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		var answer map[string]any
		if err := sendRequest(c, kind, request, &answer); err == nil || !strings.Contains(err.Error(), refusal) {
			t.Errorf("%T of another member: %v, want it refused", request, err)
		}
		_ = c.Close()
	}
	conn := s.grpc(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), process.Patience)
	defer cancel()
	follower, leader := proto.NewFollowerClient(conn), proto.NewLeaderClient(conn)
	leads := proto.NewLeaderClient(s.grpc(t, s.view(t, conn).GetLeader())) // only it reads writes
	for name, say := range map[string]func() error{
		"a hello": func() error {
			_, err := follower.Hello(ctx, &proto.HelloRequest{Member: 2})
			return err
		},
		"a sync": func() error {
			_, err := leader.Sync(ctx, &proto.SyncRequest{Member: 2})
			return err
		},
		"a ping": func() error {
			stream, err := follower.Pings(ctx)
			if err == nil {
				err = stream.Send(&proto.Ping{Leader: 2, Term: 1 << 20})
			}
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
		"writes": func() error {
			stream, err := leads.Forward(ctx)
			if err == nil {
				err = stream.Send(&proto.Forwarded{Member: 1})
			}
			if err == nil {
				_, err = stream.CloseAndRecv()
			}
			return err
		},
	} {
		if err := say(); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), refusal) {
			t.Errorf("%s of another member: %v, want it refused", name, err)
		}
	}
	if term := s.view(t, conn).GetTerm(); term >= 1<<20 {
		t.Errorf("the term is %d", term)
	}
}

// lies leads both members in a later term, and says for a while that member 1 is damaged.
func (s stolen) lies(t *testing.T, victim *proto.MemberStatus) {
	t.Helper()
	term := victim.GetTerm() + 1000
	var rafts []net.Conn
	for id := uint32(1); id < thief; id++ {
		c, err := s.dial(t.Context(), id, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		rafts = append(rafts, c)
	}
	lead := func() {
		for _, c := range rafts {
			if err := sendRequest(c, appendEntries, &raft.AppendEntriesRequest{RPCHeader: s.header(thief), Term: term}, new(raft.AppendEntriesResponse)); err != nil {
				t.Fatal(err)
			}
		}
	}
	lead()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	follower := s.grpc(t, 1)
	var pings grpc.BidiStreamingClient[proto.Ping, proto.Pong]
	marks := victim.GetStateHashes()
	n, told := uint64(0), 0
	say := func() (err error) {
		if pings == nil {
			if pings, err = proto.NewFollowerClient(follower).Pings(ctx); err != nil {
				return err
			}
		}
		n++
		ping := &proto.Ping{Term: term, Leader: thief, Number: n}
		if i := len(marks.GetIndexes()) - 1; i >= 0 {
			ping.Verdict = &proto.Verdict{Index: marks.GetIndexes()[i], Own: marks.GetDigests()[i], Theirs: 7, Agree: 2, Members: 3}
		}
		if err := pings.Send(ping); err != nil {
			return err
		}
		pong, err := pings.Recv()
		if err == nil && pong.GetStateHashes() != nil {
			marks = pong.GetStateHashes()
		}
		return err
	}
	begun := time.Now()
	for ; time.Since(begun) < thiefFor || told < leastLies; time.Sleep(beat) {
		lead()
		err := say()
		if err == nil {
			told++
			continue
		}
		if time.Since(begun) > process.Patience {
			t.Fatalf("the leader's ping: %v", err)
		}
		// A busy machine has held a heartbeat up, and the members have elected another leader. The thief deposes that one, too.
		term, pings = s.view(t, follower).GetTerm()+1000, nil
	}
}
