package history

import (
	"slices"
	"testing"
	"time"

	"rollcall/zk/jute"
	"rollcall/znode"
)

// snap records a snapshot.
func (p *tape) snap(at int, member uint32, index uint64, zxid int64, whole bool, nodes ...Node) {
	p.Snapshot(p.at(time.Duration(at)*ms), Snapshot{Member: member, Index: index, Zxid: zxid, Whole: whole, Nodes: nodes})
}

// eph is an ephemeral in a snapshot, with the zxid of its creation.
func eph(path string, owner jute.SessionID, zxid int64) Node {
	return Node{Path: path, Owner: owner, Czxid: zxid, Mzxid: zxid}
}

// (c). Sessions 1 and 2 are opened at indices 11 and 12; 1 expires at 101.
func TestEphemerals(t *testing.T) {
	begin := func(p *tape) {
		s := p.opened(0, 1, 1)
		p.opened(0, 2, 2)
		p.touches(2, p.opened(0, 2, 2), every(sec, sec, 6*sec)...)
		p.recordCall(100, 110, ephemeral("/e1"), ok(20))
		p.recordCall(120, 130, by(2, ephemeral("/e2")), ok(21))
		p.expired(5*sec, s, 1, 1, 2, 3)
	}
	const late = 1<<32 + 110
	judgeTapes(t, []rule{
		{"before and after the expiry", func(p *tape) {
			begin(p)
			for m := uint32(1); m <= 3; m++ {
				p.snap(5000, m, 100, 21, true, eph("/e1", 1, 20), eph("/e2", 2, 21))
				p.snap(5000, m, 101, late, true, eph("/e2", 2, 21))
			}
		}, ""},
		{"left behind on one member", func(p *tape) {
			begin(p)
			p.snap(5000, 3, 101, late, true, eph("/e1", 1, 20), eph("/e2", 2, 21))
		}, deadEphemeral},
		{"of a session that is not opened yet", func(p *tape) {
			begin(p)
			p.snap(90, 3, 11, 10, true, eph("/e2", 2, 21))
			p.snap(5000, 1, 101, late, true, eph("/e2", 2, 21))
		}, deadEphemeral},
		{"gone too early", func(p *tape) {
			begin(p)
			p.snap(5000, 2, 100, 21, true, eph("/e2", 2, 21))
		}, lostEphemeral},
		{"taken with another session's", func(p *tape) {
			begin(p)
			p.snap(5000, 2, 101, late, true)
		}, lostEphemeral},
		{"deleted", func(p *tape) {
			begin(p)
			p.recordCall(200, 210, by(2, remove("/e1")), ok(25))
			p.snap(5000, 2, 100, 25, true, eph("/e2", 2, 21))
		}, ""},
		{"deleted, and still there", func(p *tape) {
			begin(p)
			p.recordCall(200, 210, by(2, remove("/e1")), ok(25))
			p.snap(5000, 2, 100, 25, true, eph("/e1", 1, 20), eph("/e2", 2, 21))
		}, strayEphemeral},
		{"perhaps deleted", func(p *tape) {
			begin(p)
			p.recordRequest(200, by(2, remove("/e1")))
			p.snap(5000, 2, 99, 21, true, eph("/e2", 2, 21))
			p.snap(5000, 2, 100, 22, true, eph("/e1", 1, 20), eph("/e2", 2, 21))
		}, ""},
		{"perhaps created", func(p *tape) {
			begin(p)
			p.recordRequest(200, by(2, ephemeral("/e3")))
			p.recordRequest(200, Request{Session: 2, Op: jute.OpCreate, Path: "/e-", Mode: jute.EphemeralSequential})
			p.snap(5000, 2, 101, late, true, eph("/e2", 2, 21), eph("/e3", 2, 30), eph("/e-0000000007", 2, 31))
		}, ""},
		{"created by nobody", func(p *tape) {
			begin(p)
			p.snap(5000, 2, 101, late, true, eph("/e2", 2, 21), eph("/e3", 2, 30))
		}, strayEphemeral},
		{"of the wrong session", func(p *tape) {
			begin(p)
			p.snap(5000, 2, 100, 21, true, eph("/e1", 2, 20), eph("/e2", 2, 21))
		}, strayEphemeral},
		{"not the same on two members", func(p *tape) {
			begin(p)
			p.recordRequest(200, by(2, ephemeral("/e3")))
			p.snap(5000, 1, 101, late, true, eph("/e2", 2, 21), eph("/e3", 2, 30))
			p.snap(5000, 2, 101, late, true, eph("/e2", 2, 21))
		}, ephemeralsApart},
		{"one member closes later in the log", func(p *tape) {
			s := p.opened(0, 1, 1)
			p.expired(5*sec, s, 1, 1, 2)
			p.Closed(5*sec, 3, 102, 1<<32+102, s, true)
		}, livesApart},
		{"one member grants another timeout", func(p *tape) {
			s := znode.Session{ID: 1, Timeout: 4 * sec, Owner: znode.SessionOwner{Member: 1, Conn: 10}, OwnerIndex: 11}
			p.Opened(0, 1, s)
			s.Timeout = 5 * sec
			p.Opened(0, 3, s)
		}, livesApart},
		{"two attaches in one entry", func(p *tape) {
			s := p.opened(0, 1, 1)
			s = p.attached(1*sec, s, 3, 4*sec, 20)
			s = p.attached(1*sec, s, 2, 4*sec, 20)
			p.touches(2, s, every(2*sec, sec, 9*sec)...)
		}, ""},
		{"one member attaches to another", func(p *tape) {
			s := p.opened(0, 1, 1)
			s.OwnerIndex, s.Owner.Member = 20, 2
			p.Attached(1*sec, 1, s)
			s.Owner.Member = 3
			p.Attached(1*sec, 2, s)
		}, livesApart},
		{"a member has hung in the middle of an entry", func(p *tape) {
			s := p.opened(0, 1, 1)
			p.Closed(1*sec, 1, 11, 50, s, false)
		}, ""},
		{"a member replays its log", func(p *tape) {
			s := p.opened(0, 1, 1)
			p.expired(5*sec, s, 1, 1, 2)
			p.Opened(9*sec, 2, s)
			p.expired(9*sec, s, 1, 2)
		}, ""},
	})
}

