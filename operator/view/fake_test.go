package view

import (
	"context"
	"sync"
	"testing"
	"time"

	"rollcall/proto"
)

const deadline = time.Second

// fakePeer answers with what its functions return.
type fakePeer struct {
	answer func(ctx context.Context, r *proto.ViewRequest) (*proto.ViewReply, error)

	mu    sync.Mutex
	asked []*proto.ViewRequest
}

func (p *fakePeer) View(ctx context.Context, r *proto.ViewRequest) (*proto.ViewReply, error) {
	p.mu.Lock()
	p.asked = append(p.asked, r)
	p.mu.Unlock()
	return p.answer(ctx, r)
}

// requests returns what the peer has been asked since the last call.
func (p *fakePeer) requests() []*proto.ViewRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := p.asked
	p.asked = nil
	return asked
}

// fake is an ensemble of fake members with a state, of which member 1 asks and member 2 leads.
type fake struct {
	*Collector
	members  []Member
	ensemble Ensemble
	peers    map[uint32]*fakePeer
	sessions []*proto.SessionRow               // the replicated state, in order
	carried  map[uint32]map[uint64]bool        // sessions with a connection, by member
	conns    map[uint32][]*proto.ConnectionRow // by member
	watching map[uint32][]*proto.WatchRow      // that cover a path, by member
	leader   uint32
}

func newFake(t *testing.T, members uint32) *fake {
	t.Helper()
	f := &fake{peers: map[uint32]*fakePeer{}, carried: map[uint32]map[uint64]bool{}, conns: map[uint32][]*proto.ConnectionRow{}, watching: map[uint32][]*proto.WatchRow{}, leader: 2}
	cfg := Config{Self: 1, Members: func() []Member { return f.members }, ServerList: func() Ensemble { return f.ensemble }, Leader: func() uint32 { return f.leader }, Deadline: deadline, Now: time.Now}
	for id := uint32(1); id <= members; id++ {
		f.peers[id] = &fakePeer{answer: f.member(id)}
		f.carried[id] = map[uint64]bool{}
		f.members = append(f.members, Member{ID: id, QuorumAddress: "q", ElectionAddress: "e", Peer: f.peers[id]})
	}
	var err error
	if f.Collector, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	return f
}

// open adds n sessions, in turn of all members, of which every fourth has no connection.
func (f *fake) open(n int) {
	for range n {
		i := len(f.sessions)
		id, member := uint64(i+1), uint32(i%len(f.peers)+1)
		f.sessions = append(f.sessions, &proto.SessionRow{Id: id, Member: member, TimeoutMs: 4000, Ephemerals: uint32(i)})
		f.carried[member][id] = i%4 != 3
	}
}

// member returns how a member answers that tells the truth.
func (f *fake) member(id uint32) func(context.Context, *proto.ViewRequest) (*proto.ViewReply, error) {
	return func(_ context.Context, r *proto.ViewRequest) (*proto.ViewReply, error) {
		switch about := r.About.(type) {
		case *proto.ViewRequest_Status:
			return &proto.ViewReply{About: &proto.ViewReply_Status{Status: &proto.MemberStatus{Member: id, Leader: f.leader, Committed: 100 + uint64(id), Applied: 100 - uint64(id), ClockMs: time.Now().UnixMilli()}}}, nil
		case *proto.ViewRequest_Sessions:
			return &proto.ViewReply{About: &proto.ViewReply_Sessions{Sessions: f.page(about.Sessions)}}, nil
		case *proto.ViewRequest_Facts:
			return &proto.ViewReply{About: &proto.ViewReply_Facts{Facts: f.facts(id, about.Facts)}}, nil
		case *proto.ViewRequest_Connections:
			return &proto.ViewReply{About: &proto.ViewReply_Connections{Connections: f.connections(id, about.Connections)}}, nil
		case *proto.ViewRequest_Watches:
			return &proto.ViewReply{About: &proto.ViewReply_Watches{Watches: f.watches(id, about.Watches)}}, nil
		case *proto.ViewRequest_Owner:
			return &proto.ViewReply{About: &proto.ViewReply_Owner{Owner: &proto.OwnerRow{Kind: proto.NodeKind_NODE_KIND_EPHEMERAL, Session: 2}}}, nil
		}
		return &proto.ViewReply{}, nil
	}
}

func (f *fake) page(q *proto.ViewSessions) *proto.SessionRows {
	r := &proto.SessionRows{}
	for _, s := range f.sessions {
		switch {
		case s.Id < q.First || q.Member != 0 && q.Member != s.Member:
		case len(r.Rows) == int(q.Limit):
			r.Next = s.Id
			return r
		default:
			r.Rows = append(r.Rows, s)
		}
	}
	return r
}

func (f *fake) facts(member uint32, q *proto.ViewFacts) *proto.FactRows {
	r := &proto.FactRows{}
	for _, id := range q.Ids {
		row := &proto.FactRow{Id: id}
		if f.carried[member][id] {
			row.Connection, row.Watches = &proto.ConnectionRow{Number: id, Session: id}, uint32(id)
		}
		if row.Timed = member == f.leader; row.Timed {
			row.HeardMs, row.LeftMs = 10*id, 4000-10*id
		}
		if row.Timed || row.Connection != nil {
			r.Rows = append(r.Rows, row)
		}
	}
	return r
}

func (f *fake) connections(member uint32, q *proto.ViewConnections) *proto.ConnectionRows {
	r := &proto.ConnectionRows{Incarnation: uint64(member)}
	for _, c := range f.conns[member] {
		switch {
		case q.Incarnation == uint64(member) && c.Number < q.First, !NewClientFilter(string(q.Address)).Matches(string(c.Address)):
		case len(r.Rows) == int(q.Limit):
			r.Next = c.Number
			return r
		default:
			r.Rows = append(r.Rows, c)
		}
	}
	return r
}

// watches returns the watches that cover a path, or five watches of a session, on /0 to /4.
func (f *fake) watches(member uint32, q *proto.ViewWatches) *proto.WatchRows {
	r := &proto.WatchRows{Incarnation: uint64(member)}
	if len(q.Path) > 0 {
		for _, w := range f.watching[member] {
			switch {
			case q.Incarnation == uint64(member) && (w.Connection < q.First || w.Connection == q.First && string(w.Path) < string(q.FirstPath)):
			case len(r.Rows) == int(q.Limit):
				r.Next, r.NextPath = w.Connection, w.Path
				return r
			default:
				r.Rows = append(r.Rows, w)
			}
		}
		return r
	}
	for _, path := range []string{"/0", "/1", "/2", "/3", "/4"} {
		switch {
		case path < string(q.FirstPath):
		case len(r.Rows) == int(q.Limit):
			r.NextPath = []byte(path)
			return r
		default:
			r.Rows = append(r.Rows, &proto.WatchRow{Session: q.Session, Path: []byte(path), Data: true})
		}
	}
	return r
}

// late answers when ctx ends.
func late(ctx context.Context, _ *proto.ViewRequest) (*proto.ViewReply, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
