package cases

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/integration/wire"
	"rollcall/zk/jute"
)

// alive is group C: what keeps a session alive and what does not.
var alive = []row{
	{number: 47, name: "silence at the leader", where: standalone | leader, run: silence, differs: "silent session, latest end"},
	{number: 48, name: "silence at a follower", where: followers, run: silence, differs: "silent session, latest end"},
	{number: 49, name: "pings keep", where: everywhere, run: pingsKeep},
	{number: 50, name: "any operation keeps", where: everywhere, run: anyKeeps},
	{number: 51, name: "failing operations keep", where: everywhere, run: failuresKeep},
	{number: 52, name: "auth does not keep", where: everywhere, run: authKeepsNot},
	{number: 53, name: "others do not keep", where: everywhere, run: othersKeepNot},
	{number: 54, name: "events do not keep", where: everywhere, run: eventsKeepNot},
	{number: 55, name: "pings to one member", where: everywhere, run: pingsRelayed, differs: "touch heard by a follower whose answer to the leader's ping is lost"},
	{number: 56, name: "resume renews", where: everywhere, run: resumeRenews},
	{number: 57, name: "resume too late", where: everywhere, run: resumeTooLate},
	{number: 58, name: "fifty at once", where: everywhere, run: fiftyAtOnce},
	{number: 59, name: "only the silent of a bucket", where: everywhere, run: oneOfBucket},
	{number: 60, name: "watchers of an expired session", where: everywhere, run: expiryWatched},
	{number: 61, name: "no trace", where: everywhere, run: noTrace},
	{number: 62, name: "leader killed, client silent", where: leader | followerOne, run: leaderKilledSilent},
	{number: 63, name: "all stopped", where: everywhere, run: allStopped},
	{number: 64, name: "quorum lost and back", where: three, run: quorumLost},
	{number: 65, name: "client suspended", where: everywhere, run: clientSuspended},
	{number: 66, name: "leader suspended", held: "integration.TestLeaderPaused"},
}

const short = 4 * time.Second // the session timeout of most cases in this file

// silentPhases is the number of sessions that fall silent at different moments of a tick.
const silentPhases = 8

// silence lets sessions fall silent at s.at, at all phases of a tick.
func silence(s *stage) { s.silenceSessions(short, s.at) }

// silenceSessions lets sessions fall silent at the members. Each session must end no earlier than its timeout and no later than
// allowed, at one zxid on all members. Each watcher gets one NodeDeleted, and the session's connection is closed without
// a reply.
func (s *stage) silenceSessions(timeout time.Duration, members ...uint32) {
	var watchers []*session
	for _, id := range s.IDs() {
		watchers = append(watchers, s.open(id, 20*tick).keep())
	}
	silent := map[string]*session{}
	for i := range silentPhases {
		for _, m := range members {
			path := fmt.Sprintf("/e-%d-%d", m, i)
			k := s.open(m, timeout)
			k.create(path, jute.Ephemeral)
			silent[path] = k
			s.quiesce()
			for _, w := range watchers {
				if code := w.watchExists(path); code != jute.OK {
					s.Fatalf("watch %s: %v", path, result(code))
				}
			}
		}
		time.Sleep(137 * time.Millisecond)
	}
	time.Sleep(timeout + 4*tick)
	s.quiesce()
	zxids := map[string]int64{}
	for _, w := range watchers {
		events := w.events()
		if len(events) != len(silent) {
			s.Errorf("events %v, want one for each of %d", names(events), len(silent))
		}
		for _, f := range events {
			path := string(f.Event().Path)
			k := silent[path]
			if k == nil || f.Event().Type != jute.EventNodeDeleted {
				s.Fatalf("event %v", f.Reply)
			}
			s.onTime(k.member, timeout, k.touched, f.at)
			if d := k.mustEnd(0).Sub(f.at).Abs(); d > commitTime {
				s.Errorf("the connection ended %v apart from the session", d)
			}
			if z, ok := zxids[path]; ok && z != f.Zxid {
				s.Errorf("%s went at zxid %#x and at %#x", path, z, f.Zxid)
			}
			zxids[path] = f.Zxid
		}
	}
	for path, k := range silent {
		s.absent(path)
		s.checkRejected(k.member, claim(k.granted))
	}
}

