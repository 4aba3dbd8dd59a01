package member

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rollcall/internal/serverlist"
	"rollcall/operator/clients"
	"rollcall/operator/stateview"
	"rollcall/operator/view"
	"rollcall/proto"
	"rollcall/zk/jute"
)

// maxConcurrentViews limits the concurrent view queries to a member. Each of a few members sends
// view.maxQueries, 8, and a reply takes milliseconds. While the tree's lock or a disk hangs, no more than these
// wait for it.
const maxConcurrentViews = 16

// scannedPerView limits the connections that a reply visits to find the matching ones: some tens of milliseconds.
const scannedPerView = 512 * 128

// viewer serves the members' queries for the view of the ensemble, for services.View.
type viewer struct {
	m         *Member
	viewSlots chan struct{} // a slot for each concurrent query

	collector *view.Collector // queries the members
	slow      *slowRequests

	reportedAddresses *reportedAddresses
}

func newViewer(m *Member) viewer {
	return viewer{
		m: m, viewSlots: make(chan struct{}, maxConcurrentViews), slow: newSlowRequests(m), reportedAddresses: newReportedAddresses(m),
	}
}

// View returns the rows of this member. If ctx ends, it stops and returns no reply.
func (v viewer) View(ctx context.Context, r *proto.ViewRequest) (*proto.ViewReply, error) {
	select {
	case v.viewSlots <- struct{}{}:
		defer func() { <-v.viewSlots }()
	default:
		return nil, status.Errorf(codes.Aborted, "member %d is serving %d queries already", v.m.cfg.ID, maxConcurrentViews)
	}
	if reply := (stateview.Viewer{State: v.m.state}).Reply(ctx, r); reply != nil {
		return reply, ctx.Err()
	}
	reply := &proto.ViewReply{}
	switch about := r.About.(type) {
	case *proto.ViewRequest_Status:
		reply.About = &proto.ViewReply_Status{Status: v.memberStatus()}
	case *proto.ViewRequest_Facts:
		reply.About = &proto.ViewReply_Facts{Facts: v.factRows(ctx, about.Facts)}
	case *proto.ViewRequest_Connections:
		reply.About = &proto.ViewReply_Connections{Connections: v.connectionRows(ctx, about.Connections)}
	case *proto.ViewRequest_Watches:
		reply.About = &proto.ViewReply_Watches{Watches: v.watchRows(ctx, about.Watches)}
	case *proto.ViewRequest_Buckets:
		reply.About = &proto.ViewReply_Buckets{Buckets: v.bucketRows(about.Buckets)}
	case *proto.ViewRequest_Times:
		reply.About = &proto.ViewReply_Times{Times: v.slow.timeRows(about.Times)}
	case *proto.ViewRequest_Slow:
		reply.About = &proto.ViewReply_Slow{Slow: v.slow.slowRows(about.Slow)}
	default:
		return nil, status.Error(codes.Unimplemented, "this version does not know the query")
	}
	return reply, ctx.Err()
}

// rowLimit returns the maximum number of rows in a reply.
func rowLimit(limit uint32) int { return int(min(limit, view.MaxRows)) }

