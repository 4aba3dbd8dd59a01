package member_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/internal/admission"
	"rollcall/internal/metrics"
	"rollcall/member"
	"rollcall/operator/api"
	"rollcall/server/tenant"
	"rollcall/zk/jute"
)

// ownTick is the tick of the ensemble in which each own metric leaves 0.
const ownTick = 2 * time.Second

// samples returns what a member's /metrics says: its samples by name with labels, and the type of each
// metric.
func (o operators) samples(t *testing.T, id uint32) (all map[string]float64, types map[string]string) {
	t.Helper()
	status, text := o.get(t, id, "/metrics")
	if status != 200 {
		t.Fatalf("metrics of member %d: %d %s", id, status, text)
	}
	all, types = map[string]float64{}, map[string]string{}
	for line := range strings.Lines(text) {
		at := strings.LastIndexByte(line, ' ')
		name, rest := line[:at], strings.TrimSpace(line[at:])
		if metric, found := strings.CutPrefix(name, "# TYPE "); found {
			types[metric] = rest
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		value, err := strconv.ParseFloat(rest, 64)
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		all[name] = value
	}
	return all, types
}

// provoked is an ensemble in which each own metric leaves 0 at some time.
type provoked struct {
	*cluster.Ensemble
	operators
	t            *testing.T
	leader, a, b uint32
	left         map[string]bool          // by sample: whether it has left 0 on a member
	memory       *admission.MemoryLimiter // of all members
	limits       map[uint32]*tenant.Limiter
}

// severalPerRow are metrics of which one series stands for all. server.TestStats and the tests of each
// reason cover the others. TestSuperGuessesLeaveTraces of server and
// TestGuessesLeaveTraces of admin cover those of credentials, and TestReplayIsOverrun and TestZxidsOfStrangers of server those of
// watches. TestSlowStages covers the stages of slow requests.
var severalPerRow = regexp.MustCompile(`^(rollcall_connections_ended_total|rollcall_watch_replays_total|rollcall_credentials_failed_total|rollcall_credentials_slowed_total|rollcall_stage_seconds_count)\{.*`)

// look reads Rollcall's own metrics of all members. Of a histogram it reads the count.
func (p *provoked) look() {
	p.t.Helper()
	for _, id := range p.IDs() {
		if !p.Running(id) {
			continue
		}
		all, _ := p.samples(p.t, id)
		for name, value := range all {
			if !strings.HasPrefix(name, "rollcall_") || strings.Contains(name, "_bucket{") || strings.Contains(name, "_sum") {
				continue
			}
			if strings.HasPrefix(name, "rollcall_disk_") {
				continue // these members have no files; quorum/disk.TestFree and the test with Prometheus have some
			}
			if strings.HasPrefix(name, "rollcall_member_connections_refused_total") {
				continue // these members have no IP addresses; wire.TestStormOfHandshakes has some
			}
			if name == "rollcall_throttled_ops_total" || name == `rollcall_request_slowed_seconds_count{limit="request_throttle"}` {
				continue // these members have no throttle of requests; server.TestStaleRequests has one
			}
			if name == "rollcall_slow_requests_not_kept_total" {
				continue // it takes more slow requests in a second than there are here; stages.TestKeep has them
			}
			name = severalPerRow.ReplaceAllString(name, "$1")
			p.left[name] = p.left[name] || value != 0
		}
	}
}

// Each series of Rollcall's own metrics leaves 0 at some time.
func TestEveryOwnMetricLeavesZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provoked{t: t, operators: operators{}, left: map[string]bool{}, memory: admission.NewMemoryLimiter(1000), limits: map[uint32]*tenant.Limiter{}}
		p.Ensemble = cluster.Start(t, 3, cluster.Options{Tick: ownTick, Write: time.Millisecond, Adjust: func(cfg *member.Config) {
			cfg.Limits.MaxClientConns = -1
			p.listen(cfg)
			cfg.OperatorListener, cfg.MetricsListener = nil, cfg.OperatorListener // to everybody
			cfg.Memory, cfg.ReadOnlyMode = p.memory, true
			p.limits[cfg.ID] = new(tenant.Limiter)
			cfg.Limits.Tenants = p.limits[cfg.ID]
		}})
		for _, step := range []struct {
			provoke func()
			raises  []string // series that leave 0 in this step and not before, so that none is another's
		}{
			{p.requests, []string{
				`rollcall_request_seconds_count{class="connect"}`, `rollcall_request_seconds_count{class="ping"}`, `rollcall_request_seconds_count{class="read"}`,
				`rollcall_request_seconds_count{class="sync"}`, `rollcall_request_seconds_count{class="watch"}`, `rollcall_request_seconds_count{class="other"}`,
				`rollcall_watch_events_total{type="created"}`, `rollcall_watch_events_total{type="deleted"}`, `rollcall_watch_events_total{type="changed"}`,
				`rollcall_watch_events_total{type="children"}`, `rollcall_sessions_opened_total`, `rollcall_clients`,
			}},
			{p.comeback, []string{`rollcall_watch_replays_total`, `rollcall_watch_replayed_events_total`}},
			{p.slowed, []string{
				`rollcall_requests_slowed`, `rollcall_request_slowed_seconds_count{limit="requests"}`, `rollcall_request_slowed_seconds_count{limit="bytes"}`,
				`rollcall_sessions_waited_total`, `rollcall_watches_refused_total`, `rollcall_limit_tenants`,
			}},
			{p.guesses, []string{`rollcall_credentials_failed_total`, `rollcall_credentials_slowed_total`}},
			{p.closed, []string{`rollcall_sessions_ended_total{reason="closed"}`, `rollcall_request_seconds_count{class="close"}`}},
			{p.killed, []string{`rollcall_sessions_ended_total{reason="killed"}`}},
			{p.expired, []string{`rollcall_sessions_ended_total{reason="expired"}`, `rollcall_expiry_lateness_seconds_count`}},
			{func() { p.held(func() {}) }, []string{`rollcall_reply_held_seconds_count`}},
			{p.resumed, []string{`rollcall_sessions_resumed_total`}},
			{p.waiting, []string{`rollcall_queue_length{queue="proposals"}`, `rollcall_queue_bytes{queue="proposals"}`, `rollcall_queue_bytes{queue="requests"}`}},
			// a link that breaks may have a write resent, so the steps that break links come after this one
			{p.changeOfLeader, []string{`rollcall_write_gap_seconds_count`, `rollcall_writes_resent_total`}},
			{p.refused, []string{`rollcall_vouching_cut_total{reason="refused"}`}},
			{p.notRenewed, []string{`rollcall_vouching_cut_total{reason="not_renewed"}`}},
			{p.notAcknowledged, []string{`rollcall_vouching_cut_total{reason="not_acknowledged"}`}},
			{p.cutOff, []string{`rollcall_cut_off`, `rollcall_read_only_clients`}},
			{p.unlinked, []string{`rollcall_vouching_cut_total{reason="unlinked"}`}},
			{p.fullMemory, []string{`rollcall_memory_full`, `rollcall_memory_used_bytes`, `rollcall_writes_refused_total`}},
			{p.corrupted, []string{`rollcall_member_connections_corrupted_total`}},
			{p.joining, []string{`rollcall_joining`}},
			{p.stalled, []string{`rollcall_stalled`}},
			{p.damaged, []string{`rollcall_damaged`, `rollcall_leader_pauses_total`}},
		} {
			p.leader = p.Ready()
			p.Joined()
			p.a, p.b = p.Followers()[0], p.Followers()[1]
			for _, name := range step.raises {
				if p.left[name] {
					t.Errorf("%s has left 0 too early", name)
				}
			}
			step.provoke()
			p.look()
			for _, name := range step.raises {
				if !p.left[name] {
					t.Errorf("%s has not left 0 when it should", name)
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(p.left)) {
			if !p.left[name] {
				t.Errorf("%s has never left 0", name)
			}
		}
		if len(p.left) < 40 {
			t.Errorf("only %d series", len(p.left))
		}
	})
}

