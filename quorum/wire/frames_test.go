package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
)

// framed returns the frame of a request as a pipeline sends it. A majority has all entries up to its commit index.
func framed(t testing.TB, req *raft.AppendEntriesRequest, notice bool) []byte {
	t.Helper()
	return framedWith(t, req, req.LeaderCommitIndex, notice)
}

// framedWith does the same with another majority index.
func framedWith(t testing.TB, req *raft.AppendEntriesRequest, majority uint64, notice bool) []byte {
	t.Helper()
	form := inFrames
	if notice {
		form = withoutReply
	}
	var sent []byte
	got := make(chan []byte)
	d := &dialer{streamLayer: newPipes(func(c net.Conn) {
		go func() {
			b, _ := io.ReadAll(c)
			got <- b
		}()
	}), callTimeout: time.Minute, addressOf: nowhere}
	c, err := d.getConn("m2:1")
	if err == nil {
		err = errors.Join(c.sendAppend(&appendFuture{req: req, majority: majority, form: form}), c.Close())
		sent = <-got
	}
	if err != nil {
		t.Fatal(err)
	}
	return sent
}

// received returns the request that a member reads from a frame of member 2.
func received(t testing.TB, frame []byte) (*raft.AppendEntriesRequest, error) {
	t.Helper()
	far, near := net.Pipe()
	defer far.Close()
	in := newInConn(near, newPeerConns(slog.New(slog.DiscardHandler)))
	defer in.Close()
	in.frameSender = headerOf(2, "m2:1")
	go func() {
		_, _ = far.Write(frame)
		far.Close()
	}()
	command, err := in.readRequest()
	if err != nil {
		return nil, err
	}
	return command.(*raft.AppendEntriesRequest), nil
}

// someEntries returns a request with entries of all kinds that frames distinguish.
func someEntries() *raft.AppendEntriesRequest {
	list := entries(0, 1, 70_000, 2<<20)
	list[1].Type, list[2].Extensions, list[3].AppendedAt = raft.LogNoop, []byte("extension"), time.Unix(1_700_000_000, 123).UTC()
	return &raft.AppendEntriesRequest{Term: 1 << 40, PrevLogTerm: 4, Entries: list, LeaderCommitIndex: 3}
}

// emptyEntries returns n entries without data, from 1 on.
func emptyEntries(n int) []*raft.Log { return entries(make([]int, n)...) }

// A frame carries the request that MessagePack would, with the sender of the request before it.
func TestFramesCarryRequests(t *testing.T) {
	for name, req := range map[string]*raft.AppendEntriesRequest{
		"entries":   someEntries(),
		"none":      {Term: 5, PrevLogEntry: 9, PrevLogTerm: 5, LeaderCommitIndex: 8},
		"as many":   {Term: 5, Entries: emptyEntries(maxElements)},
		"all zeros": {},
	} {
		for _, notice := range []bool{false, true} {
			if notice && len(req.Entries) > 0 {
				continue
			}
			got, err := received(t, framed(t, req, notice))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			want := *req
			want.RPCHeader = headerOf(2, "m2:1")
			if len(got.Entries) == 0 {
				got.Entries = nil
			}
			for _, e := range want.Entries {
				if len(e.Data) == 0 {
					e.Data = nil
				}
			}
			if !reflect.DeepEqual(got, &want) {
				t.Errorf("%s: a frame carries another request", name)
			}
		}
	}
}

