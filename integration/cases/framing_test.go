package cases

import (
	"bytes"
	"fmt"
	"sync"
	"time"

	"rollcall/integration/wire"
	"rollcall/zk/jute"
)

// framing is group R: frames, the order of replies, and zxids.
var framing = []row{
	{number: 313, name: "frame of four bytes", where: everywhere, run: frameTooShort},
	{number: 314, name: "the longest frame, and one byte more", where: everywhere, run: frameLongest},
	{number: 315, name: "garbage behind the record", where: everywhere, run: frameGarbage},
	{number: 316, name: "a thousand in one pipeline", where: everywhere, run: pipelineThousand},
	{number: 317, name: "read behind a write", where: everywhere, run: pipelineReadOwnWrite},
	{number: 318, name: "xids are echoed", where: everywhere, run: xidsEchoed},
	{number: 319, name: "auth with a positive xid", where: everywhere, run: xidOfAuth},
	{number: 320, name: "xids of setWatches", where: everywhere, run: xidOfSetWatches},
	{number: 321, name: "ping", where: everywhere, run: pong},
	{number: 322, name: "each write takes one zxid", where: everywhere, run: zxidOfEachWrite},
	{number: 323, name: "reads take none", where: everywhere, run: zxidOfReads},
	{number: 324, name: "zxids on a member that lags", where: followers, run: zxidLagging},
	{number: 325, name: "zxids behind an event", where: everywhere, run: zxidBehindEvent},
	{number: 326, name: "a before b, elsewhere", where: three, run: orderElsewhere},
	{number: 327, name: "one winner for each version", where: everywhere, run: oneWinner},
}

func frameTooShort(s *stage) {
	k := s.open(s.at, usual)
	_, _ = k.Write([]byte{0, 0, 0, 4, 0, 0, 0, 1})
	k.mustEnd(tick)
	k.resume(s.at).mustLive()
}

// longest returns a create whose frame has n bytes.
func longest(n int) []byte {
	rec := jute.CreateRequest{Path: []byte("/big"), ACL: jute.OpenACL}
	rec.Data = make([]byte, n-len(wire.Frame(1, jute.OpCreate, rec)))
	return appendFrame(nil, wire.Frame(1, jute.OpCreate, rec))
}

func frameLongest(s *stage) {
	k := s.open(s.at, usual)
	go func() { _, _ = k.Write(longest(1_048_575)) }()
	if r, ok := k.answer(1); !ok || r.Err != jute.OK {
		s.Fatalf("the longest frame: %v, %t", r, ok)
	}
	k.remove("/big")
	go func() { _, _ = k.Write(longest(1_048_576)) }()
	k.mustEnd(tick)
	s.absent("/big")
}

func frameGarbage(s *stage) {
	k := s.open(s.at, usual)
	rec := append(create("/a", jute.Persistent).Append(nil), "garbage"...)
	k.ok(jute.OpCreate, bytesOf(rec))
	k.ok(jute.OpGetData, bytesOf(append(get("/a").Append(nil), 1, 2, 3)))
	k.mustLive()
}

// Pings are echoed under their own xid.
func pipelineThousand(s *stage) {
	k := s.open(s.at, usual)
	k.create("/a", jute.Persistent)
	var b []byte
	var want []int32
	for i := range int32(1000) {
		xid := k.xid + 1 + i
		op, rec := jute.OpSetData, wire.Record(set("/a", fmt.Sprint(i)))
		switch i % 5 {
		case 1, 2:
			op, rec = jute.OpGetData, get("/a")
		case 3:
			op, rec = jute.OpExists, existsRequest("/none")
		case 4:
			op, rec, xid = jute.OpPing, nil, jute.XidPing
		}
		b = appendFrame(b, wire.Frame(xid, op, rec))
		want = append(want, xid)
	}
	go func() { _, _ = k.Write(b) }()
	for i, xid := range want {
		f, ok := k.next()
		if !ok || f.Xid != xid {
			s.Fatalf("reply %d: %v, %t, want that to xid %d", i, f.Reply, ok, xid)
		}
		if data := fmt.Sprint(i - 1); i%5 == 1 && !bytes.Contains(f.Body, []byte(data)) {
			s.Fatalf("read %d does not show %s", i, data)
		}
	}
}

func pipelineReadOwnWrite(s *stage) {
	k := s.open(s.at, usual)
	first := k.pipeline(request{jute.OpCreate, create("/o", jute.Persistent)}, request{jute.OpGetData, get("/o")})
	for i := range int32(2) {
		if r, ok := k.answer(first + i); !ok || r.Err != jute.OK {
			s.Errorf("request %d: %v, %t", i, r, ok)
		}
	}
}

func xidsEchoed(s *stage) {
	k := s.open(s.at, usual)
	for _, xid := range []int32{7, 3, 2147483647, 5, 5, 0, 1} {
		k.sendAs(xid, jute.OpExists, existsRequest("/"))
		if r, ok := k.answer(xid); !ok || r.Err != jute.OK {
			s.Errorf("xid %d: %v, %t", xid, r, ok)
		}
	}
}

func xidOfAuth(s *stage) {
	k := s.open(s.at, usual)
	k.sendAs(9, jute.OpAuth, digest("u:p"))
	if r, ok := k.answer(9); !ok || r.Err != jute.OK || r.Zxid != 0 {
		s.Errorf("%v, %t", r, ok)
	}
}

