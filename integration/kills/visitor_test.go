package kills

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"rollcall/integration/process"
	"rollcall/integration/wire"
	"rollcall/jute"
	"rollcall/znode"
)

// visits is where sessions that come and go make their nodes.
const visits = "/visits"

// visitTimeout is theirs: those that are left behind are to expire between kills.
const visitTimeout = 3 * time.Second

// visitors opens sessions and closes them, or leaves them behind.
type visitors struct {
	members []*process.Member
	rng     *rand.Rand
	stop    context.CancelFunc
	done    chan struct{}

	mu     sync.Mutex // held during a visit, and by whoever makes them pause
	n      int
	closed map[jute.SessionID]string // sessions whose end was acknowledged, and their nodes
}

func newVisitors(members []*process.Member, rng *rand.Rand) *visitors {
	ctx, stop := context.WithCancel(context.Background())
	v := &visitors{members: members, rng: rng, stop: stop, done: make(chan struct{}), closed: map[jute.SessionID]string{}}
	go v.run(ctx)
	return v
}

func (v *visitors) run(ctx context.Context) {
	defer close(v.done)
	for ctx.Err() == nil {
		v.mu.Lock()
		v.visit()
		v.mu.Unlock()
		time.Sleep(time.Duration(v.rng.Int64N(int64(20 * time.Millisecond))))
	}
}

// shutDown stops the visits for good.
func (v *visitors) shutDown() {
	v.stop()
	<-v.done
}

// visit is one session: it may fail anywhere, where its member is killed.
func (v *visitors) visit() {
	raw, err := net.DialTimeout("tcp", v.members[v.rng.IntN(len(v.members))].Clients, visitTimeout)
	if err != nil {
		return
	}
	conn := wire.New(raw)
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(visitTimeout)); err != nil {
		return
	}
	session, err := conn.Open(visitTimeout)
	if err != nil {
		return
	}
	v.n++
	path := fmt.Sprintf("%s/v%d", visits, v.n)
	r, _, err := conn.Call(1, jute.OpCreate, &jute.CreateRequest{Path: []byte(path), ACL: jute.OpenACL, Flags: jute.Ephemeral})
	if err != nil || r.Err != jute.OK || v.rng.IntN(4) == 0 {
		return
	}
	if r, _, err := conn.Call(2, jute.OpCloseSession, nil); err == nil && r.Err == jute.OK {
		v.closed[session.SessionID] = path
	}
}

// check: no session whose end was acknowledged is there, nor its node. The visits pause.
func (v *visitors) check(s *znode.State) error {
	s.RLock()
	defer s.RUnlock()
	for id, path := range v.closed {
		if record, ok := s.Session(id); ok {
			return fmt.Errorf("session was closed and lives: %+v", record)
		}
		if stat, code := s.Exists([]byte(path), nil, nil); code == jute.OK {
			return fmt.Errorf("%s was its session's, which is closed: %+v", path, stat)
		}
	}
	return nil
}