// memberStatus returns the status of this member for operators. While its disk or apply hangs, it neither takes
// the tree's lock nor reads the disk.
func (v viewer) memberStatus() *proto.MemberStatus {
	m := v.m
	if err := m.health.lockWatch.Err(); err != nil { // what follows takes locks
		return &proto.MemberStatus{Member: m.cfg.ID, Stalled: err.Error(), NotServing: err.Error(), Version: m.cfg.Version}
	}
	st := m.server.Stats()
	s := &proto.MemberStatus{
		Member: m.cfg.ID, Disk: uint64(m.node.DiskID()), Role: m.Role(), ClientAddress: m.cfg.clientAddress(),
		Term: m.node.Status().Term(), Leader: m.node.Status().LeaderID(), Applied: m.applyProgress.lastIndex.Load(),
		Committed: m.node.Status().CommitIndex(),
		Sessions:  uint32(st.Sessions), Connections: uint32(st.Connections),
		StateHashes: m.follower.StateHashes(), Version: m.cfg.Version,
		StartedMs: m.wallClock.Now().Add(-time.Since(m.incarnation.startTime)).UnixMilli(),
		ClockMs:   m.wallClock.Now().UnixMilli(), Joining: m.isCatchingUp(),
		Damaged: cmp.Or(m.node.Record().DamageReason(), m.health.disputeReason()), Drained: m.server.Draining(),
		Exposed: m.ports.insecurity(), NoMemory: m.cfg.Memory.IsFull(), Removed: m.removalWatch.removedVersion() != 0,
		Operators: m.cfg.operatorsURL(), WantsVote: m.terms.selfJoin.wantsVote(), Leaves: m.terms.selfJoin.isLeaving(),
	}
	if text, serves := m.Health().StatusText(); !serves {
		s.NotServing = text
	}
	s.MemoryLimit, s.MemoryUsed, _ = m.cfg.Memory.Usage()
	if s.Stalled = m.health.stallReason(); s.Stalled != "" {
		return s
	}
	m.state.RLock()
	s.Zxid, s.Watches = m.state.Zxid(), uint32(m.state.Watches().WatchCount())
	s.DataQuota, s.DataUsed = int64(m.state.Term().DataQuota), m.state.DataUsed()
	m.state.RUnlock()
	if s.Stalled = m.health.diskProblem(); s.Stalled != "" { // reading the directories may hang, too
		return s
	}
	data, log, err := m.node.Disk().Usage()
	index, at, serr := m.node.Snapshots().NewestSnapshot()
	var ferr error
	s.DataFree, s.LogFree, ferr = m.node.Disk().Free()
	if err := errors.Join(err, serr, ferr); err != nil {
		m.log.Warn("the data directory cannot be read", "err", err)
	}
	if s.DataBytes, s.LogBytes, s.SnapshotIndex = data, log, index; !at.IsZero() {
		s.SnapshotMs = at.UnixMilli()
	}
	return s
}

// factsPerYield is the number of sessions between two yields to other goroutines. A page takes a millisecond of
// processor time, for which clients would wait.
const factsPerYield = 64

// factRows returns the facts about sessions that only this member has: their connections here and, if it leads,
// the times of their last touches.
func (v viewer) factRows(ctx context.Context, q *proto.ViewFacts) *proto.FactRows {
	v.m.state.RLock()
	table := v.m.terms.sessionTable
	v.m.state.RUnlock()
	ids := q.Ids[:min(len(q.Ids), view.MaxRows)]
	all, r := make([]proto.FactRow, len(ids)), &proto.FactRows{Rows: make([]*proto.FactRow, 0, len(ids))}
	for i, id := range ids {
		if i%factsPerYield == 0 {
			if runtime.Gosched(); ctx.Err() != nil {
				break
			}
		}
		row := &all[i]
		row.Id = id
		c, watches, carried := v.m.server.Listing().ConnectionOf(jute.SessionID(id))
		if carried {
			row.Connection, row.Watches = newConnectionRow(&c), uint32(watches)
		}
		if table != nil {
			heard, ok := table.LastHeard(jute.SessionID(id), v.m.cfg.Monotonic.Now())
			row.Timed, row.HeardMs, row.LeftMs = ok, uint64(heard.Ago.Milliseconds()), uint64(heard.TimeLeft.Milliseconds())
		}
		if carried || row.Timed {
			r.Rows = append(r.Rows, row)
		}
	}
	return r
}

// bucketRows returns the number of sessions that expire at each time, if this member leads.
func (v viewer) bucketRows(q *proto.ViewBuckets) *proto.BucketRows {
	v.m.state.RLock()
	table := v.m.terms.sessionTable
	v.m.state.RUnlock()
	if table == nil {
		return &proto.BucketRows{}
	}
	buckets, later := table.BucketCounts(v.m.cfg.Monotonic.Now(), rowLimit(q.Limit))
	r := &proto.BucketRows{
		Leads: true, TickMs: uint32(v.m.cfg.Tick.Milliseconds()),
		ClockMs: v.m.wallClock.Now().UnixMilli(), Later: uint32(later),
	}
	for _, b := range buckets {
		r.Rows = append(r.Rows, &proto.BucketRow{DueMs: b.DueIn.Milliseconds(), Sessions: uint32(b.Sessions)})
	}
	return r
}

// connectionRows returns client connections from a number on.
func (v viewer) connectionRows(ctx context.Context, q *proto.ViewConnections) *proto.ConnectionRows {
	r := &proto.ConnectionRows{Incarnation: v.m.incarnation.number, Next: v.pageStart(q.Incarnation, q.First, nil).Connection}
	appendConnections(ctx, v.m.server.Listing().ConnectionsFrom, view.NewClientFilter(string(q.Address)),
		rowLimit(q.Limit), r)
	return r
}

