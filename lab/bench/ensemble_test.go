package bench

import (
	"bufio"
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/zk/jute"
)

// fakeEnsemble is a standalone server with nodes, watches and ephemeral nodes, as far as the cases need them.
// Each request of a connection takes delay.
type fakeEnsemble struct {
	delay             time.Duration
	expiryDelay       time.Duration // how long after its timeout a silent session expires
	rejectedOp        jute.Op       // is rejected for a time, except on the first connection
	rejectFor         time.Duration // this time, from the connection of the first client that is measured
	serving           sync.WaitGroup
	mu                sync.Mutex
	conns             int
	measuredSince     time.Time // when the second connection opened
	zxid              int64
	nodes             map[string]*fakeNode
	requests          map[jute.Op]int // those that a case sends beside its set-up: on every connection but the first
	sizes             map[int]int     // how often data of each size were set or created on these
	watchers          map[string][]*fakeConn
	recursiveWatchers map[string][]*fakeConn // recursive watches
	lasting           map[string][]*fakeConn // persistent watches on one node
	all               []*fakeConn            // in the order in which they came
	lost              map[jute.SessionID]bool
	onWrite           func(path string) // is called before the data of a node are set, with the lock held
	// reject, unless nil, decides over each request but those of the first connection, with the lock held: OK carries it out.
	reject func(op jute.Op, path string) jute.Code
}

type fakeNode struct {
	data    []byte
	version int32
	owner   jute.SessionID
}

type fakeConn struct {
	id      jute.SessionID
	conn    net.Conn
	out     chan []byte // has room for all frames of a test
	expires *time.Timer
}

func (f *fakeEnsemble) dial(context.Context, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	f.serving.Go(func() { f.serve(theirs) })
	return ours, nil
}

func (f *fakeEnsemble) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	frame, err := jute.ReadFrame(r, nil, 1<<20)
	if err != nil {
		return
	}
	time.Sleep(f.delay)
	var connect jute.ConnectRequest
	d := jute.NewDecoder(frame)
	connect.Decode(&d)
	f.mu.Lock()
	f.conns++
	first := f.conns == 1
	if f.conns == 2 {
		f.measuredSince = time.Now()
	}
	c := &fakeConn{id: jute.SessionID(f.conns), conn: conn, out: make(chan []byte, 1<<16)}
	if id := connect.SessionID; f.lost[id] {
		c.id = 0
	} else if id != 0 {
		c.id = id
	}
	f.all = append(f.all, c)
	f.mu.Unlock()
	timeout := time.Duration(connect.TimeOut) * time.Millisecond
	c.expires = time.AfterFunc(timeout+f.expiryDelay, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.endSession(c.id)
	})
	written := make(chan struct{})
	go func() {
		defer close(written)
		for b := range c.out {
			_ = jute.WriteFrame(conn, b) // after an error the reader ends
		}
	}()
	defer func() { f.dropWatches(c); close(c.out); <-written }()
	c.out <- jute.ConnectResponse{TimeOut: connect.TimeOut, SessionID: c.id, Passwd: make([]byte, 16)}.Append(nil)
	for {
		if frame, err = jute.ReadFrame(r, nil, 1<<20); err != nil {
			return
		}
		c.expires.Reset(timeout + f.expiryDelay)
		time.Sleep(f.delay)
		d := jute.NewDecoder(frame)
		var h jute.RequestHeader
		h.Decode(&d)
		f.mu.Lock()
		if !first {
			f.requests[h.Op]++
		}
		body, code := []byte(nil), jute.NoAuth
		if h.Op != f.rejectedOp || first || time.Since(f.measuredSince) > f.rejectFor {
			body, code = nil, jute.OK
			if f.reject != nil && !first {
				var r jute.GetDataRequest // the requests that tests reject begin so
				at := d
				r.Decode(&at)
				code = f.reject(h.Op, string(r.Path))
			}
			if code == jute.OK {
				body, code = f.handleRequest(c, h.Op, &d, !first)
			}
		}
		f.zxid++
		c.out <- append(jute.ReplyHeader{Xid: h.Xid, Zxid: f.zxid, Err: code}.Append(nil), body...)
		f.mu.Unlock()
		if h.Op == jute.OpCloseSession {
			c.expires.Stop()
			return
		}
	}
}

