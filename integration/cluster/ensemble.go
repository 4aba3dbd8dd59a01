// Package cluster runs whole ensembles in one process, for tests. Raft, gRPC and the members (made
// by member.New) are real; only the network, the disks and the clocks are those of package simulated. In a
// testing/synctest bubble, a minute with an election in it takes a fraction of a second.
//
//   - Ensemble: runs members, breaks and repairs them for a test, and connects clients. It can add and remove members.
//   - Clock: wall clocks.
//   - Gate: a leader's entries on their way to the log.
//   - Plan: a list of faults with times, which can be printed and replayed from the printed text.
//   - Client: a session, kept as a ZooKeeper client keeps it.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/config"
	"rollcall/integration/wire"
	"rollcall/internal/serverlist"
	"rollcall/lab/simulated"
	"rollcall/leader"
	"rollcall/member"
	"rollcall/operator/api"
	"rollcall/quorum/disk"
	quorumwire "rollcall/quorum/wire"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// Options are the settings of an Ensemble. The zero value is the server of the conformance cases: a
// tick of 1 s, session timeouts of 2 to 20 s, super:secret, and TTL nodes.
type Options struct {
	Tick      time.Duration                    // a leader may be silent for a quarter of it
	Logger    func(member uint32) *slog.Logger // default: discard
	Events    func(e member.Event)
	Adjust    func(cfg *member.Config)   // changes each member's configuration after all other options
	Write     time.Duration              // how long a write takes on each disk; default: no time
	Speeds    *rand.Rand                 // draws for each disk how long a write takes on it, up to Write; default: all take as long
	Record    bool                       // record a history; see Ensemble.History
	Linear    bool                       // every read is linearizable
	Reconfig  bool                       // clients may change the list of members
	HTTP      bool                       // each member serves HTTP for operators; see Ensemble.Operator
	Observers int                        // how many members are observers: those with the highest ids
	Disks     map[uint32]*simulated.Disk // with which members begin; default: empty ones
}

// Ensemble is some members and their network. Use it from one goroutine, in a bubble.
type Ensemble struct {
	Network *simulated.Network

	t          *testing.T
	ctx        context.Context
	opts       Options
	members    map[uint32]*memberRun // all that there have been
	first      serverlist.List       // with which it begins
	clients    []*Client
	delays     delays
	record     *historyRecord
	exits      []string        // members that ended by themselves, with the reasons
	endedStats member.Stats    // Resent and Dropped of runs that have ended
	outruns    int             // see Outruns
	blackouts  int             // see Blackouts
	strays     int             // see Strays
	unsaved    int             // see UnsavedCount
	drained    atomic.Uint64   // connections of clients that drained members have closed
	ghosts     []chan struct{} // done of members that were killed and whose goroutines have not all ended
}

// memberRun is one member. Its stores outlive each run of it, as disks do.
type memberRun struct {
	self      member.Server   // its addresses
	moves     int             // how often they have changed
	list      []member.Server // the server list with which it starts
	disk      *simulated.Disk
	clock     *Clock
	monotonic *simulated.Monotonic
	gate      *Gate
	stores    disk.Stores // disk, as the current run sees it
	member    *member.Member
	stop      context.CancelFunc
	done      chan struct{} // closed when the run has ended; nil while the member is down
	run       *processRun
	seen      *memberWitness // of the current run
	booted    time.Time
	boots     atomic.Int64 // how often it was started
	again     bool         // its disk kept it from starting, and Restart tries again
	away      bool         // its machine stays away after a blackout
	leaves    bool         // its stop has begun, and nothing has waited for the end yet
	hung      []uint32     // the hosts to which its links hang while it is paused
}

// processRun is one run of a member: the error with which it ended, and whether its host was killed before. Such a run is a
// ghost when it ends: its host may have been started again.
type processRun struct {
	err     error
	crashed atomic.Bool
}

// longestRun limits the virtual time of an ensemble: a test that waits in vain fails, and names itself, instead of running on until the limit
// of its package. No test takes ten minutes.
const longestRun = 2 * time.Hour

