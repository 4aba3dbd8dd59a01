package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/lab/bench"
	"rollcall/zk/jute"
)

// testFile is the size of a file here, above the largest batch.
const testFile = 5 << 20

// pipeListener accepts connections in memory.
type pipeListener struct {
	conns chan net.Conn
	over  chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{make(chan net.Conn), make(chan struct{})}
}

func (p *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.over:
		return nil, net.ErrClosed
	}
}

func (p *pipeListener) Close() error {
	select {
	case <-p.over:
	default:
		close(p.over)
	}
	return nil
}

func (p *pipeListener) Addr() net.Addr { return nil }

func (p *pipeListener) dial() net.Conn {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours
}

// world is a leader in a synctest bubble. The test takes the part of its followers and its clients.
type world struct {
	*pipeListener
	t         *testing.T
	leader    *leader
	followers []net.Conn
	stop      context.CancelFunc
	ended     chan error // gets what the leader's run returns
}

// inWorld runs a test with a leader that has so many followers.
func inWorld(t *testing.T, followers int, run func(*world)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		file, err := openFile(dir, testFile)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		w := &world{pipeListener: newPipeListener(), t: t, ended: make(chan error, 1)}
		var conns []net.Conn
		for range followers {
			ours, theirs := net.Pipe()
			defer ours.Close()
			w.followers, conns = append(w.followers, ours), append(conns, theirs)
		}
		ctx, stop := context.WithCancel(t.Context())
		w.leader, w.stop = newLeader(conns, file), stop
		go func() { w.ended <- w.leader.run(ctx, w.pipeListener) }()
		run(w)
		stop()
		synctest.Wait()
		if err := <-w.ended; err != nil && t.Context().Err() == nil {
			t.Errorf("the leader ended: %v", err)
		}
	})
}

// session is a connection that has sent its handshake. Its replies are read as they come.
type session struct {
	net.Conn
	t       *testing.T
	replies chan []byte // closed at the end of the connection
}

var handshake = jute.ConnectRequest{TimeOut: 10_000, Passwd: make([]byte, 16), HasReadOnly: true}.Append(nil)

func (w *world) connect() *session {
	s := &session{w.dial(), w.t, make(chan []byte, 100)}
	go func() {
		defer close(s.replies)
		for {
			reply, err := jute.ReadFrame(s.Conn, nil, maxFrame)
			if err != nil {
				return
			}
			s.replies <- reply
		}
	}()
	s.send(handshake)
	return s
}

// send sends requests with one write of the socket.
func (s *session) send(requests ...[]byte) {
	var frames []byte
	for _, r := range requests {
		frames = append(jute.AppendInt32(frames, int32(len(r))), r...)
	}
	_, _ = s.Write(frames) // an error shows in the replies
	synctest.Wait()
}

// want checks that these replies have come and no others: "1" is that to request 1, "1!" an error.
func (s *session) want(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	var got []string
	for len(s.replies) > 0 {
		d := jute.NewDecoder(<-s.replies)
		var h jute.ReplyHeader
		h.Decode(&d)
		text := string(rune('0' + h.Xid))
		if h.Err != jute.OK {
			text += "!"
		}
		got = append(got, text)
	}
	if !slices.Equal(got, want) {
		t.Errorf("replies %q, want %q", got, want)
	}
}

// wantHandshake checks that the reply to the handshake has come.
func (s *session) wantHandshake(t *testing.T) {
	t.Helper()
	synctest.Wait()
	var r jute.ConnectResponse
	d := jute.NewDecoder(<-s.replies)
	if r.Decode(&d); d.Err() != nil || r.TimeOut != 10_000 || r.SessionID <= firstSession || len(r.Passwd) != 16 {
		t.Errorf("handshake %+v, %v", r, d.Err())
	}
}

// isClosed reports whether the connection has ended.
func (s *session) isClosed() bool {
	synctest.Wait()
	for {
		select {
		case _, open := <-s.replies:
			if !open {
				return true
			}
		default:
			return false
		}
	}
}

func request(xid int32, op jute.Op, rec interface{ Append(b []byte) []byte }) []byte {
	b := jute.RequestHeader{Xid: xid, Op: op}.Append(nil)
	if rec == nil {
		return b
	}
	return rec.Append(b)
}