// A session from which nothing is received ends in time.
func TestSilentSessionStandalone(t *testing.T) {
	for _, timeout := range []time.Duration{2 * tick, 4100 * time.Millisecond, 20 * tick} {
		t.Run(timeout.String(), func(t *testing.T) {
			on(t, standalone, cluster.Options{}, func(s *stage) { s.silenceSessions(timeout, s.at) })
		})
	}
}

func TestSilentSessionThreeMembers(t *testing.T) {
	for _, timeout := range []time.Duration{2 * tick, 4100 * time.Millisecond, 20 * tick} {
		t.Run(timeout.String(), func(t *testing.T) {
			on(t, leader, cluster.Options{}, func(s *stage) { s.silenceSessions(timeout, s.IDs()...) })
		})
	}
}

// lastsWith opens a session that does nothing but call do, at intervals, for 20 s. The session must
// live. Then it falls silent, and must end.
func (s *stage) lastsWith(what string, do func(k *session)) {
	s.Helper()
	k := s.open(s.at, short)
	path := "/" + what
	k.create(path, jute.Ephemeral)
	for begun := time.Now(); time.Since(begun) < 20*time.Second; {
		time.Sleep(1300 * time.Millisecond)
		do(k)
		if !s.has(s.at, path) {
			s.Fatalf("%s every 1.3 s: the session of %v has expired", what, short)
		}
	}
	k.checkExpiry(path)
}

func pingsKeep(s *stage) {
	s.lastsWith("ping", func(k *session) { k.ok(jute.OpPing, nil) })
}

func anyKeeps(s *stage) {
	s.open(s.at, usual).create("/n", jute.Persistent)
	for _, r := range []request{
		{jute.OpGetData, get("/n")},
		{jute.OpExists, existsRequest("/n")},
		{jute.OpGetChildren, jute.GetChildrenRequest{Path: []byte("/n")}},
		{jute.OpSync, jute.SyncRequest{Path: []byte("/n")}},
		{jute.OpWhoAmI, nil},
		{jute.OpGetEphemerals, jute.GetEphemeralsRequest{}},
		{jute.OpSetWatches, jute.SetWatches{Data: [][]byte{}, Exist: [][]byte{}, Child: [][]byte{}}},
		{jute.OpSetData, set("/n", "y")},
	} {
		s.lastsWith(r.op.String(), func(k *session) { k.ok(r.op, r.rec) })
	}
}

// cutShort is a record without its last bytes.
type cutShort struct{ wire.Record }

func (c cutShort) Append(b []byte) []byte {
	b = c.Record.Append(b)
	return b[:len(b)-2]
}

func failuresKeep(s *stage) {
	s.lastsWith("exists-missing", func(k *session) { k.want(jute.NoNode, jute.OpExists, existsRequest("/none")) })
	s.lastsWith("delete-missing", func(k *session) { k.want(jute.NoNode, jute.OpDelete, remove("/none")) })
	s.lastsWith("undecodable-read", func(k *session) { k.want(jute.MarshallingError, jute.OpGetData, cutShort{get("/none")}) })
	s.lastsWith("undecodable-write", func(k *session) { k.want(jute.MarshallingError, jute.OpSetData, cutShort{set("/none", "x")}) })
}

func authKeepsNot(s *stage) {
	k := s.open(s.at, 2*time.Second)
	k.create("/e", jute.Ephemeral)
	begun := k.touched
	packet := wire.Frame(jute.XidAuth, jute.OpAuth, digest("u:p"))
	var sender sync.WaitGroup
	sender.Go(func() {
		for jute.WriteFrame(k.Conn, packet) == nil {
			time.Sleep(400 * time.Millisecond)
		}
	})
	defer sender.Wait()
	defer k.Close()
	at, err := s.death(s.at, "/e", patience)
	if err != nil {
		s.Fatal(err)
	}
	s.onTime(s.at, 2*time.Second, begun, at)
	if f, ok := k.next(); !ok || f.Xid != jute.XidAuth || f.Err != jute.OK {
		s.Errorf("reply to the first auth: %v, %t", f.Reply, ok)
	}
}

