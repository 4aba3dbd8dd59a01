package wire

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"reflect"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/internal/formats"
)

// releasedMessage is a message of the members' ports, and what a member reads from it.
type releasedMessage struct {
	name  string
	write func(t *testing.T) []byte
	read  func(t *testing.T, sent []byte) (any, error)
	want  any
}

const releasedFile = "members.txt"

// releasedDialer is the end of a connection that dialed, and whose member is 2.
func releasedDialer() Hello {
	h := testHello(2)
	h.addressBook.runID, h.dialedDisk = 0x1122334455667788, testDisk(1)
	return h
}

func readReleasedHello(_ *testing.T, sent []byte) (any, error) {
	return testHello(1).readAndCheckHello(bytes.NewReader(sent), func(uint32) error { return nil })
}

// helloReply is a reply to a hello.
type helloReply struct {
	code byte
	rest string
}

func readReleasedHelloReply(_ *testing.T, sent []byte) (any, error) {
	code, rest, err := readHelloReply(bytes.NewReader(sent))
	return helloReply{code, string(rest)}, err
}

// requestRead is a request that a member has read.
type requestRead struct {
	command  any
	direct   *directPart
	majority uint64
}

func readReleasedRequest(t *testing.T, sent []byte) (any, error) {
	t.Helper()
	far, near := net.Pipe()
	in := newInConn(near, newPeerConns(slog.New(slog.DiscardHandler)))
	defer in.Close()
	go func() {
		_, _ = far.Write(sent)
		far.Close()
	}()
	in.frameSender = headerOf(2, "m2:3888")
	command, err := in.readRequest()
	if err != nil {
		return nil, err
	}
	if _, err := in.r.ReadByte(); err == nil {
		t.Error("bytes are left after the request")
	}
	return requestRead{command, in.direct, in.majority}, nil
}

// replyRead is a reply to a request that a leader has read.
type replyRead struct {
	waits       bool
	response    raft.AppendEntriesResponse
	takesFrames bool
	failed      string
}

// readReleasedReply returns a function that reads the reply to a request of a form.
func readReleasedReply(form requestForm) func(*testing.T, []byte) (any, error) {
	return func(_ *testing.T, sent []byte) (any, error) {
		far, near := net.Pipe()
		c := newOutConn(&dialer{callTimeout: time.Minute, addressOf: nowhere}, "m1:3888", near)
		defer c.Close()
		go func() {
			_, _ = far.Write(sent)
			far.Close()
		}()
		var got replyRead
		var err error
		if form == inFrames {
			got.waits, err = c.awaitFrameReply(&got.response)
		} else {
			err = c.awaitReply(&got.response)
		}
		if got.takesFrames = c.takesFrames.Load(); err != nil {
			got.failed = err.Error()
		}
		return got, nil
	}
}