// connectionsPerBatch is the number of connections that a reply reads from the server at a time: as many as the server
// visits under one hold of its lock.
const connectionsPerBatch = 256

// appendConnections adds connections that want matches to r, from r.Next on, until there are limit of them or
// scannedPerView were visited. It sets r.Next to the number at which to continue, or 0 if there are no more.
// from fills a part with connections, and returns the number at which the next part begins, or 0.
func appendConnections(ctx context.Context,
	from func(context.Context, []clients.Connection, uint64) ([]clients.Connection, uint64), want view.ClientFilter,
	limit int, r *proto.ConnectionRows,
) {
	part := make([]clients.Connection, 0, connectionsPerBatch)
	for looked := 0; looked < scannedPerView && ctx.Err() == nil; looked += len(part) {
		part, r.Next = from(ctx, part[:0], r.Next)
		for i := range part {
			switch {
			case !want.Matches(part[i].RemoteAddr):
			case len(r.Rows) == limit:
				r.Next = part[i].Number
				return
			default:
				r.Rows = append(r.Rows, newConnectionRow(&part[i]))
			}
		}
		if r.Next == 0 || len(r.Rows) == limit {
			return
		}
		runtime.Gosched() // clients wait for the processor meanwhile
	}
}

// pageStart returns the start of a page. Connection numbers are valid only for one run.
func (v viewer) pageStart(boot, connection uint64, path []byte) clients.WatchPlace {
	if boot != v.m.incarnation.number {
		return clients.WatchPlace{}
	}
	return clients.WatchPlace{Connection: connection, Path: string(path)}
}

func newConnectionRow(c *clients.Connection) *proto.ConnectionRow {
	return &proto.ConnectionRow{
		Number: c.Number, Address: []byte(c.RemoteAddr), Reading: c.AwaitsRead, Writing: c.AwaitsWrite,
		Queued:   uint32(c.QueuedRequests),
		Received: c.PacketsReceived, Sent: c.PacketsSent, Session: uint64(c.Session),
		TimeoutMs:     uint32(c.Timeout.Milliseconds()),
		EstablishedMs: c.EstablishedAt.UnixMilli(), Replies: c.ReplyCount, Op: int32(c.LastOp), Xid: c.LastXid,
		Zxid:      c.LastZxid,
		RepliedUs: uint64(c.LastReply.Microseconds()), LastUs: uint64(c.LastLatency.Microseconds()),
		MinUs: uint64(c.MinLatency.Microseconds()),
		AvgUs: uint64(c.AvgLatency.Microseconds()), MaxUs: uint64(c.MaxLatency.Microseconds()),
		ExpiresMs: c.ExpiresAt.UnixMilli(), Tls: c.TLS, Cipher: c.Cipher,
		RecentRequests: c.Recent.Requests, RecentBytes: c.Recent.Bytes,
		RecentMs: uint32(max(1, c.Recent.Span.Milliseconds())),
	}
}

// watchRows returns the watches that cover a path, or a session's watches.
func (v viewer) watchRows(ctx context.Context, q *proto.ViewWatches) *proto.WatchRows {
	page := make([]clients.Watch, 0, rowLimit(q.Limit))
	var next clients.WatchPlace
	if len(q.Path) > 0 {
		page, next = v.m.server.Listing().WatchersFrom(ctx, page, string(q.Path), v.pageStart(q.Incarnation, q.First, q.FirstPath))
	} else {
		page, next.Path = v.m.server.Listing().WatchesFrom(ctx, page, jute.SessionID(q.Session), string(q.FirstPath))
	}
	r := &proto.WatchRows{Incarnation: v.m.incarnation.number}
	size := 0
	for _, w := range page {
		if size += len(w.Path); size > view.MaxBytes && len(r.Rows) > 0 {
			next = clients.WatchPlace{Connection: w.ConnectionNumber, Path: w.Path}
			break
		}
		r.Rows = append(r.Rows, &proto.WatchRow{
			Connection: w.ConnectionNumber, Session: uint64(w.Session), Path: []byte(w.Path),
			Data: w.Data, Children: w.Children, Persistent: w.Persistent, Recursive: w.Recursive,
		})
	}
	r.Next, r.NextPath = next.Connection, []byte(next.Path)
	return r
}

// viewPeer implements view.Peer: it queries a member, over gRPC or, for this member, directly.
type viewPeer func(context.Context, *proto.ViewRequest) (*proto.ViewReply, error)