// The most entries that a request may have, with as much data as fits, fit into a request in MessagePack, too.
func TestMostEntriesFitInMessagePack(t *testing.T) {
	req := &raft.AppendEntriesRequest{RPCHeader: headerOf(2, "m2:1"), Term: math.MaxUint64, PrevLogEntry: math.MaxUint64 - maxElements - 1, PrevLogTerm: math.MaxUint64}
	for i := range uint64(maxElements) {
		req.Entries = append(req.Entries, &raft.Log{Index: math.MaxUint64 - maxElements + i, Term: math.MaxUint64, Type: raft.LogConfiguration, Data: make([]byte, maxAppendBytes/maxElements), AppendedAt: time.Now()})
	}
	last := req.Entries[maxElements-1]
	last.Data = make([]byte, disk.MaxEntryBytes)
	encoded := encode(t, requestAppend, req)
	if got, err := received(t, encoded); err != nil || len(got.Entries) != maxElements {
		t.Errorf("%d bytes of at most %d: %v", len(encoded), maxAppendRequest, err)
	}
}

// A request with more entries than a follower takes is not sent.
func TestTooManyEntriesAreNotFramed(t *testing.T) {
	c := &outConn{}
	if err := c.sendEntries(&raft.AppendEntriesRequest{Entries: emptyEntries(maxElements + 1)}, 0, nil); err == nil {
		t.Error("sent")
	}
}

// A frame that no leader sends is rejected before room for it is allocated, and a truncated one is no request.
func TestFramesRefused(t *testing.T) {
	position := strings.Repeat("\x00", positionSize)
	head := strings.Repeat("\x00", entryHeaderSize-8)
	most := binary.BigEndian.AppendUint32(nil, maxAppendRequest-positionSize-entryCountSize-entryHeaderSize)
	for name, frame := range map[string]string{
		"an entry too many": "\x05" + position + string(binary.BigEndian.AppendUint16(nil, maxElements+1)),
		"a long entry":      "\x05" + position + "\x00\x01" + head + "\x7f\xff\xff\xff\x00\x00\x00\x00",
		"a byte too long":   "\x05" + position + "\x00\x01" + head + string(most) + "\x00\x00\x00\x01",
		"long extensions":   "\x05" + position + "\x00\x01" + head + "\x00\x00\x00\x00\xff\xff\xff\xff",
		"both too long":     "\x05" + position + "\x00\x01" + head + "\xff\xff\xff\xff\xff\xff\xff\xff",
		"a type too high":   string([]byte{byte(len(requestKinds))}) + position,
	} {
		if _, err := received(t, []byte(frame)); !errors.Is(err, errNotRaftRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	longest := "\x05" + position + "\x00\x01" + head + string(most) + "\x00\x00\x00\x00" // without its data
	if _, err := received(t, []byte(longest)); !isCut(err) && !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the longest entry: %v", err)
	}
	whole := framed(t, &raft.AppendEntriesRequest{Term: 5, Entries: entries(100)}, false)
	for _, n := range []int{1, 20, positionSize + 1, positionSize + 2, len(whole) - 100, len(whole) - 1} {
		if _, err := received(t, whole[:n]); !isCut(err) && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
}

// A frame before any request in MessagePack names no sender, so it is rejected.
func TestFrameWithoutSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes(nil)
		newTestTransport(t, p)
		conn := p.connect(2)
		defer conn.Close()
		if !send(conn, framed(t, &raft.AppendEntriesRequest{Term: 1, PrevLogEntry: 1}, false)) {
			t.Fatal("not read")
		}
		if said, err := io.ReadAll(conn); err != nil || !strings.Contains(string(said), "it is from member") {
			t.Errorf("the sender is told %q, %v", said, err)
		}
	})
}

// A connection keeps no more of a sender than its name, however long the address is that the sender gives.
func TestSenderIsKeptShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes(nil)
		tr := newTestTransport(t, p)
		conn := p.connect(2)
		defer conn.Close()
		for _, req := range []*raft.AppendEntriesRequest{
			{RPCHeader: headerOf(2, strings.Repeat("long", 1<<18))},
			{RPCHeader: raft.RPCHeader{ID: make([]byte, 1<<20)}, Entries: entries(0, 0)[1:]}, // its entry is refused first
		} {
			if !send(conn, encode(t, requestAppend, req)) || !answered(conn) {
				t.Fatal("not answered")
			}
			synctest.Wait()
			for in := range tr.receiver.peerConns.openConns {
				if n := cap(in.frameSender.ID) + cap(in.frameSender.Addr); n > 100 {
					t.Errorf("%d bytes are kept", n)
				}
			}
		}
		if !send(conn, framed(t, &raft.AppendEntriesRequest{Term: 1}, false)) {
			t.Fatal("a frame is not read")
		}
		if said := string(answerOn(conn)); !strings.HasSuffix(said, errStarting.Error()) {
			t.Errorf("a frame is answered %q", said)
		}
	})
}

