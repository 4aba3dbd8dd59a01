package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/integration/wire"
	"rollcall/lab/process"
	"rollcall/zk/jute"
)

const (
	turnAddresses                = 200     // attacking connections, each from an address of its own
	turnManyNames                = 100_000 // children of the node that these list
	turnConns                    = 20      // attacking connections, all on one member
	turnFrom                     = "127.66.66.71"
	turnNames                    = 200_000         // children of the node that they list
	turnReaders                  = 3               // honest clients that read a list of turnShort names
	turnReturns                  = 2               // honest clients that come back and set turnWatches watches again
	turnTooLong                  = 100             // lists of turnNames names whose reply is too long
	turnContenders, turnRemovals = 20_000, 10_000  // of a lock; that a member remembers
	turnShort                    = 2_000           // longer than a read without a turn
	turnWatches                  = 500             // longer than a setWatches without a turn
	turnTimeout                  = 4 * time.Second // of the honest sessions
	turnEvery                    = 50 * time.Millisecond
	turnSilence                  = turnTimeout * 2 / 3 // after so long without a byte, a client gives its connection up
	// mostTurnWait bounds their wait at p50, as a multiple of the wait in a quiet ensemble, if that is more than
	// freeTurnWait.
	mostTurnWait = 3
	freeTurnWait = 50 * time.Millisecond
)

// Twenty anonymous connections send the requests that take turns: multiReads that are too long and as long as they may be, long lists,
// and setWatches. Honest clients of the same member, and of the attackers' address, read their own lists and come back meanwhile. None of
// them is cut off, and their requests take little longer than before.
func TestTurnsAreFair(t *testing.T) {
	e, o := startMembers(t, "", "")
	victim := e.Members[0]
	growList(t, o.sessions[0], "/many", turnNames)
	growList(t, o.sessions[0], "/short", turnShort)
	h := &honest{member: victim, returns: turnReturns, watched: jute.SetWatches2{Data: [][]byte{}, Child: [][]byte{}, Persistent: [][]byte{}, Recursive: [][]byte{}}}
	for i := range turnWatches {
		h.watched.Exist = append(h.watched.Exist, fmt.Appendf(nil, "/honest/client/watch%d", i))
	}
	for _, from := range []string{"127.0.0.1", turnFrom} {
		retry(t, func() verdict {
			return h.besideTurns(t, from, turnConns, func(ctx context.Context, i int) int64 { return takeTurns(ctx, victim, i) })
		})
	}
}

// Two hundred addresses, with a connection each, list many names again and again. Honest clients of the same member read short lists
// meanwhile. None of them is cut off, and their requests take little longer than before.
func TestTurnsOfManyAddresses(t *testing.T) {
	needs.Check(t, needs.Nightly)
	e, o := startMembers(t, "", "")
	victim := e.Members[0]
	growList(t, o.sessions[0], "/many", turnManyNames)
	growList(t, o.sessions[0], "/short", turnShort)
	h := &honest{member: victim}
	retry(t, func() verdict {
		return h.besideTurns(t, "127.0.0.1", turnAddresses, func(ctx context.Context, i int) int64 {
			from := fmt.Sprintf("127.66.%d.%d", 70+i/100, 1+i%100)
			return keepSending(ctx, victim, from, jute.OpGetChildren, jute.GetChildrenRequest{Path: []byte("/many")})
		})
	})
}

