package clients

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/integration/wire"
	"rollcall/lab/process"
	"rollcall/zk/jute"
)

// The settings for nodes and snapshots take effect in a process that was started with them.
func TestSettingsOfNodes(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
	const snapCount = 16
	m := process.StartEnsemble(t, process.Config{Binary: rollcall, Size: 1, Tick: tick, Lines: fmt.Sprintf(`skipACL=yes
extendedTypesEnabled=true
snapCount=%d
handshakeTimeout=2000
znode.container.checkIntervalMs=100
znode.container.maxNeverUsedIntervalMs=200
znode.container.maxPerMinute=1
`, snapCount)}).Members[0]
	c, _ := openFrom(t, m, "", longTimeout)

	t.Run("skipACL", func(t *testing.T) {
		closed := create("/closed", nil, jute.Persistent)
		closed.ACL = []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("digest"), ID: []byte("owner:digest")}}}
		must(t, c, jute.OpCreate, closed)
		must(t, c, jute.OpGetData, jute.GetDataRequest{Path: closed.Path}) // by default NoAuth
	})
	t.Run("extendedTypesEnabled", func(t *testing.T) { // by default Unimplemented
		must(t, c, jute.OpCreateTTL, jute.CreateTTLRequest{CreateRequest: create("/ttl", nil, jute.PersistentWithTTL), TTL: jute.MaxTTL})
	})
	t.Run("znode.container.maxNeverUsedIntervalMs, znode.container.maxPerMinute", func(t *testing.T) {
		container := func(path string) jute.MultiOp {
			return jute.MultiOp{Op: jute.OpCreateContainer, Create: create(path, nil, jute.Container)}
		}
		must(t, c, jute.OpCreate, create("/containers", nil, jute.Persistent))
		must(t, c, jute.OpMulti, ops{container("/containers/a"), container("/containers/b")}) // both are due at once
		// By default a container that never had a child is not removed.
		if err := process.Until(t.Context(), "a container is removed", func() bool {
			return len(children(t, c, "/containers")) < 2
		}); err != nil {
			t.Fatal(err)
		}
		waitHandshakeTimeout(t, m) // by default the other one is removed 6 ms after the first
		if left := children(t, c, "/containers"); len(left) != 1 {
			t.Errorf("containers left: %q, want one", left)
		}
	})
	t.Run("snapCount", func(t *testing.T) {
		for range snapCount {
			must(t, c, jute.OpSetData, jute.SetDataRequest{Path: []byte("/"), Version: -1})
		}
		// A member checks every 10 to 20 s whether a snapshot is due. By default none is before 100,000 entries.
		if err := process.Until(t.Context(), "a snapshot is taken", func() bool { return figure(t, m, "cnt_snapshottime") > 0 }); err != nil {
			t.Fatal(err)
		}
		if names, err := filepath.Glob(filepath.Join(m.Data, "rollcall", "snapshots", "*", "meta.json")); err != nil || len(names) == 0 {
			t.Errorf("snapshots: %q, %v; want one", names, err)
		}
	})
}

// waitHandshakeTimeout waits until the member closes a connection that sends nothing.
func waitHandshakeTimeout(t *testing.T, m *process.Member) {
	t.Helper()
	if err := dialFrom(t, m, "").Closed(process.Patience); err != nil {
		t.Fatal(err)
	}
}

// children returns the names of a node's children.
func children(t *testing.T, c *wire.Conn, path string) [][]byte {
	t.Helper()
	var resp jute.GetChildrenResponse
	r := call(t, c, jute.OpGetChildren, jute.GetChildrenRequest{Path: []byte(path)})
	if err := r.Into(&resp); r.Err != jute.OK || err != nil {
		t.Fatalf("children of %s: %v, %v", path, r.Err, err)
	}
	return resp.Children
}

