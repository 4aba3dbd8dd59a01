package recipes

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/client"
	"rollcall/client/barrier"
	"rollcall/client/election"
	"rollcall/client/group"
	"rollcall/client/lock"
	"rollcall/client/queue"
	"rollcall/client/shared"
	"rollcall/rollcalltest"
	"rollcall/zk/jute"
)

// secretPath is the path of a node that no client may read.
const secretPath = "/secret"

// rejecter replaces one request of a client by a read of secretPath: the request is not carried out, and the reply to it
// is ErrNoAuth.
type rejecter struct {
	number int // of the request, from 1. Pings and the first requests of a connection do not count
	lose   int // the number of the write whose reply is lost, from 1; requests count after it. 0: no reply is lost

	mu       sync.Mutex
	writes   int
	count    int
	rejected *rejectedRequest // nil: there were fewer requests
	stopped  bool             // all requests pass
}

// rejectedRequest is the request that a rejecter has replaced.
type rejectedRequest struct {
	op      jute.Op
	path    string // "" for a multi
	watches bool   // it is a read that sets a watch
}

// interceptFrame returns the frame to send in place of a request.
func (r *rejecter) interceptFrame(frame []byte) []byte {
	var h jute.RequestHeader
	d := jute.NewDecoder(frame)
	h.Decode(&d)
	if slices.Contains([]jute.Op{jute.OpPing, jute.OpCloseSession, jute.OpSetWatches, jute.OpSetWatches2}, h.Op) {
		return frame
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.writes < r.lose {
		return frame
	}
	if r.count++; r.stopped || r.count != r.number {
		return frame
	}
	r.rejected = &rejectedRequest{op: h.Op}
	if h.Op != jute.OpMulti {
		r.rejected.path = string(d.ReadBytes())
	}
	if slices.Contains([]jute.Op{jute.OpExists, jute.OpGetData, jute.OpGetChildren2}, h.Op) {
		r.rejected.watches = d.ReadBool()
	}
	return readOfSecret(h.Xid)
}

// readOfSecret returns the frame of a read of secretPath.
func readOfSecret(xid int32) []byte {
	read := jute.RequestHeader{Xid: xid, Op: jute.OpGetData}
	return jute.WatchedPath{Path: []byte(secretPath)}.Append(read.Append(nil))
}

// createSecret creates the node at secretPath.
func (s *scene) createSecret(c *client.Client) {
	s.t.Helper()
	_, _, err := c.Create(s.ctx, secretPath, nil, client.Persistent.WithACL(ownersACL...))
	s.check(err)
}

// losesReply reports whether the reply to a request is to be lost.
func (r *rejecter) losesReply(op string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped || !slices.Contains([]string{"create2", "setData", "multi"}, op) {
		return false
	}
	r.writes++
	return r.writes == r.lose
}

// hasLost reports whether a reply was lost, if one is to be.
func (r *rejecter) hasLost() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.writes >= r.lose
}

// stop lets all later requests pass. It returns the request that was rejected, or nil.
func (r *rejecter) stop() *rejectedRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	return r.rejected
}

// replacingConn is a connection that sends other requests in place of some. The first one always passes.
type replacingConn struct {
	net.Conn
	replace func(frame []byte) []byte
	begun   bool
	out     []byte // the part of a frame that is not whole yet
}

func (c *replacingConn) Write(b []byte) (int, error) {
	c.out = append(c.out, b...)
	var send bytes.Buffer
	for len(c.out) >= 4 && len(c.out) >= 4+int(binary.BigEndian.Uint32(c.out)) {
		end := 4 + int(binary.BigEndian.Uint32(c.out))
		frame := c.out[4:end]
		if c.begun {
			frame = c.replace(frame)
		}
		c.begun = true
		_ = jute.WriteFrame(&send, frame) // a buffer never runForbidden
		c.out = c.out[end:]
	}
	if _, err := c.Conn.Write(send.Bytes()); err != nil {
		return 0, err
	}
	return len(b), nil
}

// clientThat opens a session some of whose requests are replaced.
func (s *scene) clientThat(replace func(frame []byte) []byte) *client.Client {
	s.t.Helper()
	return s.clientWith(client.Config{DialConn: s.dialReplacing(replace)})
}

// dialReplacing returns a function that opens connections some of whose requests are replaced.
func (s *scene) dialReplacing(replace func(frame []byte) []byte) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		conn, err := s.srv.Dial(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		return &replacingConn{Conn: conn, replace: replace}, nil
	}
}

// headerOf returns the header of a request.
func headerOf(frame []byte) (h jute.RequestHeader) {
	d := jute.NewDecoder(frame)
	h.Decode(&d)
	return h
}