// Twenty connections send multiReads that are rejected, because their replies would be too long: one that shows it at its first
// operations, and one that shows it after many cheap ones. Honest clients of the same member read short lists meanwhile. None of them is
// cut off, and their requests take little longer than before.
func TestRejectedMultiReads(t *testing.T) {
	needs.Check(t, needs.Nightly)
	e, o := startMembers(t, "", "")
	victim := e.Members[0]
	growList(t, o.sessions[0], "/many", turnNames)
	growList(t, o.sessions[0], "/short", turnShort)
	many := jute.MultiOp{Op: jute.OpGetChildren, GetChildren: jute.GetChildrenRequest{Path: []byte("/many")}}
	cheap := jute.MultiOp{Op: jute.OpGetChildren, GetChildren: jute.GetChildrenRequest{Path: []byte("/none")}}
	late := slices.Repeat([]jute.MultiOp{cheap}, multiOps-turnTooLong)
	for name, ops := range map[string][]jute.MultiOp{
		"at once": slices.Repeat([]jute.MultiOp{many}, multiOps),
		"late":    append(late, slices.Repeat([]jute.MultiOp{many}, turnTooLong)...),
	} {
		t.Run(name, func(t *testing.T) {
			body := raw(jute.AppendMulti(nil, ops))
			h := &honest{member: victim}
			retry(t, func() verdict {
				return h.besideTurns(t, "127.0.0.1", turnConns, func(ctx context.Context, _ int) int64 {
					return keepSending(ctx, victim, turnFrom, jute.OpMultiRead, body)
				})
			})
		})
	}
}

// Twenty connections request all records of a member: slow requests, removals of nodes, and the owner of a lock with
// many contenders. Honest clients of the member read short lists meanwhile. None of them is cut off, and their requests
// take little longer than before.
func TestRecordsForOperators(t *testing.T) {
	needs.Check(t, needs.Nightly)
	e, o := startMembers(t, "", process.AnyHTTP)
	victim := e.Members[0]
	addr, err := victim.HTTP()
	if err != nil {
		t.Fatal(err)
	}
	growList(t, o.sessions[0], "/lock", turnContenders)
	growList(t, o.sessions[0], "/short", turnShort)
	growList(t, o.sessions[0], "/many", turnManyNames)
	for first := 0; first < turnRemovals; first += 1_000 {
		var deletes []jute.MultiOp
		for i := range 1_000 {
			path := fmt.Appendf(nil, "/many/child-%06d", first+i)
			deletes = append(deletes, jute.MultiOp{Op: jute.OpDelete, Delete: jute.DeleteRequest{Path: path, Version: -1}})
		}
		o.sessions[0].call(t, jute.OpMulti, raw(jute.AppendMulti(nil, deletes)))
	}
	h := &honest{member: victim}
	for _, path := range []string{"/v1/slow", "/v1/removals?limit=1000", "/v1/removals?path=/none", "/v1/owner?path=/lock"} {
		t.Run(path, func(t *testing.T) {
			retry(t, func() verdict {
				return h.besideTurns(t, "127.0.0.1", turnConns, func(ctx context.Context, _ int) int64 { return keepAsking(ctx, t, "http://"+addr+path) })
			})
		})
	}
}

// keepAsking sends the same request over HTTP again and again until ctx ends. It returns the number of replies.
func keepAsking(ctx context.Context, t *testing.T, url string) (answered int64) {
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Error(err)
			return answered
		}
		reply, err := http.DefaultClient.Do(req)
		if err != nil {
			continue
		}
		text, err := io.ReadAll(reply.Body)
		_ = reply.Body.Close()
		switch {
		case err != nil:
		case reply.StatusCode == http.StatusOK:
			answered++
		case reply.StatusCode != http.StatusTooManyRequests:
			t.Errorf("%s: %s: %s", url, reply.Status, text)
			return answered
		}
	}
	return answered
}

// growList creates a node with so many children.
func growList(t *testing.T, c *other, path string, names int) {
	t.Helper()
	c.call(t, jute.OpCreate, jute.CreateRequest{Path: []byte(path), ACL: jute.OpenACL})
	const batch = 5_000
	for first := 0; first < names; first += batch {
		var ops []jute.MultiOp
		for i := range min(batch, names-first) {
			child := jute.CreateRequest{Path: fmt.Appendf(nil, "%s/child-%06d", path, first+i), ACL: jute.OpenACL}
			ops = append(ops, jute.MultiOp{Op: jute.OpCreate, Create: child})
		}
		c.call(t, jute.OpMulti, raw(jute.AppendMulti(nil, ops)))
	}
}