// Start runs members 1 to n and stops them when the test ends. It does not wait until
// they serve.
func Start(t *testing.T, n int, opts Options) *Ensemble {
	t.Helper()
	opts.Tick = cmp.Or(opts.Tick, time.Second)
	ctx, cancel := context.WithCancel(context.Background())
	e := &Ensemble{Network: simulated.NewNetwork(), t: t, ctx: ctx, opts: opts, members: make(map[uint32]*memberRun), record: &historyRecord{start: time.Now()}}
	e.delays.drawn, e.delays.slowed = map[[2]uint32]time.Duration{}, map[[2]uint32]time.Duration{}
	list := serverLines(uint32(n))
	for i := range list {
		list[i].Observer = i >= n-opts.Observers
	}
	for _, s := range list {
		e.members[s.ID] = e.newMember(s, list)
		if d := opts.Disks[s.ID]; d != nil {
			d.SetLatency(e.members[s.ID].disk.Latency())
			e.members[s.ID].disk = d
		}
		e.first = append(e.first, serverlist.Server{ID: s.ID, Host: hostName(s.ID, 0), QuorumPort: 2888, ElectionPort: 3888, Observer: s.Observer})
	}
	if opts.Record {
		var err error
		if e.record, err = newRecord(opts.Tick, e.IDs(), opts.Linear); err != nil {
			t.Fatal(err)
		}
	}
	endless := time.AfterFunc(longestRun, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("cluster: %s has run for %v of virtual time", t.Name(), longestRun))
	})
	t.Cleanup(func() {
		endless.Stop()
		for _, c := range e.clients {
			c.Abandon()
		}
		for _, id := range e.IDs() {
			if e.members[id].leaves {
				_ = e.stopMember(id)
			}
			e.crashMember(id, nil)
		}
		for _, g := range e.ghosts {
			<-g
		}
		cancel()
		e.Network.Close()
	})
	for _, id := range e.IDs() {
		e.Boot(id)
	}
	return e
}

func (e *Ensemble) newMember(self member.Server, list []member.Server) *memberRun {
	r := &memberRun{self: self, list: list, disk: simulated.NewDisk(), clock: newClock(), monotonic: simulated.NewMonotonic(), gate: new(Gate)}
	if latency := e.opts.Write; e.opts.Speeds == nil {
		r.disk.SetLatency(latency)
	} else {
		r.disk.SetLatency(time.Duration(1 + e.opts.Speeds.Int64N(int64(latency))))
	}
	return r
}

// serverLine returns the line of a member that has changed its addresses so many times.
func serverLine(id uint32, moves int) member.Server {
	return member.Server{ID: id, GrpcAddr: hostName(id, moves) + ":2888", RaftAddr: hostName(id, moves) + ":3888"}
}

func hostName(id uint32, moves int) string {
	if moves == 0 {
		return fmt.Sprintf("m%d", id)
	}
	return fmt.Sprintf("m%d-%d", id, moves)
}

// IDs returns the ids of all members that there have been, in order.
func (e *Ensemble) IDs() []uint32 { return slices.Sorted(maps.Keys(e.members)) }

// Boot starts a member that is down, with the stores that it had.
func (e *Ensemble) Boot(id uint32) {
	e.t.Helper()
	if err := e.tryBoot(id); err != nil {
		e.t.Fatal(err)
	}
}

// bootOrRetry does what Boot does. If the member's disk keeps it from starting, Restart tries again.
func (e *Ensemble) bootOrRetry(id uint32) {
	e.t.Helper()
	err := e.tryBoot(id)
	e.members[id].again = err != nil
	switch {
	case err == nil:
	case errors.Is(err, simulated.ErrIO), errors.Is(err, simulated.ErrFull):
		e.exits = append(e.exits, err.Error())
		e.crashMember(id, nil)
	default:
		e.t.Fatal(err)
	}
}