func create(xid int32, path string, data []byte) []byte {
	return request(xid, jute.OpCreate, jute.CreateRequest{Path: []byte(path), Data: data, ACL: jute.OpenACL})
}

func get(xid int32, path string) []byte {
	return request(xid, jute.OpGetData, jute.GetDataRequest{Path: []byte(path)})
}

// takeBatch reads a batch that the leader has sent to a follower.
func (w *world) takeBatch(follower int) []byte {
	w.t.Helper()
	batch, err := jute.ReadFrame(w.followers[follower], nil, maxPendingBytes)
	if err != nil {
		w.t.Fatal(err)
	}
	return batch
}

// drain takes all batches of a follower and acknowledges them if ack is true.
func (w *world) drain(follower int, ack bool) {
	go func() {
		for {
			if _, err := jute.ReadFrame(w.followers[follower], nil, maxPendingBytes); err != nil {
				return
			}
			if ack {
				if _, err := w.followers[follower].Write([]byte{1}); err != nil {
					return
				}
			}
		}
	}()
}

// commit takes and acknowledges a batch as the first follower does.
func (w *world) commit() {
	w.t.Helper()
	w.takeBatch(0)
	w.acknowledge(0)
}

func (w *world) acknowledge(follower int) {
	w.t.Helper()
	if _, err := w.followers[follower].Write([]byte{1}); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// A write is answered when one of two followers has acknowledged it, and not before. By then it is in the leader's
// file, too.
func TestMajority(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.drain(1, false) // never acknowledges
		s := w.connect()
		w.takeBatch(0)
		s.want(t)
		w.acknowledge(0)
		s.wantHandshake(t)

		data := []byte("in the leader's file")
		s.send(create(1, "/a", data))
		if batch := w.takeBatch(0); !bytes.Contains(batch, data) {
			t.Errorf("the batch is %q", batch)
		}
		s.want(t)
		w.acknowledge(0)
		s.want(t, "1")
		if text, err := os.ReadFile(w.leader.file.Name()); err != nil || !bytes.Contains(text, data) {
			t.Errorf("the leader's file lacks the write; %v", err)
		}
	})
}

// A majority is the leader and half of the followers, or one more if their number is odd.
func TestMajorities(t *testing.T) {
	for followers, need := range []int{0, 1, 1, 2, 2} {
		f := newFollowers(make([]net.Conn, followers))
		for i := range followers {
			if f.majorityHas(1) != (i >= need) {
				t.Errorf("%d of %d followers: %t", i, followers, f.majorityHas(1))
			}
			f.count[i] = 1
		}
		if !f.majorityHas(1) || followers > 0 && f.majorityHas(2) {
			t.Errorf("all of %d followers have one batch", followers)
		}
	}
}

// The replies of a connection are in the order of its requests. A read waits for the writes before it and sees them. A read
// of another connection does not wait.
func TestOrder(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		s := w.connect()
		w.commit()
		s.wantHandshake(t)

		s.send(get(1, "/a"), create(2, "/a", nil), get(3, "/a"), request(4, jute.OpPing, nil), create(5, "/b", nil), get(6, "/b"),
			request(7, jute.OpGetACL, jute.GetACLRequest{Path: []byte("/a")}))
		s.want(t, "1!")
		s.send(get(8, "/a"))
		s.want(t)
		w.commit()
		s.want(t, "2", "3", "4", "5", "6", "7!", "8")

		s.send(create(1, "/c", nil)) // and the follower is silent
		other := w.connect()
		s.send(get(2, "/a"))
		s.want(t)
		w.commit()
		s.want(t, "1", "2")
		w.commit()
		other.wantHandshake(t)
		s.send(create(3, "/d", nil))
		other.send(get(1, "/a"), get(2, "/d"))
		other.want(t, "1", "2!")
		s.want(t)
		w.commit()
		s.want(t, "3")
	})
}

// The end of a session is answered after what came before it. Then the connection is closed, and what follows is ignored.
func TestCloseSession(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		s := w.connect()
		s.wantHandshake(t)
		s.send(create(1, "/a", nil), request(2, jute.OpCloseSession, nil), get(3, "/a"))
		s.want(t, "1", "2")
		if !s.isClosed() {
			t.Error("the connection is open")
		}
	})
}

