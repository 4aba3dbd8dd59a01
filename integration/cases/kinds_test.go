package cases

import (
	"fmt"
	"testing"
	"time"

	"rollcall/integration/cluster"
	"rollcall/integration/wire"
	"rollcall/member"
	"rollcall/zk/jute"
)

// kinds is group P: containers, nodes with a TTL, and quotas.
var kinds = []row{
	{number: 273, name: "createContainer", where: everywhere, run: containerMade},
	{number: 274, name: "unused container stays", where: everywhere, options: reaping(), run: containerUnused},
	{number: 275, name: "container goes with its last child", where: everywhere, options: reaping(), run: containerEmptied},
	{number: 276, name: "container with a child left", where: everywhere, options: reaping(), run: containerWithChild},
	{number: 277, name: "one container after the other", where: everywhere, options: reaping(), run: containersCascade},
	{number: 278, name: "ephemeral in a container", where: everywhere, options: reaping(), run: containerOfEphemerals},
	{number: 279, name: "time over", where: everywhere, options: reaping(), run: ttlOver},
	{number: 280, name: "setData gives more time", where: everywhere, options: reaping(), run: ttlChanged},
	{number: 281, name: "time over, with a child", where: everywhere, options: reaping(), run: ttlWithChild},
	{number: 282, name: "times that are none", where: everywhere, run: ttlBad},
	{number: 283, name: "longest time", where: everywhere, run: ttlLongest},
	{number: 284, name: "no TTL nodes", where: everywhere, options: adjusted(func(cfg *member.Config) { cfg.Rules.TTLNodes = false }), run: ttlOff},
	{number: 285, name: "modes that do not fit", where: everywhere, run: ttlModes},
	{number: 286, name: "usage", where: everywhere, run: quotaUsage},
	{number: 287, name: "hard limit of nodes", where: everywhere, options: enforced(), run: quotaOfNodes},
	{number: 288, name: "hard limit of bytes", where: everywhere, options: enforced(), run: quotaOfBytes},
	{number: 289, name: "not enforced", where: everywhere, run: quotaNotEnforced},
	{number: 290, name: "soft limits", where: everywhere, options: enforced(), run: quotaSoft},
}

func adjusted(adjust func(cfg *member.Config)) cluster.Options {
	return cluster.Options{Adjust: adjust}
}

// period is the reaper's interval in the cases that wait for it. reaped is the longest time for which a node still
// exists after the reaper may remove it.
const (
	period = 5 * time.Second
	reaped = period + commitTime
)

func reaping() cluster.Options {
	return adjusted(func(cfg *member.Config) { cfg.Reaping.Interval = period })
}

func enforced() cluster.Options {
	return adjusted(func(cfg *member.Config) { cfg.Rules.EnforceQuota = true })
}

// container creates a container and checks the reply.
func (k *session) container(path string) {
	k.s.Helper()
	var resp jute.Create2Response
	k.into(k.ok(jute.OpCreateContainer, create(path, jute.Container)), &resp)
	if string(resp.Path) != path || resp.Stat.EphemeralOwner != 0 || resp.Stat.Czxid == 0 {
		k.s.Fatalf("container %s: %s, %+v", path, resp.Path, resp.Stat)
	}
}

func timed(path string, mode jute.CreateMode, ttl int64) wire.Record {
	return jute.CreateTTLRequest{CreateRequest: create(path, mode), TTL: ttl}
}

// stays checks that a node exists for some periods.
func (s *stage) stays(path string) {
	s.Helper()
	time.Sleep(4 * period)
	s.present(path)
}

// awaitReaped waits until the reaper has removed a node, and returns the time that it waited.
func (s *stage) awaitReaped(path string, limit time.Duration) time.Duration {
	s.Helper()
	begun := time.Now()
	at, err := s.death(s.at, path, limit)
	if err != nil {
		s.Fatal(err)
	}
	s.absent(path)
	return at.Sub(begun)
}

func containerMade(s *stage) {
	k := s.open(s.at, usual)
	k.container("/c")
	if st := k.stat("/c"); st.EphemeralOwner != 0 || st.Version != 0 || st.Cversion != 0 {
		s.Errorf("%+v", st)
	}
}

func containerUnused(s *stage) {
	s.open(s.at, usual).keep().container("/c")
	s.stays("/c")
}

func containerEmptied(s *stage) {
	w, k := s.pair()
	w.keep()
	k.keep().container("/c")
	k.create("/c/x", jute.Persistent)
	s.stays("/c")
	s.must(w.watchExists("/c"), jute.OK)
	s.must(w.watchChildren("/"), jute.OK)
	k.remove("/c/x")
	s.awaitReaped("/c", reaped)
	w.saw("Deleted(/c)", "Children(/)")
}

func containerWithChild(s *stage) {
	k := s.open(s.at, usual).keep()
	k.container("/c")
	k.create("/c/x", jute.Persistent)
	k.create("/c/y", jute.Persistent)
	k.remove("/c/x")
	s.stays("/c")
}

