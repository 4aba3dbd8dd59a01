package cases

import (
	"regexp"
	"strings"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/zk/jute"
)

// local is the feature that some cases wait for.
const local = "local sessions"

// ensembles is group Q: members that come and go, and the content of the configuration node.
var ensembles = []row{
	{number: 291, name: "leader killed", where: followers, run: leaderKilled, differs: "the leader dies, seen on another member"},
	{number: 292, name: "follower cut off", held: "integration.TestClientsOfACutOffMemberMoveInTime", differs: "member cut off from the leader"},
	{number: 293, name: "leader cut off", where: leader, run: leaderCutOff},
	{number: 294, name: "follower paused", where: followers, run: followerPaused},
	{number: 295, name: "first zxid of a new leader", where: followers, run: zxidOfNewLeader},
	{number: 296, name: "configuration of three", where: three, run: configOfThree},
	{number: 297, name: "configuration of one", where: standalone, run: configOfOne},
	{number: 298, name: "reconfig while it is disabled", where: everywhere, run: reconfigDisabled},
	{number: 299, name: "reconfig without a right", where: three, run: reconfigByNobody, options: reconfigOn},
	{number: 300, name: "reconfig by super", where: three, run: reconfigBySuper, options: reconfigOn},
	{number: 301, name: "reconfig by a user", where: three, run: reconfigByUser, options: reconfigOn},
	{number: 302, name: "reconfig, standalone", where: standalone, run: reconfigAlone, options: reconfigOn},
	{number: 303, name: "reconfig of another version", where: three, run: reconfigOfAnotherVersion, options: reconfigOn},
	{number: 304, name: "reconfig of an odd line", where: three, run: reconfigOfOddLine, options: reconfigOn},
	{number: 305, name: "reconfig without a majority", where: three, run: reconfigWithoutMajority, options: reconfigOn},
	{number: 306, name: "ephemeral of a local session", later: local},
	{number: 307, name: "zxids and local sessions", later: local},
	{number: 308, name: "local session elsewhere", later: local},
	{number: 309, name: "local session upgraded", later: local},
	{number: 310, name: "read-only client", where: three, run: readOnlyClient, options: readOnlyOn, differs: "a new session in read-only mode"},
	{number: 311, name: "read-only operations", where: three, run: readOnlyOperations, options: readOnlyOn},
	{number: 312, name: "isro", where: three, run: readOnlyWords, options: readOnlyOn},
}

// Rollcall's clients on other members notice nothing.
func leaderKilled(s *stage) {
	k := s.open(s.at, usual).keep()
	k.create("/e", jute.Ephemeral)
	s.quiesce()
	s.Kill(s.Leader())
	k.create("/behind", jute.Persistent) // it waits for the next leader
	k.mustLive()
	s.Restart()
	s.Ready()
	s.present("/e")
}

// A leader that is cut off from both followers expires no session, acknowledges no write, and closes its clients'
// connections. Their sessions live on elsewhere.
func leaderCutOff(s *stage) {
	k := s.open(s.at, usual).keep()
	k.create("/e", jute.Ephemeral)
	silent := s.open(s.at, 4*time.Second)
	silent.create("/silent", jute.Ephemeral)
	s.quiesce()
	old := s.at
	s.Isolate(old)
	k.send(jute.OpCreate, create("/lost", jute.Persistent))
	k.mustEnd(usual)
	if !s.has(old, "/silent") || s.has(old, "/lost") {
		s.Error("the leader that is cut off has expired a session, or applied a write")
	}
	next := k.resume(s.other()).keep()
	next.mustLiveAt(s.other())
	s.Rejoin(old)
	s.Ready()
	s.present("/e")
	s.absent("/lost")
}

// mustLiveAt does what mustLive does, at a member other than s.at.
func (k *session) mustLiveAt(member uint32) {
	k.s.Helper()
	k.ok(jute.OpPing, nil)
	if !k.s.lives(member, k.id()) {
		k.s.Fatalf("session %v is gone", k.id())
	}
}

func followerPaused(s *stage) {
	k := s.open(s.at, usual)
	k.create("/e", jute.Ephemeral)
	s.quiesce()
	s.Pause(s.at)
	time.Sleep(6 * tick) // longer than the sync limit
	next := k.resume(s.other()).keep()
	next.mustLiveAt(s.other())
	s.Resume(s.at)
	s.Ready()
	time.Sleep(usual)
	next.mustLiveAt(s.other())
	s.present("/e")
}