func (p *provoked) must(_ any, err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// requests sends requests of each class, and makes watches fire by each type of event.
func (p *provoked) requests() {
	c := p.Connect(20*time.Second, p.a)
	_, _ = c.Exists("/n", true)                  // there is none yet
	p.must(c.Create("/n", nil, jute.Persistent)) // created
	for _, watch := range []jute.Op{jute.OpGetData, jute.OpGetChildren} {
		p.must(c.Do(watch, jute.GetDataRequest{Path: []byte("/n"), Watch: true}))
	}
	p.must(c.Do(jute.OpSetData, jute.SetDataRequest{Path: []byte("/n"), Version: -1})) // changed
	p.must(c.Create("/n/m", nil, jute.Persistent))                                     // children
	p.must(c.Exists("/n/m", true))
	p.must(c.Do(jute.OpDelete, jute.DeleteRequest{Path: []byte("/n/m"), Version: -1})) // deleted
	p.must(c.Do(jute.OpAddWatch, jute.AddWatchRequest{Path: []byte("/n")}))
	p.must(c.Do(jute.OpWhoAmI, nil))
	p.must(nil, c.Sync())
	time.Sleep(10 * time.Second) // and it sends a ping
}

// comeback has a client set a persistent watch again, after a change that it has missed.
func (p *provoked) comeback() {
	c := p.Connect(20*time.Second, p.a)
	p.must(c.Create("/missed", nil, jute.Persistent))
	r, err := c.Do(jute.OpSetData, jute.SetDataRequest{Path: []byte("/missed"), Version: -1})
	p.must(nil, err)
	p.must(c.Do(jute.OpSetData, jute.SetDataRequest{Path: []byte("/missed"), Version: -1}))
	none := [][]byte{}
	p.must(c.Do(jute.OpSetWatches2, jute.SetWatches2{
		RelativeZxid: r.Zxid, Data: none, Exist: none, Child: none, Persistent: none, Recursive: [][]byte{[]byte("/missed")},
	}))
}

// slowed has clients of a member meet limits for tenants.
func (p *provoked) slowed() {
	limit := func(text string) {
		r, err := tenant.ParseRule("test", text)
		p.must(nil, err)
		p.must(nil, p.limits[p.a].Replace([]tenant.Rule{r}))
	}
	c, _ := p.Open(p.a, 20*time.Second)
	limit("each address requests=1")
	for xid := range int32(5) {
		p.must(nil, c.Send(xid+1, jute.OpExists, jute.ExistsRequest{Path: []byte("/")}))
	}
	synctest.Wait()
	p.look()
	limit("each address bytes=18K")
	for xid := range int32(3) {
		p.must(nil, c.Send(xid+6, jute.OpExists, jute.ExistsRequest{Path: []byte("/" + strings.Repeat("a", 30<<10))}))
	}
	time.Sleep(10 * time.Second)
	limit("each address watches=1")
	for xid := range int32(2) {
		p.must(nil, c.Send(xid+9, jute.OpExists, jute.ExistsRequest{Path: fmt.Append(nil, "/", xid), Watch: true}))
	}
	synctest.Wait()
	limit("each address sessions=1")
	late, err := p.Dial(p.a)
	p.must(nil, err)
	if _, err := late.Open(20 * time.Second); err == nil {
		p.t.Error("a session beyond the number was opened")
	}
	p.look()
	p.must(nil, p.limits[p.a].Replace(nil))
}

// guesses has a client try wrong passwords of the super user, until it is slowed.
func (p *provoked) guesses() {
	c := p.Connect(20*time.Second, p.a)
	for range 11 {
		p.must(c.Do(jute.OpAuth, jute.AuthPacket{Scheme: []byte("digest"), Auth: []byte("super:guess")}))
	}
}

// corrupted has a bit change of what the leader sends to a follower. If that bit is one of a hello, or if nobody reads
// it any more, no connection counts as corrupted. Then another bit changes.
func (p *provoked) corrupted() {
	for range 10 {
		p.Network.FlipBit(p.leader, p.a, 400)
		time.Sleep(2 * ownTick)
		if p.look(); p.left[`rollcall_member_connections_corrupted_total`] {
			return
		}
	}
}

// closed, killed and expired have a session end in one of these ways.

func (p *provoked) closed() {
	c, _ := p.Open(p.a, 20*time.Second)
	p.must(nil, c.Send(1, jute.OpCloseSession, nil))
	synctest.Wait()
	time.Sleep(ownTick)
}

func (p *provoked) killed() {
	_, victim := p.Open(p.a, 20*time.Second)
	p.must(nil, p.Member(p.b).KillSession(p.t.Context(), victim.SessionID, "test"))
}

func (p *provoked) expired() {
	p.Open(p.leader, 2*ownTick)
	time.Sleep(4 * ownTick)
}

// held holds the reply to a client that was silent until its lease was over, and has not expired yet.
// Before that client sends something, it calls meanwhile.
func (p *provoked) held(meanwhile func()) {
	c, _ := p.Open(p.a, 10*ownTick)
	time.Sleep(95 * ownTick / 10)
	meanwhile()
	p.must(nil, c.Send(jute.XidPing, jute.OpPing, nil))
	time.Sleep(ownTick)
}

// resumed has a session move to another member.
func (p *provoked) resumed() {
	_, session := p.Open(p.a, 10*ownTick)
	other, err := p.Dial(p.b)
	p.must(nil, err)
	p.must(other.Resume(session, 0))
	p.must(nil, other.Send(1, jute.OpCloseSession, nil))
	p.Equal()
}

// refused has a session move away from a member that does not hear of it.
func (p *provoked) refused() {
	c, session := p.Open(p.a, 10*ownTick)
	p.Equal()
	p.BlockLog(p.leader, p.a)
	other, err := p.Dial(p.b)
	p.must(nil, err)
	p.must(other.Resume(session, 0))
	p.must(nil, c.Send(jute.XidPing, jute.OpPing, nil))
	time.Sleep(ownTick)
	p.UnblockLog(p.leader, p.a)
}

// notRenewed does the same while the leader does not answer.
func (p *provoked) notRenewed() {
	p.held(func() { p.hang(p.Network.Hang) })
	p.hang(p.Network.EndHang)
}

// hang separates a from the other members, so that nothing arrives and no connection ends.
func (p *provoked) hang(do func(from, to uint32)) {
	for _, other := range []uint32{p.leader, p.b} {
		do(p.a, other)
		do(other, p.a)
	}
}

// notAcknowledged keeps the leader's pings from a member whose client goes on sending pings.
func (p *provoked) notAcknowledged() {
	p.Connect(4*ownTick, p.a)
	p.Shut(p.a, cluster.GRPCPort, cluster.In)
	time.Sleep(5 * ownTick)
	p.look() // touches wait
	p.Unshut(p.a, cluster.GRPCPort, cluster.In)
}

// cutOff cuts a member off until it serves in read-only mode, and opens a session of that mode.
func (p *provoked) cutOff() {
	p.Isolate(p.a)
	p.Wait("a read-only member", time.Minute, func() bool { return p.Member(p.a).Role() == api.RoleReadOnly })
	c, err := p.Dial(p.a)
	p.must(nil, err)
	p.must(c.Handshake(jute.ConnectRequest{TimeOut: 20_000, ReadOnly: true, HasReadOnly: true}))
	time.Sleep(ownTick) // it may not know yet that it is cut off
	p.look()
	p.Rejoin(p.a)
}

// unlinked keeps a member from the leader's gRPC port.
func (p *provoked) unlinked() {
	p.Connect(20*ownTick, p.a)
	p.Shut(p.a, cluster.GRPCPort, cluster.Out)
	time.Sleep(7 * ownTick)
	p.Unshut(p.a, cluster.GRPCPort, cluster.Out)
}

// large is a write that is large enough to count in the memory of clients.
var large = jute.SetDataRequest{Path: []byte("/n"), Data: make([]byte, 64<<10), Version: -1}

// waiting has a write wait at the leader, while another is on its way to the log.
func (p *provoked) waiting() {
	atLeader, atFollower := p.Connect(10*ownTick, p.leader), p.Connect(10*ownTick, p.a)
	p.Gate(p.leader).Hold()
	first := atLeader.Go(jute.OpSetData, large)
	synctest.Wait()
	second := atFollower.Go(jute.OpSetData, large)
	synctest.Wait()
	p.look()
	p.Gate(p.leader).Release()
	p.must(first.Wait())
	p.must(second.Wait())
}

// changeOfLeader kills a leader while writes of a follower's client wait: one is sent, another comes
// when there is no leader.
func (p *provoked) changeOfLeader() {
	c := p.Connect(10*ownTick, p.a)
	p.Gate(p.leader).Hold()
	first := c.Go(jute.OpSetData, large)
	synctest.Wait()
	p.Kill(p.leader)
	second := c.Go(jute.OpSetData, large)
	synctest.Wait()
	p.look()
	p.Boot(p.leader)
	p.must(first.Wait())
	p.must(second.Wait())
	p.Joined() // a member counts as joining until its raft runs
}

// fullMemory has a write of a client refused because memory is short.
func (p *provoked) fullMemory() {
	c := p.Connect(10*ownTick, p.a)
	p.memory.SetUsed(1001)
	if _, err := c.Create("/full", nil, jute.Persistent); err == nil {
		p.t.Error("a create is not refused")
	}
	if text, serves := p.Member(p.a).Health().StatusText(); !serves || !strings.Contains(text, "short of memory") {
		p.t.Errorf("health: %q, %t", text, serves)
	}
	p.look()
	p.memory.SetUsed(500)
}

// joining starts a member without data, which does not get the log.
func (p *provoked) joining() {
	p.Kill(p.b)
	p.Wipe(p.b)
	p.BlockLog(p.leader, p.b)
	p.Boot(p.b)
	p.Wait("the member to join", time.Minute, func() bool { return p.Member(p.b).IsJoining() })
	p.look()
	p.UnblockLog(p.leader, p.b)
	voting(p.t, p.Ensemble, p.leader) // the others are a majority only until one of them hangs
}

// stalled has a disk hang.
func (p *provoked) stalled() {
	c := p.Connect(20*time.Second, p.leader)
	p.Disk(p.a).Stall()
	p.must(c.Create("/stall", nil, jute.Persistent))
	p.Wait("a store to hang", time.Minute, func() bool { return p.Member(p.a).Role() == "" })
	p.look()
	p.Disk(p.a).Release()
}

// damaged has a member whose state is damaged. It also counts a pause of the leader: in a bubble no step
// is late. leader.TestPausesAreCounted has one that is.
func (p *provoked) damaged() {
	p.Member(p.leader).CountPause()
	p.Member(p.a).Break("bits have changed")
	synctest.Wait()
}

// The leader shows which other members are connected, and a follower shows none.
func TestLeaderShowsConnectedMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := operators{}
		e := cluster.Start(t, 3, cluster.Options{Tick: ownTick, Adjust: func(cfg *member.Config) {
			all.listen(cfg)
			cfg.OperatorListener, cfg.MetricsListener = nil, cfg.OperatorListener
		}})
		leader := e.Ready()
		e.Joined()
		others := slices.DeleteFunc(e.IDs(), func(id uint32) bool { return id == leader })
		shown := func(id uint32) map[string]float64 {
			samples, _ := all.samples(t, id)
			maps.DeleteFunc(samples, func(name string, _ float64) bool { return !strings.HasPrefix(name, "rollcall_member_connected{") })
			return samples
		}
		series := func(id uint32) string { return fmt.Sprintf(`rollcall_member_connected{member="%d"}`, id) }
		if got, want := shown(leader), (map[string]float64{series(others[0]): 1, series(others[1]): 1}); !maps.Equal(got, want) {
			t.Errorf("the leader shows %v, want %v", got, want)
		}
		if got := shown(others[0]); len(got) > 0 {
			t.Errorf("a follower shows %v", got)
		}
		e.Stop(others[1])
		e.Wait("the leader to miss the member", time.Minute, func() bool {
			return maps.Equal(shown(leader), map[string]float64{series(others[0]): 1, series(others[1]): 0})
		})
	})
}