// bytewise is a connection on which bytes come one at a time.
type bytewise struct{ net.Conn }

func (c bytewise) Read(b []byte) (int, error) { return c.Conn.Read(b[:min(1, len(b))]) }

// Each reply has raft's reply, and errors come with their text, of 65,535 bytes at most.
func TestFrameAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("long", 1<<15)
		for name, want := range map[string]raft.RPCResponse{
			"success":         {Response: &raft.AppendEntriesResponse{Term: 1 << 40, LastLog: 7, Success: true}},
			"refused":         {Response: &raft.AppendEntriesResponse{Term: 5, NoRetryBackoff: true}},
			"error":           {Error: errStarting},
			"a long error":    {Error: errors.New(long)},
			"refused, and so": {Response: &raft.AppendEntriesResponse{Term: 5}, Error: errStarting},
		} {
			far, near := net.Pipe()
			in := newInConn(near, newPeerConns(slog.New(slog.DiscardHandler)))
			in.form = inFrames
			go func() { _ = errors.Join(in.sendReply(want.Response, want.Error), in.Close()) }()
			d := &dialer{streamLayer: newPipes(nil), callTimeout: time.Minute, addressOf: nowhere}
			c := newOutConn(d, "m2:1", bytewise{far})
			got := new(raft.AppendEntriesResponse)
			_, err := c.awaitAppendReply(&appendFuture{req: &raft.AppendEntriesRequest{Term: 1 << 40}, form: inFrames, resp: got})
			switch {
			case want.Error == nil && (err != nil || !reflect.DeepEqual(got, want.Response)):
				t.Errorf("%s: %+v, %v", name, got, err)
			case want.Error != nil && (err == nil || !strings.HasPrefix(want.Error.Error(), err.Error()) || len(err.Error()) != min(65_535, len(want.Error.Error()))):
				t.Errorf("%s: %v", name, err)
			}
			far.Close()
		}
	})
}

// A connection may be idle for any time. It ends if its member reads no replies.
func TestAnswersThatAreNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes(nil)
		newTestTransport(t, p)
		req := &raft.AppendEntriesRequest{RPCHeader: headerOf(2, "m2:1"), Term: 1}
		for name, request := range map[string][]byte{"MessagePack": encode(t, requestAppend, req), "frame": framed(t, req, false)} {
			conn := p.connect(2)
			defer conn.Close()
			for _, b := range [][]byte{encode(t, requestAppend, req), request} {
				time.Sleep(time.Hour)
				if !send(conn, b) || !answered(conn) {
					t.Fatalf("%s: not answered", name)
				}
			}
			if time.Sleep(time.Hour); !send(conn, request) {
				t.Fatalf("%s: not read", name)
			}
			time.Sleep(stallTimeout + time.Second)
			if said, err := io.ReadAll(conn); err != nil || len(said) > 0 {
				t.Errorf("%s: %q, %v", name, said, err)
			}
		}
	})
}

// The time for a reply begins with the reply, also if that is longer than the buffer.
func TestLongAnswerAfterARest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far, near := net.Pipe()
		defer far.Close()
		go func() { _, _ = io.Copy(io.Discard, far) }()
		in := newInConn(near, newPeerConns(slog.New(slog.DiscardHandler)))
		defer in.Close()
		in.form = inFrames
		for range 2 {
			if err := in.sendReply(nil, errors.New(strings.Repeat("long", 1<<12))); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Hour)
		}
	})
}