// node is a persistent node in a snapshot.
func node(path, data string, czxid, mzxid int64, version int32) Node {
	return Node{Path: path, Data: data, Czxid: czxid, Mzxid: mzxid, Version: version}
}

// (d)
func TestWrites(t *testing.T) {
	begin := func(p *tape) {
		p.recordCall(0, 10, create("/a", "0"), ok(1))
		p.recordCall(20, 30, set("/a", "1"), ok(2))
		p.recordCall(40, 50, create("/b", "0"), ok(3))
		p.recordCall(60, 70, remove("/b"), ok(4))
		p.recordCall(80, 90, sequential("/q-", "x"), made(5, "/q-0000000000"))
	}
	a, q := node("/a", "1", 1, 2, 1), node("/q-0000000000", "x", 5, 5, 0)
	judgeTapes(t, []rule{
		{"all there", func(p *tape) {
			begin(p)
			p.snap(100, 1, 9, 5, true, a, q)
		}, ""},
		{"as it was before", func(p *tape) {
			begin(p)
			p.snap(100, 2, 5, 1, true, node("/a", "0", 1, 1, 0))
			p.snap(100, 2, 7, 3, true, a, node("/b", "0", 3, 3, 0))
			p.snap(100, 1, 9, 5, true, a, q)
		}, ""},
		{"a create is missing", func(p *tape) {
			begin(p)
			p.snap(100, 1, 9, 5, true, a)
		}, writeMissing},
		{"missing on one member", func(p *tape) {
			begin(p)
			p.snap(100, 1, 9, 5, true, a, q)
			p.snap(100, 2, 9, 5, true, q)
		}, writeMissing},
		{"a set is missing", func(p *tape) {
			begin(p)
			p.snap(100, 1, 9, 5, true, node("/a", "0", 1, 1, 0), q)
		}, writeMissing},
		{"a set was overwritten by what came before", func(p *tape) {
			begin(p)
			p.snap(100, 1, 9, 5, true, node("/a", "0", 1, 1, 1), q)
		}, writeMissing},
		{"a set is missing, and another was not answered", func(p *tape) {
			begin(p)
			p.recordRequest(91, set("/a", "0"))
			p.snap(100, 1, 9, 5, true, node("/a", "0", 1, 1, 0), q)
		}, writeMissing},
		{"deleted by what was asked later", func(p *tape) {
			begin(p)
			p.snap(100, 1, 9, 5, true, q)
			p.recordRequest(110, remove("/a"))
		}, writeMissing},
		{"a delete is missing", func(p *tape) {
			begin(p)
			p.snap(100, 1, 9, 5, true, a, q, node("/b", "0", 3, 3, 0))
		}, writeTwice},
		{"the ensemble forgot the last writes", func(p *tape) {
			begin(p)
			p.snap(100, 1, 9, 4, true, a)
		}, writeMissing},
		{"a set was applied twice", func(p *tape) {
			begin(p)
			p.snap(100, 1, 9, 5, true, node("/a", "1", 1, 2, 2), q)
		}, writeTwice},
		{"a sequential create was applied twice", func(p *tape) {
			begin(p)
			p.snap(100, 1, 9, 6, true, a, q, node("/q-0000000001", "x", 6, 6, 0))
		}, writeTwice},
		{"created again", func(p *tape) {
			begin(p)
			p.snap(100, 1, 9, 8, true, node("/a", "1", 7, 8, 1), q)
		}, writeTwice},
		{"without an answer, there once", func(p *tape) {
			begin(p)
			p.recordRequest(91, sequential("/q-", "y"))
			p.recordRequest(91, set("/a", "2"))
			p.recordRequest(91, create("/c", "0"))
			p.snap(100, 1, 9, 8, true, q, node("/q-0000000001", "y", 6, 6, 0), node("/a", "2", 1, 7, 2), node("/c", "0", 8, 8, 0))
		}, ""},
		{"without an answer, not there", func(p *tape) {
			begin(p)
			p.recordRequest(91, sequential("/q-", "y"))
			p.recordRequest(91, set("/a", "2"))
			p.recordRequest(91, create("/c", "0"))
			p.snap(100, 1, 9, 8, true, q, a)
		}, ""},
		{"without an answer, there twice", func(p *tape) {
			begin(p)
			p.recordRequest(91, sequential("/q-", "y"))
			p.snap(100, 1, 9, 8, true, a, q, node("/q-0000000001", "y", 6, 6, 0), node("/q-0000000002", "y", 7, 7, 0))
		}, writeTwice},
		{"perhaps deleted", func(p *tape) {
			begin(p)
			p.recordRequest(91, by(2, remove("/a")))
			p.snap(100, 1, 9, 6, true, q)
		}, ""},
		{"answered out of order", func(p *tape) {
			x := p.recordRequest(0, create("/a", ""))
			y := p.recordRequest(0, create("/b", ""))
			p.answer(1, y, ok(1))
			p.answer(1, x, ok(2))
			p.snap(100, 1, 9, 2, true, node("/a", "", 2, 2, 0), node("/b", "", 1, 1, 0))
		}, writeDisordered},
		{"stuck in the old member, applied behind the new connection's", func(p *tape) {
			p.recordRequest(0, sequential("/q-", "1"))
			p.recordCall(10, 20, on(7, sequential("/q-", "2")), made(5, "/q-0000000000"))
			p.snap(100, 1, 9, 6, true, node("/q-0000000000", "2", 5, 5, 0), node("/q-0000000001", "1", 6, 6, 0))
		}, writeDisordered},
		{"a refused write takes a zxid, too", func(p *tape) {
			x := p.recordRequest(0, create("/a", ""))
			y := p.recordRequest(0, create("/a", ""))
			p.answer(1, x, ok(2))
			p.answer(1, y, no(jute.NodeExists, 3))
			p.snap(100, 1, 9, 3, true, node("/a", "", 2, 2, 0))
		}, ""},
		{"a write refused without a zxid of its own", func(p *tape) {
			p.recordCall(0, 1, create("/a", ""), ok(2))
			p.recordCall(0, 1, create("/a", ""), no(jute.SessionMoved, 2))
			p.snap(100, 1, 9, 2, true, node("/a", "", 2, 2, 0))
		}, ""},
		{"the parts of a multi share one", func(p *tape) {
			x := p.recordRequest(0, create("/a", ""))
			p.xid--
			y := p.recordRequest(0, create("/b", ""))
			p.answer(1, x, ok(2))
			p.answer(1, y, ok(2))
			p.snap(100, 1, 9, 2, true, node("/a", "", 2, 2, 0), node("/b", "", 2, 2, 0))
		}, ""},
		{"one zxid for two", func(p *tape) {
			p.recordCall(0, 1, create("/a", ""), ok(2))
			p.recordCall(0, 1, by(2, create("/b", "")), ok(2))
			p.snap(100, 1, 9, 2, true, node("/a", "", 2, 2, 0), node("/b", "", 2, 2, 0))
		}, sharedZxid},
		{"nobody looked", func(p *tape) {
			begin(p)
			p.snap(100, 1, 9, 5, false)
		}, unjudged},
	})
}