func othersKeepNot(s *stage) {
	k := s.open(s.at, short)
	k.create("/e", jute.Ephemeral)
	watcher := s.open(s.at, usual).keep()
	for i := 0; s.has(s.at, "/e") && time.Since(k.touched) < patience; i++ {
		if i%30 == 0 && !strings.HasPrefix(s.sendCommand(s.at, "srvr"), "Zookeeper version") {
			s.Fatal("srvr is not answered")
		}
		watcher.call(jute.OpGetData, jute.GetDataRequest{Path: []byte("/e"), Watch: true})
		watcher.call(jute.OpExists, jute.ExistsRequest{Path: []byte("/e"), Watch: true})
		time.Sleep(10 * time.Millisecond)
	}
	s.onTime(s.at, short, k.touched, time.Now().Add(-10*time.Millisecond))
	k.mustEnd(commitTime)
}

// Only what a client sends counts. (A member stops sending events once it cannot know that the
// session lives.)
func eventsKeepNot(s *stage) {
	const nodes, timeout = 40, 3 * time.Second
	writer := s.open(s.other(), usual).keep()
	for i := range nodes {
		writer.create(fmt.Sprintf("/w%d", i), jute.Persistent)
	}
	k := s.open(s.at, timeout)
	k.sync()
	k.create("/e", jute.Ephemeral)
	for i := range nodes {
		if code := k.watchData(fmt.Sprintf("/w%d", i)); code != jute.OK {
			s.Fatal(result(code))
		}
	}
	heard := 0
	for i := range nodes {
		writer.set(fmt.Sprintf("/w%d", i), "y")
		time.Sleep(200 * time.Millisecond)
		heard += len(k.events())
	}
	if heard < 10 {
		s.Errorf("%d events: too few to show anything", heard)
	}
	if time.Since(k.touched) < timeout+allGone || s.has(s.at, "/e") {
		s.Errorf("the session lives %v after its last request", time.Since(k.touched))
	}
	s.absent("/e")
	if _, err := s.death(s.at, "/e", 0); err != nil {
		s.Error(err)
	}
}

// A session lives by pings to one member only. Unlike ZooKeeper's, it also lives while the link to
// the leader breaks again and again, whatever is in flight on it.
func pingsRelayed(s *stage) {
	k := s.open(s.at, short)
	k.create("/e", jute.Ephemeral)
	for i := range 16 {
		k.ok(jute.OpPing, nil)
		if s.place&followers != 0 {
			lead := s.Leader()
			time.Sleep(time.Duration(100+i*50) * time.Millisecond)
			s.Network.Cut(s.at, lead)
			time.Sleep(60 * time.Millisecond)
			s.Network.Heal(s.at, lead)
		}
		time.Sleep(time.Until(k.touched.Add(1250 * time.Millisecond)))
		if !s.has(s.at, "/e") {
			s.Fatalf("expired %v after its last ping", time.Since(k.touched))
		}
	}
	k.ok(jute.OpPing, nil)
	k.checkExpiry("/e")
}

func resumeRenews(s *stage) {
	k := s.open(s.at, short)
	k.create("/e", jute.Ephemeral)
	k.drop()
	time.Sleep(3500 * time.Millisecond)
	k.resume(s.at).checkExpiry("/e")
}

func resumeTooLate(s *stage) {
	k := s.open(s.at, short)
	k.create("/e", jute.Ephemeral)
	k.drop()
	time.Sleep(6 * time.Second)
	s.checkRejected(s.at, claim(k.granted))
	s.absent("/e")
}