// tryBoot starts a member that is down. It returns the error with which the member has not started.
func (e *Ensemble) tryBoot(id uint32) error {
	e.t.Helper()
	r := e.members[id]
	if r.done != nil {
		e.t.Fatalf("cluster: member %d runs already, or has ended and Restart was not called", id)
	}
	r.boots.Add(1)
	host := e.Network.Revive(id)
	clients, err := host.Listen(clientAddr(id))
	if err != nil {
		e.t.Fatal(err)
	}
	r.stores = r.disk.Mount()
	r.monotonic.Resume() // a pause was another process's
	cfg := e.memberConfig(id, host, clients)
	witness := e.record.installHooks(&cfg)
	var m *member.Member
	labels := pprof.Labels("member", fmt.Sprint(id)) // so that a profile tells the members apart
	pprof.Do(context.Background(), labels, func(context.Context) { m, err = member.New(cfg) })
	if err != nil {
		return fmt.Errorf("cluster: member %d: %w", id, err)
	}
	witness.state = m.State()
	e.record.noteUp(id)
	ctx, stop := context.WithCancel(context.Background()) // the end of the test crashes it
	r.member, r.stop, r.done, r.run, r.seen, r.leaves, r.booted = m, stop, make(chan struct{}), new(processRun), witness, false, time.Now()
	done, result := r.done, r.run
	go func() {
		defer close(done)
		pprof.Do(ctx, labels, func(ctx context.Context) { result.err = m.Run(ctx) })
		if ctx.Err() == nil && !result.crashed.Load() { // the process is gone, and so are its connections
			e.record.noteDown(id)
			e.Network.Kill(id)
		}
	}()
	return nil
}

// readLeaseMs returns the leases for reads that leaders grant, in milliseconds: of a twentieth of a tick, if reads are linearizable.
func (e *Ensemble) readLeaseMs() uint64 {
	if !e.opts.Linear {
		return 0
	}
	return uint64(max(1, e.opts.Tick.Milliseconds()/20))
}

func (e *Ensemble) memberConfig(id uint32, host *simulated.Host, clients net.Listener) member.Config {
	cfg := member.Config{
		EnsembleText: e.configText(id),
		Settings: config.Settings{
			Tick: e.opts.Tick, HeartbeatTimeout: e.opts.Tick / 4, MinTimeout: 2 * e.opts.Tick, MaxTimeout: 20 * e.opts.Tick,
			SuperDigest: "super:lK75jTNcA+U9vtVEw5vB51mj/w4=", CommandWhitelist: []string{"*"},
			LinearizableReads: e.opts.Linear, Rules: znode.Rules{TTLNodes: true, Reconfig: e.opts.Reconfig, ReadLeaseMs: e.readLeaseMs()},
		}.WithDefaults(),
		ID: id, Servers: e.members[id].list, Stores: &e.members[id].stores, ClientListener: clients,
		Network: member.Network{Listen: host.Listen, Dial: host.Dial, Lookup: simulated.NoAddress},
		Now:     e.members[id].clock.Now, Monotonic: e.members[id].monotonic, OnEvent: e.opts.Events,
		WrapLog: func(l leader.Log) leader.Log { return gatedLog{l, e.members[id].gate} },
	}
	if e.opts.HTTP {
		l, err := host.Listen(httpAddr(id))
		if err != nil {
			e.t.Fatal(err)
		}
		cfg.OperatorListener = l
	}
	if e.opts.Logger != nil {
		cfg.Logger = e.opts.Logger(id)
	}
	if e.opts.Adjust != nil {
		e.opts.Adjust(&cfg)
	}
	return cfg
}

// configText returns the list that a member's configuration has. A standalone server has none. If clients may change the list,
// one member is an ensemble of one.
func (e *Ensemble) configText(id uint32) []byte {
	r := e.members[id]
	if len(r.list) == 1 && !e.opts.Reconfig {
		return nil
	}
	var list serverlist.List
	for _, s := range r.list {
		h, _, _ := strings.Cut(s.GrpcAddr, ":")
		list = append(list, serverlist.Server{ID: s.ID, Host: h, QuorumPort: 2888, ElectionPort: 3888, Observer: s.Observer, ClientHost: hostName(s.ID, 0), ClientPort: 2181})
	}
	slices.SortFunc(list, func(a, b serverlist.Server) int { return int(a.ID) - int(b.ID) })
	return []byte(list.ConfigText(0))
}

func clientAddr(id uint32) string { return fmt.Sprintf("m%d:2181", id) }
func httpAddr(id uint32) string   { return fmt.Sprintf("m%d:8080", id) }