// (e). Session 2 writes /a; session 1 reads.
func TestImage(t *testing.T) {
	begin := func(p *tape) {
		p.recordCall(0, 10, by(2, create("/a", "0")), ok(1))
		p.recordCall(20, 30, by(2, set("/a", "1")), ok(2))
		p.recordCall(40, 50, by(2, create("/b", "0")), ok(3))
		p.recordCall(60, 70, by(2, set("/a", "2")), ok(4))
		p.recordCall(80, 90, by(2, create("/b/c", "0")), ok(5))
		p.snap(95, 1, 9, 5, true, node("/a", "2", 1, 4, 2), node("/b", "0", 3, 3, 0), node("/b/c", "0", 5, 5, 0))
	}
	judgeTapes(t, []rule{
		{"behind, but forward", func(p *tape) {
			begin(p)
			p.recordCall(100, 110, get("/a"), shows(1, 1, 0, "0"))
			p.recordCall(100, 110, get("/a"), shows(3, 2, 1, "1"))
			p.recordCall(100, 110, on(7, get("/a")), shows(4, 4, 2, "2"))
		}, ""},
		{"back, on another member", func(p *tape) {
			begin(p)
			p.recordCall(100, 110, get("/a"), shows(4, 4, 2, "2"))
			p.recordCall(100, 110, on(7, get("/b")), shows(3, 3, 0, "0"))
		}, wentBack},
		{"older than the session's view", func(p *tape) {
			begin(p)
			p.recordCall(100, 110, get("/b"), shows(4, 3, 0, "0"))
			p.recordCall(100, 110, get("/a"), shows(4, 2, 1, "1"))
		}, staleRead},
		{"its own write is not there", func(p *tape) {
			p.recordCall(0, 10, create("/a", "0"), ok(1))
			p.recordCall(20, 30, get("/a"), no(jute.NoNode, 1))
			p.snap(95, 1, 9, 1, true, node("/a", "0", 1, 1, 0))
		}, staleRead},
		{"perhaps deleted", func(p *tape) {
			p.recordCall(0, 10, create("/a", "0"), ok(1))
			p.recordRequest(15, by(2, remove("/a")))
			p.recordCall(20, 30, get("/a"), no(jute.NoNode, 2))
			p.snap(95, 1, 9, 2, true)
		}, ""},
		{"event before the data", func(p *tape) {
			begin(p)
			p.recordCall(100, 110, watching(get("/a")), shows(3, 2, 1, "1"))
			p.Event(120*ms, 1, 1, jute.EventNodeDataChanged, "/a")
			p.recordCall(130, 140, get("/a"), shows(4, 4, 2, "2"))
		}, ""},
		{"event after the data", func(p *tape) {
			begin(p)
			p.recordCall(100, 110, watching(get("/a")), shows(3, 2, 1, "1"))
			p.recordCall(130, 140, get("/a"), shows(4, 4, 2, "2"))
			p.Event(140*ms, 1, 1, jute.EventNodeDataChanged, "/a")
		}, lateEvent},
		{"an event of the children only", func(p *tape) {
			begin(p)
			p.recordCall(100, 110, watching(get("/a")), shows(3, 2, 1, "1"))
			p.Event(120*ms, 1, 1, jute.EventNodeChildrenChanged, "/a")
			p.recordCall(130, 140, get("/a"), shows(4, 4, 2, "2"))
		}, lateEvent},
		{"event after something that shows as much", func(p *tape) {
			begin(p)
			p.recordCall(100, 110, watching(get("/a")), shows(3, 2, 1, "1"))
			p.recordCall(130, 140, get("/b"), shows(4, 3, 0, "0"))
			p.Event(140*ms, 1, 1, jute.EventNodeDataChanged, "/a")
		}, lateEvent},
		{"the watch was the old connection's", func(p *tape) {
			begin(p)
			p.recordCall(100, 110, watching(get("/a")), shows(3, 2, 1, "1"))
			p.recordCall(130, 140, on(7, get("/a")), shows(4, 4, 2, "2"))
		}, ""},
		{"of the children, before", func(p *tape) {
			begin(p)
			p.recordCall(100, 110, watching(children("/b")), ok(4))
			p.Event(120*ms, 1, 1, jute.EventNodeChildrenChanged, "/b")
			p.recordCall(130, 140, children("/b"), ok(5))
		}, ""},
		{"of the children, after", func(p *tape) {
			begin(p)
			p.recordCall(100, 110, watching(children("/b")), ok(4))
			p.Event(120*ms, 1, 1, jute.EventNodeDataChanged, "/b")
			p.recordCall(130, 140, children("/b"), ok(5))
		}, lateEvent},
		{"a child of the root", func(p *tape) {
			begin(p)
			p.recordCall(100, 110, watching(children("/")), ok(2))
			p.recordCall(130, 140, children("/"), ok(3))
		}, lateEvent},
		{"exists waits for a node", func(p *tape) {
			begin(p)
			p.recordCall(0, 1, watching(Request{Op: jute.OpExists, Path: "/b"}), no(jute.NoNode, 1))
			p.recordCall(130, 140, children("/"), ok(3))
		}, lateEvent},
	})
}