// dropWatches drops the watches of a connection.
func (f *fakeEnsemble) dropWatches(c *fakeConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget(c)
}

// forget drops the watches of a connection. The lock is held.
func (f *fakeEnsemble) forget(c *fakeConn) {
	for _, watches := range []map[string][]*fakeConn{f.watchers, f.recursiveWatchers, f.lasting} {
		for path, conns := range watches {
			var left []*fakeConn
			for _, w := range conns {
				if w != c {
					left = append(left, w)
				}
			}
			watches[path] = left
		}
	}
}

// handleRequest carries out a request, and returns the reply without its header.
func (f *fakeEnsemble) handleRequest(c *fakeConn, op jute.Op, d *jute.Decoder, counted bool) (body []byte, code jute.Code) {
	switch op {
	case jute.OpCreate, jute.OpCreate2, jute.OpSetData, jute.OpDelete:
		var one jute.MultiOp
		one.Op = op
		switch op {
		case jute.OpSetData:
			one.SetData.Decode(d)
		case jute.OpDelete:
			one.Delete.Decode(d)
		default:
			one.Create.Decode(d)
		}
		return f.write(c, &one, counted)
	case jute.OpMulti:
		ops, err := jute.DecodeMulti(d, nil)
		if err != nil {
			return nil, jute.MarshallingError
		}
		for i := range ops {
			text, code := f.write(c, &ops[i], counted)
			if code != jute.OK {
				return nil, code // the cases do not look at what is not done then
			}
			body = append(jute.MultiHeader{Type: ops[i].Op}.Append(body), text...)
		}
		return jute.AppendMultiEnd(body), jute.OK
	case jute.OpAddWatch:
		var r jute.AddWatchRequest
		r.Decode(d)
		watches := f.lasting
		if r.Mode == jute.AddWatchPersistentRecursive {
			watches = f.recursiveWatchers
		}
		watches[string(r.Path)] = append(watches[string(r.Path)], c)
		return nil, jute.OK
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetChildren2:
		var r jute.GetDataRequest // all begin so
		r.Decode(d)
		return f.read(c, op, string(r.Path), r.Watch)
	case jute.OpSync:
		var r jute.SyncRequest
		r.Decode(d)
		return jute.SyncResponse(r).Append(nil), jute.OK
	case jute.OpCloseSession:
		f.endSession(c.id)
	}
	return nil, jute.OK
}

func (f *fakeEnsemble) read(c *fakeConn, op jute.Op, path string, watch bool) ([]byte, jute.Code) {
	n := f.nodes[path]
	if n == nil {
		return nil, jute.NoNode
	}
	if watch {
		f.watchers[path] = append(f.watchers[path], c)
	}
	var children [][]byte
	for other := range f.nodes {
		if name, below := strings.CutPrefix(other, path+"/"); below && !strings.Contains(name, "/") {
			children = append(children, []byte(name))
		}
	}
	stat := jute.Stat{Version: n.version, EphemeralOwner: n.owner, DataLength: int32(len(n.data)), NumChildren: int32(len(children))}
	switch op {
	case jute.OpGetData:
		return jute.GetDataResponse{Data: n.data, Stat: stat}.Append(nil), jute.OK
	case jute.OpExists:
		return jute.ExistsResponse{Stat: stat}.Append(nil), jute.OK
	}
	if op == jute.OpGetChildren {
		return jute.GetChildrenResponse{Children: children}.Append(nil), jute.OK
	}
	return jute.GetChildren2Response{Children: children, Stat: stat}.Append(nil), jute.OK
}