// fiftyAtOnce checks that sessions last heard within the same tick end within one step, each with a
// zxid of its own.
func fiftyAtOnce(s *stage) {
	const n, timeout = 50, 3 * time.Second
	var silent []*session
	for i := range n {
		k := s.open(s.at, timeout)
		k.create(fmt.Sprintf("/e%d", i), jute.Ephemeral)
		silent = append(silent, k)
	}
	for _, k := range silent {
		k.ok(jute.OpPing, nil)
		time.Sleep(4 * time.Millisecond)
	}
	s.quiesce()
	before := s.zxid(s.at)
	first, last := silent[0].checkExpiry("/e0"), time.Time{}
	for i, k := range silent[1:] {
		last = k.checkExpiry(fmt.Sprintf("/e%d", i+1))
	}
	if last.Sub(first) > tick+commitTime {
		s.Errorf("from the first to the last: %v", last.Sub(first))
	}
	s.quiesce()
	if took := s.zxid(s.at) - before; took != n {
		s.Errorf("%d sessions took %d zxids", n, took)
	}
}

// One session is heard just before the first may expire.
func oneOfBucket(s *stage) {
	for i := range 4 {
		one, two := s.open(s.at, short), s.open(s.at, short)
		pathOne, pathTwo := fmt.Sprintf("/one%d", i), fmt.Sprintf("/two%d", i)
		one.create(pathOne, jute.Ephemeral)
		two.create(pathTwo, jute.Ephemeral)
		time.Sleep(short - 10*time.Millisecond)
		one.ok(jute.OpPing, nil)
		two.checkExpiry(pathTwo)
		one.checkExpiry(pathOne) // a full lease from its ping
		time.Sleep(130 * time.Millisecond)
	}
}

func expiryWatched(s *stage) {
	parent := s.open(s.at, usual)
	parent.create("/p", jute.Persistent)
	k := s.open(s.at, short)
	k.create("/p/e", jute.Ephemeral)
	s.quiesce()
	for _, m := range s.IDs() {
		w := s.open(m, 20*tick).keep()
		s.must(w.watchData("/p/e"), jute.OK)
		s.must(w.watchChildren("/p"), jute.OK)
		defer func() {
			s.Helper()
			events := w.saw("Deleted(/p/e)", "Children(/p)")
			if z := w.stat("/p").Pzxid; events[0].Zxid != z || events[1].Zxid != z {
				s.Errorf("member %d: events of zxids %#x and %#x, the close is %#x", m, events[0].Zxid, events[1].Zxid, z)
			}
		}()
	}
	k.checkExpiry("/p/e")
}

func noTrace(s *stage) {
	k := s.open(s.at, short)
	k.create("/e", jute.Ephemeral)
	if id := fmt.Sprintf("0x%x", uint64(k.id())); !strings.Contains(s.sendCommand(s.at, "dump"), id) || !strings.Contains(s.sendCommand(s.at, "cons"), id) {
		s.Errorf("%s is listed neither by dump nor by cons", id)
	}
	k.checkExpiry("/e")
	s.quiesce()
	id := fmt.Sprintf("0x%x", uint64(k.id()))
	for _, m := range s.IDs() {
		if s.lives(m, k.id()) {
			s.Errorf("member %d still has the session", m)
		}
		for _, word := range []string{"dump", "cons"} {
			if got := s.sendCommand(m, word); strings.Contains(got, id) || strings.Contains(got, "/e") {
				s.Errorf("member %d: %s: %q, and %s has expired", m, word, got, id)
			}
		}
		state := s.Member(m).State()
		state.RLock()
		if list := slices.Collect(state.TreeView().Ephemerals(k.id(), nil).All()); len(list) > 0 {
			s.Errorf("member %d: ephemerals %q", m, list)
		}
		state.RUnlock()
	}
}

