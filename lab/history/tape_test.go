package history

import (
	"slices"
	"testing"
	"time"

	"rollcall/zk/jute"
	"rollcall/znode"
)

const (
	sec  = time.Second
	ms   = time.Millisecond
	tick = sec
)

// tape is a Recorder with shorthands for tests: members 1 to 3, ticks of 1 s, and member 1 leads
// term 1 from 0 on.
type tape struct {
	*Recorder
	t   *testing.T
	xid int32
	end time.Duration // 0: the time of the last event
	now time.Duration
}

func newTape(t *testing.T) *tape {
	t.Helper()
	r, err := NewRecorder(Config{Tick: tick, Members: []uint32{1, 2, 3}})
	if err != nil {
		t.Fatal(err)
	}
	p := &tape{Recorder: r, t: t}
	p.Leads(0, 1, 0, 1)
	return p
}

func (p *tape) at(at time.Duration) time.Duration {
	p.now = max(p.now, at)
	return at
}

// opened records that all members applied the opening of a session of 4 s, at index 10 plus its id.
func (p *tape) opened(at time.Duration, id jute.SessionID, owner uint32) znode.Session {
	s := znode.Session{ID: id, Timeout: 4 * sec, Owner: znode.SessionOwner{Member: owner, Conn: uint64(owner) * 10}, OwnerIndex: 10 + uint64(id)}
	for m := range uint32(3) {
		p.Opened(p.at(at), m+1, s)
	}
	return s
}

// attached records that all members applied the move of a session.
func (p *tape) attached(at time.Duration, s znode.Session, owner uint32, timeout time.Duration, index uint64) znode.Session {
	s.Owner, s.Timeout, s.OwnerIndex = znode.SessionOwner{Member: owner, Conn: uint64(owner)*10 + 1}, timeout, index
	for m := range uint32(3) {
		p.Attached(p.at(at), m+1, s)
	}
	return s
}

// expired records that members applied an expiry in a term. The first of them is the leader of that
// term.
func (p *tape) expired(at time.Duration, s znode.Session, term int64, members ...uint32) {
	for _, m := range members {
		p.Closed(p.at(at), m, 100+uint64(s.ID), term<<32+100+int64(s.ID), s, true)
	}
}

// touches records a touch at each of some times.
func (p *tape) touches(member uint32, s znode.Session, at ...time.Duration) {
	for _, t := range at {
		p.Touched(p.at(t), member, s.ID)
	}
}

// recordRequest records a request of session 1 at a time in ms. It is on connection 1 unless req names another one.
func (p *tape) recordRequest(at int, req Request) CallID {
	p.xid++
	req.Xid = p.xid
	if req.Session == 0 {
		req.Session = 1
	}
	if req.Conn == 0 {
		req.Conn = uint64(req.Session)
	}
	return p.Invoked(p.at(time.Duration(at)*ms), req)
}

func (p *tape) answer(at int, id CallID, reply Reply) {
	p.Returned(p.at(time.Duration(at)*ms), id, reply)
}

// recordCall records a request and its reply.
func (p *tape) recordCall(from, to int, req Request, reply Reply) {
	p.answer(to, p.recordRequest(from, req), reply)
}

func (p *tape) history() History {
	p.t.Helper()
	end := p.end
	if end == 0 {
		end = p.now
	}
	h, err := p.History(end)
	if err != nil {
		p.t.Fatal(err)
	}
	return h
}

// These are the requests that tests make.
func create(path, data string) Request {
	return Request{Op: jute.OpCreate, Path: path, Data: data}
}

func ephemeral(path string) Request {
	return Request{Op: jute.OpCreate, Path: path, Mode: jute.Ephemeral}
}

func sequential(path, data string) Request {
	return Request{Op: jute.OpCreate, Path: path, Data: data, Mode: jute.PersistentSequential}
}

func set(path, data string) Request {
	return Request{Op: jute.OpSetData, Path: path, Data: data, Version: -1}
}

func remove(path string) Request { return Request{Op: jute.OpDelete, Path: path, Version: -1} }
func get(path string) Request    { return Request{Op: jute.OpGetData, Path: path} }
func children(path string) Request {
	return Request{Op: jute.OpGetChildren, Path: path}
}

func watching(r Request) Request {
	r.Watch = true
	return r
}

func by(session jute.SessionID, r Request) Request {
	r.Session = session
	return r
}

func on(conn uint64, r Request) Request {
	r.Conn = conn
	return r
}

func ok(zxid int64) Reply                { return Reply{Zxid: zxid} }
func no(code jute.Code, z int64) Reply   { return Reply{Zxid: z, Code: code} }
func made(zxid int64, path string) Reply { return Reply{Zxid: zxid, Path: path} }
func shows(zxid, mzxid int64, version int32, data string) Reply {
	return Reply{Zxid: zxid, Mzxid: mzxid, Version: version, Data: data}
}

// faults returns the names of the faults found, each once, in order.
func faults(found []Violation) []fault {
	var out []fault
	for _, v := range found {
		if !slices.Contains(out, v.Fault) {
			out = append(out, v.Fault)
		}
	}
	return out
}

// rule is one hand-made history with a planted fault.
type rule struct {
	name string
	make func(p *tape)
	want fault // "": no fault
}

func judgeTapes(t *testing.T, tests []rule) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newTape(t)
			tt.make(p)
			found := Check(p.history())
			var want []fault
			if tt.want != "" {
				want = []fault{tt.want}
			}
			if got := faults(found); !slices.Equal(got, want) {
				t.Errorf("found %q, want %q", got, want)
				for _, v := range found {
					t.Log(v)
				}
			}
		})
	}
}

// endTerm records that the leader of term no longer leads. This is not needed if the reason is an
// outage or a later term.
func (r *Recorder) endTerm(at time.Duration, term uint64) {
	r.addRecord(at, 1, func(Moment) {
		for i := range r.recorded.Terms {
			if t := &r.recorded.Terms[i]; t.Term == term {
				t.To = min(t.To, at)
			}
		}
	})
}

// countRecords returns the number of records, for the minimum that a harness demands.
func (r *Recorder) countRecords() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.recordCount
}
