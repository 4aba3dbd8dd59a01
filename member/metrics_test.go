package member_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/internal/admission"
	"rollcall/member"
	"rollcall/zk/jute"
)

// alwaysZero are the metrics that cannot leave 0. The first two are there for programs that read
// ZooKeeper's, and members have nothing of the kind. This ensemble has no observers. The others are filled in by admin.FourLetterCommands.
var alwaysZero = []string{
	"zk_local_sessions", "zk_synced_non_voting_followers", "zk_synced_observers",
	"Stats.OpenFiles", "Stats.MaxFiles",
	"Stats.SyncedObservers", // these members have no observers; those of TestMembersAreChanged have one
	"Stats.SilentVoters",    // none of these members dies; one of TestMembersNameDeadVoters does
	"Stats.NoMemory",        // these members have no memoryLimit; those of TestEveryOwnMetricLeavesZero have one
}

// watched is an ensemble in which each metric leaves 0 at some time.
type watched struct {
	*cluster.Ensemble
	t            *testing.T
	leader, a, b uint32
	client       *cluster.Client // of the leader
	left         map[string]bool // by name: whether a line of mntr or a field of admin.Stats has left 0 on a member
}

// Each line of mntr leaves 0 at some time, and also -1, which stands for a value that is not known. So
// does each field of what the member gives to the commands: some are in other commands only.
func TestEveryMetricLeavesZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{Write: diskTime, Adjust: func(cfg *member.Config) {
			cfg.SnapCount, cfg.Limits.MaxClientConns = 20, -1
			cfg.Limits.MaxConns, cfg.Limits.Budget = mostConns, 4<<20
			cfg.Rules.DataQuota, cfg.Rules.LongNames = 1<<40, true
			cfg.Limits.Throttle = admission.Throttle{Tokens: 2 * mostConns, FillTime: time.Hour, Freeze: time.Millisecond}
		}})
		w := &watched{Ensemble: e, t: t, leader: e.Ready(), left: map[string]bool{}}
		e.Joined()
		followers := e.Followers()
		w.a, w.b = followers[0], followers[1]
		w.client = e.Connect(20*time.Second, w.leader)
		w.look()
		for _, provoke := range []func(){w.latencies, w.nodes, w.snapshot, w.ends, w.fullMemory, w.waiting, w.throttle, w.slowDisk, w.wrongClock} {
			provoke()
			w.look()
		}
		for _, name := range slices.Sorted(maps.Keys(w.left)) {
			if never := slices.Contains(alwaysZero, name); w.left[name] == never {
				t.Errorf("%s has left 0: %t; listed as one that cannot: %t", name, w.left[name], never)
			}
		}
		for _, name := range alwaysZero {
			if _, there := w.left[name]; !there {
				t.Errorf("%s is listed, and no member has it", name)
			}
		}
	})
}

const (
	// diskTime is how long a write to a disk takes.
	diskTime = 10 * time.Millisecond
	// mostConns is how many clients a member takes.
	mostConns = 40
	// largeNode is the size of a node that few clients can leave unread before they fill the budget.
	largeNode = 200 << 10
)

// look reads all metrics of all members, as mntr has them and as the member gives them.
func (w *watched) look() {
	w.t.Helper()
	for _, id := range w.IDs() {
		for name, value := range figures(w.t, w.Ensemble, id) {
			zero := slices.Contains([]string{"0", "0.0", "-1"}, value)
			w.left["zk_"+name] = w.left["zk_"+name] || !zero
		}
		fields := reflect.ValueOf(w.Member(id).Shown())
		for i := range fields.NumField() {
			name := "Stats." + fields.Type().Field(i).Name
			w.left[name] = w.left[name] || !fields.Field(i).IsZero()
		}
	}
}

// do sends a request of the leader's client, which must succeed.
func (w *watched) do(op jute.Op, rec interface{ Append([]byte) []byte }) {
	w.t.Helper()
	if _, err := w.client.Do(op, rec); err != nil {
		w.t.Fatal(err)
	}
}