// A member that cannot reach the leader's port for writes, while it still gets the log, closes its clients' connections
// after syncLimit. Until then it replies to no read if reads are linearizable, once its lease for reads has ended.
func TestSettingsOfLinks(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
	// A client's connection is closed after 3 s. With the default syncLimit of 5 ticks it would be
	// closed after 13 s at the earliest. In between, handshakeTimeout closes a connection that
	// sends nothing.
	e := process.StartEnsemble(t, process.Config{Binary: rollcall, Size: 3, Tick: 3 * tick, Lines: `syncLimit=1
readConsistency=linearizable
readLease=10
handshakeTimeout=12000
reconfigEnabled=true
DigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4=
`})
	m := e.Members[2]
	links := linkThroughProxies(t, e, m)
	idle, _ := openFrom(t, m, "", longTimeout)
	reader, _ := openFrom(t, m, "", longTimeout)
	exists := jute.ExistsRequest{Path: []byte("/")}
	must(t, reader, jute.OpExists, exists)
	silent := dialFrom(t, m, "")
	for _, l := range links {
		l.block()
	}
	lastRead := make(chan time.Time, 1) // the last one that was answered
	go func() {
		var answered time.Time
		for xid := int32(2); ; xid++ {
			if _, _, err := reader.Call(xid, jute.OpExists, exists); err != nil {
				lastRead <- answered
				return
			}
			answered = time.Now()
		}
	}()

	t.Run("syncLimit", func(t *testing.T) {
		if err := idle.Closed(process.Patience); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(silent, "ruok"); err != nil {
			t.Fatal(err)
		}
		if answer, err := io.ReadAll(silent); err != nil || string(answer) != "imok" {
			t.Errorf("the client is closed after a connection that says nothing: ruok on that is answered with %q, %v", answer, err)
		}
	})
	t.Run("readConsistency", func(t *testing.T) { // by default reads are answered until the connection closes, which takes 3 s
		select {
		case last := <-lastRead:
			if d := time.Since(last); d < tick {
				t.Errorf("a read was answered %v before the connection was closed, long after the member's lease had ended", d)
			}
		case <-time.After(process.Patience):
			t.Error("the connection is open, and reads are answered")
		}
	})
}

// linkThroughProxies changes the list of servers so that it has proxies in place of the ports for pings and writes
// of all members but one, and restarts that one. It returns the proxies. Another member leads.
func linkThroughProxies(t *testing.T, e *process.Ensemble, m *process.Member) (links []*proxy) {
	t.Helper()
	var lines []string
	for _, other := range e.Members {
		key, addrs, _ := strings.Cut(other.Line, "=")
		fields := strings.Split(addrs, ":") // host, port for pings and writes, port of the log
		if other == m {
			continue
		}
		link := startProxy(t, fields[0]+":"+fields[1], 0)
		links = append(links, link)
		_, port, _ := strings.Cut(link.addr, ":")
		lines = append(lines, fmt.Sprintf("%s=%s:%s:%s;%s", key, fields[0], port, fields[2], other.Clients))
		if host, _, _ := strings.Cut(link.addr, ":"); host != fields[0] {
			t.Fatalf("the proxy listens at %s, and the member at %s", link.addr, fields[0])
		}
	}
	c, _ := openFrom(t, m, "", longTimeout)
	auth := &jute.AuthPacket{Scheme: []byte("digest"), Auth: []byte("super:secret")}
	if r, _, err := c.Call(jute.XidAuth, jute.OpAuth, auth); err != nil || r.Err != jute.OK {
		t.Fatal(r.Err, err)
	}
	must(t, c, jute.OpReconfig, jute.ReconfigRequest{JoiningServers: []byte(strings.Join(lines, ",")), CurConfigID: -1})
	if err := m.Process.SendSignal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status, err := m.Process.ExitStatus(t.Context()); err != nil || status != 0 {
		t.Fatalf("exit status %d, %v; want 0", status, err)
	}
	e.Start(m)
	if e.Settle() == m {
		t.Fatal("the member that has just started leads")
	}
	return links
}

// A member whose disk hangs closes its clients' connections after storeStallLimit, here longer than by default, and
// serves again when the disk continues.
func TestStoreStallLimit(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
	const byDefault, limit = 3 * time.Second, 7 * time.Second
	disk := process.NewDisk(t, rollcall)
	m := process.StartEnsemble(t, process.Config{Binary: disk.Binary, Env: disk.Env, Size: 1, Tick: tick, Lines: fmt.Sprintf("storeStallLimit=%d\n", limit.Milliseconds())}).Members[0]
	c, session := openFrom(t, m, "", longTimeout)
	disk.HangCalls()
	begun := time.Now()
	if err := c.Send(1, jute.OpCreate, create("/late", nil, jute.Persistent)); err != nil {
		t.Fatal(err)
	}
	if err := c.Closed(process.Patience); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took <= byDefault { // a busy machine makes it only longer
		t.Errorf("the connection is closed %v after the disk began to hang, want %v", took, limit)
	}
	disk.ReleaseCalls()
	var again *wire.Conn
	if err := process.Until(t.Context(), "the session goes on", func() bool {
		again = dialFrom(t, m, "")
		got, err := again.Resume(session, 0)
		return err == nil && got.SessionID == session.SessionID
	}); err != nil {
		t.Fatal(err)
	}
	must(t, again, jute.OpExists, jute.ExistsRequest{Path: []byte("/late")}) // the disk has taken the write
}