func zxidOfNewLeader(s *stage) {
	k := s.open(s.at, usual).keep()
	z := k.create("/a", jute.Persistent).Zxid
	s.quiesce()
	s.Kill(s.Leader())
	if next := k.create("/b", jute.Persistent).Zxid; next>>32 <= z>>32 {
		s.Errorf("zxid %#x in the next leader's term, %#x before", next, z)
	}
	s.Restart()
	s.Ready()
}

// configText is the data of /zookeeper/config. The version is the zxid of the first leader's TermStart.
var configText = regexp.MustCompile(`^server\.1=m1:2888:3888:participant;m1:2181
server\.2=m2:2888:3888:participant;m2:2181
server\.3=m3:2888:3888:participant;m3:2181
version=[1-9a-f]00000000$`)

func configOfThree(s *stage) {
	k := s.open(s.at, usual)
	if got := k.data("/zookeeper/config"); !configText.Match(got) {
		s.Errorf("%q, want a match of %v", got, configText)
	}
	if v := k.stat("/zookeeper/config").Version; v != -1 {
		s.Errorf("version %d, want -1", v)
	}
}

func configOfOne(s *stage) {
	if got := s.open(s.at, usual).data("/zookeeper/config"); len(got) != 0 {
		s.Errorf("%q", got)
	}
}

func reconfigDisabled(s *stage) {
	k := s.open(s.at, usual)
	z := k.create("/a", jute.Persistent).Zxid
	for i, rec := range []jute.ReconfigRequest{{CurConfigID: -1}, {LeavingServers: []byte("3"), CurConfigID: -1}} {
		if r := k.want(jute.ReconfigDisabled, jute.OpReconfig, rec); r.Zxid != z+1+int64(i) {
			s.Errorf("zxid %#x, want %#x", r.Zxid, z+1+int64(i))
		}
	}
}

var readOnlyOn = cluster.Options{Adjust: func(cfg *member.Config) { cfg.ReadOnlyMode, cfg.CommandWhitelist = true, nil }}

// forsaken stops the two other members, and waits until the remaining one serves in read-only mode.
func (s *stage) forsaken() {
	s.Helper()
	s.Kill(s.other())
	s.Kill(s.third())
	s.Wait("a read-only member", time.Minute, func() bool { return s.Member(s.at).Role() == "read-only" })
}

// openReadOnly opens a session of the read-only mode at s.at.
func (s *stage) openReadOnly() *session {
	s.Helper()
	k := s.start(s.at, jute.ConnectRequest{TimeOut: 10000, Passwd: make([]byte, 16), ReadOnly: true, HasReadOnly: true})
	if !k.granted.ReadOnly || k.granted.SessionID == 0 {
		s.Fatalf("granted %+v, want a read-only session", k.granted)
	}
	return k
}

func readOnlyClient(s *stage) {
	kept := s.open(s.at, usual)
	s.quiesce()
	s.forsaken()
	s.unanswered(s.at, jute.ConnectRequest{TimeOut: 10000, Passwd: make([]byte, 16), HasReadOnly: true}, tick)
	back := claim(kept.granted)
	back.ReadOnly = true
	s.unanswered(s.at, back, tick)
	k := s.openReadOnly()
	s.company()
	k.mustEnd(patience) // it comes back for an ordinary session
	if s.lives(s.at, k.id()) {
		s.Errorf("session %v is in the state", k.id())
	}
}

func readOnlyOperations(s *stage) {
	s.open(s.at, usual).create("/a", jute.Persistent)
	s.quiesce()
	s.forsaken()
	k := s.openReadOnly()
	k.ok(jute.OpGetData, jute.GetDataRequest{Path: []byte("/a")})
	k.want(jute.NotReadOnly, jute.OpCreate, create("/b", jute.Persistent))
	k.want(jute.NotReadOnly, jute.OpSync, jute.SyncRequest{Path: []byte("/a")})
	k.want(jute.NotReadOnly, jute.OpMulti, multi{opCreate("/b", 0)})
	k.ok(jute.OpCloseSession, nil)
	k.mustEnd(patience)
	s.company()
	s.absent("/b")
}

func readOnlyWords(s *stage) {
	s.checkReply("isro", "rw")
	s.forsaken()
	s.checkReply("isro", "ro")
	if got := s.sendCommand(s.at, "srvr"); !strings.Contains(got, "\nREAD-ONLY mode; serving only read-only clients\n") ||
		!strings.Contains(got, "\nMode: read-only\n") {
		s.Errorf("srvr: %q", got)
	}
	s.company()
}
