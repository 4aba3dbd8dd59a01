package subtree_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"rollcall/cli/nodes"
	"rollcall/client"
	"rollcall/operator/subtree"
	"rollcall/zk/jute"
)

// crossed is a client's way to the member on which cross is called before each multi.
type crossed struct {
	net.Conn
	cross func()
}

func (c crossed) Write(p []byte) (int, error) {
	if d := jute.NewDecoder(p); len(p) >= 12 {
		_, _, op := d.ReadInt32(), d.ReadInt32(), jute.Op(d.ReadInt32())
		if op == jute.OpMulti {
			c.cross()
		}
	}
	return c.Conn.Write(p)
}

// A load reads a node again if another client creates or deletes it between the load's read and its change. It gives up
// after some tries, and has then changed nothing.
func TestLoadBesideOthers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		others int // how often another client is faster
		want   error
		tries  int
	}{
		{"nobody", 0, nil, 1},
		{"once", 1, nil, 2},
		{"nearly each time", subtree.MaxTries - 1, nil, subtree.MaxTries},
		{"each time", subtree.MaxTries, jute.NodeExists, subtree.MaxTries},
	} {
		s := newSpace(t)
		s.create(t, "/app")
		tries, there := 0, false
		cross := func() {
			tries++
			switch {
			case tries > tt.others:
				return
			case there:
				if err := s.Client.Delete(context.Background(), s.FullPath("/app/a"), -1); err != nil {
					t.Error(err)
				}
			default:
				s.create(t, "/app/a other")
			}
			there = !there
		}
		dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return crossed{conn, cross}, err
		}
		loader := testSpace{nodes.New(openClient(t, client.Config{DialConn: dial}), s.Root)}
		_, _, err := loader.load(t, subtree.Document(subtree.PlainNode("/app"), `{"path":"/app/a","text":"mine","acl":["world:anyone:cdrwa"]}`), subtree.LoadOptions{Mode: subtree.Merge})
		if !errors.Is(err, tt.want) || tries != tt.tries {
			t.Errorf("%s: %d tries, %v; want %d, %v", tt.name, tries, err, tt.tries, tt.want)
		}
		want := `/app/a "mine"`
		if tt.want != nil {
			want = `/app/a "other"`
		}
		wantLines(t, s.tree(t, "/app"), "/app", want)
	}
}
