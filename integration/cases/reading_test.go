package cases

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"rollcall/zk/jute"
)

// reading is group O: other reads, sync, and opcodes that clients do not send.
var reading = []row{
	{number: 264, name: "sync echoes its path", where: everywhere, run: syncEchoes},
	{number: 265, name: "sync on a member that lags", where: followers, run: syncLagging},
	{number: 266, name: "check alone", where: everywhere, run: oddOp(jute.OpCheck, jute.CheckVersionRequest{Path: []byte("/"), Version: -1})},
	{number: 267, name: "unknown opcode", where: everywhere, run: oddOp(888, nil)},
	{number: 268, name: "getAllChildrenNumber", where: everywhere, run: allChildrenNumber},
	{number: 269, name: "whoAmI", where: everywhere, run: whoAmI},
	{number: 270, name: "ten thousand children", where: standalone | followerOne, run: manyChildren},
	{number: 271, name: "getChildren2", where: everywhere, run: childrenAndStat},
	{number: 272, name: "the servers' own opcodes", where: everywhere, differs: "`deleteContainer` (20) from a client", run: serversOps},
}

func syncEchoes(s *stage) {
	k := s.open(s.at, usual)
	for _, path := range [][]byte{nil, []byte("/nosuch"), []byte("bad path")} {
		r := k.ok(jute.OpSync, jute.SyncRequest{Path: path})
		if want := (jute.SyncResponse{Path: path}).Append(nil); !bytes.Equal(r.Body, want) {
			s.Errorf("sync of %q: % x, want % x", path, r.Body, want)
		}
	}
}

// The writer is on another follower or on the leader. The lagging member has not even received the write when it gets
// the sync.
func syncLagging(s *stage) {
	boss := s.Leader()
	k, writer := s.open(s.at, usual), s.open(s.third(), usual)
	writer.create("/a", jute.Persistent)
	s.quiesce()
	s.BlockLog(boss, s.at)
	writer.set("/a", "new")
	if got := k.data("/a"); string(got) == "new" {
		s.Fatal("the member does not lag")
	}
	time.AfterFunc(tick, func() { s.UnblockLog(boss, s.at) })
	k.sync()
	if got := k.data("/a"); string(got) != "new" {
		s.Errorf("after the sync: %q", got)
	}
}

// oddOp sends a request to which a server must reply as to an unknown opcode.
func oddOp(op jute.Op, rec interface{ Append([]byte) []byte }) func(*stage) {
	return func(s *stage) {
		k := s.open(s.at, usual)
		before := s.zxid(s.at)
		r := k.want(jute.Unimplemented, op, rec)
		if r.Zxid != -1 || len(r.Body) != 0 {
			s.Errorf("answered with %v, want zxid -1 and no body", r)
		}
		k.mustEnd(tick)
		k.resume(s.at).mustLive()
		if z := s.zxid(s.at); z != before {
			s.Errorf("zxid %#x, was %#x", z, before)
		}
	}
}

func allChildrenNumber(s *stage) {
	k := s.open(s.at, usual)
	s.with(k, "/a", "/a/b", "/a/b/c")
	for path, want := range map[string]int32{"/a": 2, "/a/b/c": 0} {
		var resp jute.GetAllChildrenNumberResponse
		k.into(k.ok(jute.OpGetAllChildrenNumber, jute.GetAllChildrenNumberRequest{Path: []byte(path)}), &resp)
		if resp.TotalNumber != want {
			s.Errorf("%s has %d descendants, want %d", path, resp.TotalNumber, want)
		}
	}
	k.want(jute.NoNode, jute.OpGetAllChildrenNumber, jute.GetAllChildrenNumberRequest{Path: []byte("/none")})
}

func whoAmI(s *stage) {
	k := s.open(s.at, usual)
	address := "ip:" + k.address()
	if who := k.who(); !slices.Equal(who, []string{address}) {
		s.Errorf("before: %q, want the address alone", who)
	}
	who := k.auth("u:p").who()
	slices.Sort(who)
	if want := []string{"digest:u", address}; !slices.Equal(who, want) {
		s.Errorf("after: %q, want %q", who, want)
	}
}

func manyChildren(s *stage) {
	k := s.open(s.at, usual)
	k.create("/p", jute.Persistent)
	long := "/p/" + strings.Repeat("n", 110)
	const n, batch = 10_000, 500
	for i := 0; i < n; i += batch {
		var ops []jute.MultiOp
		for j := range batch {
			ops = append(ops, opCreate(fmt.Sprintf("%s%05d", long, i+j), jute.Persistent))
		}
		k.ok(jute.OpMulti, multi(ops))
	}
	r := k.ok(jute.OpGetChildren, jute.GetChildrenRequest{Path: []byte("/p")})
	var resp jute.GetChildrenResponse
	if k.into(r, &resp); len(resp.Children) != n || len(r.Body) < 1<<20 {
		s.Errorf("%d children in %d bytes", len(resp.Children), len(r.Body))
	}
}

func childrenAndStat(s *stage) {
	k := s.open(s.at, usual)
	s.with(k, "/p", "/p/a", "/p/b")
	var resp jute.GetChildren2Response
	k.into(k.ok(jute.OpGetChildren2, jute.GetChildrenRequest{Path: []byte("/p")}), &resp)
	var names []string
	for _, c := range resp.Children {
		names = append(names, string(c))
	}
	slices.Sort(names)
	if st := k.stat("/p"); !slices.Equal(names, []string{"a", "b"}) || resp.Stat != st {
		s.Errorf("%q, %+v, want a and b, %+v", names, resp.Stat, st)
	}
}

// ZooKeeper obeys both of these opcodes of its own.
func serversOps(s *stage) {
	k := s.open(s.at, usual)
	k.create("/p", jute.Persistent)
	sessions := func() int {
		state := s.Member(s.at).State()
		state.RLock()
		defer state.RUnlock()
		return state.SessionCount()
	}
	before := sessions()
	oddOp(jute.OpCreateSession, bytesOf{0, 0, 39, 16})(s)
	oddOp(jute.OpDeleteContainer, jute.SyncRequest{Path: []byte("/p")})(s)
	oddOp(jute.OpReap, jute.SyncRequest{Path: []byte("/p")})(s)
	s.present("/p")
	if n := sessions(); n != before+3 { // sessions that oddOp opened
		s.Errorf("%d sessions, were %d", n, before)
	}
}