// takeTurns sends one kind of long request again and again until ctx ends. It returns the number of replies.
func takeTurns(ctx context.Context, m *process.Member, i int) (answered int64) {
	many := jute.GetChildrenRequest{Path: []byte("/many")}
	list := func(times int) wire.Record {
		ops := slices.Repeat([]jute.MultiOp{{Op: jute.OpGetChildren, GetChildren: many}}, times)
		return raw(jute.AppendMulti(nil, ops))
	}
	op, rec := jute.OpMultiRead, list(8)
	switch i % 4 {
	case 1:
		rec = list(2)
	case 2:
		op, rec = jute.OpGetChildren, many
	case 3:
		op, rec = jute.OpSetWatches2, watchesOfAllKinds(againPaths)
	}
	return keepSending(ctx, m, turnFrom, op, rec)
}

// keepSending sends a request again and again, on one connection after the other, until ctx ends. It returns the number of replies.
func keepSending(ctx context.Context, m *process.Member, from string, op jute.Op, rec wire.Record) (answered int64) {
	for ctx.Err() == nil {
		sock, err := dialFrom(ctx, m, from)
		if err != nil {
			pause(ctx, unreadPause)
			continue
		}
		stop := context.AfterFunc(ctx, func() { _ = sock.Close() })
		c := wire.New(sock)
		if _, err = c.Open(othersTimeout); err == nil {
			answered += repeatRequest(c, op, rec)
		}
		stop()
		_ = sock.Close()
	}
	return answered
}

// repeatRequest sends a request again and again, and reads what comes, until the connection ends. It returns the number of replies.
func repeatRequest(c *wire.Conn, op jute.Op, rec wire.Record) (answered int64) {
	for {
		sent := make(chan error, 1)
		go func() { sent <- c.Send(1, op, rec) }()
		for {
			reply, err := c.Recv()
			if err != nil {
				_ = c.Close()
				return answered
			}
			if reply.Xid == 1 {
				break
			}
		}
		if <-sent != nil {
			return answered
		}
		answered++
	}
}

// watchesOfAllKinds is a setWatches of so many paths in all, on which there is no node.
func watchesOfAllKinds(paths int) raw {
	var lists [5][][]byte
	for i := range paths {
		lists[i%len(lists)] = append(lists[i%len(lists)], fmt.Appendf(nil, "/%06d", i))
	}
	return jute.SetWatches2{Data: lists[0], Exist: lists[1], Child: lists[2], Persistent: lists[3], Recursive: lists[4]}.Append(nil)
}

// honest are clients of one member.
type honest struct {
	member  *process.Member
	returns int // clients that come back
	watched jute.SetWatches2
}

// waits has the durations of requests, and the number of connections whose client got nothing for turnSilence.
type waits struct {
	took []time.Duration
	cut  int
}

func (w *waits) p50() time.Duration { return w.took[len(w.took)/2] }

// besideTurns measures honest clients of an address, first without an attack, then beside an attack on so many
// connections.
func (h *honest) besideTurns(t *testing.T, from string, conns int, attack func(ctx context.Context, i int) (answered int64)) verdict {
	t.Helper()
	calm := h.measure(t, from, calmTime)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var attackers sync.WaitGroup
	var answered atomic.Int64
	for i := range conns {
		attackers.Go(func() { answered.Add(attack(ctx, i)) })
	}
	beside := h.measure(t, from, attackTime)
	cancel()
	attackers.Wait()
	t.Logf("honest clients of %s: p50 %v while calm, %v beside %d long requests (ratio %.1f); %d and %d requests, cut %d and %d", from,
		calm.p50(), beside.p50(), answered.Load(), float64(beside.p50())/float64(calm.p50()), len(calm.took), len(beside.took), calm.cut, beside.cut)
	most := max(mostTurnWait*calm.p50(), freeTurnWait)
	if answered.Load() < turnConns {
		return verdict{wrong: fmt.Sprintf("the attackers got %d replies", answered.Load()), final: true}
	}
	if beside.p50() <= most && calm.cut+beside.cut == 0 {
		return verdict{}
	}
	return verdict{wrong: fmt.Sprintf("honest clients of %s wait %v at p50, want at most %v; %d are cut off", from, beside.p50(), most, beside.cut)}
}

