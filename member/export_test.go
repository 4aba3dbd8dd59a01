package member

import (
	"context"
	"net"

	"rollcall/internal/metrics"
	"rollcall/operator/admin"
	"rollcall/operator/subtree"
	"rollcall/proto"
	"rollcall/znode"
)

// Loopback is a listener in memory.
type Loopback struct{ *loopback }

// NewLoopback returns a listener that nobody has dialed yet.
func NewLoopback() *Loopback { return &Loopback{newLoopback(1)} }

// Dial returns a connection to the listener.
func (l *Loopback) Dial(ctx context.Context) (net.Conn, error) { return l.dial(ctx) }

// EndTerm ends the term that this member leads, if it does, as a refused proposal would: raft still
// leads.
func (m *Member) EndTerm() {
	m.terms.mu.Lock()
	end := m.terms.cancelTerm
	m.terms.mu.Unlock()
	if end != nil {
		end()
	}
}

// HandOverTo makes raft hand leadership over to a member.
func (m *Member) HandOverTo(ctx context.Context, id uint32) error {
	return m.node.Transfer().ToMember(ctx, id)
}

// Leading reports whether raft leads here.
func (m *Member) Leading() bool { return m.node.Status().IsLeader() }

// StallSlowly ends the present term as stallLoop does, but with a pause between reading the term
// and ending it.
func (m *Member) StallSlowly(pause func()) {
	m.terms.mu.Lock()
	retired := m.terms.cancelTerm
	m.terms.cancelTerm = func() { retired(); pause() }
	m.terms.mu.Unlock()
	m.terms.abandonTerm()
}

// Over returns a member that has only a state.
func Over(state *znode.State) *Member {
	m := &Member{state: state}
	m.viewer = newViewer(m)
	return m
}

// Answer returns what a member answers to a question of the view.
func (m *Member) Answer(ctx context.Context, r *proto.ViewRequest) (*proto.ViewReply, error) {
	return m.viewer.View(ctx, r)
}

// Operations returns what the endpoints under /v1/ ask.
func (m *Member) Operations() admin.Operations { return operations{m.viewer.collector, m} }

// Inside returns the super user inside the member.
func (m *Member) Inside() subtree.NodeClient { return newInternalClient(m, "") }

// MinFormat returns the lowest format that members have announced, which this member uses when it
// leads.
func (m *Member) MinFormat() uint32 { return m.applyProgress.minFormat.Load() }

// FormatOf returns the format of the entries of a leader that knows of members with lowest.
func FormatOf(lowest uint32) uint32 {
	var m Member
	m.applyProgress.minFormat.Store(lowest)
	return (&terms{m: &m}).entryFormat()
}

// Tracked returns how many sessions are in the table of the term that this member leads.
func (m *Member) Tracked() int {
	m.state.RLock()
	defer m.state.RUnlock()
	return m.terms.sessionTable.Len()
}

// Shown returns the metrics that the member gives to the commands.
func (m *Member) Shown() admin.Stats { return source{m}.Stats() }

// CountPause counts a late step of a leader.
func (m *Member) CountPause() { m.terms.counters.Pauses.Add(1) }

// Break makes the member's state damaged.
func (m *Member) Break(why string) { m.health.reportDamage(why) }

// NativeMetrics returns the metrics that only Prometheus gets.
func (m *Member) NativeMetrics() []metrics.Native { return source{m}.NativeMetrics() }

// NoHooks is the Config.Hooks of a member that nobody else observes.
type NoHooks = noHooks

// Caller is a process that asks to come into the ensemble.
type Caller struct {
	ID        uint32
	Proved    bool
	IsCommand bool // it has no disk
	Ensemble  [32]byte
}

// AskToCome sends a member, which leads, a request to come in with a server line.
func AskToCome(ctx context.Context, m *Member, from Caller, line string) error {
	caller := peerInfo{member: from.ID, disk: 7, remoteAddr: "elsewhere:1", proved: from.Proved}
	if from.IsCommand {
		caller.disk = 0
	}
	_, err := m.terms.joinRequests.add(ctx, caller, &proto.HelloRequest{Member: from.ID, Join: true, Line: line, Ensemble: from.Ensemble[:]})
	return err
}

// BeginLeaving has a member store that it leaves by itself.
func BeginLeaving(m *Member) error {
	_, err := m.terms.selfJoin.beginLeaving()
	return err
}

// IsLeaving reports whether a member leaves by itself.
func IsLeaving(m *Member) bool { return m.terms.selfJoin.isLeaving() }
