package wire

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

func raftsTransport(p *pipes) *raft.NetworkTransport {
	return raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: p, MaxPool: 1, Timeout: time.Second, Logger: hclog.NewNullLogger(),
	})
}

// A dialer sends the bytes that raft's own transport sends, which members of older versions use.
func TestSameRequestsAsRaft(t *testing.T) {
	header := raft.RPCHeader{ProtocolVersion: 3, ID: []byte("1"), Addr: []byte("m1:1")}
	list := entries(1, 0, 70_000)
	list[0].AppendedAt, list[0].Extensions = time.Unix(1_700_000_000, 123456789), []byte("x")
	var (
		app      = &raft.AppendEntriesRequest{RPCHeader: header, Term: 5, PrevLogEntry: 300, Entries: list, LeaderCommitIndex: 70_000}
		vote     = &raft.RequestVoteRequest{RPCHeader: header, Term: 5, LeadershipTransfer: true}
		preVote  = &raft.RequestPreVoteRequest{RPCHeader: header, Term: 5}
		now      = &raft.TimeoutNowRequest{RPCHeader: header}
		snapshot = &raft.InstallSnapshotRequest{RPCHeader: header, Size: 4, LastLogIndex: 9, Configuration: []byte("servers")}
		body     = func() io.Reader { return strings.NewReader("body") }
	)
	for name, send := range map[string]struct {
		ours  func(d *dialer) error
		rafts func(t *raft.NetworkTransport) error
	}{
		"entries": {
			func(d *dialer) error { return d.call("m2:1", requestAppend, app, 0, nil) },
			func(t *raft.NetworkTransport) error { return t.AppendEntries("2", "m2:1", app, nil) },
		},
		"vote": {
			func(d *dialer) error { return d.call("m2:1", requestVote, vote, 0, nil) },
			func(t *raft.NetworkTransport) error { return t.RequestVote("2", "m2:1", vote, nil) },
		},
		"pre-vote": {
			func(d *dialer) error { return d.call("m2:1", requestPreVote, preVote, 0, nil) },
			func(t *raft.NetworkTransport) error { return t.RequestPreVote("2", "m2:1", preVote, nil) },
		},
		"timeout now": {
			func(d *dialer) error { return d.call("m2:1", requestTimeoutNow, now, 0, nil) },
			func(t *raft.NetworkTransport) error { return t.TimeoutNow("2", "m2:1", now, nil) },
		},
		"snapshot": {
			func(d *dialer) error { return d.sendSnapshot("m2:1", snapshot, body(), nil) },
			func(t *raft.NetworkTransport) error { return t.InstallSnapshot("2", "m2:1", snapshot, nil, body()) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := make(chan []byte, 1)
				p := newPipes(func(c net.Conn) {
					go func() {
						b, _ := io.ReadAll(c)
						got <- b
					}()
				})
				theirs := raftsTransport(p)
				if send.ours(&dialer{streamLayer: p, callTimeout: time.Second, addressOf: nowhere}) == nil || send.rafts(theirs) == nil {
					t.Error("a request without an answer has succeeded")
				}
				theirs.Close()
				if ours, rafts := <-got, <-got; len(ours) == 0 || !bytes.Equal(ours, rafts) {
					t.Errorf("sent %q, raft sends %q", ours, rafts)
				}
			})
		})
	}
}

// Replies have the same bytes as the replies of raft's own transport. Replies to an AppendEntries also have the field
// Frames.
func TestSameAnswersAsRaft(t *testing.T) {
	for name, answer := range map[string]raft.RPCResponse{
		"entries":  {Response: &raft.AppendEntriesResponse{RPCHeader: raft.RPCHeader{ID: []byte("2")}, Term: 1 << 40, LastLog: 7, Success: true}},
		"vote":     {Response: &raft.RequestVoteResponse{Term: 5, Granted: true}},
		"snapshot": {Response: &raft.InstallSnapshotResponse{Term: 5}},
		"error":    {Error: errStarting},
		"both":     {Response: &raft.AppendEntriesResponse{Term: 5}, Error: errors.New(strings.Repeat("long", 100))},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPipes(nil)
				theirs := raftsTransport(p)
				defer theirs.Close()
				go func() {
					rpc := <-theirs.Consumer()
					rpc.Respond(answer.Response, answer.Error)
				}()
				conn := p.connect(2)
				defer conn.Close()
				if !send(conn, requests(t)["heartbeat"]) {
					t.Fatal("raft's transport does not take a heartbeat")
				}
				far, near := net.Pipe()
				defer far.Close()
				in := newInConn(near, newPeerConns(slog.New(slog.DiscardHandler)))
				go func() { _ = in.sendReply(answer.Response, answer.Error) }()
				ours, rafts := answerOn(far), answerOn(conn)
				if _, isAppend := answer.Response.(*raft.AppendEntriesResponse); isAppend {
					if !bytes.Contains(ours, []byte("\xa6Frames\xc3")) {
						t.Errorf("answered %q, without Frames", ours)
					}
					ours = bytes.Replace(bytes.Replace(ours, []byte("\x88"), []byte("\x87"), 1), []byte("\xa6Frames\xc3"), nil, 1)
				}
				if len(ours) == 0 || !bytes.Equal(ours, rafts) {
					t.Errorf("answered %q, raft answers %q", ours, rafts)
				}
			})
		})
	}
}

// answerOn reads what comes on a connection until nothing has come for a second.
func answerOn(c net.Conn) (all []byte) {
	for {
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		b := make([]byte, 4096)
		n, err := c.Read(b)
		all = append(all, b[:n]...)
		if err != nil {
			return all
		}
	}
}
