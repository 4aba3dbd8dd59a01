package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/integration/cluster"
)

// clientKills is the number of leaders that are killed under package client. ROLLCALL_SCHEDULES sets another number.
const clientKills = 20

// Package client keeps its sessions when the leader is killed with requests in flight. A call fails
// only because the connection was lost. No acknowledged write is lost or done twice, ephemeral
// nodes stay, and watches see the last write.
func TestClientOverLeaderKill(t *testing.T) {
	t.Parallel()
	for _, seed := range seedsToRun(t, clientKills) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { killUnderClients(t, seed) })
		})
	}
}

func killUnderClients(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 5))
	e := cluster.Start(t, 3, cluster.Options{Write: time.Millisecond})
	e.Ready()
	e.Joined()
	leader := e.Leader()
	users := make([]*user, 3)
	for i := range users {
		users[i] = openUser(t, e, i)
	}
	for i, u := range users {
		u.watch(t, users[(i+1)%len(users)].dir)
		go u.write(200)
	}
	time.Sleep(time.Duration(rng.Int64N(int64(300 * time.Millisecond))))
	e.Kill(leader)
	for i, u := range users {
		<-u.done
		u.check(t, users[(i+len(users)-1)%len(users)], int(leader) == i+1)
	}
	for _, u := range users {
		if err := u.c.Close(context.Background()); err != nil {
			t.Errorf("%s: close: %v", u.dir, err)
		}
	}
	if e.Leader() == leader {
		t.Errorf("member %d leads, although it was killed", leader)
	}
	e.Boot(leader)
	e.Ready()
	e.Equal()
}

// user is a session that sets its node's data to 1, 2, 3 and so on, with several writes in flight.
type user struct {
	c     *client.Client
	id    client.SessionID
	dir   string
	done  chan struct{}
	acked atomic.Int64 // the greatest number acknowledged
	lost  int          // writes of unknown outcome; set by the reader, as is odd
	odd   []error
	drops atomic.Int64
	last  atomic.Int64 // zxid of the last event
}

func openUser(t *testing.T, e *cluster.Ensemble, i int) *user {
	t.Helper()
	u := &user{dir: fmt.Sprintf("/u%d", i), done: make(chan struct{})}
	cfg := client.Config{
		Timeout: sessionTimeout, InOrder: true,
		GiveUpAfter: client.NeverGiveUp, // the servers alone decide which sessions expire
		DialConn:    func(ctx context.Context, _, addr string) (net.Conn, error) { return e.Network.Dial(ctx, 0, addr) },
		OnEvent:     func(e client.Event) { u.last.Store(max(u.last.Load(), int64(e.Zxid))) },
		OnState: func(change client.StateChange) {
			if change.State == client.Suspended {
				u.drops.Add(1)
			}
		},
	}
	var servers []string
	for j := range 3 {
		servers = append(servers, fmt.Sprintf("m%d:2181", (i+j)%3+1))
	}
	var err error
	if u.c, err = client.Dial(context.Background(), strings.Join(servers, ","), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.c.Abandon)
	u.id, _ = u.c.Session()
	if _, _, err = u.c.Create(context.Background(), u.dir, []byte("0"), client.Persistent); err == nil {
		_, _, err = u.c.Create(context.Background(), u.dir+"-alive", nil, client.Ephemeral)
	}
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func (u *user) watch(t *testing.T, path string) {
	t.Helper()
	if err := u.c.AddWatch(context.Background(), path, false); err != nil {
		t.Fatal(err)
	}
}

// write sets the data n times. After a loss, the data show which writes were done.
func (u *user) write(n int) {
	defer close(u.done)
	ctx := context.Background()
	under := make(chan struct{}, window)
	for i := 1; i <= n; i++ {
		under <- struct{}{}
		data := strconv.AppendInt(nil, int64(i), 10)
		err := u.c.Pipeline().Set(ctx, u.dir, data, client.AnyVersion, func(_ client.Stat, err error) {
			switch {
			case errors.Is(err, client.ErrConnectionLost):
				u.lost++
			case err != nil:
				u.odd = append(u.odd, fmt.Errorf("write %d: %w", i, err))
			default:
				u.acked.Store(int64(i))
			}
			<-under
		})
		if errors.Is(err, client.ErrSuspended) {
			<-under
			i--
			err = u.c.AwaitConnected(ctx)
		}
		if err != nil {
			u.odd = append(u.odd, err)
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	for range window {
		under <- struct{}{}
	}
}

// check checks what u has written, and which events its watcher has got.
func (u *user) check(t *testing.T, watcher *user, home bool) {
	t.Helper()
	ctx := context.Background()
	if len(u.odd) > 0 {
		t.Errorf("%s: %v", u.dir, u.odd)
	}
	if id, _ := u.c.Session(); id != u.id {
		t.Errorf("%s: session %v, was %v", u.dir, id, u.id)
	}
	if home != (u.drops.Load() > 0) || !home && u.lost > 0 {
		t.Errorf("%s: at the leader's member: %v, but %d drops and %d writes lost", u.dir, home, u.drops.Load(), u.lost)
	}
	data, stat, err := u.c.Get(ctx, u.dir)
	if err != nil {
		t.Fatal(err)
	}
	value, err := strconv.Atoi(string(data))
	if err != nil || int64(value) < u.acked.Load() || int(stat.Version) > 200 || int(stat.Version)+u.lost < 200 {
		t.Errorf("%s: %q, version %d, with %d acknowledged last and %d lost", u.dir, data, stat.Version, u.acked.Load(), u.lost)
	}
	if alive, _, err := u.c.Exists(ctx, u.dir+"-alive"); err != nil || alive.Owner != u.id {
		t.Errorf("%s: its ephemeral: %+v, %v", u.dir, alive, err)
	}
	if err := watcher.c.Sync(ctx); err != nil {
		t.Error(err)
	}
	if got := watcher.last.Load(); got != int64(stat.Changed) && watcher.drops.Load() == 0 {
		t.Errorf("%s: the last event is of %#x, the last write of %#x", u.dir, got, int64(stat.Changed))
	}
}
