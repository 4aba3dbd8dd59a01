package admin

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/internal/serverlist"
	"rollcall/operator/api"
	"rollcall/operator/backup"
	"rollcall/operator/view"
	"rollcall/quorum/history"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// fakeOps is an ensemble of three members, of which the third is down. Its lists have what the fields
// say. It keeps the last question.
type fakeOps struct {
	members  []api.Member
	rows     []api.Session
	conns    []api.Connection
	watches  []api.Watch
	paths    []api.Ephemeral
	owner    api.Owner
	ends     []znode.SessionEnd
	removals []api.Removal
	slow     []api.SlowRequest
	buckets  api.Buckets
	load     Load
	shown    Node
	node     NodeQuery
	change   NodeChange
	next     string
	handOver time.Duration // how long a drain tries to
	err      error         // of all questions
	servers  view.Members
	changed  MembersChange                  // of the last change of members
	state    func(io.Writer) (int64, error) // writes the state of a copy; nil: it is some text

	restore func(context.Context, RestoreRequest) (RestoreResult, error) // restores; nil: Restore does it

	file      io.Reader      // the rest of a file of the past
	lastEntry *atomic.Uint64 // of the log; nil: there is none

	asked   string // method
	filter  view.SessionFilter
	order   view.SessionOrder
	conn    view.ConnectionFilter
	slowOf  view.SlowFilter
	page    view.Page
	id      jute.SessionID
	path    string
	by      string // of the last kill
	address string
	before  uint64
}

// testList is the list of the fake ensemble. Member 3 is not in it.
var testList = serverlist.List{
	{ID: 1, Host: "a", QuorumPort: 2888, ElectionPort: 3888, ClientHost: "0.0.0.0", ClientPort: 2181},
	{ID: 2, Host: "b", QuorumPort: 2888, ElectionPort: 3888, Observer: true},
}

var silentThree = []api.Silence{{MemberID: 3, Reason: view.ReasonDown, Detail: "connection refused"}}