func xidOfSetWatches(s *stage) {
	k := s.open(s.at, usual)
	for _, xid := range []int32{jute.XidSetWatches, 5} {
		k.sendAs(xid, jute.OpSetWatches, jute.SetWatches{Data: [][]byte{}, Exist: [][]byte{}, Child: [][]byte{}})
		if r, ok := k.answer(xid); !ok || r.Err != jute.OK {
			s.Errorf("xid %d: %v, %t", xid, r, ok)
		}
	}
}

func pong(s *stage) {
	k := s.open(s.at, usual)
	z := k.create("/a", jute.Persistent).Zxid
	if r := k.ok(jute.OpPing, nil); r.Zxid != z || len(r.Body) != 0 {
		s.Errorf("%v, want zxid %#x and no body", r, z)
	}
}

func zxidOfEachWrite(s *stage) {
	k, other := s.pair()
	z := k.create("/a", jute.Persistent).Zxid
	step := func(what string, got int64) {
		s.Helper()
		if z++; got != z {
			s.Fatalf("%s: zxid %#x, want %#x", what, got, z)
		}
	}
	step("create", k.create("/b", jute.Persistent).Zxid)
	step("failed create", k.want(jute.NodeExists, jute.OpCreate, create("/b", 0)).Zxid)
	step("failed setData", k.want(jute.BadVersion, jute.OpSetData, setAt("/b", 9)).Zxid)
	step("failed multi", k.multi("-1/0, -1/-101", opCreate("/c", 0), opDelete("/none")).Zxid)
	step("close of another", other.closeSession().Zxid)
	s.quiesce()
	step("setData", k.set("/a", "y").Zxid)
}

func zxidOfReads(s *stage) {
	k := s.open(s.at, usual)
	z := k.create("/a", jute.Persistent).Zxid
	for range 10 {
		if r := k.ok(jute.OpGetData, get("/a")); r.Zxid != z {
			s.Errorf("zxid %#x, want %#x", r.Zxid, z)
		}
	}
}

// A client sees on a lagging member what it has seen on another one. The lagging member accepts the
// client only when it has caught up, so zxids do not go down either.
func zxidLagging(s *stage) {
	boss := s.Leader()
	k, writer := s.open(s.at, usual), s.open(s.third(), usual)
	var last int64
	read := func() {
		s.Helper()
		r := k.call(jute.OpExists, existsRequest("/a"))
		if r.Zxid < last {
			s.Errorf("zxid %#x after %#x", r.Zxid, last)
		}
		last = r.Zxid
	}
	s.BlockLog(boss, s.at)
	for i := range 20 {
		switch i {
		case 5:
			s.UnblockLog(boss, s.at)
			s.quiesce()
		case 10:
			s.BlockLog(boss, s.at)
		case 15:
			s.UnblockLog(boss, s.at)
		}
		writer.create(fmt.Sprintf("/n%d", i), jute.Persistent)
		read()
	}
	s.quiesce()
	read()
	if want := s.zxid(boss); last != want {
		s.Errorf("in the end %#x, want %#x", last, want)
	}
}

func zxidBehindEvent(s *stage) {
	w, k := s.pair()
	s.with(k, "/a")
	s.must(w.watchData("/a"), jute.OK)
	z := k.set("/a", "y").Zxid
	events := w.saw("Changed(/a)")
	if events[0].Zxid != z {
		s.Errorf("event of %#x, want %#x", events[0].Zxid, z)
	}
	for _, op := range []jute.Op{jute.OpPing, jute.OpWhoAmI} {
		if r := w.ok(op, nil); r.Zxid < z {
			s.Errorf("%v: zxid %#x after an event of %#x", op, r.Zxid, z)
		}
	}
}

func orderElsewhere(s *stage) {
	k, other := s.pair()
	stop := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for seen, looks := false, 1; !seen; looks++ {
			if looks%16 == 0 {
				time.Sleep(time.Microsecond) // or no time would pass, and a commit that its member hears of later would never come
			}
			b := other.code(jute.OpExists, existsRequest("/b")) == jute.OK
			a := other.code(jute.OpExists, existsRequest("/a")) == jute.OK
			if seen = a && b; b && !a {
				s.Error("/b is there without /a")
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	k.pipeline(request{jute.OpCreate, create("/a", 0)}, request{jute.OpCreate, create("/b", 0)})
	s.present("/b")
	close(stop)
	watching.Wait()
}

func oneWinner(s *stage) {
	const clients, versions = 20, 5
	maker := s.open(s.at, usual)
	maker.create("/v", jute.Persistent)
	s.quiesce()
	var won [versions]int
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range clients {
		k := s.open(s.IDs()[i%len(s.IDs())], usual)
		all.Go(func() {
			for v := range int32(versions) {
				for k.stat("/v").Version < v { // a session does not see a version before its member has it
					time.Sleep(time.Microsecond) // or no time would pass
				}
				if k.code(jute.OpSetData, setAt("/v", v)) == jute.OK {
					mu.Lock()
					won[v]++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	for v, n := range won {
		if n != 1 {
			s.Errorf("version %d was replaced %d times", v, n)
		}
	}
}
