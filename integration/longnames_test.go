package integration

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/client/election"
	"rollcall/client/group"
	"rollcall/client/lock"
	"rollcall/client/queue"
	"rollcall/integration/cluster"
	"rollcall/lab/simulated"
	"rollcall/member"
	"rollcall/znode"
)

// The recipes of package client keep their order where the numbers of their nodes pass 2147483647, and where they become
// longer.
func TestRecipesWithLongNames(t *testing.T) {
	for name, created := range map[string]int64{"32 bits": znode.MaxCreated - 1, "19 digits": 8_999_999_999} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := cluster.Start(t, 1, cluster.Options{
					Disks: map[uint32]*simulated.Disk{1: cluster.CountedDisk(t, 1, map[string]int64{
						"/mutex": created, "/kazoo": created, "/election": created, "/queue": created, "/group": created, "/rw": created,
					})},
					Adjust: func(cfg *member.Config) { cfg.Rules.LongNames = true },
				})
				e.Ready()
				var clients []*client.Client
				for range 4 {
					clients = append(clients, dialGo(t, e))
				}
				takeTurns(t, clients, func(c *client.Client) (*client.Right, error) {
					return lock.NewMutex(c, "/mutex", lock.Config{}).Lock(t.Context())
				})
				takeTurns(t, clients, func(c *client.Client) (*client.Right, error) {
					return lock.NewMutex(c, "/kazoo", lock.Config{Layout: lock.Kazoo}).Lock(t.Context())
				})
				takeTurns(t, clients, func(c *client.Client) (*client.Right, error) {
					leads, err := election.New(c, "/election", election.Config{}).Campaign(t.Context())
					if err != nil {
						return nil, err
					}
					return leads.Right, nil
				})
				downgrade(t, clients)
				putAndTake(t, clients[0])
				announce(t, clients)
			})
		})
	}
}

func dialGo(t *testing.T, e *cluster.Ensemble) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), "m1:2181", client.Config{
		DialConn: func(ctx context.Context, _, addr string) (net.Conn, error) { return e.Network.Dial(ctx, 0, addr) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Abandon)
	return c
}

// takeTurns checks that clients get a right one at a time, in the order of their calls, with names that are in order as text.
func takeTurns(t *testing.T, clients []*client.Client, enter func(c *client.Client) (*client.Right, error)) {
	t.Helper()
	rights := make(chan *client.Right, len(clients))
	for i, c := range clients {
		go func() {
			right, err := enter(c)
			if err != nil {
				t.Errorf("client %d: %v", i, err)
			}
			rights <- right
		}()
		time.Sleep(time.Second) // its node is there
	}
	var numbers []string
	for i := range clients {
		right := <-rights
		if right == nil {
			t.FailNow()
		}
		synctest.Wait()
		if len(rights) > 0 {
			t.Fatal("two clients have the right")
		}
		if !right.Held() {
			t.Errorf("right %d is not held", i)
		}
		numbers = append(numbers, numberOf(right.Path()))
		if err := right.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	wantOrdered(t, numbers)
}

// numberOf returns the digits at the end of a path.
func numberOf(path string) string { return path[len(strings.TrimRight(path, "0123456789")):] }

func wantOrdered(t *testing.T, numbers []string) {
	t.Helper()
	if !slices.IsSorted(numbers) || len(slices.Compact(slices.Clone(numbers))) != len(numbers) {
		t.Errorf("the numbers are %q", numbers)
	}
	if first, last := numbers[0], numbers[len(numbers)-1]; first > "2147483647" && len(last) != 19 ||
		first <= "2147483647" && last <= "2147483647" {
		t.Errorf("the numbers %q have not passed the edge", numbers)
	}
}

// downgrade checks that a writer that becomes a reader keeps its place before a writer that waits.
func downgrade(t *testing.T, clients []*client.Client) {
	t.Helper()
	for range 3 { // the numbers pass the edge between the writers
		writes, err := lock.NewRWMutex(clients[0], "/rw", lock.Config{}).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		next := make(chan error, 1)
		go func() {
			writes, err := lock.NewRWMutex(clients[1], "/rw", lock.Config{}).Lock(t.Context())
			if err == nil {
				err = writes.Release(t.Context())
			}
			next <- err
		}()
		time.Sleep(time.Second)
		reads, err := writes.Downgrade(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if len(next) > 0 {
			t.Fatalf("a writer passes the reader %s: %v", reads.Path(), <-next)
		}
		if err := reads.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-next; err != nil {
			t.Fatal(err)
		}
	}
}

func putAndTake(t *testing.T, c *client.Client) {
	t.Helper()
	q := queue.New(c, "/queue", queue.Config{})
	var numbers []string
	for i := range 4 {
		path, err := q.Put(t.Context(), fmt.Append(nil, i))
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, numberOf(path))
	}
	wantOrdered(t, numbers)
	for i := range 4 {
		element, err := q.Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if string(element.Data) != fmt.Sprint(i) {
			t.Errorf("take %d: %q", i, element.Data)
		}
		if _, err := element.Done(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// announce checks that members of a group find their nodes, and make them again with the same ids.
func announce(t *testing.T, clients []*client.Client) {
	t.Helper()
	for i, c := range clients {
		p, err := group.Announce(t.Context(), c, "/group/member_", group.PresenceConfig{Sequential: true})
		if err != nil {
			t.Fatal(err)
		}
		before := p.Path()
		if err := clients[0].Delete(t.Context(), before, client.AnyVersion); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		const idEnd = len("/group/member_") + 20
		if after := p.Path(); after == before || !strings.HasPrefix(after, before[:idEnd]) || after <= before {
			t.Errorf("member %d has %s after %s", i, after, before)
		}
		if err := p.Leave(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