// A new leader counts the silence that a session's member knows, but not the time without a leader. If the member is
// lost together with the leader, no member knows the silence, and the session has a full timeout.
func leaderKilledSilent(s *stage) {
	const timeout = 6 * time.Second
	k := s.open(s.at, timeout)
	heard := time.Now() // not before that
	k.create("/e", jute.Ephemeral)
	created := time.Now() // the last request
	s.quiesce()
	time.Sleep(timeout / 2)
	old := s.Leader()
	killed := time.Now()
	s.Kill(old) // returns once its goroutines have ended, which may be long after its death
	lead := s.Leader()
	led := time.Now() // later than that, for the same reason
	at, err := s.death(lead, "/e", patience)
	if err != nil {
		s.Fatal(err)
	}
	from, latest := heard, created.Add(timeout+led.Sub(killed)+tick/2+allGone)
	if s.at == old {
		from, latest = killed, led.Add(timeout+allGone)
	}
	if at.Sub(from) <= timeout || at.After(latest) {
		s.Errorf("gone %v after it was heard, %v after the leader was killed and %v after the next one began to lead",
			at.Sub(heard), at.Sub(killed), at.Sub(led))
	}
	s.Boot(old)
	s.Ready()
}

func allStopped(s *stage) {
	k := s.open(s.at, short)
	k.create("/e", jute.Ephemeral)
	s.quiesce()
	for _, id := range s.IDs() {
		s.Kill(id)
	}
	time.Sleep(3 * short)
	for _, id := range s.IDs() {
		s.Boot(id)
	}
	s.Ready()
	time.Sleep(short / 2)
	k.resume(s.at).mustLive()
	s.present("/e")
}

func quorumLost(s *stage) {
	client := s.Connect(short, s.at)
	id := client.Session()
	s.Kill(s.other())
	s.Kill(s.third())
	time.Sleep(3 * short)
	s.Boot(s.other())
	s.Boot(s.third())
	s.Ready()
	if err := client.WaitConnected(patience); err != nil || client.Session() != id {
		s.Errorf("session %v, was %v: %v", client.Session(), id, err)
	}
	client.Abandon()
}

func clientSuspended(s *stage) {
	k := s.open(s.at, short)
	for range 5 {
		time.Sleep(3 * time.Second)
		k.mustLive()
	}
}

// A member keeps what it has heard until the leader acknowledges it. A flush that is lost on its
// way costs no session its life, and gives none more time.
func TestLostPingReplyLosesNoTouch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hole blackHole
		s := &stage{T: t, Ensemble: cluster.Start(t, 3, cluster.Options{Adjust: hole.install}), place: followerOne}
		s.Ready()
		s.at = s.Followers()[0]
		for i := range 8 {
			k := s.open(s.at, short)
			path := fmt.Sprintf("/e%d", i)
			k.create(path, jute.Ephemeral)
			time.Sleep(3 * time.Second) // flushed and acknowledged long since
			time.Sleep(time.Duration(i) * tick / 16)
			hole.swallow(s.at, true)
			k.send(jute.OpPing, nil)
			time.Sleep(tick * 6 / 10) // at least one flush
			lost := hole.swallow(s.at, false)
			if lost == 0 {
				t.Fatal("nothing was lost: the test shows nothing")
			}
			// The connection may be closed earlier, because its member cannot vouch for it
			// meanwhile.
			gone, err := s.death(s.at, path, short+patience)
			if err != nil {
				t.Fatal(err)
			}
			s.onTime(s.at, short, k.touched, gone)
		}
	})
}

// A member whose disk is new replies for a voter only once it votes, and one that dies does not reply in the rounds in
// flight. Sessions live through both.
func TestSessionsOutliveJoining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{T: t, Ensemble: cluster.Start(t, 3, cluster.Options{})}
		s.at = s.Ready()
		s.Joined()
		joins, dies := s.Followers()[0], s.Followers()[1]
		s.Kill(joins)
		s.Wipe(joins)
		k := s.open(s.at, usual)
		k.create("/e", jute.Ephemeral)
		s.Boot(joins)
		for range 10 {
			k.ok(jute.OpPing, nil)
			time.Sleep(20 * time.Millisecond)
		}
		s.Joined() // before that, the ensemble of three has lost one disk, and survives no second loss
		s.Kill(dies)
		for range 20 {
			k.ok(jute.OpPing, nil)
			time.Sleep(tick)
		}
		s.open(joins, usual).ok(jute.OpExists, existsRequest("/e"))
	})
}