// What cannot be decoded ends its connection alone.
func TestMalformed(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		good := w.connect()
		good.wantHandshake(t)
		whole := create(1, "/a", []byte("data"))
		for name, frame := range map[string][]byte{
			"no header":           {0, 0, 0, 1, 0, 0, 0},
			"empty":               {},
			"create, cut off":     whole[:len(whole)-1],
			"getData, cut off":    get(1, "/a")[:10],
			"setData, no record":  request(1, jute.OpSetData, nil),
			"delete, long path":   append(request(1, jute.OpDelete, nil), 0x7f, 0xff, 0xff, 0xff),
			"exists, length -2":   append(request(1, jute.OpExists, nil), 0xff, 0xff, 0xff, 0xfe),
			"multi, cut off":      request(1, jute.OpMulti, jute.MultiHeader{Type: jute.OpDelete}),
			"multi, no end":       request(1, jute.OpMulti, nil),
			"multi, with getData": append(request(1, jute.OpMulti, jute.MultiHeader{Type: jute.OpGetData}), 0),
		} {
			s := w.connect()
			s.wantHandshake(t)
			s.send(frame)
			if !s.isClosed() {
				t.Errorf("%s: the connection is open", name)
			}
		}
		short := &session{w.dial(), t, nil}
		short.send(handshake[:5])
		if _, err := short.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("a short handshake: %v", err)
		}
		good.send(whole)
		good.want(t, "1")
	})
}

// A frame above the limit is rejected by its length. The longest one is taken.
func TestLongFrames(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		empty := len(create(1, "/a", []byte{}))
		s := w.connect()
		s.wantHandshake(t)
		s.send(create(1, "/a", make([]byte, maxFrame-empty)))
		s.want(t, "1")
		for _, length := range []int32{maxFrame + 1, -1} {
			s := w.connect()
			s.wantHandshake(t)
			if _, err := s.Write(jute.AppendInt32(nil, length)); err != nil {
				t.Fatal(err)
			}
			if !s.isClosed() {
				t.Errorf("length %d: the connection is open", length)
			}
		}
	})
}

// The pending batch takes so many bytes. The writes beyond it wait, and are committed later.
func TestRoom(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		s := w.connect()
		w.commit()
		s.wantHandshake(t)
		s.send(create(1, "/1", nil)) // the batch on its way
		var want []string
		go func() {
			for xid := int32(2); xid < 10; xid++ {
				_, _ = s.Write(frameOf(create(xid, "/"+string(rune('0'+xid)), make([]byte, maxFrame-1000)))) // its reply shows an error
			}
		}()
		synctest.Wait()
		w.leader.mu.Lock()
		pending, writes := len(w.leader.pending.frame), len(w.leader.pending.writes)
		w.leader.mu.Unlock()
		if pending > maxPendingBytes || writes != 4 {
			t.Errorf("%d writes of %d bytes are pending, limit %d", writes, pending, maxPendingBytes)
		}
		w.drain(0, true)
		synctest.Wait()
		for xid := 1; xid < 10; xid++ {
			want = append(want, string(rune('0'+xid)))
		}
		s.want(t, want...)
	})
}

// A client that reads no replies, or whose reads wait for a write, is not read when mostQueued bytes are queued. Its requests are
// answered later. The end of the leader ends the wait.
func TestQueuedBytes(t *testing.T) {
	for _, ends := range []bool{false, true} {
		inWorld(t, 1, func(w *world) {
			s := w.connect()
			w.commit()
			s.wantHandshake(t)
			s.send(create(1, "/a", nil)) // its follower is silent
			const reads = 40
			sent := 0
			go func() {
				for range reads {
					if _, err := s.Write(frameOf(append(get(2, "/a"), make([]byte, mostQueued/10)...))); err != nil {
						return
					}
					sent++
				}
			}()
			synctest.Wait()
			if sent < 10 || sent > 12 {
				t.Errorf("%d reads of a tenth of the limit were taken", sent)
			}
			if ends {
				return
			}
			w.commit()
			s.want(t, append([]string{"1"}, slices.Repeat([]string{"2"}, reads)...)...)
		})
	}
}

