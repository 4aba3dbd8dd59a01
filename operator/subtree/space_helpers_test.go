package subtree_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/cli/nodes"
	"rollcall/client"
	"rollcall/integration/alone"
	"rollcall/member"
	"rollcall/operator/subtree"
	"rollcall/zk/jute"
)

// addr is the address for clients of the member that all tests share. Each test works below a node of its own.
var addr string

func TestMain(m *testing.M) {
	alone.Run(m, func(_ *member.Member, at string) { addr = at })
}

// openClient opens a session, which the end of the test closes.
func openClient(t *testing.T, cfg client.Config) *client.Client {
	t.Helper()
	cfg.InOrder, cfg.WhileSuspended = true, client.Fail // as the commands do
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	c, err := client.Dial(ctx, addr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

var spaceCount atomic.Int64

// openACL is the list of a node that everyone may do everything with.
var openACL = jute.OpenACL

// testSpace is a space, with what tests do in it.
type testSpace struct{ nodes.Space }

// newSpace returns a space below a node of the test's own, which exists.
func newSpace(t *testing.T) testSpace {
	t.Helper()
	s := testSpace{nodes.New(openClient(t, client.Config{}), fmt.Sprintf("/%s-%d", t.Name(), spaceCount.Add(1)))}
	if _, _, err := s.Client.Create(t.Context(), s.Root, nil, client.Persistent); err != nil {
		t.Fatal(err)
	}
	return s
}

// create creates nodes. A text is a path, and after a blank the data.
func (s testSpace) create(t *testing.T, nodes ...string) {
	t.Helper()
	for _, text := range nodes {
		path, data, hasData := strings.Cut(text, " ")
		var content []byte
		if hasData {
			content = []byte(data)
		}
		if _, _, err := s.Client.Create(t.Context(), s.FullPath(path), content, client.Persistent); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
}

// tree returns all nodes of a space below top: paths, data and lists, and * after ephemeral ones.
func (s testSpace) tree(t *testing.T, top string) (lines []string) {
	t.Helper()
	for n, err := range s.Walk(t.Context(), top, subtree.WalkOptions{ReadContent: true}) {
		if err != nil {
			t.Fatal(err)
		}
		line := n.Path
		if n.Data != nil {
			line += fmt.Sprintf(" %q", n.Data)
		}
		if !jute.EqualACLs(n.ACL, openACL) {
			line += " " + strings.Join(subtree.FormatACL(n.ACL), ",")
		}
		if n.Stat.EphemeralOwner != 0 {
			line += " *"
		}
		lines = append(lines, line)
	}
	return lines
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// cuttableDialer is a client's way to the member, which a test can cut.
type cuttableDialer struct {
	mu    sync.Mutex
	conns []*cuttable
	after int // cut each connection after so many writes; 0: never
	only  int // and at most so many connections; 0: all
	deaf  int // cut each of the first so many connections in place of what it would read next
}

type cuttable struct {
	net.Conn
	wire   *cuttableDialer
	number int
	writes int
}

// Write cuts the connection after it, so that the member may or may not see the request.
func (c *cuttable) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.wire.mu.Lock()
	defer c.wire.mu.Unlock()
	if c.writes++; c.wire.after > 0 && c.writes >= c.wire.after && (c.wire.only == 0 || len(c.wire.conns) <= c.wire.only) {
		c.Conn.Close()
	}
	return n, err
}

// Read cuts the connection when a reply has come, so that the request was carried out.
func (c *cuttable) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.wire.mu.Lock()
	defer c.wire.mu.Unlock()
	if c.number < c.wire.deaf {
		c.Conn.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

func (w *cuttableDialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &cuttable{Conn: conn, wire: w, number: len(w.conns)}
	w.conns = append(w.conns, c)
	return c, nil
}

func testFile(t *testing.T, text string) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dump.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}