func (f *fakeEnsemble) write(c *fakeConn, op *jute.MultiOp, counted bool) ([]byte, jute.Code) {
	switch op.Op {
	case jute.OpSetData:
		if f.onWrite != nil {
			f.onWrite(string(op.SetData.Path))
		}
		n := f.nodes[string(op.SetData.Path)]
		if n == nil {
			return nil, jute.NoNode
		}
		n.data, n.version = op.SetData.Data, n.version+1
		if counted {
			f.sizes[len(n.data)]++
		}
		f.notify(jute.EventNodeDataChanged, string(op.SetData.Path))
		return jute.SetDataResponse{Stat: jute.Stat{Version: n.version}}.Append(nil), jute.OK
	case jute.OpDelete:
		return nil, f.remove(string(op.Delete.Path))
	}
	path := string(op.Create.Path)
	if parent := path[:strings.LastIndexByte(path, '/')]; parent != "" && f.nodes[parent] == nil {
		return nil, jute.NoNode
	}
	if f.nodes[path] != nil {
		return nil, jute.NodeExists
	}
	n := &fakeNode{data: op.Create.Data}
	if op.Create.Flags == jute.Ephemeral {
		n.owner = c.id
	}
	if counted {
		f.sizes[len(n.data)]++
	}
	f.nodes[path] = n
	f.notify(jute.EventNodeCreated, path)
	return jute.Create2Response{Path: op.Create.Path}.Append(nil), jute.OK
}

func (f *fakeEnsemble) remove(path string) jute.Code {
	if f.nodes[path] == nil {
		return jute.NoNode
	}
	for other := range f.nodes {
		if strings.HasPrefix(other, path+"/") {
			return jute.NotEmpty
		}
	}
	delete(f.nodes, path)
	f.notify(jute.EventNodeDeleted, path)
	return jute.OK
}

// endSession removes the ephemeral nodes of a session.
func (f *fakeEnsemble) endSession(id jute.SessionID) {
	for path, n := range f.nodes {
		if n.owner == id {
			_ = f.remove(path) // it has no children
		}
	}
}

func (f *fakeEnsemble) notify(kind jute.EventType, path string) {
	conns := slices.Concat(f.watchers[path], f.lasting[path])
	delete(f.watchers, path)
	for directory, watching := range f.recursiveWatchers {
		if strings.HasPrefix(path, directory+"/") {
			conns = append(conns, watching...)
		}
	}
	event := jute.WatcherEvent{Type: kind, State: jute.StateSyncConnected, Path: []byte(path)}
	for _, c := range conns {
		c.out <- event.Append(jute.ReplyHeader{Xid: jute.XidNotification, Zxid: -1}.Append(nil))
	}
}

// runCase runs a case in virtual time, and returns its result and the lines that it printed.
func (f *fakeEnsemble) runCase(t *testing.T, text string, base Params) (r Result, lines []string) {
	t.Helper()
	r, lines, err := f.tryCase(t, text, base)
	if err != nil {
		t.Fatal(err)
	}
	return r, lines
}

// tryCase is runCase for a case that may fail.
func (f *fakeEnsemble) tryCase(t *testing.T, text string, base Params) (r Result, lines []string, err error) {
	t.Helper()
	f.nodes, f.requests, f.sizes = map[string]*fakeNode{}, map[jute.Op]int{}, map[int]int{}
	f.watchers, f.recursiveWatchers, f.lasting = map[string][]*fakeConn{}, map[string][]*fakeConn{}, map[string][]*fakeConn{}
	p, err := ParseCase(text, base)
	if err != nil {
		t.Fatal(err)
	}
	r, err = Run(t.Context(), Config{
		Target: Target{Name: "fake", Servers: []string{"fake:1"}, Dial: f.dial}, Params: p, sleep: time.Sleep,
		Progress: func(line string) { lines = append(lines, line) },
	})
	f.serving.Wait()
	time.Sleep(2 * p.Timeout) // no timer of a session is left
	if (len(f.nodes) > 0) != p.KeepNodes {
		t.Errorf("%s: %d nodes are left", text, len(f.nodes))
	}
	return r, lines, err
}