// latencies lets all requests wait for the disk after a reset, so that the least latencies are not 0.
func (w *watched) latencies() {
	w.t.Helper()
	word(w.t, w.Ensemble, w.leader, "srst")
	write := w.client.Go(jute.OpSetData, jute.SetDataRequest{Path: []byte("/"), Version: -1})
	read := w.client.Go(jute.OpGetData, jute.GetDataRequest{Path: []byte("/")})
	for _, call := range []*cluster.Call{write, read} {
		if _, err := call.Wait(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// nodes makes an ephemeral node and a watch, and an event of another.
func (w *watched) nodes() {
	w.t.Helper()
	if _, err := w.client.Create("/e", nil, jute.Ephemeral); err != nil {
		w.t.Fatal(err)
	}
	for range 2 {
		w.do(jute.OpGetData, jute.GetDataRequest{Path: []byte("/e"), Watch: true})
		w.do(jute.OpSetData, jute.SetDataRequest{Path: []byte("/e"), Version: -1})
	}
	w.do(jute.OpGetData, jute.GetDataRequest{Path: []byte("/e"), Watch: true})
}

// snapshot writes until the leader makes a snapshot.
func (w *watched) snapshot() {
	w.t.Helper()
	for range 30 {
		w.do(jute.OpSetData, jute.SetDataRequest{Path: []byte("/"), Version: -1})
	}
	w.Wait("a snapshot", time.Minute, func() bool { return w.Disk(w.leader).Snapshots() > 0 })
}

// ends lets connections and a session end as each counter says.
func (w *watched) ends() {
	w.t.Helper()
	w.Open(w.leader, 2*time.Second) // and nothing more: it expires
	stranger, err := w.Dial(w.leader)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := stranger.Closed(time.Minute); err != nil { // it opens no session
		w.t.Error(err)
	}
	forger, _ := w.Open(w.leader, 20*time.Second)
	if err := forger.Send(jute.XidAuth, jute.OpAuth, jute.AuthPacket{Scheme: []byte("none")}); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
	var many []func() error
	for range mostConns + 1 {
		c, err := w.Dial(w.leader)
		if err != nil {
			w.t.Fatal(err)
		}
		many = append(many, c.Close)
	}
	synctest.Wait()
	for _, closeConn := range many {
		_ = closeConn()
	}
	synctest.Wait()
}

// fullMemory has clients that read nothing, until one that reads needs their memory.
func (w *watched) fullMemory() {
	w.t.Helper()
	w.do(jute.OpCreate, jute.CreateRequest{Path: []byte("/large"), Data: make([]byte, largeNode), ACL: jute.OpenACL})
	for range mostConns / 2 {
		c, _ := w.Open(w.leader, 20*time.Second)
		for xid := range int32(5) {
			if err := c.Send(xid+1, jute.OpGetData, jute.GetDataRequest{Path: []byte("/large")}); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	synctest.Wait()
	w.look()
	w.do(jute.OpGetData, jute.GetDataRequest{Path: []byte("/large")})
}

// waiting has a write that waits for the log, and a sync that waits for a proof.
func (w *watched) waiting() {
	w.t.Helper()
	w.Gate(w.leader).Hold()
	write := w.client.Go(jute.OpSetData, jute.SetDataRequest{Path: []byte("/"), Version: -1})
	synctest.Wait()
	w.look()
	w.Gate(w.leader).Release()
	if _, err := write.Wait(); err != nil {
		w.t.Fatal(err)
	}
	for _, id := range []uint32{w.a, w.b} {
		w.Network.Hang(id, w.leader)
	}
	sync := w.client.Go(jute.OpSync, jute.SyncRequest{Path: []byte("/")})
	synctest.Wait()
	w.look()
	for _, id := range []uint32{w.a, w.b} {
		w.Network.EndHang(id, w.leader)
	}
	if _, err := sync.Wait(); err != nil {
		w.t.Fatal(err)
	}
}

// throttle opens sessions until no token is left.
func (w *watched) throttle() {
	w.t.Helper()
	for range 2*mostConns + 1 {
		c, err := w.Dial(w.a)
		if err == nil {
			_, err = c.Open(20 * time.Second)
		}
		if err != nil {
			return
		}
		_ = c.Close()
		synctest.Wait()
	}
	w.t.Error("the throttle refuses nobody")
}

// slowDisk has a write of a follower's log that takes longer than a second.
func (w *watched) slowDisk() {
	w.t.Helper()
	const slow = 1100 * time.Millisecond
	w.Disk(w.a).SetLatency(slow)
	w.do(jute.OpSetData, jute.SetDataRequest{Path: []byte("/"), Version: -1})
	w.Disk(w.a).SetLatency(diskTime)
	time.Sleep(2 * slow)
}

// wrongClock sets the leader's clock, and waits until the others' answers show it.
func (w *watched) wrongClock() {
	w.t.Helper()
	w.Clock(w.leader).Step(-time.Hour)
	w.Wait("the leader to see that its clock is wrong", time.Minute, func() bool {
		all := figures(w.t, w.Ensemble, w.leader)
		return strings.HasPrefix(all["clock_jump"], "-36") && all["clock_difference"] != "0"
	})
}