// Operator returns a client of a member's HTTP, with the credentials of super. The member takes it for
// one on its own machine. Options.HTTP must be set.
func (e *Ensemble) Operator(id uint32) *api.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return e.Network.Dial(ctx, 0, httpAddr(id))
	}
	return &api.Client{
		BaseURL: "http://localhost", Authorization: "digest super:secret",
		HTTPClient: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}},
	}
}

// Linear reports whether every read is linearizable.
func (e *Ensemble) Linear() bool { return e.opts.Linear }

// Kill ends a member as a crash would: nothing that its goroutines still do has any effect.
func (e *Ensemble) Kill(id uint32) { e.KillTorn(id, nil) }

// KillTorn does what Kill does; rng decides what is left of the disk's writes in progress.
func (e *Ensemble) KillTorn(id uint32, rng *rand.Rand) {
	e.crashMember(id, rng)
	for _, g := range e.ghosts {
		<-g
	}
	e.ghosts = nil
}

// crashMember kills a member without waiting for its goroutines to end, since they have no effect any
// more.
func (e *Ensemble) crashMember(id uint32, rng *rand.Rand) {
	e.Network.Kill(id)
	r := e.members[id]
	r.gate.Release()
	r.disk.Crash(rng)
	if r.done == nil {
		return
	}
	r.run.crashed.Store(true)
	if e.Running(id) {
		e.record.noteDown(id)
	}
	addStats(&e.endedStats, r.member)
	r.seen.gone.Store(true)
	if stop := r.stop; len(e.members) == 1 {
		stop()
	} else {
		time.AfterFunc(e.opts.Tick, stop) // by then, cut off, it no longer leads, so it hands nothing over
	}
	e.ghosts = append(e.ghosts, r.done)
	r.done, r.member = nil, nil
}

// addStats adds Resent and Dropped of a run to a sum.
func addStats(sum *member.Stats, m *member.Member) {
	s := m.Stats()
	sum.ResentTxns += s.ResentTxns
	sum.DroppedTxns += s.DroppedTxns
}

// Stats returns Resent and Dropped of all members, summed over all their runs.
func (e *Ensemble) Stats() member.Stats {
	sum := e.endedStats
	for _, r := range e.members {
		if r.done != nil {
			addStats(&sum, r.member)
		}
	}
	return sum
}

// Stop ends a member gracefully. The test fails if the member returns an error.
func (e *Ensemble) Stop(id uint32) {
	e.t.Helper()
	if err := e.stopMember(id); err != nil {
		e.t.Errorf("cluster: member %d stopped with: %v", id, err)
	}
}

// stopSoon begins the stop of a member, and does not wait for its end.
func (e *Ensemble) stopSoon(id uint32) {
	e.members[id].leaves = true
	e.record.noteDown(id) // earlier than it really is
	e.members[id].stop()
}

func (e *Ensemble) stopMember(id uint32) error {
	r := e.members[id]
	if r.done == nil {
		return nil
	}
	r.gate.Release()
	r.stop()
	<-r.done
	addStats(&e.endedStats, r.member)
	r.disk.Crash(nil) // writes that still hang there have no effect any more
	r.done, r.member = nil, nil
	return r.run.err
}

// Exited returns the reason why a member has ended by itself, or nil if it has not. Restart starts
// it again, as a service manager would.
func (e *Ensemble) Exited(id uint32) error {
	if r := e.members[id]; r.done != nil && !r.leaves && isClosed(r.done) {
		return cmp.Or(r.run.err, errEnded)
	}
	return nil
}

var errEnded = errors.New("cluster: member ended without an error")

// Restart boots the members that have ended by themselves, and those that could not start.
func (e *Ensemble) Restart() {
	e.t.Helper()
	for _, id := range e.IDs() {
		switch err := e.Exited(id); {
		case err != nil:
			e.exits = append(e.exits, fmt.Sprintf("member %d: %v", id, err))
			e.crashMember(id, nil)
			e.bootOrRetry(id)
		case e.members[id].again && e.members[id].done == nil && !e.members[id].away:
			e.bootOrRetry(id)
		}
	}
}

// Drained returns the number of clients' connections that drained members have closed.
func (e *Ensemble) Drained() uint64 { return e.drained.Load() }

