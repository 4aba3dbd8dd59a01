package cases

import (
	"fmt"
	"testing"
	"time"

	"rollcall/integration/cluster"
	"rollcall/zk/jute"
)

// reconnect is group D: sessions that move to another connection or member.
var reconnect = []row{
	{number: 67, name: "second connection, same member", where: everywhere, run: secondConnection},
	{number: 68, name: "write on the old connection, same member", where: everywhere, run: oldConnectionWrites},
	{number: 69, name: "read on the old connection", where: three, run: oldConnectionReads, differs: "session moved: reads and pings on the old connection"},
	{number: 70, name: "create on the old connection", where: three, run: oldConnectionCreates},
	{number: 71, name: "multi on the old connection", where: three, run: oldConnectionMultis, differs: "session moved: `closeSession` or an empty `multi` on the old connection"},
	{number: 72, name: "old connection ends by itself", where: three, run: oldConnectionEnds, differs: "session moved: reads and pings on the old connection"},
	{number: 73, name: "close on the old connection", where: three, run: oldConnectionCloses, differs: "session moved: `closeSession` or an empty `multi` on the old connection"},
	{number: 74, name: "there and back", where: three, run: thereAndBack},
	{number: 75, name: "twenty hops", where: three, run: twentyHops},
	{number: 76, name: "two clients, one session", where: everywhere, run: twoClients},
	{number: 77, name: "member killed", where: three, run: memberKilled},
	{number: 78, name: "watches and identities stay behind", where: everywhere, run: nothingComesAlong},
	{number: 79, name: "member behind the client", where: followers, run: memberBehind},
	{number: 80, name: "cut before the reply", where: everywhere, run: cutBeforeReply},
	{number: 81, name: "leader dies during a resume", where: followers, run: leaderDiesDuringResume, differs: "the leader dies while a session is resumed"},
	{number: 82, name: "resume in the moment of expiry", where: everywhere, run: resumeIntoExpiry, differs: "resume of a session that is just being expired", options: cluster.Options{Adjust: slowDisk}},
	{number: 83, name: "stranger with a wrong password", where: everywhere, run: wrongPassword, differs: "resume with a wrong password"},
}

// Two clients resume one session whenever they lose it. They take it from each other, and neither
// gets a code that says so.
func twoClients(s *stage) {
	k := s.open(s.at, usual)
	for i := range 10 {
		next := k.resume(s.IDs()[i%len(s.IDs())])
		next.create(fmt.Sprintf("/n%d", i), jute.Persistent)
		k.send(jute.OpCreate, create(fmt.Sprintf("/old%d", i), jute.Persistent))
		k.mustEnd(usual) // and there is no reply
		k = next
	}
	s.present("/n9")
	s.absent("/old9")
}

func secondConnection(s *stage) {
	k := s.open(s.at, usual)
	before := time.Now()
	next := k.resume(s.at)
	if at := k.mustEnd(commitTime); at.Sub(before) > commitTime {
		s.Errorf("the old connection was closed after %v", at.Sub(before))
	}
	next.mustLive()
}

// oldConnectionWrites pipelines writes on a connection while another one takes the session over.
// All writes up to some point are applied, and none after the new connection's first.
func oldConnectionWrites(s *stage) {
	k := s.open(s.at, usual)
	const n = 40
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range n {
			k.send(jute.OpCreate, create(fmt.Sprintf("/old%02d", i), jute.Persistent))
			time.Sleep(100 * time.Microsecond)
		}
	}()
	time.Sleep(n / 2 * 100 * time.Microsecond)
	next := k.resume(s.at)
	z := next.create("/new", jute.Persistent).Zxid
	<-done
	k.drop()
	s.quiesce()
	answered := 0
	for f, ok := k.next(); ok; f, ok = k.next() {
		if f.Err == jute.OK {
			answered++
		}
	}
	applied := 0
	for i := range n {
		path := fmt.Sprintf("/old%02d", i)
		if !s.has(s.at, path) {
			continue
		}
		applied++
		if st := next.stat(path); st.Czxid > z {
			s.Errorf("%s came at %#x, after the new connection's %#x", path, st.Czxid, z)
		}
	}
	if applied < answered || applied == 0 || applied == n {
		s.Errorf("%d of %d applied, %d answered", applied, n, answered)
	}
}

// takenOver opens a session at s.at and resumes it elsewhere while s.at is cut off from the others,
// so that the old connection stays open. It returns both.
func (s *stage) takenOver() (old, next *session) {
	s.Helper()
	old = s.open(s.at, 20*tick)
	old.create("/e", jute.Ephemeral)
	s.quiesce()
	s.isolate(s.at, true)
	next = old.resume(s.other())
	return old, next
}

// mend ends the isolation of s.at.
func (s *stage) mend() {
	s.Helper()
	s.isolate(s.at, false)
	s.Ready()
	s.quiesce()
}

// Reads are answered until the member learns of the move; then it closes the connection.
func oldConnectionReads(s *stage) {
	old, next := s.takenOver()
	old.ok(jute.OpExists, existsRequest("/e"))
	old.ok(jute.OpPing, nil)
	s.mend()
	old.mustEnd(0)
	next.mustLive()
}