// follower is a member over a real connection that accepts frames. It replies to entries, and shows every request.
type follower struct {
	*pipeline
	commit, last atomic.Uint64
	notices      atomic.Int64 // in frames
	stalls       atomic.Bool
	got          chan *raft.AppendEntriesRequest
	ended        chan struct{}
}

// newFollower returns a pipeline of term 5 to a follower that has answered entry 1.
func newFollower(t *testing.T) *follower {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	f := &follower{got: make(chan *raft.AppendEntriesRequest, 16), ended: make(chan struct{})}
	in := newInConn(&Conn{Conn: far, PeerID: 1}, newPeerConns(slog.New(slog.DiscardHandler)))
	go f.serve(in)
	d := &dialer{streamLayer: newPipes(nil), callTimeout: 10 * time.Second, addressOf: nowhere}
	c := newOutConn(d, "m2:1", near)
	f.pipeline = newPipeline(c, raft.AppendEntriesRequest{}, new(sync.Map), stallingSource{plainSource{nil, f.position}, &f.stalls}, nil)
	t.Cleanup(func() { f.Close(); in.Close(); <-f.ended })
	f.send(t, 1)
	return f
}

func (f *follower) position() (commit, last, term uint64) { return f.commit.Load(), f.last.Load(), 5 }

// stallingSource is the source of a leader that its test lets stall.
type stallingSource struct {
	plainSource
	stalls *atomic.Bool
}

func (s stallingSource) mayLead() error {
	if s.stalls.Load() {
		return errStarting
	}
	return nil
}

func (f *follower) serve(in *inConn) {
	defer close(f.ended)
	for {
		command, err := in.readRequest()
		if err != nil {
			return
		}
		req := command.(*raft.AppendEntriesRequest)
		in.frameSender = req.RPCHeader
		if in.form == withoutReply {
			f.notices.Add(1)
		}
		f.got <- req
		if in.sendReply(&raft.AppendEntriesResponse{Term: 5, Success: true, LastLog: req.PrevLogEntry + uint64(len(req.Entries))}, nil) != nil {
			return
		}
	}
}

// send sends an entry, which gets a reply, and returns the request that came.
func (f *follower) send(t *testing.T, index uint64) *raft.AppendEntriesRequest {
	t.Helper()
	req := &raft.AppendEntriesRequest{RPCHeader: headerOf(1, "m1:1"), Term: 5, PrevLogEntry: index - 1, PrevLogTerm: 5, LeaderCommitIndex: f.commit.Load()}
	req.Entries = []*raft.Log{{Index: index, Term: 5, Data: []byte("data")}}
	f.last.Store(index)
	if _, err := f.AppendEntries(req, new(raft.AppendEntriesResponse)); err != nil {
		t.Fatal(err)
	}
	got := f.request(t)
	select {
	case a := <-f.Consumer():
		if a.Error() != nil || !a.Response().Success || a.Request().PrevLogEntry != index-1 {
			t.Fatalf("entry %d was answered %+v, %v", index, a.Response(), a.Error())
		}
	case <-time.After(10 * time.Second):
		t.Fatalf("entry %d has no answer", index)
	}
	return got
}

// request returns the next request that comes.
func (f *follower) request(t *testing.T) *raft.AppendEntriesRequest {
	t.Helper()
	select {
	case req := <-f.got:
		return req
	case <-time.After(10 * time.Second):
		t.Fatal("nothing comes")
		return nil
	}
}