// Replies count among the queued bytes, too. If they are more than that, those to requests that came together are sent, and the
// writes among these are submitted, before more requests are read.
func TestQueuedReplies(t *testing.T) {
	if c := (&conn{out: make([]byte, 3), waitingSize: 4}); c.queuedLocked() != 7 {
		t.Errorf("%d bytes are queued, want 7", c.queuedLocked())
	}
	inWorld(t, 1, func(w *world) {
		s := w.connect()
		w.commit()
		s.wantHandshake(t)
		s.send(create(1, "/a", make([]byte, mostQueued/5)))
		w.commit()
		s.want(t, "1")
		s.send(append(slices.Repeat([][]byte{get(2, "/a")}, 8), create(3, "/b", nil), get(4, "/b"))...)
		w.commit()
		s.want(t, append(slices.Repeat([]string{"2"}, 8), "3", "4")...)
	})
}

func frameOf(request []byte) []byte {
	return append(jute.AppendInt32(nil, int32(len(request))), request...)
}

// Above the limit of connections, further ones are closed.
func TestConnectionLimit(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		s := w.connect()
		s.wantHandshake(t)
		w.leader.connections.Add(maxConnections - 1)
		if !w.connect().isClosed() {
			t.Error("one connection too many was served")
		}
		w.leader.connections.Add(1 - maxConnections)
		w.connect().wantHandshake(t)
	})
}

// Without one of its followers the leader ends and names it.
func TestLostFollower(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.followers[1].Close()
		if err := <-w.ended; err == nil || !strings.Contains(err.Error(), "follower 2 is lost") {
			t.Errorf("the leader ended: %v", err)
		}
		w.ended <- nil
	})
}

// A follower writes each batch to its file before it acknowledges it. Without its leader it ends.
func TestFollower(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		file, err := openFile(dir, testFile)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		listener, ended := newPipeListener(), make(chan error)
		go func() { ended <- follow(t.Context(), listener, file) }()
		leader := listener.dial()
		for _, batch := range []string{"one batch", "another batch"} {
			if _, err := leader.Write(frameOf([]byte(batch))); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(leader, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			if text, err := os.ReadFile(file.Name()); err != nil || !bytes.Contains(text, []byte(batch)) {
				t.Errorf("%q was acknowledged and is not in the file; %v", batch, err)
			}
		}
		leader.Close()
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "the leader is lost") {
			t.Errorf("the follower ended: %v", err)
		}
	})
}