// Each case sends its kind of requests, for its time, from each of its connections; it measures how long they
// take and removes what it has made. The fake takes exactly a millisecond for each request, so every figure is
// known.
func TestCases(t *testing.T) {
	const ms = 1000.0 // µs
	figures := func(names ...any) map[string]float64 {
		want := map[string]float64{}
		for i := 0; i < len(names); i += 2 {
			want[names[i].(string)] = names[i+1].(float64)
		}
		return want
	}
	for _, tt := range []struct {
		text     string
		ops      int64 // ± 2 %
		p50      float64
		requests map[jute.Op]int64 // ± 15 %: the warm-up, too
		size     int               // of the data that are written; -1: none
		extra    map[string]float64
	}{
		{"get", 2000, ms, map[jute.Op]int64{jute.OpGetData: 2200}, -1, nil},
		{"set:size=7", 2000, ms, map[jute.Op]int64{jute.OpSetData: 2200}, 7, nil},
		{"create:size=7", 2000, ms, map[jute.Op]int64{jute.OpCreate2: 2200}, 7, nil},
		{"mix:reads=75", 2000, ms, map[jute.Op]int64{jute.OpGetData: 1650, jute.OpSetData: 550}, 100, nil},
		{"children:children=5", 2000, ms, map[jute.Op]int64{jute.OpGetChildren2: 2200}, -1, nil},
		{"multi:ops=3,size=9", 2000, ms, map[jute.Op]int64{jute.OpMulti: 2200}, 9, nil},
		{"sessions", 1000, 2 * ms, map[jute.Op]int64{jute.OpCloseSession: 1100}, -1, figures("open p50", 1.0, "open p99", 1.0, "close p50", 1.0, "close p99", 1.0)},
		{"sync", 2000, ms, map[jute.Op]int64{jute.OpSync: 2200}, -1, nil},
		// A session is opened, creates three nodes and closes.
		{"ephemerals:each=3", 400, ms, map[jute.Op]int64{jute.OpCloseSession: 440, jute.OpCreate2: 1320}, 0, figures("whole session p50", 5.0, "whole session p99", 5.0)},
		// A session is opened, creates a node and closes.
		{"churn", 666, 3 * ms, map[jute.Op]int64{jute.OpCreate2: 733, jute.OpCloseSession: 733}, 0, figures("open p50", 1.0, "create p99", 1.0, "close p99", 1.0)},
		{"churn:rate=100", 100, 3 * ms, map[jute.Op]int64{jute.OpCreate2: 110, jute.OpCloseSession: 110}, 0, figures("open p50", 1.0)},
		// A write takes a millisecond, in which its events arrive. Then each session sets its watch again.
		{"watches:watchers=5", 2500, ms, map[jute.Op]int64{jute.OpGetData: 2750}, -1, figures("writes", 500.0, "write p50", 1.0, "first event p50", 1.0, "last event p50", 1.0, "last event max", 1.0)},
		// A node is created, read and deleted.
		{"firstreads", 666, 0, map[jute.Op]int64{jute.OpCreate2: 733, jute.OpExists: 733, jute.OpDelete: 733}, 0, figures("stale first reads", 0.0, "there after 20 ms", 0.0)},
		{"expiry:silent=5", 15, 100 * ms, map[jute.Op]int64{jute.OpCreate2: 15, jute.OpExists: 15}, 0, figures("early", 0.0, "earliest by", 0.0, "first to last", 0.0, "first to last at most", 0.0)},
		{"storm:conns=5,storms=2,each=1,storm=close", 2, ms, map[jute.Op]int64{jute.OpCreate2: 10, jute.OpCloseSession: 11}, 0, figures("storm took", 1.0)},
		{"failover", 4000, ms, map[jute.Op]int64{jute.OpGetData: 2200, jute.OpSetData: 2200}, 100, figures("sessions lost", 0.0, "acknowledged writes lost", 0.0, "longest gap of writes", 1.0, "longest gap of reads, fake:1", 1.0)},
	} {
		t.Run(tt.text, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeEnsemble{delay: time.Millisecond, expiryDelay: 100 * time.Millisecond}
				base := quickParams()
				base.Hook, base.Timeout = "true", 4*time.Second
				r, lines := f.runCase(t, tt.text, base)
				if r.Ops < tt.ops*98/100 || r.Ops > tt.ops*102/100 || r.Latency.P50 != tt.p50 || len(r.Errors) > 0 ||
					len(r.Notes) > 0 || r.Target != "fake" {
					t.Errorf("%+v, want %d ops of %v µs", r, tt.ops, tt.p50)
				}
				for op, want := range tt.requests {
					if got := int64(f.requests[op]); got < want*85/100 || got > want*115/100 {
						t.Errorf("%d requests %v, want %d", got, op, want)
					}
				}
				if n := f.sizes[max(tt.size, 0)]; len(f.sizes) > 1 || n == 0 != (tt.size < 0) {
					t.Errorf("data of these sizes were written: %v, want %d bytes", f.sizes, tt.size)
				}
				got := map[string]float64{}
				for _, e := range r.Extra {
					got[e.Name] = e.Value
				}
				for name, want := range tt.extra {
					if value, found := got[name]; !found || value < want*0.98 || value > want*1.02 {
						t.Errorf("%s is %v, want %v", name, got[name], want)
					}
				}
				if first, last := lines[0], lines[len(lines)-1]; !strings.HasSuffix(first, ": connecting") ||
					!strings.HasSuffix(last, ": removing the nodes") {
					t.Errorf("it said first %q and last %q", first, last)
				}
			})
		})
	}
}

