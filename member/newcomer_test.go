package member_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/internal/serverlist"
	"rollcall/member"
)

// dialed counts the connections that a member has opened, by address. It is safe for concurrent use.
type dialed struct {
	mu           sync.Mutex
	opened, open map[string]int
}

// dialedConn is an open connection.
type dialedConn struct {
	net.Conn
	close func()
}

func (c dialedConn) Close() error {
	c.close()
	return c.Conn.Close()
}

// count counts the connections that dial opens.
func (d *dialed) count(dial func(context.Context, string) (net.Conn, error)) func(context.Context, string) (net.Conn, error) {
	d.opened, d.open = map[string]int{}, map[string]int{}
	add := func(to string, opened, open int) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.opened[to] += opened
		d.open[to] += open
	}
	return func(ctx context.Context, to string) (net.Conn, error) {
		conn, err := dial(ctx, to)
		if err != nil {
			return nil, err
		}
		add(to, 1, 1)
		return dialedConn{conn, sync.OnceFunc(func() { add(to, 0, -1) })}, nil
	}
}

func (d *dialed) to(address string) (opened, open int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.opened[address], d.open[address]
}

// A server that a change names is asked at the address of its line, on a connection of its own, which ends with the reply. The two
// on which the leader then sends its pings are others.
func TestNewcomerIsAskedOnAConnectionOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d dialed
		e := one(t, cluster.Options{Adjust: func(cfg *member.Config) {
			if cfg.ID == 1 {
				cfg.Network.Dial = d.count(cfg.Network.Dial)
			}
		}})
		e.Add(2)
		e.Boot(2)
		time.Sleep(5 * time.Second)
		if opened, _ := d.to("m2:2888"); opened > 0 {
			t.Errorf("member 1 has opened %d connections to a server that nobody has named", opened)
		}
		if err := changeList(t, e, 1, serverlist.Change{Joining: e.ServerLine(2, false)}); err != nil {
			t.Fatal(err)
		}
		settled(t, e)
		e.Ready()
		time.Sleep(5 * time.Second)
		if opened, open := d.to("m2:2888"); opened < 3 || open != 2 {
			t.Errorf("member 1 has opened %d connections to member 2, of which %d are open, want 3 or more, and 2", opened, open)
		}
	})
}
