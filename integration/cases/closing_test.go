package cases

import (
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/integration/cluster"
	"rollcall/integration/wire"
	"rollcall/member"
	"rollcall/zk/jute"
)

// closing is group E: how a session ends, and what happens to requests in flight.
var closing = []row{
	{number: 84, name: "reply, then the end", where: everywhere, run: closeReplied},
	{number: 85, name: "ephemeral gone elsewhere", where: everywhere, run: closeSeenElsewhere},
	{number: 86, name: "create before close", where: everywhere, run: createBeforeClose},
	{number: 87, name: "create behind close", where: everywhere, run: createBehindClose},
	{number: 88, name: "connect, close and create in one write", where: everywhere, run: allInOneWrite},
	{number: 89, name: "delete before close", where: everywhere, run: deleteBeforeClose},
	{number: 90, name: "one zxid", where: everywhere, run: closeAtOneZxid},
	{number: 91, name: "path is free", where: everywhere, run: pathFreeAfterClose},
	{number: 92, name: "socket killed", where: everywhere, run: socketKilled},
	{number: 93, name: "member cut off during a close", where: three, run: cutOffDuringClose},
	{number: 94, name: "member cut off, path made again", where: three, run: cutOffPathMadeAgain},
	{number: 95, name: "write into the expiry", where: everywhere, run: writeIntoExpiry, options: cluster.Options{Adjust: slowDisk}},
	{number: 96, name: "persistent nodes stay", where: everywhere, run: persistentStays},
	{number: 97, name: "crash, owner never returns", where: everywhere, run: crashOwnerGone},
	closedAfterSnapshot(),
}

func closeReplied(s *stage) {
	k := s.open(s.at, usual)
	z := k.create("/p", jute.Persistent).Zxid
	xid := k.send(jute.OpCloseSession, nil)
	r, ok := k.answer(xid)
	if !ok || r.Err != jute.OK || r.Zxid != z+1 || len(r.Body) != 0 {
		s.Fatalf("%v, %t; want zxid %#x", r, ok, z+1)
	}
	k.mustEnd(commitTime)
	s.quiesce()
	for _, m := range s.IDs() {
		if s.lives(m, k.id()) {
			s.Errorf("member %d still has the session", m)
		}
	}
}

func closeSeenElsewhere(s *stage) {
	k, other := s.open(s.at, usual), s.open(s.other(), usual)
	k.create("/e", jute.Ephemeral)
	other.sync()
	other.ok(jute.OpExists, existsRequest("/e"))
	k.closeSession()
	other.sync()
	other.want(jute.NoNode, jute.OpExists, existsRequest("/e"))
}

func createBeforeClose(s *stage) {
	for i := range 10 {
		k := s.open(s.at, usual)
		path := fmt.Sprintf("/e%d", i)
		xid := k.pipeline(request{jute.OpCreate, create(path, jute.Ephemeral)}, request{jute.OpCloseSession, nil})
		for x := xid; x < xid+2; x++ {
			if r, ok := k.answer(x); !ok || r.Err != jute.OK {
				s.Fatalf("%v, %t", r, ok)
			}
		}
		k.mustEnd(commitTime)
		s.absent(path)
	}
}

func createBehindClose(s *stage) {
	for i := range 10 {
		k := s.open(s.at, usual)
		path := fmt.Sprintf("/e%d", i)
		xid := k.pipeline(request{jute.OpCloseSession, nil}, request{jute.OpCreate, create(path, jute.Ephemeral)})
		if r, ok := k.answer(xid); !ok || r.Err != jute.OK {
			s.Fatalf("close: %v, %t", r, ok)
		}
		if r, ok := k.answer(xid + 1); ok && r.Err != jute.SessionExpired {
			s.Fatalf("create after the close: %v", r)
		}
		k.mustEnd(commitTime)
		s.absent(path)
	}
}

