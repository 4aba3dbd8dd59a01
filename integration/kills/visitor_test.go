package kills

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"rollcall/integration/wire"
	"rollcall/lab/process"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// visits is the parent of the nodes of sessions that come and go.
const visits = "/visits"

// visitTimeout is the timeout of these sessions. Abandoned ones must expire between kills.
const visitTimeout = 3 * time.Second

// visitors opens sessions and closes or abandons them.
type visitors struct {
	members []*process.Member
	rng     *rand.Rand
	stop    context.CancelFunc
	done    chan struct{}

	mu     sync.Mutex // held during a visit, and to pause the visits
	n      int
	closed map[jute.SessionID]string // sessions whose close was acknowledged, with their nodes
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

// visit is one session. It may fail anywhere, when its member is killed.
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

// check checks that no session whose close was acknowledged exists, nor its node. The visits must
// be paused.
func (v *visitors) check(s *znode.State) error {
	s.RLock()
	defer s.RUnlock()
	for id, path := range v.closed {
		if record, ok := s.Session(id); ok {
			return fmt.Errorf("session still exists after its close: %+v", record)
		}
		if stat, code := s.Exists([]byte(path), nil, nil); code == jute.OK {
			return fmt.Errorf("%s still exists after its session's close: %+v", path, stat)
		}
	}
	return nil
}