// A member whose reply reports that it accepts frames gets them from then on. Notices have no replies, so several may be
// under way, and raft gets the replies to its own requests.
func TestPipelineInFrames(t *testing.T) {
	f := newFollower(t)
	for index := uint64(2); index <= 100; index += 2 {
		for i := index; i < index+2; i++ {
			if got := f.send(t, i); got.PrevLogEntry != i-1 || len(got.Entries) != 1 || string(got.Entries[0].Data) != "data" ||
				string(got.ID) != string(named(1)) {
				t.Fatalf("entry %d came as %+v", i, got)
			}
		}
		for _, commit := range []uint64{index, index + 1} {
			f.commit.Store(commit)
			f.signalCommit()
			if got := f.request(t); got.LeaderCommitIndex != commit || got.PrevLogEntry != index+1 || got.PrevLogTerm != 5 ||
				got.Term != 5 || len(got.Entries) != 0 {
				t.Fatalf("the notice of commit %d came as %+v", commit, got)
			}
		}
	}
	f.signalCommit()
	f.send(t, 102)
	if len(f.got) > 0 {
		t.Errorf("told once more: %+v", <-f.got)
	}
	if n := f.notices.Load(); n != 100 {
		t.Errorf("%d of 100 notices came without asking for an answer", n)
	}
}

// A notice that raft rejects, or that finds no raft, ends its connection.
func TestRefusedNoticeEndsConnection(t *testing.T) {
	for name, answer := range map[string]raft.RPCResponse{
		"refused": {Response: &raft.AppendEntriesResponse{Term: 6}},
		"error":   {Error: errStarting},
		"nothing": {},
		"both":    {Response: &raft.AppendEntriesResponse{Term: 5, Success: true}, Error: errStarting},
	} {
		in := newInConn(nil, newPeerConns(slog.New(slog.DiscardHandler)))
		in.form = withoutReply
		if err := in.sendReply(answer.Response, answer.Error); !errors.Is(err, errNoticeRejected) {
			t.Errorf("%s: %v", name, err)
		}
	}
	in := newInConn(nil, newPeerConns(slog.New(slog.DiscardHandler)))
	in.form = withoutReply
	if err := in.sendReply(&raft.AppendEntriesResponse{Success: true}, nil); err != nil {
		t.Errorf("success: %v", err)
	}
}

// checkFrame checks that what is read of a frame is written as the same bytes.
func checkFrame(t *testing.T, frame []byte) {
	t.Helper()
	req, majority := parseFrame(frame[0], frame[1:])
	if got := framedWith(t, req, majority, frame[0] == frameNotice); !bytes.Equal(got, frame) {
		t.Errorf("%q is read as %+v, which is written %q", frame, req, got)
	}
}

// A member that has not replied that it takes frames gets none.
func TestNoFramesBeforeAReply(t *testing.T) {
	f := newFollower(t)
	f.conn.takesFrames.Store(false)
	f.commit.Store(1)
	f.signalCommit()
	if f.request(t); f.notices.Load() > 0 {
		t.Error("a notice came in a frame")
	}
}

// A leader that stalls sends no notices, and ends the pipeline.
func TestNoNoticeWhileStalled(t *testing.T) {
	f := newFollower(t)
	f.sendSlot <- struct{}{} // nothing is being sent, and whatever waits to be sent is judged afterwards
	f.stalls.Store(true)
	f.commit.Store(1)
	f.signalCommit()
	<-f.sendSlot
	select {
	case got := <-f.got:
		t.Errorf("%+v came", got)
	case <-time.After(10 * time.Second):
		t.Error("the pipeline is open")
	case <-f.ended:
	}
}

// A notice that cannot be sent ends the pipeline.
func TestNoticeThatCannotBeSent(t *testing.T) {
	f := newFollower(t)
	f.conn.w = bufio.NewWriterSize(cutShort{f.conn.Conn}, sendBufferSize)
	f.commit.Store(1)
	f.signalCommit()
	select {
	case got := <-f.got:
		t.Errorf("%+v came", got)
	case <-f.ended:
	}
}

