package history

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/zk/jute"
)

// simulations is small because of the race detector. A run with 2,000 rejected none either.
const simulations = 25

// Histories of an ensemble that keeps its promises pass. With any single fault planted, each is
// rejected.
func TestSimulatedHistories(t *testing.T) {
	planted := map[fault]int{}
	var calls, unknown, expired, events, terms int
	for seed := range uint64(simulations) {
		h, err := simulate(seed)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range Check(h) {
			t.Errorf("seed %d: %v", seed, v)
		}
		if !reflect.DeepEqual(h, viaJSON(t, h)) {
			t.Fatal("JSON does not give the history back")
		}
		for fault, plant := range plants {
			spoilt := cloneHistory(h)
			if !plant(&spoilt) {
				continue
			}
			planted[fault]++
			found := Check(spoilt)
			if !slices.Contains(faults(found), fault) {
				t.Errorf("seed %d: planted %q, found %q", seed, fault, faults(found))
			}
			for _, v := range found {
				if !strings.HasPrefix(v.String(), "("+string(v.Rule)+") "+string(v.Fault)+": at ") || strings.Contains(v.String(), "\n") {
					t.Errorf("the text of the violation is %q", v)
				}
			}
		}
		calls += len(h.Calls)
		events += len(h.Events)
		terms += len(h.Terms)
		for i := range h.Calls {
			if !h.Calls[i].hasReply() {
				unknown++
			}
		}
		for _, l := range h.Lives {
			if l.Kind == lifeClosed && l.Member == 1 {
				expired++
			}
		}
	}
	t.Logf("%d histories: %d calls, %d without an answer, %d events, %d terms, %d expiries",
		simulations, calls, unknown, events, terms, expired)
	if unknown < simulations || events < simulations || terms < 2*simulations || expired < simulations {
		t.Error("the histories are too tame")
	}
	for _, fault := range slices.Sorted(maps.Keys(plants)) {
		if planted[fault] < simulations*9/10 {
			t.Errorf("%q was planted %d times", fault, planted[fault])
		}
	}
}