// Exits returns the members that ended by themselves and were restarted, with the reasons.
func (e *Ensemble) Exits() []string { return e.exits }

// Disk returns a member's disk.
func (e *Ensemble) Disk(id uint32) *simulated.Disk { return e.members[id].disk }

// Clock returns a member's wall clock.
func (e *Ensemble) Clock(id uint32) *Clock { return e.members[id].clock }

// Gate returns the gate through which a member's entries pass on their way to its log.
func (e *Ensemble) Gate(id uint32) *Gate { return e.members[id].gate }

// Pause makes a member appear paused to everything outside. Until Resume, nothing that it sends
// arrives, nothing that is sent to it arrives, and its disk accepts no writes. Inside, the timers of
// its clock do not fire (see Monotonic). Those of raft and of its connections do, because a goroutine
// in a bubble cannot be stopped.
func (e *Ensemble) Pause(id uint32) {
	e.members[id].monotonic.Pause()
	e.Disk(id).Stall()
	e.members[id].hung = append(e.IDs(), 0)
	e.links(id, e.Network.Hang)
}

// Resume ends Pause.
func (e *Ensemble) Resume(id uint32) {
	e.links(id, e.Network.EndHang)
	e.Disk(id).Release()
	e.members[id].monotonic.Resume()
}

// links calls do for each direction between a host and all others when it was paused, including the clients' host.
func (e *Ensemble) links(id uint32, do func(from, to uint32)) {
	for _, other := range e.members[id].hung { // a member that has come in meanwhile is not among them
		if other != id {
			do(id, other)
			do(other, id)
		}
	}
}

// Isolate cuts a member off from the other members, but not from clients.
func (e *Ensemble) Isolate(id uint32) { e.others(id, e.Network.Cut) }

// Rejoin ends Isolate.
func (e *Ensemble) Rejoin(id uint32) { e.others(id, e.Network.Heal) }

func (e *Ensemble) others(id uint32, do func(a, b uint32)) {
	for _, other := range e.IDs() {
		if other != id {
			do(id, other)
		}
	}
}

// ResetForwarding breaks the connection on which a follower forwards writes and syncs to a leader.
// Replication between them continues.
func (e *Ensemble) ResetForwarding(follower, leader uint32) {
	e.Network.Reset(follower, e.addr(leader, GRPCPort))
}

// Forwards reports whether a follower has a connection on which it forwards writes to a leader.
func (e *Ensemble) Forwards(follower, leader uint32) bool {
	return e.Network.Connected(follower, e.addr(leader, GRPCPort))
}

// OrphanForwarding takes that connection away from the follower only. The leader still reads, late,
// what was sent on it, while the follower has a newer connection or is dead.
func (e *Ensemble) OrphanForwarding(follower, leader uint32, late time.Duration) {
	e.Network.Orphan(follower, e.addr(leader, GRPCPort), late)
}

// Port is one of the two ports that a member has for the others.
type Port int

// These are the ports: gRPC's for pings, proofs and writes, and raft's for the log and elections.
const (
	GRPCPort Port = 1 << iota
	RaftPort
)

// Ways say in which ways a port is shut.
type Ways int

// These are the ways. In and Out may be combined, and Silent with either.
const (
	In     Ways = 1 << iota // the others cannot reach the member's port
	Out                     // the member cannot reach that port of the others
	Silent                  // connections are not refused: existing ones are dead, and attempts to make new ones wait
)

// Shut separates a member from the others on one port, until Unshut.
func (e *Ensemble) Shut(id uint32, port Port, ways Ways) {
	e.ways(id, port, ways, e.Network.Block, e.Network.Drop)
}

// Unshut ends a Shut of the same port and ways.
func (e *Ensemble) Unshut(id uint32, port Port, ways Ways) {
	e.ways(id, port, ways, e.Network.Unblock, e.Network.EndDrop)
}

func (e *Ensemble) ways(id uint32, port Port, ways Ways, loud, silent func(from uint32, addr string)) {
	do := loud
	if ways&Silent != 0 {
		do = silent
	}
	e.others(id, func(id, other uint32) {
		if ways&In != 0 {
			do(other, e.addr(id, port))
		}
		if ways&Out != 0 {
			do(id, e.addr(other, port))
		}
	})
}

