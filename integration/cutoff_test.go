package integration

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/config"
	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/zk/jute"
)

// The clients of a member that is cut off from the others keep their sessions. Each connection is
// closed when its lease ends, and the client then has a tenth of the timeout to find another
// member. That holds for every phase of their pings and of the leader's table. No client gets a
// session on that member meanwhile.
func TestClientsOfACutOffMemberMoveInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, timeout, tick = 24, 6 * time.Second, 2 * time.Second
		e := cluster.Start(t, 3, cluster.Options{Tick: tick})
		e.Ready()
		alone := e.Followers()[0]
		others := []uint32{e.Leader(), e.Followers()[1]}
		var held []*cluster.Client
		for range clients {
			c := e.Connect(timeout, alone, others[0], others[1])
			if _, err := c.Create("/e-", nil, jute.EphemeralSequential); err != nil {
				t.Fatal(err)
			}
			held = append(held, c)
			time.Sleep(timeout / 3 / clients)
		}
		for _, other := range others {
			e.Network.Cut(alone, other)
		}
		time.Sleep(4 * timeout)
		for i, c := range held {
			if c.Err() != nil || c.Member() == alone || c.Member() == 0 {
				t.Errorf("client %d: %v, on member %d; want its session, on another member than %d", i, c.Err(), c.Member(), alone)
			}
		}
		c, err := e.Dial(alone)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := c.Open(timeout); !errors.Is(err, io.EOF) {
			t.Errorf("a new session on the member that is cut off: %+v, %v; want the end of the connection", resp, err)
		}
	})
}

// defaults are the times of a member that is started without settings, apart from the longest session timeout.
func defaults(cfg *member.Config) {
	cfg.HeartbeatTimeout, cfg.MaxTimeout = config.DefaultHeartbeatTimeout, 90*time.Second
}

// cut is a way to cut one member off from the others, but not from clients.
type cut struct {
	name     string
	do, mend func(e *cluster.Ensemble, alone, other uint32)
}

var cuts = []cut{
	{
		"reset", func(e *cluster.Ensemble, alone, other uint32) { e.Network.Cut(alone, other) },
		func(e *cluster.Ensemble, alone, other uint32) { e.Network.Heal(alone, other) },
	},
	{
		"silent", func(e *cluster.Ensemble, alone, other uint32) { between(e.Network.Hang, alone, other) },
		func(e *cluster.Ensemble, alone, other uint32) { between(e.Network.EndHang, alone, other) },
	},
	{
		"nothing in", func(e *cluster.Ensemble, alone, other uint32) { e.Network.Hang(other, alone) },
		func(e *cluster.Ensemble, alone, other uint32) { e.Network.EndHang(other, alone) },
	},
	{
		"nothing out", func(e *cluster.Ensemble, alone, other uint32) { e.Network.Hang(alone, other) },
		func(e *cluster.Ensemble, alone, other uint32) { e.Network.EndHang(alone, other) },
	},
}

// gapWriter writes every tenth of a second, and keeps the longest time between two writes that succeeded.
type gapWriter struct {
	c       *cluster.Client
	stop    chan struct{}
	done    sync.WaitGroup
	longest time.Duration
}

