package power

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	gosync "sync"
	"testing"
	"time"

	"rollcall/integration/wire"
	"rollcall/lab/process"
	"rollcall/zk/jute"
)

const (
	// tick makes elections begin after 250 ms.
	tick = time.Second
	// sessionTimeout is longer than any test, so that no session expires.
	sessionTimeout = 10 * time.Minute
	// answers is the time in which a connection must get a reply.
	answers = 2 * time.Second
	// writers is the number of sessions that write at a time, one write after the other.
	writers = 3
)

// acknowledged is a node with data, or a session, that was acknowledged to a client. It must survive a loss of power at
// the place or later.
type acknowledged struct {
	place   int
	path    string
	data    string
	session jute.SessionID // 0: a node
}

func (a acknowledged) String() string {
	if a.session != 0 {
		return fmt.Sprintf("session %v, acknowledged at %d", a.session, a.place)
	}
	return fmt.Sprintf("%s, acknowledged at %d", a.path, a.place)
}

// before returns the writes and sessions that were acknowledged before a place.
func before(acked []acknowledged, place int) []acknowledged {
	n, _ := slices.BinarySearchFunc(acked, place+1, func(a acknowledged, place int) int { return a.place - place })
	return acked[:n]
}

// load is a number of writing clients, and the acknowledgements that they got.
type load struct {
	recorder *recorder
	first    int // the number of each client's first node
	cancel   context.CancelFunc
	wg       gosync.WaitGroup

	mu    gosync.Mutex
	acked []acknowledged
}

// startLoad starts clients of the members.
func startLoad(t *testing.T, r *recorder, members []*process.Member, seed uint64) *load {
	t.Helper()
	return startLoadAt(t, r, members, seed, 0)
}

// startLoadAt starts clients whose nodes have numbers from first on.
func startLoadAt(t *testing.T, r *recorder, members []*process.Member, seed uint64, first int) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{recorder: r, cancel: cancel, first: first}
	var addresses []string
	for _, m := range members {
		addresses = append(addresses, m.Clients)
	}
	for i := range writers {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		l.wg.Go(func() { l.write(ctx, i, addresses, rng) })
	}
	t.Cleanup(func() { l.stop() })
	return l
}

// stop ends the clients, and returns their acknowledgements in order.
func (l *load) stop() []acknowledged {
	l.cancel()
	l.wg.Wait()
	slices.SortFunc(l.acked, func(a, b acknowledged) int { return a.place - b.place })
	return l.acked
}

// count returns the number of acknowledgements so far.
func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// await waits until so much more was acknowledged.
func (l *load) await(t *testing.T, more int) {
	t.Helper()
	want := l.count() + more
	err := process.Until(t.Context(), fmt.Sprintf("%d writes are acknowledged", want), func() bool { return l.count() >= want })
	if err != nil {
		t.Fatal(err)
	}
}

// acknowledge records an acknowledgement that a client has just got.
func (l *load) acknowledge(a acknowledged) {
	a.place = l.recorder.place()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked = append(l.acked, a)
}

// write is one client, which opens a new session whenever its connection ends.
func (l *load) write(ctx context.Context, writer int, addresses []string, rng *rand.Rand) {
	for n, at := l.first, writer; ctx.Err() == nil; at++ {
		n = l.session(ctx, writer, n, addresses[at%len(addresses)], rng)
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond): // before the next member
		}
	}
}

// session opens a session and creates nodes, from number n on. It returns the next number.
func (l *load) session(ctx context.Context, writer, n int, address string, rng *rand.Rand) int {
	raw, err := net.DialTimeout("tcp", address, answers)
	if err != nil {
		return n
	}
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	defer func() { _ = raw.Close() }()
	conn := wire.New(raw)
	if err := raw.SetDeadline(time.Now().Add(answers)); err != nil {
		return n
	}
	opened, err := conn.Open(sessionTimeout)
	if err != nil || opened.SessionID == 0 {
		return n
	}
	l.acknowledge(acknowledged{session: opened.SessionID})
	for ; ctx.Err() == nil; n++ {
		if err := raw.SetDeadline(time.Now().Add(answers)); err != nil {
			return n
		}
		data := make([]byte, 20+rng.IntN(3000))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		path := fmt.Sprintf("/w%d-%d", writer, n)
		r, _, err := conn.Call(1, jute.OpCreate, &jute.CreateRequest{Path: []byte(path), Data: data, ACL: jute.OpenACL})
		if err != nil || r.Err != jute.OK {
			return n + 1
		}
		l.acknowledge(acknowledged{path: path, data: string(data)})
	}
	return n
}