// ownNode matches the name of a node that a call creates for itself.
var ownNode = regexp.MustCompile(`^(_c_.*|[0-9a-f-]{36}|queue-.*|a|a[0-9]{30})$`)

// isBackground reports whether a recipe may continue although a request is rejected: it deletes something, ends a watch,
// or sets the watch of a right's node. The right ends then. It may also read a history of changes: without one, a cache
// reads all Stats.
func (q *rejectedRequest) isBackground() bool {
	switch q.op {
	case jute.OpDelete, jute.OpCheckWatches, jute.OpRemoveWatches:
		return true
	case jute.OpExists:
		return q.watches && q.isOfOwnNode()
	case jute.OpGetData:
		return q.path == jute.HistoryPath
	}
	return false
}

// isOfOwnNode reports whether the request is about a node that the call has created for itself.
func (q *rejectedRequest) isOfOwnNode() bool {
	return ownNode.MatchString(q.path[strings.LastIndexByte(q.path, '/')+1:])
}

// findsOutInBackground reports whether a release finds out with the request whether its node is gone already: it syncs and
// reads the node, in the background, if the event of the node came before the release.
func (q *rejectedRequest) findsOutInBackground() bool {
	return q.op == jute.OpSync || q.op == jute.OpExists && q.isOfOwnNode()
}

// maxRejected limits the requests of a call that are rejected, one in each run. No call of the tables sends more.
const maxRejected = 60

// rejection runs a call of which the servers reject a request.
type rejection struct {
	recipeCall
	blocked bool                                                // another client has what the call waits for, and ends its session after a second
	release bool                                                // the call releases something: it then syncs, and what it cannot read is left
	fill    func(s *scene, other *client.Client, folder string) // prepares the folder; nil: it is missing
}

// playEach runs the call once for each of its requests, which is rejected.
func (r rejection) playEach(t *testing.T) {
	t.Run(r.name, func(t *testing.T) {
		for n, more := 1, true; more && !t.Failed(); n++ {
			if n > maxRejected {
				t.Fatalf("there are more than %d requests", maxRejected)
			}
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				inSceneAt(t, slowTick, func(s *scene) { more = r.play(s, &rejecter{number: n}) })
			})
		}
	})
}

// maxAfterLoss is the number of requests after a lost reply that are rejected, one in each run: those with which a call
// finds out what became of its write.
const maxAfterLoss = 4

// playEachLoss runs the call once for each of the first requests after each write whose reply is lost.
func (r rejection) playEachLoss(t *testing.T) {
	t.Run(r.name, func(t *testing.T) {
		for lose, lost := 1, true; lost && !t.Failed(); lose++ {
			for n, more := 1, true; more && n <= maxAfterLoss; n++ {
				t.Run(fmt.Sprint(lose, n), func(t *testing.T) {
					inSceneAt(t, slowTick, func(s *scene) {
						j := &rejecter{number: n, lose: lose}
						s.srv.OnRequest(func(q rollcalltest.Request) rollcalltest.Verdict {
							own := len(s.clients) > 1 && q.Session == sessionOf(s.clients[1])
							return rollcalltest.Verdict{LoseReply: own && j.losesReply(q.Op)}
						})
						more = r.play(s, j)
						lost = j.hasLost()
					})
				})
			}
		}
	})
}

// waitsForNode reports whether the call waits for a node of another session at its path with this request.
func (r rejection) waitsForNode(q *rejectedRequest) bool {
	return r.blocked && r.name == "join" && q.op == jute.OpExists
}

// play runs the call and has a request rejected. It reports whether there were so many.
func (r rejection) play(s *scene, j *rejecter) (happened bool) {
	const folder = "/base/folder"
	other := s.client()
	s.createSecret(other)
	s.check(other.CreateAll(s.ctx, "/base", client.Persistent))
	if r.blocked {
		s.block(r.name, other, folder)
		time.AfterFunc(time.Second, func() { _ = other.Close(s.ctx) })
	}
	if r.fill != nil {
		r.fill(s, other, folder)
	}
	c := s.clientThat(j.interceptFrame)
	ctx, cancel := context.WithTimeout(s.ctx, sessionTimeout)
	defer cancel()
	err := r.call(ctx, c, folder)
	rejected := j.stop()
	switch {
	case rejected == nil:
		return false
	case rejected.isBackground() && !r.waitsForNode(rejected),
		r.release && rejected.findsOutInBackground(),
		r.blocked && rejected.op == jute.OpSync:
		return true
	case !errors.Is(err, client.ErrNoAuth):
		s.t.Errorf("%v of %q was rejected, and the error is %v", rejected.op, rejected.path, err)
	}
	s.awaitSettled()
	own, err := c.Ephemerals(s.ctx, "/base")
	s.check(err)
	// Receipts stay: they are used again.
	own = slices.DeleteFunc(own, func(path string) bool { return strings.Contains(path, "receipts/") })
	if len(own) != 0 && !r.release {
		s.t.Errorf("%v of %q was rejected, and %q are left", rejected.op, rejected.path, own)
	}
	return true
}