func containersCascade(s *stage) {
	k := s.open(s.at, usual).keep()
	k.container("/c")
	k.container("/c/d")
	k.create("/c/d/x", jute.Persistent)
	s.stays("/c/d")
	k.remove("/c/d/x")
	s.awaitReaped("/c/d", reaped)
	s.present("/c")
	s.awaitReaped("/c", reaped)
}

func containerOfEphemerals(s *stage) {
	k, e := s.pair()
	k.keep().container("/c")
	e.keep().create("/c/e", jute.Ephemeral)
	s.stays("/c/e")
	e.closeSession()
	s.awaitReaped("/c", reaped)
}

func ttlOver(s *stage) {
	k := s.open(s.at, usual).keep()
	time.Sleep(period - time.Second) // the reaper just misses it
	var resp jute.Create2Response
	k.into(k.ok(jute.OpCreateTTL, timed("/t", jute.PersistentWithTTL, 100)), &resp)
	if string(resp.Path) != "/t" || resp.Stat.EphemeralOwner != 0 {
		s.Errorf("%s, %+v", resp.Path, resp.Stat)
	}
	s.awaitReaped("/t", 100*time.Millisecond+reaped)
}

func ttlChanged(s *stage) {
	const ttl = 3 * period
	k := s.open(s.at, usual).keep()
	k.ok(jute.OpCreateTTL, timed("/t", jute.PersistentWithTTL, ttl.Milliseconds()))
	for range 4 {
		time.Sleep(2 * period)
		k.set("/t", "y")
	}
	s.present("/t")
	if lasted := s.awaitReaped("/t", ttl+reaped); lasted < ttl-commitTime {
		s.Errorf("it lasted %v from its last change, of %v", lasted, ttl)
	}
}

func ttlWithChild(s *stage) {
	k := s.open(s.at, usual).keep()
	k.ok(jute.OpCreateTTL, timed("/t", jute.PersistentWithTTL, 100))
	k.create("/t/x", jute.Persistent)
	s.stays("/t")
	k.remove("/t/x")
	s.awaitReaped("/t", reaped)
}

func ttlBad(s *stage) {
	k := s.open(s.at, usual)
	for _, ttl := range []int64{0, -1, jute.MaxTTL + 1} {
		k.want(jute.BadArguments, jute.OpCreateTTL, timed("/t", jute.PersistentWithTTL, ttl))
		k.want(jute.BadArguments, jute.OpCreateTTL, timed("/t", jute.PersistentSequentialWithTTL, ttl))
	}
	k.mustLive()
	s.absent("/t")
}

func ttlLongest(s *stage) {
	k := s.open(s.at, usual)
	k.ok(jute.OpCreateTTL, timed("/t", jute.PersistentWithTTL, 0xFFFFFFFFFF))
	var resp jute.Create2Response
	k.into(k.ok(jute.OpCreateTTL, timed("/t-", jute.PersistentSequentialWithTTL, 0xFFFFFFFFFF)), &resp)
	if string(resp.Path) != "/t-0000000001" {
		s.Errorf("%s", resp.Path)
	}
	s.present("/t")
}

func ttlOff(s *stage) {
	k := s.open(s.at, usual)
	z := k.create("/before", jute.Persistent).Zxid
	r := k.want(jute.Unimplemented, jute.OpCreateTTL, timed("/t", jute.PersistentWithTTL, 100))
	if r.Zxid != z+1 {
		s.Errorf("%v after %#x", r, z)
	}
	k.want(jute.Unimplemented, jute.OpCreate, create("/t", jute.PersistentWithTTL))
	k.mustLive()
}

func ttlModes(s *stage) {
	k := s.open(s.at, usual)
	k.want(jute.BadArguments, jute.OpCreateTTL, timed("/t", jute.Persistent, 100))
	k.want(jute.BadArguments, jute.OpCreateTTL, timed("/t", jute.Persistent, -1))
	k.want(jute.BadArguments, jute.OpCreate, create("/t", jute.PersistentWithTTL))
	k.want(jute.BadArguments, jute.OpCreate2, create("/t", jute.PersistentSequentialWithTTL))
	k.create("/plain", jute.Container) // a container, through this opcode
	k.mustLive()
	s.absent("/t")
}

const (
	qLimits = "/zookeeper/quota/q/zookeeper_limits"
	qUsage  = "/zookeeper/quota/q/zookeeper_stats"
)

// quota creates /q without data and a quota on it, as clients do.
func (k *session) quota(limits string) {
	k.s.Helper()
	for _, n := range [][2]string{{"/q", ""}, {"/zookeeper/quota/q", ""}, {qLimits, limits}, {qUsage, "count=0,bytes=0"}} {
		k.ok(jute.OpCreate, jute.CreateRequest{Path: []byte(n[0]), Data: []byte(n[1]), ACL: jute.OpenACL})
	}
}