func allInOneWrite(s *stage) {
	watcher := s.open(s.at, usual)
	for range 10 {
		c := s.dial(s.at)
		b := hexBytes(s, connectNew)
		b = appendFrame(b, wire.Frame(1, jute.OpCloseSession, nil))
		b = appendFrame(b, wire.Frame(2, jute.OpCreate, create("/e", jute.Ephemeral)))
		if _, err := c.Write(b); err != nil {
			s.Fatal(err)
		}
		resp, err := c.ReadConnect()
		if err != nil || resp.SessionID == 0 {
			s.Fatalf("handshake: %+v, %v", resp, err)
		}
		for _, err := c.Recv(); err == nil; _, err = c.Recv() {
		}
		s.absent("/e")
		if list := watcher.children("/"); !slices.Equal(list, []string{"zookeeper"}) {
			s.Fatalf("below the root: %v", list)
		}
	}
}

func deleteBeforeClose(s *stage) {
	k := s.open(s.at, usual)
	k.create("/e", jute.Ephemeral)
	s.quiesce()
	var watchers []*session
	for _, m := range s.IDs() {
		w := s.open(m, usual)
		s.must(w.watchData("/e"), jute.OK)
		s.must(w.watchExists("/e"), jute.OK)
		watchers = append(watchers, w)
	}
	xid := k.pipeline(request{jute.OpDelete, remove("/e")}, request{jute.OpCloseSession, nil})
	for x := xid; x < xid+2; x++ {
		if r, ok := k.answer(x); !ok || r.Err != jute.OK {
			s.Fatalf("%v, %t", r, ok)
		}
	}
	for _, w := range watchers {
		w.saw("Deleted(/e)")
	}
}

// However many ephemeral nodes a session has, they are deleted at one zxid, and each watcher gets
// one event for each.
func closeAtOneZxid(s *stage) {
	k := s.open(s.at, usual)
	k.create("/p", jute.Persistent)
	var want []string
	for i := range 5 {
		path := fmt.Sprintf("/p/e%d", i)
		k.create(path, jute.Ephemeral)
		want = append(want, fmt.Sprintf("Deleted(%s)", path))
	}
	s.quiesce()
	var watchers []*session
	for _, m := range s.IDs() {
		w := s.open(m, usual)
		for i := range 5 {
			s.must(w.watchData(fmt.Sprintf("/p/e%d", i)), jute.OK)
		}
		s.must(w.watchChildren("/p"), jute.OK)
		watchers = append(watchers, w)
	}
	before := watchers[0].stat("/p")
	z := k.closeSession().Zxid
	for _, w := range watchers {
		s.quiesce()
		events := w.events()
		got := names(events)
		slices.Sort(got)
		if !slices.Equal(got, append([]string{"Children(/p)"}, want...)) {
			s.Errorf("member %d: events %v", w.member, got)
		}
		for _, f := range events {
			if f.Zxid != z {
				s.Errorf("member %d: %v, the close is %#x", w.member, f.Reply, z)
			}
		}
		after := w.stat("/p")
		if after.Pzxid != z || after.Cversion != before.Cversion+5 || after.Mzxid != before.Mzxid || after.NumChildren != 0 {
			s.Errorf("member %d: %+v, was %+v", w.member, after, before)
		}
	}
	next := watchers[0].set("/p", "y").Zxid
	if next != z+1 {
		s.Errorf("the write after the close is %#x, the close %#x", next, z)
	}
}

func pathFreeAfterClose(s *stage) {
	k, other := s.open(s.at, usual), s.open(s.other(), usual)
	k.create("/e", jute.Ephemeral)
	k.create("/f", jute.Ephemeral)
	k.closeSession()
	other.create("/e", jute.Ephemeral)
	other.create("/f", jute.Persistent)
	if a, b := other.stat("/e").EphemeralOwner, other.stat("/f").EphemeralOwner; a != other.id() || b != 0 {
		s.Errorf("owners %v and %v, want %v and 0", a, b, other.id())
	}
}