func oldConnectionCreates(s *stage) {
	old, next := s.takenOver()
	old.send(jute.OpCreate, create("/stale", jute.Persistent))
	next.create("/fresh", jute.Persistent)
	s.mend()
	old.mustEnd(0)
	s.absent("/stale")
	next.mustLive()
}

func oldConnectionMultis(s *stage) {
	for _, m := range []multi{
		{{Op: jute.OpCreate, Create: create("/stale", jute.Persistent)}},
		{},
	} {
		old, next := s.takenOver()
		old.send(jute.OpMulti, m)
		s.mend()
		old.mustEnd(0)
		s.absent("/stale")
		next.mustLive()
		next.closeSession()
	}
}

func oldConnectionEnds(s *stage) {
	k := s.open(s.at, usual)
	next := k.resume(s.other())
	k.mustEnd(commitTime)
	next.ok(jute.OpPing, nil)
}

// A close from a connection that no longer owns the session closes nothing.
func oldConnectionCloses(s *stage) {
	old, next := s.takenOver()
	old.send(jute.OpCloseSession, nil)
	s.mend()
	old.mustEnd(0)
	next.mustLive()
	s.present("/e")
}

func thereAndBack(s *stage) {
	k := s.open(s.at, usual)
	there := k.resume(s.other())
	back := there.resume(s.at)
	back.create("/a", jute.Persistent)
	s.present("/a")
	k.mustEnd(commitTime)
	there.mustEnd(commitTime)
}

func twentyHops(s *stage) {
	k := s.open(s.at, usual)
	for hop := range 20 {
		old := k
		k = old.resume(s.IDs()[hop%3])
		stale, fresh := fmt.Sprintf("/stale%d", hop), fmt.Sprintf("/fresh%d", hop)
		old.send(jute.OpCreate, create(stale, jute.Persistent))
		k.create(fresh, jute.Persistent)
		old.mustEnd(commitTime)
		s.absent(stale)
		s.present(fresh)
	}
}

func memberKilled(s *stage) {
	k := s.open(s.at, usual)
	k.create("/e", jute.Ephemeral)
	s.quiesce()
	var watchers []*session
	for _, m := range []uint32{s.other(), s.third()} {
		w := s.open(m, 20*tick).keep()
		s.must(w.watchExists("/e"), jute.OK)
		watchers = append(watchers, w)
	}
	s.Kill(s.at)
	<-k.gone
	time.Sleep(usual / 2)
	next := k.resume(s.other()).keep()
	time.Sleep(2 * usual)
	if owner := next.stat("/e").EphemeralOwner; owner != k.id() {
		s.Errorf("owner %v", owner)
	}
	s.Boot(s.at)
	s.Ready()
	for _, w := range watchers {
		w.saw()
	}
	s.present("/e")
}

func nothingComesAlong(s *stage) {
	k := s.open(s.at, usual)
	k.ok(jute.OpAuth, digest("u:p"))
	k.ok(jute.OpCreate, jute.CreateRequest{Path: []byte("/mine"), ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("auth")}}}})
	k.create("/a", jute.Persistent)
	s.must(k.watchData("/a"), jute.OK)
	next := k.resume(s.other())
	k.mustEnd(commitTime)
	next.set("/a", "y")
	next.saw()
	next.want(jute.NoAuth, jute.OpGetData, get("/mine"))
	next.ok(jute.OpAuth, digest("u:p"))
	next.ok(jute.OpGetData, get("/mine"))
}

// A client never goes back in time: a member that has not applied what the client has seen accepts
// it only once it has.
func memberBehind(s *stage) {
	k := s.open(s.Leader(), 20*tick)
	s.quiesce()
	s.isolate(s.at, true)
	seen := k.create("/a", jute.Persistent).Zxid
	req := claim(k.granted)
	req.LastZxidSeen = seen
	k.drop()
	s.unanswered(s.at, req, tick)
	s.mend()
	next := s.start(s.at, req)
	next.ok(jute.OpExists, existsRequest("/a"))
}

func cutBeforeReply(s *stage) {
	for i := range 10 {
		k := s.open(s.at, usual)
		path := fmt.Sprintf("/a%d", i)
		k.create(path, jute.Persistent)
		if s.place&followers != 0 && i%2 == 1 {
			s.Network.Cut(s.at, s.Leader())
		}
		k.send(jute.OpCreate, create(path+"/n-", jute.PersistentSequential))
		k.drop()
		if s.place&followers != 0 && i%2 == 1 {
			s.Network.Heal(s.at, s.Leader())
			s.Ready()
		}
		next := k.resume(s.at)
		next.sync()
		s.quiesce()
		if n := len(next.children(path)); n > 1 {
			s.Errorf("created %d times", n)
		}
	}
}