// viaJSON writes a history as JSON, as is done with a failing one, and reads it back.
func viaJSON(t *testing.T, h History) History {
	t.Helper()
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var out History
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// cloneHistory returns a copy of a history that a test may corrupt.
func cloneHistory(h History) History {
	h.Calls = slices.Clone(h.Calls)
	h.Events = slices.Clone(h.Events)
	h.Connections = slices.Clone(h.Connections)
	h.Lives = slices.Clone(h.Lives)
	h.Vouches = slices.Clone(h.Vouches)
	h.Snapshots = slices.Clone(h.Snapshots)
	for i := range h.Snapshots {
		h.Snapshots[i].Nodes = slices.Clone(h.Snapshots[i].Nodes)
	}
	return h
}

// plants corrupt a history, and report whether they found a place for that. The fault undecided has a test of its own.
var plants = map[fault]func(h *History) bool{
	liveExpired: func(h *History) bool {
		l, ok := living(h)
		if !ok {
			return false
		}
		last := h.Snapshots[len(h.Snapshots)-1]
		l.Kind, l.Expired, l.At, l.Index, l.Zxid = lifeClosed, true, h.End, last.Index+1, last.Zxid+1
		h.Lives = append(h.Lives, l)
		return true
	},
	toldExpired: func(h *History) bool {
		l, ok := living(h)
		h.Connections = append(h.Connections, Connection{Moment: Moment{At: h.End}, Kind: Expired, Session: l.Session, Member: 1})
		return ok
	},
	noTerm: func(h *History) bool {
		l := closed(h)
		session := l.Session
		for i := range h.Lives {
			if l := &h.Lives[i]; l.Kind == lifeClosed && l.Session == session {
				l.Zxid += 1 << 40
			}
		}
		return true
	},
	twoLeaders: func(h *History) bool {
		rival := h.Terms[len(h.Terms)-1]
		rival.Leader++
		h.Terms = append(h.Terms, rival)
		return true
	},
	silentKept: func(h *History) bool {
		dead := closed(h).Session
		h.Lives = slices.DeleteFunc(h.Lives, func(l Life) bool { return l.Kind == lifeClosed && l.Session == dead })
		return true
	},
	deadEphemeral: func(h *History) bool {
		s := final(h)
		s.Nodes = append(s.Nodes, Node{Path: "/late", Owner: closed(h).Session})
		return true
	},
	lostEphemeral: func(h *History) bool {
		s := final(h)
		i := slices.IndexFunc(s.Nodes, func(n Node) bool { return n.Owner != 0 && acknowledged(h, n.Path) })
		if i >= 0 {
			s.Nodes = slices.Delete(s.Nodes, i, i+1)
		}
		return i >= 0
	},
	strayEphemeral: func(h *History) bool {
		l, ok := living(h)
		final(h).Nodes = append(final(h).Nodes, Node{Path: "/stray", Owner: l.Session})
		return ok
	},
	ephemeralsApart: func(h *History) bool {
		l, ok := living(h)
		final(h).Nodes = append(final(h).Nodes, Node{Path: "/stray", Owner: l.Session})
		return ok
	},
	livesApart: func(h *History) bool {
		closed(h).Index++
		return true
	},
	writeMissing: func(h *History) bool {
		s := final(h)
		i := slices.IndexFunc(s.Nodes, func(n Node) bool { return strings.HasPrefix(n.Path, "/q-") && acknowledged(h, n.Path) })
		if i >= 0 {
			s.Nodes = slices.Delete(s.Nodes, i, i+1)
		}
		return i >= 0
	},
	writeTwice: func(h *History) bool {
		s := final(h)
		i := slices.IndexFunc(s.Nodes, func(n Node) bool { return strings.HasPrefix(n.Path, "/q-") && acknowledged(h, n.Path) })
		if i >= 0 {
			twin := s.Nodes[i]
			twin.Path = "/q-0000999999"
			s.Nodes = append(s.Nodes, twin)
		}
		return i >= 0
	},
	writeDisordered: func(h *History) bool {
		first := map[jute.SessionID]*Call{}
		for i := range h.Calls {
			c := &h.Calls[i]
			if f := first[c.Session]; f != nil && changesNode(c.Op) && c.Done() {
				f.Reply.Zxid, c.Reply.Zxid = c.Reply.Zxid, f.Reply.Zxid
				return true
			} else if f == nil && changesNode(c.Op) && c.Done() {
				first[c.Session] = c
			}
		}
		return false
	},
	sharedZxid: func(h *History) bool {
		var first *Call
		for i := range h.Calls {
			c := &h.Calls[i]
			if changesNode(c.Op) && c.Done() && first != nil && first.Session != c.Session {
				c.Reply.Zxid = first.Reply.Zxid
				return true
			} else if changesNode(c.Op) && c.Done() {
				first = c
			}
		}
		return false
	},
	unjudged: func(h *History) bool {
		for i := range h.Snapshots {
			h.Snapshots[i].Whole = false
		}
		return true
	},
	wentBack: func(h *History) bool {
		seen := map[jute.SessionID]bool{}
		for i := range h.Calls {
			c := &h.Calls[i]
			if c.hasReply() && seen[c.Session] && c.Op == jute.OpGetData {
				c.Reply.Zxid = 1
				return true
			}
			seen[c.Session] = seen[c.Session] || c.hasReply()
		}
		return false
	},
	staleRead: func(h *History) bool {
		b := indexHistory(h)
		for i := range h.Calls {
			c := &h.Calls[i]
			w := b.writesByPath[c.Path]
			if n := w.countUpTo(c.Reply.Zxid); c.Op == jute.OpGetData && c.Done() && n > 1 && w.succeeded[n-1].Reply.Zxid == c.Reply.Mzxid {
				c.Reply.Mzxid = w.succeeded[n-2].Reply.Mzxid
				return true
			}
		}
		return false
	},
	lateEvent: func(h *History) bool {
		h.Events = nil
		return true
	},
	vouchedDead: func(h *History) bool {
		dead := *closed(h)
		for _, l := range h.Lives {
			if l.Kind == lifeClosed && l.Session == dead.Session && l.Member != dead.Owner.Member {
				h.Vouches = append(h.Vouches, Vouch{Moment: Moment{At: l.At + ms}, Member: dead.Owner.Member, Session: dead.Session, Conn: dead.Owner.Conn, Allowed: true})
				return true
			}
		}
		return false
	},
	notLinear: func(h *History) bool {
		before := map[uint64]*Call{}
		for i := range h.Calls {
			c := &h.Calls[i]
			if p := before[c.Conn]; p != nil && p.Op == jute.OpSync && c.Op == jute.OpGetData && c.Done() {
				c.Reply.Data = "never written"
				return true
			}
			before[c.Conn] = c
		}
		return false
	},
}

// living returns the last change of a session that lives at the end and was heard in its last two
// seconds.
func living(h *History) (Life, bool) {
	b := indexHistory(h)
	for _, l := range b.sessionsByID {
		if n := len(l.touches); l.closed == nil && n > 0 && l.touches[n-1].At > h.End-2*sec && l.grants[0].At < h.End-5*sec {
			return l.grants[len(l.grants)-1], true
		}
	}
	return Life{}, false
}

// closed returns the first recorded expiry of the client that fell silent.
func closed(h *History) *Life {
	for i := range h.Lives {
		if h.Lives[i].Kind == lifeClosed && h.Lives[i].At < h.End-8*sec {
			return &h.Lives[i]
		}
	}
	panic("no session has expired")
}

func final(h *History) *Snapshot { return &h.Snapshots[len(h.Snapshots)-1] }

func acknowledged(h *History, path string) bool {
	return slices.ContainsFunc(h.Calls, func(c Call) bool { return c.Op.IsCreate() && c.Done() && c.nodePath() == path })
}

func TestNewRecorderRefuses(t *testing.T) {
	for _, cfg := range []Config{
		{Members: []uint32{1}},
		{Tick: -1, Members: []uint32{1}},
		{Tick: 1, Slack: -1, Members: []uint32{1}},
		{Tick: 1},
	} {
		if _, err := NewRecorder(cfg); err == nil {
			t.Errorf("NewRecorder(%+v) succeeded", cfg)
		}
	}
}

// If there are too many records, the result is an error and not a shorter history.
func TestRecorderIsBounded(t *testing.T) {
	p := newTape(t)
	p.recordCount = maxRecords - 2
	p.Touched(0, 1, 1)
	if _, err := p.History(0); err != nil {
		t.Fatal(err)
	}
	p.Snapshot(0, Snapshot{Nodes: make([]Node, 1)})
	if p.Touched(0, 1, 1); p.recordCount > maxRecords {
		t.Errorf("%d records", p.recordCount)
	}
	if _, err := p.History(0); !errors.Is(err, errFull) {
		t.Errorf("History: %v, want errFull", err)
	}
	if id := p.Invoked(0, get("/")); id != 0 {
		t.Errorf("Invoked = %d, want 0", id)
	}
	p.Returned(0, 0, ok(1))
}

// A cut or a term that is open when a history is taken ends there in the copy. It continues in the Recorder.
func TestHistoryIsACopy(t *testing.T) {
	p := newTape(t)
	p.Cut(1*sec, 3, 2)
	id := p.Invoked(1*sec, get("/a"))
	h, err := p.History(2 * sec)
	if err != nil {
		t.Fatal(err)
	}
	p.Returned(3*sec, id, ok(1))
	p.Healed(4*sec, 2, 3)
	p.Leads(5*sec, 9, 0, 3)
	p.Leads(6*sec, 4, 0, 2)
	p.Leads(7*sec, 4, 0, 2)
	p.endTerm(8*sec, 9)
	if h.Calls[0].hasReply() || h.Outages[0].To != 2*sec || h.Terms[0].To != 2*sec {
		t.Errorf("the copy has changed: %+v", h)
	}
	h, err = p.History(9 * sec)
	if err != nil {
		t.Fatal(err)
	}
	want := []Term{{1, 0, 1, 0, 6 * sec}, {4, 0, 2, 6 * sec, 5 * sec}, {9, 0, 3, 5 * sec, 8 * sec}}
	if !slices.Equal(h.Terms, want) || h.Outages[0] != (Outage{A: 2, B: 3, From: 1 * sec, To: 4 * sec}) || !h.Calls[0].hasReply() {
		t.Errorf("the copy is %+v", h)
	}
}

func TestRecorderIsSafeForConcurrentUse(t *testing.T) {
	p := newTape(t)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 100 {
				id := p.Invoked(time.Duration(i), by(jute.SessionID(g), get("/a")))
				p.Touched(time.Duration(i), 1, 1)
				p.Returned(time.Duration(i), id, ok(1))
			}
		})
	}
	wg.Wait()
	h := p.history()
	if len(h.Calls) != 800 || len(h.Touches) != 800 || p.countRecords() != 2401 {
		t.Errorf("%d calls, %d touches, %d records", len(h.Calls), len(h.Touches), p.countRecords())
	}
	seen := map[uint64]bool{}
	for _, c := range h.Calls {
		if !c.hasReply() || seen[c.Invoked.Seq] || seen[c.Returned.Seq] || c.Returned.Seq <= c.Invoked.Seq {
			t.Fatalf("call %+v", c)
		}
		seen[c.Invoked.Seq], seen[c.Returned.Seq] = true, true
	}
}

// The recorder keeps both leaders of a term, and each of them once.
func TestTwoLeadersAreRecorded(t *testing.T) {
	r, err := NewRecorder(Config{Tick: time.Second, Members: []uint32{1, 2, 3}})
	if err != nil {
		t.Fatal(err)
	}
	for _, leader := range []uint32{1, 1, 2, 1} {
		r.Leads(time.Second, 7, 0, leader)
	}
	h, err := r.History(2 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if found := faults(Check(h)); len(h.Terms) != 2 || !slices.Equal(found, []fault{twoLeaders}) {
		t.Errorf("%d terms, found %q; want 2 and %q", len(h.Terms), found, twoLeaders)
	}
}