// A call of which the servers reject a request fails with the reason, and leaves no node.
func TestRejected(t *testing.T) {
	for _, call := range slices.Concat(callsOfLocks(), callsOfGroups(), callsOfValues()) {
		if call.name != "partitions" { // the other partition goes on
			rejection{recipeCall: call}.playEach(t)
		}
	}
}

// The same for calls that use what they have got, and release it.
func TestRejectedHolders(t *testing.T) {
	for _, call := range callsOfHolders() {
		// The two left out send requests whose errors they do not return.
		if call.name != "hand over" && call.name != "await cache" {
			rejection{recipeCall: call, release: true}.playEach(t)
		}
	}
}

// The same for calls that have to wait.
func TestRejectedWaits(t *testing.T) {
	for _, call := range waitingCalls() {
		rejection{recipeCall: call, blocked: true}.playEach(t)
	}
}

// The same for calls that find nodes of others.
func TestRejectedReads(t *testing.T) {
	fill := map[string]func(s *scene, other *client.Client, folder string){
		"join": func(s *scene, other *client.Client, folder string) {
			s.check(errorOf(group.Join(s.ctx, other, folder, "member_1", []byte("{}"))))
		},
		"campaign": func(s *scene, other *client.Client, folder string) {
			s.check(errorOf(election.New(other, folder, election.Config{}).Campaign(s.ctx)))
		},
		"revocable": func(s *scene, other *client.Client, folder string) {
			s.check(errorOf(lock.NewRevocable(other, folder, lock.Config{}).Lock(s.ctx)))
		},
		"put": func(s *scene, other *client.Client, folder string) {
			s.check(errorOf(queue.New(other, folder, queue.Config{}).Put(s.ctx, []byte("x"))))
		},
		"set value": func(s *scene, other *client.Client, folder string) {
			s.check(errorOf(shared.NewValue(other, folder, shared.Config{}).Set(s.ctx, make([]byte, 4))))
		},
		"round": func(s *scene, other *client.Client, folder string) {
			s.check(errorOf(barrier.NewDouble(other, folder, barrier.DoubleConfig{Count: 1}).Enter(s.ctx)))
			time.AfterFunc(time.Second, other.Abandon)
		},
	}
	filled := map[string]string{
		"members": "join", "watch members": "join",
		"instances": "join", "servers": "join", "watch servers": "join",
		"candidates": "campaign", "observe election": "campaign", "revoke": "revocable", "take": "put", "try take": "put",
		"get value": "set value", "set value": "set value", "set value without receipts": "set value", "watch value": "set value",
		"get counter": "set value", "add to counter": "set value", "enter barrier": "round",
	}
	for _, call := range slices.Concat(callsOfLocks(), callsOfGroups(), callsOfValues()) {
		if by, ok := filled[call.name]; ok {
			rejection{recipeCall: call, fill: fill[by]}.playEach(t)
		}
	}
}

// The same for the requests that follow a lost reply.
func TestRejectedAfterLostReply(t *testing.T) {
	for _, call := range slices.Concat(callsOfLocks(), callsOfGroups(), callsOfValues()) {
		if call.name != "partitions" && call.name != "put" { // Put returns no path if it cannot find it
			rejection{recipeCall: call}.playEachLoss(t)
		}
	}
}

// creates is the number of times that a recipe tries to create a node whose parent the servers delete each time before:
// it creates the parent 10 times.
const creates = 11

// A call whose parent always vanishes before its node is created gives up.
func TestFolderAlwaysVanishes(t *testing.T) {
	names := []string{
		"mutex", "reader", "try semaphore", "campaign", "enter barrier", "set value without receipts", "set barrier",
	}
	for _, call := range slices.Concat(callsOfLocks(), callsOfGroups(), callsOfValues()) {
		if !slices.Contains(names, call.name) {
			continue
		}
		t.Run(call.name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				tries := 0
				c := s.clientThat(func(frame []byte) []byte {
					var h jute.RequestHeader
					d := jute.NewDecoder(frame)
					h.Decode(&d)
					if h.Op != jute.OpCreate2 {
						return frame
					}
					tries++
					_ = d.ReadBytes() // the path
					return append(jute.PathRecord{Path: []byte("/vanished/node")}.Append(h.Append(nil)), d.Rest()...)
				})
				s.want(call.call(s.ctx, c, "/base/folder"), client.ErrNoNode)
				if tries != creates {
					s.t.Errorf("%d tries, want %d", tries, creates)
				}
			})
		})
	}
}