// releasedMessages returns one of each message. All values are fixed.
func releasedMessages() []releasedMessage {
	header := headerOf(2, "m2:3888")
	entry := &raft.Log{
		Index: 301, Term: 5, Type: raft.LogCommand, Data: []byte("data"), Extensions: []byte("extension"),
		AppendedAt: time.Unix(1_700_000_000, 123).UTC(),
	}
	empty := &raft.Log{Index: 302, Term: 5, Type: raft.LogNoop}
	list := &raft.AppendEntriesRequest{
		RPCHeader: header, Term: 5, PrevLogEntry: 300, PrevLogTerm: 5, Entries: []*raft.Log{entry, empty}, LeaderCommitIndex: 299,
	}
	bare := *list
	bare.Entries = nil
	direct := &directPart{
		index: 300, copies: 1, voters: []directVoter{{named(3), true}, {named(4), false}}, tell: []raft.ServerID{named(3)},
	}
	frame := func(req raft.AppendEntriesRequest, d *directPart, notice bool) func(*testing.T) []byte {
		return func(t *testing.T) []byte { return append(appendDirect(nil, d), framedWith(t, &req, 298, notice)...) }
	}
	inPack := func(kind byte, req any) func(*testing.T) []byte {
		return func(t *testing.T) []byte { return encode(t, kind, req) }
	}
	reply := func(form requestForm, resp any, failed error) func(*testing.T) []byte {
		return func(t *testing.T) []byte { return replied(t, form, resp, failed) }
	}
	accepted := &raft.AppendEntriesResponse{RPCHeader: header, Term: 5, LastLog: 302, Success: true}
	framedReply := raft.AppendEntriesResponse{Term: 5, LastLog: 302, Success: true}
	from := dialerHello{Process{ID: 2, DiskID: testDisk(2), RunID: 0x1122334455667788}, testEnsemble}
	timeoutNow := &raft.TimeoutNowRequest{RPCHeader: header}
	vote := &raft.RequestVoteRequest{
		RPCHeader: header, Term: 6, LastLogIndex: 300, LastLogTerm: 5, LeadershipTransfer: true,
		Candidate: []byte("m2:3888"), //lint:ignore SA1019 raft still sends it
	}
	preVote := &raft.RequestPreVoteRequest{RPCHeader: header, Term: 6, LastLogIndex: 300, LastLogTerm: 5}
	snapshot := &raft.InstallSnapshotRequest{
		RPCHeader: header, SnapshotVersion: 1, Term: 5, Leader: []byte("m2:3888"), LastLogIndex: 300, LastLogTerm: 5, Size: 4096,
		Peers: []byte{0x90}, ConfigurationIndex: 1,
		Configuration: raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{{ID: named(1), Address: "m1:3888"}}}),
	}
	refused := "the ensemble differs"
	return []releasedMessage{
		{"hello", func(*testing.T) []byte { return releasedDialer().encodeHello(1) }, readReleasedHello, from},
		{
			"reply to a hello: accepted", func(*testing.T) []byte { return releasedDialer().encodeWelcome() }, readReleasedHelloReply,
			helloReply{helloOK, "\x00\x00\x00\x00\x00\x00\x00\xd2\x11\x22\x33\x44\x55\x66\x77\x88"},
		},
		{
			"reply to a hello: rejected", func(*testing.T) []byte { return encodeHelloReply(helloBadEnsemble, []byte(refused)) },
			readReleasedHelloReply,
			helloReply{4, refused},
		},
		{"entries", frame(*list, nil, false), readReleasedRequest, requestRead{list, nil, 298}},
		{"notice", frame(bare, nil, true), readReleasedRequest, requestRead{&bare, nil, 298}},
		{"entries after a direct part", frame(*list, direct, false), readReleasedRequest, requestRead{list, direct, 298}},
		{
			"report of a copy", func(*testing.T) []byte { return appendCopy(nil, copyReport{5, 302}) }, readReleasedRequest,
			requestRead{command: &copyReport{5, 302}},
		},
		{"request in MessagePack: entries", inPack(requestAppend, list), readReleasedRequest, requestRead{command: list}},
		{"request in MessagePack: vote", inPack(requestVote, vote), readReleasedRequest, requestRead{command: vote}},
		{"request in MessagePack: pre-vote", inPack(requestPreVote, preVote), readReleasedRequest, requestRead{command: preVote}},
		{"request in MessagePack: snapshot", inPack(requestSnapshot, snapshot), readReleasedRequest, requestRead{command: snapshot}},
		{"request in MessagePack: timeout now", inPack(requestTimeoutNow, timeoutNow), readReleasedRequest, requestRead{command: timeoutNow}},
		{
			"reply in MessagePack: accepted", reply(inMessagePack, accepted, nil), readReleasedReply(inMessagePack),
			replyRead{response: *accepted, takesFrames: true},
		},
		{
			"reply to a frame: accepted", reply(inFrames, accepted, nil), readReleasedReply(inFrames), replyRead{response: framedReply},
		},
		{
			"reply to a frame: an error", reply(inFrames, nil, errors.New("the log is full")), readReleasedReply(inFrames),
			replyRead{failed: "the log is full"},
		},
		{
			"reply to a frame: it waits", func(*testing.T) []byte { return []byte{waitingMark} }, readReleasedReply(inFrames),
			replyRead{waits: true},
		},
	}
}

// replied returns the bytes of a member's reply.
func replied(t *testing.T, form requestForm, resp any, failed error) []byte {
	t.Helper()
	far, near := net.Pipe()
	in := newInConn(near, newPeerConns(slog.New(slog.DiscardHandler)))
	got := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(far)
		got <- b
	}()
	if err := errors.Join(in.write(form, resp, failed), in.Close()); err != nil {
		t.Fatal(err)
	}
	return <-got
}

// A member writes the messages of the newest release byte by byte, and reads those of every release.
func TestReleasedMessages(t *testing.T) {
	var written []formats.Frame
	want := map[string]releasedMessage{}
	for _, m := range releasedMessages() {
		written = append(written, formats.Frame{Name: m.name, Bytes: m.write(t)})
		want[m.name] = m
	}
	formats.CheckWritten(t, releasedFile, written)
	formats.EachRelease(t, releasedFile, func(t *testing.T, frames []formats.Frame) {
		for _, f := range frames {
			m, ok := want[f.Name]
			if !ok {
				t.Errorf("%q: the test does not know this message", f.Name)
				continue
			}
			if got, err := m.read(t, f.Bytes); err != nil || !reflect.DeepEqual(got, m.want) {
				t.Errorf("%q: read %+v, %v, want %+v", f.Name, got, err, m.want)
			}
		}
	})
}