// remoteView returns the viewPeer of a member over gRPC.
func remoteView(p *peerConns, id uint32) viewPeer {
	return func(ctx context.Context, r *proto.ViewRequest) (*proto.ViewReply, error) {
		c, err := p.followerClient(id)
		if err != nil {
			return nil, err
		}
		return c.View(ctx, r, grpc.MaxCallRecvMsgSize(view.MaxReply))
	}
}

// View implements view.Peer.
func (ask viewPeer) View(ctx context.Context, r *proto.ViewRequest) (*proto.ViewReply, error) {
	reply, err := ask(ctx, r)
	switch status.Code(err) {
	case codes.OK:
		return reply, nil
	case codes.Aborted:
		return nil, fmt.Errorf("%w: %w", view.ErrBusy, err)
	case codes.ResourceExhausted: // gRPC's own, from MaxCallRecvMsgSize
		return nil, fmt.Errorf("%w: %w", view.ErrTooLong, err)
	case codes.Unavailable:
		return nil, unreachableError(err)
	}
	return nil, err
}

// unreachableError returns the error of an unreachable member, without gRPC's text around the reason.
func unreachableError(err error) error {
	text := status.Convert(err).Message()
	if _, reason, ok := strings.Cut(text, "Error while dialing: "); ok {
		text = strings.TrimSuffix(reason, `"`)
	}
	return errors.New(text)
}

// viewMembers returns the members for operators' queries: the members of the list and of raft's configuration,
// and this one.
func (v viewer) viewMembers() []view.Member {
	m := v.m
	all := map[uint32]view.Member{m.cfg.ID: {}}
	for _, s := range m.serverLists.currentList() {
		all[s.ID] = view.Member{}
	}
	for _, s := range m.node.Status().ConfiguredMembers() {
		all[s.ID] = view.Member{}
	}
	members := make([]view.Member, 0, len(all))
	for id := range all {
		var peer view.Peer = rememberedPeer{remoteView(m.peerConns, id), id, m.helloClient.lastWords}
		if id == m.cfg.ID {
			peer = viewPeer(v.View) // nothing is encoded and decoded
		}
		at, _ := m.serverLists.addressesOf(id)
		members = append(members, view.Member{ID: id, QuorumAddress: at.GrpcAddr, ElectionAddress: at.RaftAddr, Peer: peer, Advice: v.reportedAddresses.adviceFor(id)})
	}
	return members
}

func (v viewer) newCollector() (*view.Collector, error) {
	m := v.m
	return view.New(view.Config{
		Self: m.cfg.ID, Members: v.viewMembers, ServerList: v.ensembleView,
		Leader:   func() uint32 { return m.node.Status().LeaderID() },
		Deadline: min(m.cfg.Tick, view.MaxDeadline), Now: m.wallClock.Now,
	})
}

// View returns the view of the whole ensemble from this member, for operators. It is usable during Run.
func (m *Member) View() *view.Collector { return m.viewer.collector }

// clientAddress returns the plain client address, or else the one for TLS, or "".
func (c *Config) clientAddress() string {
	for _, l := range []net.Listener{c.ClientListener, c.SecureListener} {
		if l != nil {
			return l.Addr().String()
		}
	}
	return ""
}

// operatorsURL returns this member's URL for operators, or "".
func (c *Config) operatorsURL() string {
	if c.OperatorListener == nil {
		return ""
	}
	addr, ok := c.OperatorListener.Addr().(*net.TCPAddr)
	switch {
	case !ok || addr.Zone != "": // of a test, or one that no URL can name
		return ""
	case c.HTTP.ForceHTTPS:
		return "https://" + addr.String()
	}
	return "http://" + addr.String()
}

// ensembleView returns this member's server list and raft configuration.
func (v viewer) ensembleView() view.Ensemble {
	m := v.m
	e := view.Ensemble{List: m.serverLists.currentList()}
	for _, s := range m.node.Status().ConfiguredMembers() {
		e.RaftServers = append(e.RaftServers,
			view.RaftServer{MemberID: s.ID, DiskID: uint64(s.DiskID), ElectionAddress: s.Addr, IsVoter: !s.Observer})
	}
	switch r := m.serverLists.appliedList.Load(); {
	case r != nil:
		e.ID, e.Version = hex.EncodeToString(r.EnsembleID[:]), r.Version
	case len(e.List) == 0:
		e.List = serverlist.List{standaloneServer(m.cfg.ownServer())}
	}
	return e
}