func socketKilled(s *stage) {
	k, other := s.open(s.at, short), s.open(s.other(), usual).keep()
	k.create("/e", jute.Ephemeral)
	k.drop()
	other.sync()
	if owner := other.stat("/e").EphemeralOwner; owner != k.id() {
		s.Errorf("owner %v, want %v", owner, k.id())
	}
	k.checkExpiry("/e")
}

// isolate cuts a member off from the others, or reconnects it. Clients can reach it all the time.
func (s *stage) isolate(member uint32, off bool) {
	for _, id := range s.IDs() {
		switch {
		case id == member:
		case off:
			s.Network.Cut(member, id)
		default:
			s.Network.Heal(member, id)
		}
	}
}

func cutOffDuringClose(s *stage) {
	k := s.open(s.other(), 20*tick)
	k.create("/e", jute.Ephemeral)
	s.present("/e")
	s.isolate(s.at, true)
	k.closeSession()
	if !s.has(s.at, "/e") {
		s.Error("the member that was cut off knows of the close")
	}
	time.Sleep(2 * tick)
	s.isolate(s.at, false)
	s.Ready()
	s.absent("/e")
	s.open(s.at, usual).want(jute.NoNode, jute.OpExists, existsRequest("/e"))
}

func cutOffPathMadeAgain(s *stage) {
	k := s.open(s.other(), 20*tick)
	k.create("/e", jute.Ephemeral)
	s.present("/e")
	s.isolate(s.at, true)
	k.closeSession()
	again := s.open(s.third(), 20*tick)
	again.create("/e", jute.Ephemeral)
	again.closeSession()
	time.Sleep(5 * tick)
	s.isolate(s.at, false)
	s.Ready()
	s.absent("/e")
}

// slowLog takes some time to store entries, so that a write is in flight for a while.
type slowLog struct{ raft.LogStore }

func (l slowLog) StoreLog(log *raft.Log) error { return l.StoreLogs([]*raft.Log{log}) }

func (l slowLog) StoreLogs(logs []*raft.Log) error {
	time.Sleep(time.Millisecond)
	return l.LogStore.StoreLogs(logs)
}

func slowDisk(cfg *member.Config) { cfg.Stores.Log = slowLog{cfg.Stores.Log} }

// intoExpiry opens sessions that fall silent together, and returns them. Session i has the
// ephemeral node /e and its number. intoExpiry calls do for each session, around one of the moments
// at which the sessions may expire.
func (s *stage) intoExpiry(do func(i int, k *session)) []*session {
	s.Helper()
	const (
		around = 14                     // sessions for each moment
		step   = 150 * time.Microsecond // between two moments: all are within the time of one write
	)
	pilot := s.open(s.at, short)
	pilot.create("/pilot", jute.Ephemeral)
	phase := pilot.checkExpiry("/pilot") // sessions expire at multiples of half a tick from here
	touched := time.Now()
	var moments []time.Time
	for m := phase; !m.After(touched.Add(short + allGone)); m = m.Add(tick / 2) {
		if m.After(touched.Add(short)) {
			moments = append(moments, m)
		}
	}
	var all []*session
	for i := range around * len(moments) {
		k := s.open(s.at, short)
		k.create(fmt.Sprintf("/e%d", i), jute.Ephemeral)
		all = append(all, k)
	}
	for i, k := range all {
		at := moments[i/around].Add(time.Duration(i%around-around/2) * step)
		time.Sleep(time.Until(at))
		do(i, k)
	}
	time.Sleep(tick)
	s.quiesce()
	return all
}