// measure lets the honest clients work for the time d, from an address.
func (h *honest) measure(t *testing.T, from string, d time.Duration) *waits {
	t.Helper()
	var (
		mu      sync.Mutex
		all     waits
		working sync.WaitGroup
	)
	end := time.Now().Add(d)
	for i := range turnReaders + h.returns {
		working.Go(func() {
			for time.Now().Before(end) {
				work := h.read
				if i >= turnReaders {
					work = h.comeBack
				}
				each, err := work(t.Context(), from, end)
				mu.Lock()
				if all.took = append(all.took, each...); err != nil {
					all.cut++
					t.Log(err)
				}
				mu.Unlock()
			}
		})
	}
	working.Wait()
	if len(all.took) == 0 {
		t.Fatalf("no honest client of %s got a reply", from)
	}
	slices.Sort(all.took)
	return &all
}

// read reads the short list again and again on one connection.
func (h *honest) read(ctx context.Context, from string, end time.Time) (took []time.Duration, err error) {
	c, _, err := h.open(ctx, from, nil)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for time.Now().Before(end) {
		began := time.Now()
		if err := answer(c, jute.OpGetChildren, jute.GetChildrenRequest{Path: []byte("/short")}); err != nil {
			return took, fmt.Errorf("reader: %w", err)
		}
		took = append(took, time.Since(began))
		pause(ctx, turnEvery)
	}
	return took, nil
}

// comeBack takes its session to another connection again and again, and sets its watches again.
func (h *honest) comeBack(ctx context.Context, from string, end time.Time) (took []time.Duration, err error) {
	var session *jute.ConnectResponse
	for time.Now().Before(end) {
		began := time.Now()
		c, granted, err := h.open(ctx, from, session)
		if err != nil {
			return took, err
		}
		session = &granted
		err = answer(c, jute.OpSetWatches2, h.watched)
		_ = c.Close()
		if err != nil {
			return took, fmt.Errorf("client that comes back: %w", err)
		}
		took = append(took, time.Since(began))
		pause(ctx, turnEvery)
	}
	return took, nil
}

func (h *honest) open(ctx context.Context, from string, session *jute.ConnectResponse) (c *wire.Conn, granted jute.ConnectResponse, err error) {
	sock, err := dialFrom(ctx, h.member, from)
	if err != nil {
		return nil, granted, err
	}
	c = wire.New(sock)
	_ = c.SetDeadline(time.Now().Add(turnSilence)) // if it fails, so will the handshake
	if session == nil {
		granted, err = c.Open(turnTimeout)
	} else {
		granted, err = c.Resume(*session, 0)
	}
	if err == nil && granted.SessionID == 0 {
		err = errors.New("the session has ended")
	}
	if err != nil {
		_ = sock.Close()
		return nil, granted, fmt.Errorf("open a session: %w", err)
	}
	_ = sock.SetDeadline(time.Time{}) // answer sets one for each frame
	return c, granted, nil
}

// answer sends a request, and pings as clients do. It returns an error if nothing comes for turnSilence.
func answer(c *wire.Conn, op jute.Op, rec wire.Record) error {
	done := make(chan struct{})
	var sending sync.WaitGroup
	defer sending.Wait()
	defer close(done)
	if err := c.Send(1, op, rec); err != nil {
		return err
	}
	sending.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(turnTimeout / 3):
				_ = c.Send(jute.XidPing, jute.OpPing, nil) // if it fails, so will the read
			}
		}
	})
	for {
		_ = c.SetReadDeadline(time.Now().Add(turnSilence))
		reply, err := c.Recv()
		if err != nil {
			return err
		}
		if reply.Xid == 1 {
			if reply.Err != jute.OK {
				return reply.Err
			}
			return nil
		}
	}
}