// usage checks the text of the usage node and returns its Stat.
func (k *session) usage(want string) jute.Stat {
	k.s.Helper()
	var resp jute.GetDataResponse
	k.into(k.ok(jute.OpGetData, get(qUsage)), &resp)
	if string(resp.Data) != want {
		k.s.Fatalf("usage %q, want %q", resp.Data, want)
	}
	return resp.Stat
}

func quotaUsage(s *stage) {
	w, k := s.pair()
	k.quota("count=10,bytes=100")
	before := k.usage("count=1,bytes=0")
	s.quiesce()
	s.must(w.watchData(qUsage), jute.OK)
	k.ok(jute.OpCreate, jute.CreateRequest{Path: []byte("/q/a"), Data: []byte("123456"), ACL: jute.OpenACL})
	after := k.usage("count=2,bytes=6")
	if after.Version != 0 || after.Mzxid != before.Mzxid || after.Mtime != before.Mtime {
		s.Errorf("%+v, was %+v", after, before)
	}
	k.set("/q/a", "1")
	k.usage("count=2,bytes=1")
	k.remove("/q/a")
	k.usage("count=1,bytes=0")
	w.saw()
}

func quotaOfNodes(s *stage) {
	k := s.open(s.at, usual)
	k.quota("count=-1,bytes=-1=;countHardLimit=2")
	k.create("/q/a", jute.Persistent)
	k.want(jute.QuotaExceeded, jute.OpCreate, create("/q/b", jute.Persistent))
	k.mustLive()
	k.remove("/q/a")
	k.multi("1 /q/a, 1 /q/b", opCreate("/q/a", 0), opCreate("/q/b", 0)) // each of them alone fits
	k.multi("-1/0, -1/-125", opDelete("/q/b"), opCreate("/q/c", 0))
	k.usage("count=3,bytes=2")
}

func quotaOfBytes(s *stage) {
	k := s.open(s.at, usual)
	k.quota("count=-1,bytes=-1=;byteHardLimit=5")
	k.want(jute.QuotaExceeded, jute.OpSetData, set("/q", "123456"))
	k.set("/q", "12345")
	k.want(jute.QuotaExceeded, jute.OpCreate, create("/q/a", jute.Persistent))
	k.usage("count=1,bytes=5")
}

func quotaNotEnforced(s *stage) {
	k := s.open(s.at, usual)
	k.quota("count=-1,bytes=-1=;byteHardLimit=5;countHardLimit=1")
	k.set("/q", "123456")
	k.create("/q/a", jute.Persistent)
	k.usage("count=2,bytes=7")
}

func quotaSoft(s *stage) {
	k := s.open(s.at, usual)
	k.quota("count=1,bytes=5")
	k.set("/q", "123456")
	k.create("/q/a", jute.Persistent)
	k.usage("count=2,bytes=7")
}

// A new leader removes nodes that are due. Quotas stay as they were after the old leader is lost
// and after all members have restarted.
func TestKindsOutliveLeaders(t *testing.T) {
	on(t, leader|followerOne, reaping(), func(s *stage) {
		k := s.open(s.other(), usual)
		k.quota("count=10,bytes=100")
		k.container("/q/c")
		k.create("/q/c/x", jute.Persistent)
		k.ok(jute.OpCreateTTL, timed("/q/t", jute.PersistentWithTTL, 1000))
		k.remove("/q/c/x")
		k.usage("count=3,bytes=2")
		k.drop()
		old := s.Leader()
		s.Kill(old)
		s.Ready()
		s.present("/q/t")
		for _, id := range s.IDs() {
			if id != old {
				s.Kill(id)
			}
		}
		for _, id := range s.IDs() {
			s.Boot(id)
		}
		s.Ready()
		s.awaitReaped("/q/c", 2*reaped)
		s.awaitReaped("/q/t", commitTime)
		k = s.open(s.at, usual)
		k.usage("count=1,bytes=0")
	})
}

// The leader logs that a quota is exceeded, but not with every write.
func TestOverusedQuotaIsTold(t *testing.T) {
	var told []string
	opts := cluster.Options{Events: func(e member.Event) {
		if e.Kind == member.EventQuotaOverused {
			told = append(told, fmt.Sprintf("member %d: %+v, %d", e.Member, e.Quota, e.Overuses))
		}
	}}
	on(t, standalone|followerOne, opts, func(s *stage) {
		k := s.open(s.at, 20*time.Second)
		k.quota("count=1,bytes=-1")
		told = nil
		for i := range 10 {
			k.create(fmt.Sprintf("/q/%d", i), jute.Persistent)
		}
		time.Sleep(10 * time.Second)
		k.create("/q/x", jute.Persistent)
		s.quiesce()
		want := fmt.Sprintf("[member %[1]d: {Path:/q Count:2 CountLimit:1 Bytes:1 BytesLimit:-1}, 1 member %[1]d: {Path:/q Count:12 CountLimit:1 Bytes:11 BytesLimit:-1}, 10]", s.Leader())
		if got := fmt.Sprint(told); got != want {
			s.Errorf("told %s, want %s", got, want)
		}
	})
}