// Sessions that fall silent at once end between two polls, or three. The writes that are under way meanwhile count, and
// those before do not.
func TestStormOfSilentSessions(t *testing.T) {
	for text, creates := range map[string]int{"storm:conns=5,storms=2,each=3": 30, "storm:conns=5,storms=2,each=0,storm=vanish": 2} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeEnsemble{delay: time.Millisecond, expiryDelay: 100 * time.Millisecond}
			base := quickParams()
			base.Timeout = 4 * time.Second
			r, _ := f.runCase(t, text, base)
			const poll = 6 // ms: stormPoll, and the reply
			took := map[string]float64{}
			for _, e := range r.Extra {
				took[e.Name] = e.Value
			}
			if n := took["storm took"]; n < poll || n > 2*poll || took["before it p50"] < 1 || r.PerSecond <= 0 {
				t.Errorf("%s: %v, and %v writes per second; want one poll of %d ms, or two", text, took, r.PerSecond, poll)
			}
			if r.Ops < 2*poll || r.Ops > 2*2*poll || r.Latency.P50 != 1000 || len(r.Errors) > 0 {
				t.Errorf("%s: %+v, want the writes of two storms, 1 ms each", text, r)
			}
			if got := f.requests[jute.OpCreate2]; got != creates {
				t.Errorf("%s: %d nodes were created, want %d", text, got, creates)
			}
		})
	}
}

// A client whose request fails pauses before it tries again, so that it does not flood servers that reject it.
func TestFailedRequestsPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeEnsemble{delay: time.Millisecond, rejectedOp: jute.OpCreate2, rejectFor: time.Minute}
		r, _ := f.runCase(t, "ephemerals:each=1", quickParams())
		failed, most := r.Errors[jute.NoAuth.Error()], 2*int64(time.Second/retryPause)
		if r.Ops != 0 || failed < most/2 || failed > most || len(r.Errors) > 1 {
			t.Errorf("%d sessions were counted, errors %v; want %q, at most %d times", r.Ops, r.Errors, jute.NoAuth.Error(), most)
		}
	})
}

// The nodes of a run stay if the user wants to inspect them.
func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := quickParams()
		p.KeepNodes = true
		(&fakeEnsemble{delay: time.Millisecond}).runCase(t, "set", p)
	})
}

// What fails in the warm-up is no error of the measured time, and what the end of the run breaks off is none, either.
func TestErrorsOfWarmUpDoNotCount(t *testing.T) {
	for text, op := range map[string]jute.Op{"get": jute.OpGetData, "ephemerals:each=1": jute.OpCreate2, "failover": jute.OpSetData} {
		synctest.Test(t, func(t *testing.T) {
			base := quickParams()
			base.Hook = "true"
			f := &fakeEnsemble{delay: time.Millisecond, rejectedOp: op, rejectFor: base.Warmup / 2}
			r, _ := f.runCase(t, text, base)
			if len(r.Errors) > 0 || r.Ops == 0 || f.requests[op] == 0 {
				t.Errorf("%s: %d ops, errors %v", text, r.Ops, r.Errors)
			}
			f = &fakeEnsemble{delay: time.Millisecond, rejectedOp: op, rejectFor: base.Warmup * 2}
			if r, _ = f.runCase(t, text, base); r.Errors[jute.NoAuth.Error()] == 0 || len(r.Errors) > 1 {
				t.Errorf("%s: errors %v of the measured time", text, r.Errors)
			}
		})
	}
}