// Writes are sent at the very moment of the expiry. Each either saves its session or is never
// applied.
func writeIntoExpiry(s *stage) {
	path := func(i int) string { return fmt.Sprintf("/w%d", i) }
	all := s.intoExpiry(func(i int, k *session) { k.send(jute.OpCreate, create(path(i), jute.Persistent)) })
	saved := 0
	for i, k := range all {
		r, answered := k.answer(k.xid)
		applied, lives := s.has(s.at, path(i)), s.lives(s.at, k.id())
		switch {
		case applied && lives && answered && r.Err == jute.OK:
			saved++
		case !applied && !lives && (!answered || r.Err == jute.SessionExpired):
		default:
			s.Errorf("write %d: applied %t, session lives %t, answered %t with %v", i, applied, lives, answered, r)
		}
	}
	if saved == 0 || saved == len(all) {
		s.Errorf("%d of %d writes came in time: none was sent into the moment of the expiry", saved, len(all))
	}
}

func persistentStays(s *stage) {
	k := s.open(s.at, usual)
	k.create("/p", jute.Persistent)
	k.create("/p/e", jute.Ephemeral)
	k.closeSession()
	s.present("/p")
	s.absent("/p/e")
}

// restart kills all members at once and starts them again with their disks.
func (s *stage) restart() {
	for _, id := range s.IDs() {
		s.Kill(id)
	}
	for _, id := range s.IDs() {
		s.Boot(id)
	}
	s.Ready()
}

func crashOwnerGone(s *stage) {
	k := s.open(s.at, short)
	k.create("/e", jute.Ephemeral)
	before := time.Now()
	s.restart()
	served := time.Now() // the leader's term is slightly older
	s.present("/e")
	at, err := s.death(s.at, "/e", patience)
	if err != nil {
		s.Fatal(err)
	}
	if at.Sub(before) <= short || at.Sub(served) > short+allGone {
		s.Errorf("gone %v after the crash and %v after the restart, want a full lease of %v", at.Sub(before), at.Sub(served), short)
	}
	s.absent("/e")
}

// closedAfterSnapshot returns the row whose members take snapshots often; it checks that they did.
func closedAfterSnapshot() row {
	stores := map[uint32]raft.SnapshotStore{}
	return row{
		number: 98, name: "closed after the snapshot", where: everywhere,
		run: func(s *stage) { closeBehindSnapshot(s, stores) },
		options: cluster.Options{Adjust: func(cfg *member.Config) {
			cfg.SnapCount = 20
			stores[cfg.ID] = cfg.Stores.Snapshots
		}},
	}
}

// snapshotIndex returns the log index of a store's newest snapshot, or 0 if it has none.
func snapshotIndex(s *stage, store raft.SnapshotStore) uint64 {
	s.Helper()
	list, err := store.List()
	if err != nil {
		s.Fatal(err)
	}
	var newest uint64
	for _, meta := range list {
		newest = max(newest, meta.Index)
	}
	return newest
}

func (s *stage) index(member uint32) uint64 {
	state := s.Member(member).State()
	state.RLock()
	defer state.RUnlock()
	return state.Index()
}

func closeBehindSnapshot(s *stage, stores map[uint32]raft.SnapshotStore) {
	k := s.open(s.at, 20*tick).keep()
	k.create("/p", jute.Persistent)
	k.create("/e", jute.Ephemeral)
	s.quiesce()
	made := s.index(s.at)
	s.Wait("a snapshot with /e on every member", time.Hour, func() bool {
		k.set("/p", "y")
		return !slices.ContainsFunc(s.IDs(), func(id uint32) bool { return snapshotIndex(s, stores[id]) < made })
	})
	k.closeSession()
	s.quiesce()
	for _, id := range s.IDs() {
		if at := snapshotIndex(s, stores[id]); at >= s.index(id) {
			s.Fatalf("member %d: snapshot at %d holds the close", id, at)
		}
	}
	s.restart()
	s.present("/p")
	s.absent("/e")
	for _, id := range s.IDs() {
		if s.lives(id, k.id()) {
			s.Errorf("member %d has the session again", id)
		}
	}
}