func startGapWriter(t *testing.T, c *cluster.Client, path string) *gapWriter {
	t.Helper()
	if _, err := c.Create(path, nil, jute.Persistent); err != nil {
		t.Fatal(err)
	}
	w := &gapWriter{c: c, stop: make(chan struct{})}
	w.done.Go(func() {
		for last := time.Now(); ; {
			select {
			case <-w.stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
			_, err := c.Do(jute.OpSetData, &jute.SetDataRequest{Path: []byte(path), Version: -1})
			if err == nil {
				w.longest, last = max(w.longest, time.Since(last)), time.Now()
			} else if !errors.Is(err, cluster.ErrLoss) {
				t.Errorf("%s: %v", path, err)
				return
			}
		}
	})
	return w
}

func (w *gapWriter) end() time.Duration {
	close(w.stop)
	w.done.Wait()
	return w.longest
}

// When a member is cut off, in one direction or in both, its clients go to other members within 4 s, however long their
// sessions' timeouts are. Others are not disturbed. When the cut is over, the member serves again.
func TestClientsLeaveACutOffMember(t *testing.T) {
	t.Parallel()
	const longestGap = 4 * time.Second
	for _, members := range []int{3, 5} {
		for _, timeout := range []time.Duration{10 * time.Second, 30 * time.Second, 90 * time.Second} {
			for _, c := range cuts {
				for _, who := range []string{"leader", "follower"} {
					t.Run(fmt.Sprintf("%d members/%v/%s/%s", members, timeout, c.name, who), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							e := cluster.Start(t, members, cluster.Options{Tick: 3 * time.Second, Adjust: defaults})
							e.Ready()
							e.Joined()
							alone, kept := e.Leader(), e.Followers()[1]
							if who == "follower" {
								alone = e.Followers()[0]
							}
							gap, others := gapAtACutOffMember(t, e, c, timeout, alone, kept)
							if gap > longestGap {
								t.Errorf("no write for %v, want one within %v", gap, longestGap)
							}
							if others.Disconnects() > 0 {
								t.Errorf("a client of another member has lost its connection")
							}
						})
					})
				}
			}
		}
	}
}

// gapAtACutOffMember cuts a member off, and returns the longest gap of a client's writes there. It checks that the member
// says that it is cut off, and serves again afterwards. It returns a client of the member kept, too.
func gapAtACutOffMember(t *testing.T, e *cluster.Ensemble, c cut, timeout time.Duration, alone, kept uint32) (time.Duration, *cluster.Client) {
	t.Helper()
	rest := slices.DeleteFunc(e.IDs(), func(id uint32) bool { return id == alone })
	all := append([]uint32{alone}, rest...)
	others := e.Connect(timeout, kept)
	var idle []*cluster.Client
	for range 8 {
		idle = append(idle, e.Connect(timeout, all...))
	}
	w := startGapWriter(t, e.Connect(timeout, all...), "/writer") // the newest connection is closed last
	time.Sleep(5 * time.Second)
	for _, id := range rest {
		c.do(e, alone, id)
	}
	time.Sleep(5 * time.Second)
	for i, client := range append(idle, w.c) {
		if at := client.Member(); at == alone || at == 0 {
			t.Errorf("client %d is at member %d, want another one than %d", i, at, alone)
		}
	}
	if text, serves := e.Member(alone).Health().StatusText(); serves || !strings.Contains(text, "cut off from the others for") {
		t.Errorf("serves: %t, %s", serves, text)
	}
	begun := time.Now()
	if conn, err := e.Dial(alone); err != nil {
		t.Error(err)
	} else if _, err := conn.Open(timeout); !errors.Is(err, io.EOF) || time.Since(begun) > 0 {
		t.Errorf("a handshake: %v after %v, want the end of the connection at once", err, time.Since(begun))
	}
	time.Sleep(10 * time.Second)
	gap := w.end()
	for _, id := range rest {
		c.mend(e, alone, id)
	}
	e.Ready()
	e.Connect(timeout, alone)
	e.Equal()
	return gap, others
}

// An observer that is cut off sends its clients away, too.
func TestClientsLeaveACutOffObserver(t *testing.T) {
	t.Parallel()
	for _, c := range cuts {
		t.Run(c.name, func(t *testing.T) {
			opts := cluster.Options{Tick: 3 * time.Second, Reconfig: true, Adjust: defaults}
			ensembleWith(t, opts, func(t *testing.T, e *cluster.Ensemble, leader, a, _ uint32) {
				observer := addObserver(t, e, leader)
				gap, others := gapAtACutOffMember(t, e, c, 30*time.Second, observer, a)
				if gap > 4*time.Second || others.Disconnects() > 0 {
					t.Errorf("no write for %v; %d connections to others closed", gap, others.Disconnects())
				}
			})
		})
	}
}