// A file begins anew at its end, and does not grow.
func TestFileWraps(t *testing.T) {
	f, err := openFile(t.TempDir(), testFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range 4 {
		if err := f.write(bytes.Repeat([]byte{byte('a' + i)}, testFile*2/5)); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(f.Name())
	if err != nil || len(text) != testFile || text[0] != 'c' || text[testFile/2] != 'd' || text[testFile-1] != 0 {
		t.Errorf("the file has %d bytes: %v", len(text), err)
	}
}

// Three members over TCP reply to a client's operations as a server does, and each write is in the files of all three in
// the end.
func TestOperations(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	members := startThree(t, ctx)
	defer members.check(t)
	defer stop()
	c, err := client.Dial(ctx, members.addr, client.Config{Timeout: 10 * time.Second, InOrder: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/a", "/a/b", "/a/c"} {
		if got, stat, err := c.Create(ctx, path, []byte("data of "+path), client.Persistent); err != nil || got != path || stat.Created == 0 {
			t.Fatalf("create %s: %s, %+v, %v", path, got, stat, err)
		}
	}
	stat, err := c.Set(ctx, "/a", []byte("new data"), client.AnyVersion)
	if err != nil || stat.Version != 1 || stat.DataLength != 8 || stat.NumChildren != 2 {
		t.Errorf("set: %+v, %v", stat, err)
	}
	if data, got, err := c.Get(ctx, "/a"); err != nil || string(data) != "new data" || got != stat {
		t.Errorf("get: %q, %+v, %v; want the stat %+v", data, got, err, stat)
	}
	if got, there, err := c.Exists(ctx, "/a"); err != nil || !there || got != stat {
		t.Errorf("exists: %+v, %t, %v", got, there, err)
	}
	if _, there, err := c.Exists(ctx, "/b"); err != nil || there {
		t.Errorf("exists /b: %t, %v", there, err)
	}
	if names, got, err := c.Children(ctx, "/a"); err != nil || !slices.Equal(names, []string{"b", "c"}) || got != stat {
		t.Errorf("children: %q, %+v, %v", names, got, err)
	}
	if err := c.Sync(ctx); err != nil {
		t.Errorf("sync: %v", err)
	}
	checkErrors(t, ctx, c)
	checkMultis(t, ctx, c)
	if err := c.Delete(ctx, "/a", client.AnyVersion); err != nil {
		t.Errorf("delete: %v", err)
	}
	if err := c.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
	stop()
	members.wantInFiles(t, "new data", "of a multi")
}

// The floor carries out the cases of bench that docs/bench.md names for it, without errors, and is empty afterwards.
func TestBenchCases(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	members := startThree(t, ctx)
	defer members.check(t)
	defer stop()
	for _, name := range []string{"get", "set:member=leader", "create", "mix:reads=50", "children", "multi", "sessions"} {
		params := bench.Defaults()
		params.Conns, params.Window, params.Nodes = 3, 8, 100
		params.Warmup, params.Duration = 0, 30*time.Millisecond
		params, err := bench.ParseCase(name, params)
		if err != nil {
			t.Fatal(err)
		}
		run := func() (bench.Result, error) {
			return bench.Run(ctx, bench.Config{Target: bench.Target{Servers: []string{members.addr}}, Params: params})
		}
		got, err := run()
		for ; err == nil && got.Ops == 0 && len(got.Errors) == 0; got, err = run() {
			params.Duration *= 2 // the machine is so busy that no request began in time
		}
		if err != nil || got.Ops == 0 || len(got.Errors) > 0 {
			t.Errorf("%s: %d ops, errors %v, %v", name, got.Ops, got.Errors, err)
		}
	}
	c, err := client.Dial(ctx, members.addr, client.Config{InOrder: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Abandon()
	if names, _, err := c.Children(ctx, "/"); err != nil || len(names) > 0 {
		t.Errorf("%q is left, %v", names, err)
	}
}

func checkErrors(t *testing.T, ctx context.Context, c *client.Client) {
	t.Helper()
	_, _, twice := c.Create(ctx, "/a", nil, client.Persistent)
	_, _, orphan := c.Create(ctx, "/x/y", nil, client.Persistent)
	_, _, ephemeral := c.Create(ctx, "/e", nil, client.Ephemeral)
	_, _, missing := c.Get(ctx, "/x")
	_, unset := c.Set(ctx, "/x", nil, client.AnyVersion)
	_, _, acl := c.GetACL(ctx, "/a")
	for name, got := range map[string][2]error{
		"create twice":          {twice, client.ErrNodeExists},
		"create without parent": {orphan, client.ErrNoNode},
		"create an ephemeral":   {ephemeral, jute.Unimplemented},
		"get":                   {missing, client.ErrNoNode},
		"set":                   {unset, client.ErrNoNode},
		"getACL":                {acl, jute.Unimplemented},
		"delete a parent":       {c.Delete(ctx, "/a", client.AnyVersion), client.ErrNotEmpty},
		"delete":                {c.Delete(ctx, "/x", client.AnyVersion), client.ErrNoNode},
	} {
		if !errors.Is(got[0], got[1]) {
			t.Errorf("%s: %v, want %v", name, got[0], got[1])
		}
	}
}

func checkMultis(t *testing.T, ctx context.Context, c *client.Client) {
	t.Helper()
	results, err := c.Multi(ctx, client.CreateOp("/a/d", []byte("of a multi"), client.Persistent),
		client.SetOp("/a/d", []byte("again"), client.AnyVersion), client.DeleteOp("/a/b", client.AnyVersion))
	if err != nil || len(results) != 3 || results[0].Path != "/a/d" || results[1].Stat.Version != 1 {
		t.Errorf("multi: %+v, %v", results, err)
	}
	if names, _, err := c.Children(ctx, "/a"); err != nil ||
		!slices.Equal(names, []string{"d", "c"}) && !slices.Equal(names, []string{"c", "d"}) {
		t.Errorf("children after a multi: %q, %v", names, err)
	}
	_, err = c.Multi(ctx, client.DeleteOp("/a/c", client.AnyVersion), client.DeleteOp("/a/b", client.AnyVersion),
		client.DeleteOp("/a/d", client.AnyVersion))
	var failed *client.MultiError
	if !errors.As(err, &failed) || failed.Index != 1 || !errors.Is(err, client.ErrNoNode) {
		t.Errorf("a multi that fails: %v", err)
	}
	if err := c.Delete(ctx, "/a/d", client.AnyVersion); err != nil {
		t.Errorf("after it: %v", err)
	}
}

// three are a leader and two followers that listen at free ports.
type three struct {
	dirs  []string
	addr  string // of the leader, for clients
	ended chan error
}

func startThree(t *testing.T, ctx context.Context) *three {
	t.Helper()
	m := &three{ended: make(chan error, 3)}
	var listeners []net.Listener
	var files []*file
	var addrs []string
	for range 3 {
		listener, err := listen(ctx, "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		file, err := openFile(dir, testFile)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() })
		listeners, files = append(listeners, listener), append(files, file)
		addrs, m.dirs = append(addrs, listener.Addr().String()), append(m.dirs, dir)
	}
	for i := range 2 {
		go func() { m.ended <- follow(ctx, listeners[i+1], files[i+1]) }()
	}
	conns, err := dialAll(ctx, addrs[1:])
	if err != nil {
		t.Fatal(err)
	}
	m.addr = addrs[0]
	go func() { m.ended <- newLeader(conns, files[0]).run(ctx, listeners[0]) }()
	return m
}

// check waits until all have ended.
func (m *three) check(t *testing.T) {
	t.Helper()
	for range 3 {
		select {
		case err := <-m.ended: // a member may notice the end of another one before that of the context
			if err != nil && !strings.Contains(err.Error(), "is lost") {
				t.Errorf("a member ended: %v", err)
			}
		case <-time.After(time.Minute):
			t.Fatal("a member does not end")
		}
	}
}

// wantInFiles checks that at least two files have each text.
func (m *three) wantInFiles(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		n := 0
		for _, dir := range m.dirs {
			content, err := os.ReadFile(filepath.Join(dir, fileName))
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(content, []byte(text)) {
				n++
			}
		}
		if n < 2 {
			t.Errorf("%q is in the files of %d members, want 2 at least", text, n)
		}
	}
}

// The leader replies to the commands by which bench and health find it.
func TestWords(t *testing.T) {
	for followers, role := range []string{"standalone", "leader"} {
		inWorld(t, followers, func(w *world) {
			for word, want := range map[string]string{"ruok": "imok", "srvr": "\nMode: " + role + "\n", "stat": "\nMode: " + role + "\n"} {
				c := w.dial()
				go func() { _, _ = io.WriteString(c, word) }() // the reply shows an error
				if got, err := io.ReadAll(c); err != nil || !strings.HasSuffix(string(got), want) {
					t.Errorf("%s: %q, %v", word, got, err)
				}
			}
		})
	}
}

// An error names the fault of a configuration and the allowed values.
func TestCheck(t *testing.T) {
	peers := []string{"a:1", "b:1", "c:1"}
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{1, peers, "a:2", "d"}, ""},
		{Config{3, peers, "", "d"}, ""},
		{Config{1, peers[:1], "a:2", "d"}, ""},
		{Config{1, nil, "a:2", "d"}, "--peers names 0 members; must be 1 to 9 addresses"},
		{Config{1, make([]string, 10), "a:2", "d"}, "--peers names 10 members"},
		{Config{1, []string{"a:1", "b"}, "a:2", "d"}, `--peers: "b" must be host:port`},
		{Config{1, []string{"a:1", ":1"}, "a:2", "d"}, `--peers: ":1" must be host:port`},
		{Config{0, peers, "a:2", "d"}, "--member 0 must be 1 to 3"},
		{Config{4, peers, "", "d"}, "--member 4 must be 1 to 3"},
		{Config{1, peers, "", "d"}, "--client host:port is missing"},
		{Config{1, peers, "a", "d"}, `--client: "a" must be host:port`},
		{Config{2, peers, "a:2", "d"}, "--client: member 2 takes no clients; give it to member 1"},
		{Config{1, peers, "a:2", ""}, "--data names the directory"},
	} {
		if err := c.cfg.Check(); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", c.cfg, err, c.want)
		}
	}
}

// Run is a member until its context ends. It says if its port is taken.
func TestRun(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	cfg := Config{Member: 1, Peers: []string{"127.0.0.1:1", "127.0.0.1:1"}, Client: "127.0.0.1:0", Data: t.TempDir()}
	if err := Run(ctx, cfg); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	cfg.Client = taken.Addr().String()
	if err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "choose a free port") {
		t.Errorf("at a port that is taken: %v", err)
	}
}