// ForgetFlows makes the connections that one member has opened to the ports of another one dead.
func (e *Ensemble) ForgetFlows(from, to uint32, ports Port) {
	for _, port := range []Port{GRPCPort, RaftPort} {
		if ports&port != 0 {
			e.Network.Forget(from, e.addr(to, port))
		}
	}
}

func (e *Ensemble) addr(id uint32, port Port) string {
	if port == RaftPort {
		return e.members[id].self.RaftAddr
	}
	return e.members[id].self.GrpcAddr
}

// BlockLog keeps a leader's log from reaching a follower. Everything else keeps working.
func (e *Ensemble) BlockLog(leader, follower uint32) {
	e.Network.Block(leader, e.addr(follower, RaftPort))
}

// UnblockLog ends BlockLog.
func (e *Ensemble) UnblockLog(leader, follower uint32) {
	e.Network.Unblock(leader, e.addr(follower, RaftPort))
}

// Wipe gives empty disks to a member that is down.
func (e *Ensemble) Wipe(id uint32) {
	e.t.Helper()
	if e.Running(id) {
		e.t.Fatalf("cluster: member %d runs", id)
	}
	e.Disk(id).Wipe()
}

// Running reports whether a member has been started and has not ended.
func (e *Ensemble) Running(id uint32) bool {
	r := e.members[id]
	return r != nil && r.done != nil && !r.leaves && e.Exited(id) == nil
}

// Booted returns when a running member was started.
func (e *Ensemble) Booted(id uint32) time.Time { return e.members[id].booted }

// Member returns a running member.
func (e *Ensemble) Member(id uint32) *member.Member { return e.members[id].member }

// Wait checks a condition every tenth of a tick and fails the test after limit.
func (e *Ensemble) Wait(what string, limit time.Duration, ok func() bool) {
	e.t.Helper()
	for end := time.Now().Add(limit); !ok(); {
		if time.Now().After(end) {
			e.report()
			e.t.Fatalf("cluster: waited %v for %s", limit, what)
		}
		time.Sleep(e.opts.Tick / 10)
	}
}

// report logs what each running member knows, for a test that has failed.
func (e *Ensemble) report() {
	e.t.Helper()
	for _, id := range e.IDs() {
		if e.Running(id) {
			list, version := e.listOf(id)
			m := e.Member(id)
			e.t.Logf("member %d: role %q, joining %t, index %d, list %x %q, configuration %v", id, m.Role(), m.IsJoining(), index(m.State()), version, list.CanonicalLines(), m.RaftConfiguration())
		}
	}
}

// Ready waits until every running member that is not damaged serves, and each disk has the vote that the list
// wants for it, and returns the leader. Here and below, members that have been removed do not count.
func (e *Ensemble) Ready() uint32 {
	e.t.Helper()
	e.Wait("every member to serve", 60*e.opts.Tick, func() bool {
		return !slices.ContainsFunc(e.Members(), func(id uint32) bool { return e.Running(id) && !(e.serves(id) && e.votes(id)) })
	})
	return e.Leader()
}

// Healed does what Ready does, but requires that all members run: it restarts those that end
// meanwhile. A member whose disk has failed may still be stopping when the faults are over.
func (e *Ensemble) Healed() uint32 {
	e.t.Helper()
	e.Wait("every member to run and to serve", 60*e.opts.Tick, func() bool {
		e.Restart()
		return !slices.ContainsFunc(e.Members(), func(id uint32) bool { return !e.Running(id) || !e.serves(id) })
	})
	return e.Leader()
}

// serves reports whether a running member serves all clients, or need not serve because it is damaged.
func (e *Ensemble) serves(id uint32) bool {
	role := e.Member(id).Role()
	return e.Member(id).DamageReason() != "" || role != "" && role != api.RoleReadOnly
}

// votes reports whether a member's disk has the vote that the newest list wants for it, as far as the member knows. An ensemble
// serves before all of its disks vote, and then fewer may be lost.
func (e *Ensemble) votes(id uint32) bool {
	own := e.Member(id).DiskID()
	return e.isObserver(id) || slices.ContainsFunc(e.Member(id).RaftConfiguration(), func(p quorumwire.Peer) bool { return p.ID == id && p.DiskID == own && !p.Observer })
}