// The handshake waits for another leader. It is never rejected because there is none.
func leaderDiesDuringResume(s *stage) {
	k := s.open(s.at, 20*tick)
	k.create("/e", jute.Ephemeral)
	k.drop()
	s.quiesce()
	c := s.dial(s.at)
	s.Kill(s.Leader())
	if err := jute.WriteFrame(c.Conn, claim(k.granted).Append(nil)); err != nil {
		s.Fatal(err)
	}
	resp, err := c.ReadConnect()
	if err == nil && resp.SessionID != k.id() {
		s.Fatalf("resume during an election: %+v", resp)
	}
	if err != nil {
		s.Logf("closed without an answer: %v", err)
	}
	k.resume(s.at).mustLive()
	s.present("/e")
}

// Resumes are sent at the very moment of the expiry. Each saves its session or is rejected. Unlike with ZooKeeper, that
// includes one that arrives when the session is marked as closing.
func resumeIntoExpiry(s *stage) {
	type outcome struct {
		resp jute.ConnectResponse
		err  error
	}
	var outcomes []*outcome
	all := s.intoExpiry(func(_ int, k *session) {
		o := &outcome{}
		outcomes = append(outcomes, o)
		c := s.dial(s.at)
		go func() { o.resp, o.err = c.Handshake(claim(k.granted)) }()
	})
	saved := 0
	for i, k := range all {
		o, lives := outcomes[i], s.lives(s.at, k.id())
		if o.err != nil || (o.resp.SessionID == k.id()) != lives || lives != s.has(s.at, fmt.Sprintf("/e%d", i)) {
			s.Errorf("resume %d: %+v, %v; session lives: %t", i, o.resp, o.err, lives)
		}
		if lives {
			saved++
		}
	}
	if saved == 0 || saved == len(all) {
		s.Errorf("%d of %d resumes came in time: none was sent into the moment of the expiry", saved, len(all))
	}
}

// A session that moves to another member keeps itself, its ephemerals and, by setWatches, its
// watches. The old connection is closed, and no write of it is applied after the move.
func TestResumeElsewhere(t *testing.T) {
	on(t, three, cluster.Options{}, func(s *stage) {
		writer := s.open(s.third(), 20*tick).keep()
		for _, path := range []string{"/data", "/missed", "/gone", "/parent"} {
			writer.create(path, jute.Persistent)
		}
		s.quiesce()
		old := s.open(s.at, 20*tick)
		old.create("/e", jute.Ephemeral)
		for _, path := range []string{"/data", "/missed", "/gone"} {
			s.must(old.watchData(path), jute.OK)
		}
		s.must(old.watchExists("/later"), jute.NoNode)
		s.must(old.watchChildren("/parent"), jute.OK)
		seen := old.ok(jute.OpPing, nil).Zxid
		s.quiesce() // all members have now applied what the client has seen, so each of them accepts the client

		s.isolate(s.at, true) // the old connection stays open for a while
		for i := range 20 {
			old.send(jute.OpCreate, create(fmt.Sprintf("/stale%d", i), jute.Persistent))
		}
		writer.set("/missed", "y")
		writer.remove("/gone")
		req := claim(old.granted)
		req.LastZxidSeen = seen
		next := s.start(s.other(), req).keep()
		if next.id() != old.id() {
			t.Fatalf("session %v became %v", old.id(), next.id())
		}
		watches := jute.SetWatches{
			RelativeZxid: seen,
			Data:         [][]byte{[]byte("/data"), []byte("/missed"), []byte("/gone")},
			Exist:        [][]byte{[]byte("/later")},
			Child:        [][]byte{[]byte("/parent")},
		}
		next.ok(jute.OpSetWatches, watches)
		if got, want := fmt.Sprint(names(next.events())), "[Changed(/missed) Deleted(/gone)]"; got != want {
			t.Errorf("the missed events are %v, want %v", got, want)
		}
		moved := next.create("/moved", jute.Persistent).Zxid

		s.mend()
		old.events() // events of changes before the move
		old.mustEnd(0)
		for i := range 20 {
			s.absent(fmt.Sprintf("/stale%d", i))
		}
		if owner := next.stat("/e").EphemeralOwner; owner != old.id() {
			t.Errorf("/e is owned by %v", owner)
		}
		writer.set("/data", "y")
		writer.create("/later", jute.Persistent)
		writer.create("/parent/child", jute.Persistent)
		next.saw("Changed(/data)", "Created(/later)", "Children(/parent)")
		next.mustLive()
		s.present("/e")
		if z := next.stat("/moved").Czxid; z != moved {
			t.Errorf("/moved was made at %#x and %#x", moved, z)
		}
	})
}

// A client that comes back too late hears of the expiry from every member, and never gets the session.
func TestResumeAfterExpiryRefused(t *testing.T) {
	on(t, everywhere, cluster.Options{}, func(s *stage) {
		k := s.open(s.at, short)
		k.create("/e", jute.Ephemeral)
		k.drop()
		k.checkExpiry("/e")
		s.quiesce()
		for range 3 {
			for _, m := range s.IDs() {
				s.checkRejected(m, claim(k.granted))
			}
		}
		s.restart()
		for _, m := range s.IDs() {
			s.checkRejected(m, claim(k.granted))
		}
		s.absent("/e")
	})
}