// newFakeOps returns a fakeOps with a row of each kind, as full and as empty as it can be.
func newFakeOps() *fakeOps {
	conn := api.Connection{
		MemberID: 1, Number: 7, Address: "10.0.0.1:46396", QueuedRequests: 2, Received: 8, Sent: 9, RequestsPerS: 1.5, BytesPerS: 640, SessionID: "0x1000012f99a0001", TimeoutMs: 15000,
		EstablishedAt: began, LastOp: "getChildren2", LastZxid: "0x20000000a", LastUs: 2000, MinUs: 900, AvgUs: 1000, MaxUs: 4000,
	}
	one, lag, heard, left := uint64(1), uint64(0), int64(1500), int64(13500)
	session := api.Session{
		ID: "0x1000012f99a0001", State: view.StateConnected, MemberID: 1, Address: "10.0.0.1:46396", TimeoutMs: 15000, CreatedAt: began.Add(123 * time.Millisecond),
		EphemeralCount: 2, WatchCount: 3, Connection: &conn, HeardMs: &heard, LeftMs: &left,
	}
	return &fakeOps{
		members: []api.Member{
			{
				MemberID: 1, ClientAddress: "10.0.1.1:2181", QuorumAddress: "a:2888", ElectionAddress: "a:3888", ConsoleURL: "http://10.0.1.1:8080", Role: "leader", Term: 4, LeaderID: 1, AppliedIndex: 90, CommittedIndex: 91, Zxid: "0x4000000a1",
				Lag: &one, Sessions: 1, Connections: 2, Watches: 3, DataBytes: 510, LogBytes: 1000, SnapshotIndex: 50, SnapshotAt: &began,
				DigestVerdict: view.DigestAgrees, DigestIndex: 64, Version: "1", Started: began, ClockMs: -20,
			},
			{MemberID: 2, Zxid: "0x0", DigestVerdict: view.DigestUnknown, StallReason: "the disk hangs", DamageReason: "entry 7", IsJoining: true, IsDrained: true, WasRemoved: true, NoMemory: true},
		},
		rows: []api.Session{session, {ID: "0x8000000000000001", State: view.StateUnknown, MemberID: 3, TimeoutMs: 1000}},
		conns: []api.Connection{
			conn, {MemberID: 2, Number: 1, Address: "[::1]:4", TLS: "TLSv1.3", Cipher: "TLS_AES_128_GCM_SHA256", LastZxid: "0x0"},
		},
		watches: []api.Watch{
			{MemberID: 1, Connection: 7, SessionID: "0x1000012f99a0001", Path: "/a", Data: true, Children: true},
			{MemberID: 2, Connection: 1, SessionID: "0x2", Path: "/é", Persistent: true, Recursive: true},
		},
		paths: []api.Ephemeral{{Path: "/a"}, {Path: "/b/c"}},
		owner: api.Owner{Kind: view.KindEphemeral, SessionID: session.ID, Session: &session, Silent: silentThree},
		ends: []znode.SessionEnd{
			{
				Number: 2, Session: 0x1000012f99a0001, Address: "10.0.0.1:46396", Member: 1, Leader: 2, Term: 4, AtMs: began.UnixMilli(), Zxid: 0x4000000a2,
				Reason: znode.ReasonKilled, SilentFor: 3 * time.Second, Timeout: 15 * time.Second, EphemeralCount: 2, RequestedBy: "super from 127.0.0.1:1",
			},
			{Number: 1, Session: 5, Reason: znode.ReasonClosed},
		},
		shown: Node{
			Data: []byte("é\x00"), Children: []string{"a", "é"}, MoreChildren: true,
			ACL:  []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("world"), ID: []byte("anyone")}}, {Perms: jute.PermRead | 64, ID: jute.ID{Scheme: []byte("ip"), ID: []byte("10.0.0.0/8")}}},
			Stat: jute.Stat{Czxid: 0x400000001, Mzxid: 0x400000002, Pzxid: 0x400000003, Ctime: began.UnixMilli(), Mtime: began.UnixMilli() + 5, Version: 1, Cversion: 2, Aversion: 3, EphemeralOwner: 5, DataLength: 3, NumChildren: 9},
		},
		servers: view.Members{
			Ensemble: view.Ensemble{
				ID: "ab12", Version: 0x400000005, List: testList,
				RaftServers: []view.RaftServer{{MemberID: 1, ElectionAddress: "a:3888", IsVoter: true}, {MemberID: 2, ElectionAddress: "b:3888", IsVoter: true}, {MemberID: 3, ElectionAddress: "c:3888"}},
			},
			Leader: 1, CommittedIndex: 91, LeaderReplied: true, Silent: silentThree,
			Servers: []view.Server{
				{ListEntry: testList[0], HasReplied: true, Server: api.Server{
					MemberID: 1, ListLine: testList[0].String(), QuorumAddress: "a:2888", ElectionAddress: "a:3888", ClientAddress: "0.0.0.0:2181", RaftAddress: "a:3888", Role: "participant",
					IsVoter: true, NeededForMajority: true, State: api.StateLeader, AppliedIndex: 90, Lag: &one,
				}},
				{ListEntry: testList[1], HasReplied: true, Server: api.Server{
					MemberID: 2, ListLine: testList[1].String(), QuorumAddress: "b:2888", ElectionAddress: "b:3888", Role: "observer", IsVoter: true, State: api.StateObserver, AppliedIndex: 91, Lag: &lag, IsDrained: true,
				}},
				{Server: api.Server{MemberID: 3, ElectionAddress: "c:3888", State: api.StateSilent, Detail: "down: connection refused"}},
			},
		},
		buckets: api.Buckets{
			LeaderID: 2, TickMs: 2000, At: began, Buckets: []api.Bucket{{DueMs: -5, Sessions: 3}, {DueMs: 1995, Sessions: 40}},
			LaterSessions: 1, Silent: silentThree,
		},
		slow: []api.SlowRequest{{
			ID: "2-19a3f0c2b41", MemberID: 2, ReceivedAt: began, SessionID: "0x5", Address: "10.0.0.2:1", Op: "setData", Path: "/é", Xid: 7,
			Index: 90, TotalUs: 412_000, Largest: "the disk of member 1", Complete: true, MissingIDs: []uint32{3}, ErrorUs: 1,
			Stages: []api.SlowStage{{Stage: "disk", MemberID: 1, TookUs: 412_000, Text: "the disk of member 1"}},
			Causes: []api.SlowCause{{Cause: "snapshot", MemberID: 1, TookUs: 400_000}},
		}},
		removals: []api.Removal{
			{Path: "/é", RemovedAt: began, Zxid: "0x4000000a3", Cause: view.CauseDeleted, SessionID: "0x5", Address: "10.0.0.2:1", MemberID: 2},
			{Path: "/swept", RemovedAt: began, Zxid: "0x4000000a2", Cause: view.CauseSessionEnded, SessionID: "0x1000012f99a0001"},
			{Path: "/old", RemovedAt: began, Zxid: "0x4000000a1", Cause: view.CauseSessionEnded, SessionID: "0x77", Address: "10.0.0.3:1", MemberID: 3},
			{Path: "/ttl", RemovedAt: began, Zxid: "0x4000000a0", Cause: view.CauseTTL},
			{Path: "/container", RemovedAt: began, Zxid: "0x40000009f", Cause: view.CauseContainer},
		},
	}
}