// Joined waits until every running member takes part in elections, also if it loses its leader.
func (e *Ensemble) Joined() {
	e.t.Helper()
	e.Wait("every member to take part in elections", 60*e.opts.Tick, func() bool {
		return !slices.ContainsFunc(e.Members(), func(id uint32) bool { return e.Running(id) && (!e.Member(id).HasJoined() || !e.votes(id)) })
	})
}

// Leader waits until exactly one running member leads, and returns it.
func (e *Ensemble) Leader() uint32 {
	e.t.Helper()
	var leader uint32
	e.Wait("a leader", 60*e.opts.Tick, func() bool {
		leader = 0
		for _, id := range e.Members() {
			if !e.Running(id) {
				continue
			}
			if r := e.Member(id).Role(); r == "leader" || r == "standalone" {
				if leader != 0 {
					return false
				}
				leader = id
			}
		}
		return leader != 0
	})
	return leader
}

// Followers returns the running members other than the leader.
func (e *Ensemble) Followers() []uint32 {
	e.t.Helper()
	leader := e.Leader()
	return slices.DeleteFunc(e.Members(), func(id uint32) bool { return id == leader || !e.Running(id) })
}

// Equal waits until all running members have applied the same log, and compares their states:
// nodes, sessions and cursors. What can happen without time passing has happened before, such as the proposal of an
// entry that a Gate has released.
func (e *Ensemble) Equal() {
	e.t.Helper()
	synctest.Wait()
	var diff string
	e.Wait("all members to catch up", 60*e.opts.Tick, func() (settled bool) {
		var states []*znode.State
		for _, id := range e.Members() {
			if e.Running(id) {
				states = append(states, e.Member(id).State())
			}
		}
		diff, settled = compare(states, znode.Diff)
		return settled
	})
	if diff != "" {
		e.t.Fatalf("cluster: members differ: %s", diff)
	}
}

// compare returns the differences between states, and whether the comparison is valid. It is not if
// one state has applied more than another, or if an entry was applied between reading two of them.
func compare(states []*znode.State, diff func(a, b *znode.State) string) (how string, settled bool) {
	at := index(states[0])
	together := func() bool {
		return !slices.ContainsFunc(states, func(s *znode.State) bool { return index(s) != at })
	}
	if !together() {
		return "", false
	}
	for _, s := range states[1:] {
		if how = diff(states[0], s); how != "" {
			break
		}
	}
	return how, together()
}

func index(s *znode.State) uint64 {
	s.RLock()
	defer s.RUnlock()
	return s.Index()
}

// Dial opens a raw client connection to a member.
func (e *Ensemble) Dial(id uint32) (*wire.Conn, error) {
	return e.dialMember(e.ctx, id)
}

func (e *Ensemble) dialMember(ctx context.Context, id uint32) (*wire.Conn, error) {
	c, err := e.Network.Dial(ctx, 0, clientAddr(id))
	if err != nil {
		return nil, err
	}
	return wire.New(c), nil
}

// Open opens a raw connection with a new session. The test fails if that fails.
func (e *Ensemble) Open(id uint32, timeout time.Duration) (*wire.Conn, jute.ConnectResponse) {
	e.t.Helper()
	c, err := e.Dial(id)
	if err != nil {
		e.t.Fatal(err)
	}
	resp, err := c.Open(timeout)
	if err == nil && resp.SessionID == 0 {
		err = errors.New("session refused")
	}
	if err != nil {
		e.t.Fatalf("cluster: open a session on member %d: %v", id, err)
	}
	return c, resp
}

// Connect starts a client that keeps a session, with the first of members as its home. Without
// members it tries all, from member 1 on.
func (e *Ensemble) Connect(timeout time.Duration, members ...uint32) *Client {
	e.t.Helper()
	if len(members) == 0 {
		members = e.IDs()
	}
	c := newClient(e.ctx, e.record, members, timeout, e.dialMember)
	e.clients = append(e.clients, c)
	if err := c.WaitConnected(30 * e.opts.Tick); err != nil {
		e.t.Fatal(err)
	}
	return c
}