// deaf returns a pipeline of term 5 in frames, in a bubble, and the connection of its member, which receives only the
// bytes that the test reads from it. Entry 1 counts as sent.
func deaf(t *testing.T) (*stream, net.Conn) {
	var member net.Conn
	d := &dialer{streamLayer: newPipes(func(theirs net.Conn) { member = theirs }), callTimeout: 10 * time.Second, addressOf: nowhere}
	conn, err := d.getConn("m2:1")
	if err != nil {
		t.Fatal(err)
	}
	conn.takesFrames.Store(true)
	s := &stream{t: t}
	s.last.Store(1)
	s.term.Store(5)
	s.pipeline = newPipeline(conn, raft.AppendEntriesRequest{}, new(sync.Map), plainSource{nil, s.position}, nil)
	t.Cleanup(func() { s.Close(); member.Close() })
	s.updateCommitAndRecord(&appendFuture{form: inFrames}, &raft.AppendEntriesRequest{RPCHeader: headerOf(1, "m1:1"), Term: 5, Entries: []*raft.Log{{Index: 1, Term: 5}}})
	return s, member
}

// A notice that finds no room ends the pipeline. Reporting commits meanwhile does not wait for it.
func TestNoRoomForANotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := deaf(t)
		limit := s.conn.dialer.callTimeout
		begin := time.Now()
		s.commit.Store(1)
		for range 2 {
			for range 1000 {
				s.signalCommit()
			}
			synctest.Wait() // the notice is under way
		}
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("reporting commits took %v", waited)
		}
		select {
		case <-s.closed:
		case <-time.After(time.Hour):
			t.Fatal("it waits for ever")
		}
		if took := time.Since(begin); took != limit {
			t.Errorf("the pipeline ended after %v, want %v", took, limit)
		}
	})
}

// Entries that find no room end the pipeline too, also after a notice.
func TestNoRoomForEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, member := deaf(t)
		s.commit.Store(1)
		s.signalCommit()
		if _, err := io.ReadFull(member, make([]byte, 1+positionSize)); err != nil {
			t.Fatalf("the notice: %v", err)
		}
		time.Sleep(time.Hour) // the notice had less time
		req := &raft.AppendEntriesRequest{Term: 5, PrevLogEntry: 1, PrevLogTerm: 5, Entries: []*raft.Log{{Index: 2, Term: 5, Data: make([]byte, 256<<10)}}}
		failed := make(chan error, 1)
		begin := time.Now()
		go func() {
			_, err := s.AppendEntries(req, new(raft.AppendEntriesResponse))
			failed <- err
		}()
		select {
		case err := <-failed:
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
		case <-time.After(time.Hour):
			s.Close()
			t.Errorf("it waits for ever; when the pipeline is closed: %v", <-failed)
		}
		if took, want := time.Since(begin), s.conn.dialer.callTimeout+transferTime(entriesBytes(req.Entries)); took != want {
			t.Errorf("it waited %v for room, want %v", took, want)
		}
	})
}

// cutShort is a connection on which a write is over before its last bytes have gone.
type cutShort struct{ net.Conn }

func (c cutShort) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b[:len(b)-1-positionSize]) // a notice is as long as what is missing
	return n, errors.Join(err, os.ErrDeadlineExceeded)
}

// Nothing follows a request of which only a part has been sent: its follower would take that for the rest.
func TestNothingFollowsHalfARequest(t *testing.T) {
	f := newFollower(t)
	f.conn.w = bufio.NewWriterSize(cutShort{f.conn.Conn}, sendBufferSize)
	f.last.Store(2)
	req := &raft.AppendEntriesRequest{Term: 5, PrevLogEntry: 1, PrevLogTerm: 5, Entries: []*raft.Log{{Index: 2, Term: 5, Data: make([]byte, 100)}}}
	if _, err := f.AppendEntries(req, new(raft.AppendEntriesResponse)); err == nil {
		t.Fatal("sent")
	}
	f.commit.Store(2)
	f.signalCommit()
	select {
	case got := <-f.got:
		t.Errorf("the follower took %+v", got.Entries[0])
	case <-f.ended:
	}
}