func answerOf[T any](f *fakeOps, method string, p view.Page, rows []T) (api.List[T], error) {
	f.asked, f.page = method, p
	if f.err != nil {
		return api.List[T]{}, f.err
	}
	return api.List[T]{Items: append([]T{}, rows...), NextCursor: f.next, Silent: silentThree}, nil
}

func (f *fakeOps) MemberStatuses(context.Context) (api.List[api.Member], error) {
	return answerOf(f, "status", view.Page{}, f.members)
}

func (f *fakeOps) Sessions(_ context.Context, filter view.SessionFilter, p view.Page) (api.List[api.Session], error) {
	f.filter = filter
	return answerOf(f, "sessions", p, f.rows)
}

func (f *fakeOps) SessionsBy(_ context.Context, filter view.SessionFilter, by view.SessionOrder, p view.Page) (api.List[api.Session], error) {
	f.filter, f.order = filter, by
	return answerOf(f, "sessions by", p, f.rows)
}

func (f *fakeOps) SessionByID(_ context.Context, id jute.SessionID) (api.List[api.Session], error) {
	f.id = id
	for _, s := range f.rows {
		if s.ID == id.String() {
			return answerOf(f, "session", view.Page{}, []api.Session{s})
		}
	}
	return answerOf(f, "session", view.Page{}, []api.Session(nil))
}

func (f *fakeOps) SessionWatches(_ context.Context, id jute.SessionID, p view.Page) (api.List[api.Watch], error) {
	f.id = id
	return answerOf(f, "session watches", p, f.watches)
}

func (f *fakeOps) Ephemerals(_ context.Context, id jute.SessionID, p view.Page) (api.List[api.Ephemeral], error) {
	f.id = id
	return answerOf(f, "ephemerals", p, f.paths)
}

func (f *fakeOps) Connections(_ context.Context, filter view.ConnectionFilter, p view.Page) (api.List[api.Connection], error) {
	f.conn = filter
	return answerOf(f, "connections", p, f.conns)
}

func (f *fakeOps) PathWatches(_ context.Context, path string, p view.Page) (api.List[api.Watch], error) {
	f.path = path
	return answerOf(f, "watches", p, f.watches)
}

func (f *fakeOps) NodeOwner(_ context.Context, path string) (api.Owner, error) {
	f.asked, f.path = "owner", path
	o := f.owner
	o.Children = []api.OwnedChild{} // as a member replies if there are none
	o.Path, o.Silent = path, append([]api.Silence{}, o.Silent...)
	return o, f.err
}

func (f *fakeOps) SlowRequests(_ context.Context, of view.SlowFilter, p view.Page) (api.List[api.SlowRequest], error) {
	f.slowOf = of
	return answerOf(f, "slow", p, f.slow)
}

func (f *fakeOps) NodeRemovals(_ context.Context, path string, p view.Page) (api.List[api.Removal], error) {
	f.path = path
	return answerOf(f, "removals", p, f.removals)
}

func (f *fakeOps) ReadLoad() Load { return f.load }

func (f *fakeOps) ReadNode(q NodeQuery) (Node, error) {
	f.asked, f.node = "node", q
	if len(f.rows) == 0 {
		return Node{}, &Failure{Status: 404, Text: "no such node"}
	}
	return f.shown, f.err
}

func (f *fakeOps) ChangeNode(_ context.Context, c NodeChange) (string, jute.Stat, error) {
	f.asked, f.change = "change", c
	if c.Mode.IsSequential() {
		c.Path += "0000000007"
	}
	return c.Path, f.shown.Stat, f.err
}

func (f *fakeOps) ExpiryBuckets(context.Context) (api.Buckets, error) {
	f.asked = "buckets"
	b := f.buckets
	b.Buckets, b.Silent = append([]api.Bucket{}, b.Buckets...), append([]api.Silence{}, b.Silent...)
	return b, f.err
}

func (f *fakeOps) SessionEnds(session jute.SessionID, address string, before uint64) iter.Seq[znode.SessionEnd] {
	f.asked, f.id, f.address, f.before = "ends", session, address, before
	return func(yield func(znode.SessionEnd) bool) {
		for _, e := range f.ends {
			if (session == 0 || e.Session == session) && (before == 0 || e.Number < before) && !yield(e) {
				return
			}
		}
	}
}

// DrainSelf closes a connection every second, after handOver.
func (f *fakeOps) History() (history.Listing, error) {
	return history.Listing{Spans: []history.Span{{
		Snapshots: []history.Snapshot{{Name: "2-5-1764000000000", Index: 5, Term: 2, At: time.UnixMilli(1764000000000).UTC(), Bytes: 100}},
		Segments:  []history.Segment{{Name: "0000000003-00000000000000000004.log", First: 4, Last: 9, FileBytes: 200}},
		First:     4, Last: 9,
	}}, Damaged: []string{"a: is damaged"}}, f.err
}