// (g)
func TestLinear(t *testing.T) {
	sync := Request{Op: jute.OpSync, Path: "/"}
	begin := func(p *tape) {
		p.recordCall(0, 10, by(2, create("/a", "0")), ok(1))
		p.recordCall(20, 30, by(2, set("/a", "1")), Reply{Zxid: 2, Mzxid: 2, Version: 1})
		p.snap(95, 1, 9, 2, true, node("/a", "1", 1, 2, 1))
	}
	judgeTapes(t, []rule{
		{"read what was written", func(p *tape) {
			begin(p)
			p.recordCall(100, 110, sync, ok(2))
			p.recordCall(120, 130, get("/a"), shows(2, 2, 1, "1"))
		}, ""},
		{"read behind a sync, and old", func(p *tape) {
			begin(p)
			p.recordCall(100, 110, sync, ok(1))
			p.recordCall(120, 130, get("/a"), shows(1, 1, 0, "0"))
		}, notLinear},
		{"without a sync it may be old", func(p *tape) {
			begin(p)
			p.recordCall(100, 110, sync, ok(1))
			p.recordCall(110, 120, children("/"), ok(1))
			p.recordCall(120, 130, get("/a"), shows(1, 1, 0, "0"))
		}, ""},
		{"old without a sync, where every read counts", func(p *tape) {
			begin(p)
			p.recorded.Linear = true
			p.recordCall(110, 120, children("/"), ok(1))
			p.recordCall(120, 130, get("/a"), shows(1, 1, 0, "0"))
		}, notLinear},
		{"the sync began before the write was done", func(p *tape) {
			p.recordCall(0, 10, by(2, create("/a", "0")), ok(1))
			w := p.recordRequest(20, by(2, set("/a", "1")))
			s := p.recordRequest(20, sync)
			p.answer(25, w, Reply{Zxid: 2, Mzxid: 2, Version: 1})
			p.answer(25, s, ok(1))
			p.recordCall(30, 40, get("/a"), shows(1, 1, 0, "0"))
			p.snap(95, 1, 9, 2, true, node("/a", "1", 1, 2, 1))
		}, ""},
		{"data that nobody wrote", func(p *tape) {
			begin(p)
			p.recordCall(100, 110, sync, ok(2))
			p.recordCall(120, 130, get("/a"), shows(2, 2, 1, "7"))
		}, notLinear},
		{"a conditional set that ought to have failed", func(p *tape) {
			begin(p)
			r := set("/a", "2")
			r.Version = 0
			p.recordCall(100, 110, r, Reply{Zxid: 3, Mzxid: 3, Version: 2})
			p.snap(120, 1, 10, 3, true, node("/a", "2", 1, 3, 2))
		}, notLinear},
		{"a write without an answer, seen late", func(p *tape) {
			begin(p)
			p.recordRequest(40, set("/a", "2"))
			for i, data := range []string{"1", "1", "2"} {
				p.recordCall(100, 110, on(7, sync), ok(2))
				p.recordCall(120, 130, on(7, get("/a")), shows(int64(2+i/2), int64(2+i/2), 1+int32(i/2), data))
			}
		}, ""},
		{"a write without an answer, seen and gone", func(p *tape) {
			begin(p)
			p.recordRequest(40, set("/a", "2"))
			for i, data := range []string{"2", "1"} {
				p.recordCall(100, 110, on(7, sync), ok(3))
				p.recordCall(120, 130, on(7, get("/a")), shows(3, 3, 2-int32(i), data))
			}
		}, notLinear},
		{"two creates of one node", func(p *tape) {
			p.recordCall(0, 10, by(2, create("/a", "0")), ok(1))
			p.recordCall(20, 30, by(3, create("/a", "0")), ok(2))
			p.snap(95, 1, 9, 2, true, node("/a", "0", 2, 2, 0))
		}, notLinear},
		{"an ephemeral whose session has ended", func(p *tape) {
			p.expired(4*sec, p.opened(0, 1, 2), 1, 1)
			p.recordCall(0, 10, ephemeral("/e"), ok(1))
			p.recordCall(5000, 5010, on(7, by(2, sync)), ok(2))
			p.recordCall(5020, 5030, on(7, by(2, get("/e"))), no(jute.NoNode, 2))
			p.snap(5100, 1, 120, 2, true)
		}, ""},
		{"a sequential node", func(p *tape) {
			p.recordCall(0, 10, sequential("/q-", "x"), made(1, "/q-0000000000"))
			p.recordCall(100, 110, sync, ok(1))
			p.recordCall(120, 130, get("/q-0000000000"), shows(1, 1, 0, "x"))
			p.snap(140, 1, 9, 1, true, node("/q-0000000000", "x", 1, 1, 0))
		}, ""},
		{"a parent that is missing", func(p *tape) {
			p.recordCall(0, 10, create("/x/y", ""), no(jute.NoNode, 1))
			p.recordCall(20, 30, remove("/x/y"), no(jute.NoNode, 2))
		}, ""},
	})
}