// docs/metrics.md has each native metric, with its kind, label and help. Names follow Prometheus's conventions: a counter ends in
// _total, a histogram in its unit, and nothing else does.
func TestDocsHaveNativeMetrics(t *testing.T) {
	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\* `(rollcall_\\w+)` \\((\\w+)(?:, by `(\\w+)`)?\\): (.*)$").FindAllStringSubmatch(string(text), -1)
	documented := map[string]string{}
	for _, row := range rows {
		documented[row[1]] = strings.Join(row[2:], "|")
	}
	synctest.Test(t, func(t *testing.T) {
		all := operators{}
		e := cluster.Start(t, 1, cluster.Options{Adjust: func(cfg *member.Config) {
			all.listen(cfg)
			cfg.OperatorListener, cfg.MetricsListener = nil, cfg.OperatorListener
			cfg.Backup.Dir, cfg.Archive.To = t.TempDir(), t.TempDir()
			cfg.Audit.Enable, cfg.Audit.File = true, filepath.Join(t.TempDir(), "audit.log")
			cfg.OTLP.Endpoint, cfg.Network.DialCollector = "http://collector", noCollector
		}})
		one := e.Ready()
		_, types := all.samples(t, one)
		for _, m := range e.Member(one).NativeMetrics() {
			unit := ""
			for _, of := range []string{"seconds", "bytes"} {
				if strings.HasSuffix(strings.TrimSuffix(m.Name, "_total"), "_"+of) {
					unit = of
				}
			}
			if want := strings.Join([]string{m.Kind.String(), m.Label, m.Help}, "|"); documented[m.Name] != want {
				t.Errorf("docs/metrics.md has %q of %s, want %q", documented[m.Name], m.Name, want)
			}
			if strings.HasSuffix(m.Name, "_total") != (m.Kind == metrics.KindCounter) || m.Kind == metrics.KindHistogram && unit == "" {
				t.Errorf("the name of %s does not follow its kind, %v", m.Name, m.Kind)
			}
		}
		for name := range types {
			if strings.HasPrefix(name, "rollcall_") && documented[name] == "" {
				t.Errorf("docs/metrics.md does not have %s", name)
			}
			delete(documented, name)
		}
		// This member has no certificates, no Kerberos, no other member, no past and no files.
		absent := []string{"rollcall_certificate_valid_seconds", "rollcall_ticket_valid_seconds", "rollcall_member_connected", "rollcall_history_seconds"}
		for name := range documented {
			if !slices.Contains(absent, name) && !strings.HasPrefix(name, "rollcall_disk_") {
				t.Errorf("docs/metrics.md has %s, which no member shows", name)
			}
		}
	})
}