func (f *fakeOps) HistoryFile(_ context.Context, name string) (io.ReadCloser, error) {
	if name == "segments/gone.log" {
		return nil, fs.ErrNotExist
	}
	f.path = name
	return io.NopCloser(io.MultiReader(strings.NewReader("the file"), f.file)), f.err
}

func (f *fakeOps) LaterEntries(after uint64, _ int) (entries []*raft.Log, _ error) {
	for ; f.lastEntry != nil && after < f.lastEntry.Load(); after++ {
		entries = append(entries, &raft.Log{Index: after + 1, Term: 2, Data: []byte("data")})
	}
	return entries, f.err
}

func (f *fakeOps) DrainSelf(ctx context.Context, over time.Duration) (closed int, leads bool) {
	f.asked = "drain " + over.String()
	time.Sleep(f.handOver)
	for ; over >= time.Second; over -= time.Second {
		select {
		case <-ctx.Done():
			return closed, true
		case <-time.After(time.Second):
		}
		closed++
	}
	return closed, f.err != nil
}

// Rebalance moves six clients in 3 s.
func (f *fakeOps) Rebalance(_ context.Context, perSecond int, by string) (RebalanceResult, error) {
	f.asked = fmt.Sprintf("rebalance %d for %s", perSecond, by)
	if f.err != nil {
		return RebalanceResult{}, f.err
	}
	time.Sleep(3 * time.Second)
	return RebalanceResult{Members: []RebalancedMember{{Member: 1, ClientsBefore: 9, ClientsAfter: 3, ClosedConnections: 6, FailureReason: "busy"}, {Member: 2, ClientsAfter: 6}}, ClosedConnections: 6, Balanced: true, Silent: silentThree}, nil
}

// ShedConnections closes that percentage of 1,000 connections, in 1 s.
func (f *fakeOps) ShedConnections(ctx context.Context, percentage int) (closed int, err error) {
	f.asked = fmt.Sprintf("shed %d%%", percentage)
	select {
	case <-ctx.Done():
		return 7, nil
	case <-time.After(time.Second):
	}
	return 10 * percentage, f.err
}

// DrainMember closes as many connections as the number of the member.
func (f *fakeOps) DrainMember(_ context.Context, member uint32, over time.Duration, by string) (closed int, leads bool, err error) {
	f.asked = fmt.Sprintf("drain member %d over %v for %s", member, over, by)
	return int(member), false, f.err
}

// CopyState returns a copy of index 7.
func (f *fakeOps) CopyState(context.Context) (StateCopy, error) {
	f.asked = "copy"
	if f.err != nil {
		return StateCopy{}, f.err
	}
	c := StateCopy{Head: backup.Head{Index: 7, Zxid: 0x500000009, Time: began}, WriteTo: f.state}
	if c.WriteTo == nil {
		c.WriteTo = func(w io.Writer) (int64, error) {
			n, err := io.WriteString(w, "the state")
			return int64(n), err
		}
	}
	return c, nil
}

func (f *fakeOps) StoreSnapshot(context.Context) (StoredSnapshot, error) {
	f.asked = "snapshot"
	if f.err != nil {
		return StoredSnapshot{}, f.err
	}
	return StoredSnapshot{Index: 9, Term: 4, Zxid: 0x500000009, Bytes: 4096, WriteTime: 1500 * time.Millisecond}, nil
}

// RestoreBackup reads the whole body, and keeps it in path.
func (f *fakeOps) RestoreBackup(ctx context.Context, r RestoreRequest) (RestoreResult, error) {
	if f.restore != nil {
		return f.restore(ctx, r)
	}
	body, err := io.ReadAll(r.Body)
	f.asked, f.path, f.address = "restore", string(body), r.CallerHost
	if err != nil {
		return RestoreResult{}, &Failure{Status: 400, Text: err.Error()}
	}
	return RestoreResult{Zxid: 0x600000001, Nodes: 9, Created: 2, ChangedData: 3, ChangedACLs: 4, Deleted: 5, LeftNodes: 6, SkippedNodes: 7}, f.err
}

func (f *fakeOps) Members(context.Context) (view.Members, error) {
	f.asked = "members"
	return f.servers, f.err
}

func (f *fakeOps) ChangeMembers(_ context.Context, c MembersChange) (MembersChanged, error) {
	f.asked, f.changed = "change members", c
	return MembersChanged{Version: 0x400000006, List: testList}, f.err
}

func (f *fakeOps) TransferLeadership(_ context.Context, member uint32) error {
	f.asked = fmt.Sprintf("lead %d", member)
	return f.err
}

func (f *fakeOps) KillSession(_ context.Context, id jute.SessionID, by string) error {
	f.asked, f.id, f.by = "kill", id, by
	return f.err
}