// A search that takes too long is a fault and does not pass.
func TestUndecided(t *testing.T) {
	p := newTape(t)
	p.recordCall(0, 10, create("/a", "0"), ok(1))
	for i := range 28 {
		p.recordRequest(20, by(jute.SessionID(2+i), set("/a", string(rune('A'+i)))))
	}
	p.recordCall(100, 110, Request{Op: jute.OpSync, Path: "/"}, ok(1))
	p.recordCall(120, 130, get("/a"), shows(1, 1, 30, "none"))
	h := p.history()
	var found []Violation
	indexHistory(&h).judgeLinearizable(20*ms, func(v Violation) { found = append(found, v) })
	if got := faults(found); !slices.Equal(got, []fault{undecided}) {
		t.Errorf("found %q, want %q", got, undecided)
	}
}

// A change counts from the moment when the first member applied it. Changes of one entry are in the
// order of the log.
func TestLivesAreMerged(t *testing.T) {
	p := newTape(t)
	s := p.opened(0, 1, 1)
	s.OwnerIndex = 20
	for m, at := range map[uint32]time.Duration{2: 6 * sec, 3: 5 * sec} {
		s.Owner = znode.SessionOwner{Member: 2, Conn: 21}
		p.Attached(at, m, s)
		if m == 2 { // the other has hung meanwhile
			s.Owner = znode.SessionOwner{Member: 1, Conn: 11}
			p.Attached(at, m, s)
		}
	}
	h := p.history()
	b := indexHistory(&h)
	g := b.sessions[1].grants
	if len(b.disagreements) > 0 || len(g) != 3 || g[1].At != 5*sec || g[1].Owner.Conn != 21 || g[2].Owner.Conn != 11 {
		t.Errorf("grants %+v, apart %v", g, b.disagreements)
	}
}
