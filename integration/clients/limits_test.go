package clients

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/integration/wire"
	"rollcall/lab/process"
	"rollcall/zk/jute"
)

// Each limit of zoo.cfg is enforced by a process that was started with it: a client runs into it on
// the wire. The exact bounds are tested in the packages that implement them.
func TestLimitsOfConnections(t *testing.T) {
	needs.Check(t, needs.Nightly)
	const maxBuffer = 4096
	m := process.StartEnsemble(t, process.Config{Binary: rollcall, Size: 1, Tick: tick, Lines: fmt.Sprintf(`maxClientCnxns=3
maxCnxns=5
jute.maxbuffer=%d
minSessionTimeout=4000
maxSessionTimeout=12000
connectionOutstandingLimit=1
connectionUnreadLimit=65536
handshakeTimeout=2000
enforceQuota=true
znode.container.checkIntervalMs=100
4lw.commands.whitelist=mntr
`, maxBuffer)}).Members[0]

	t.Run("4lw.commands.whitelist", func(t *testing.T) {
		wantWord(t, m, "srvr", "Mode: standalone") // always
		wantWord(t, m, "mntr", "zk_server_state\tstandalone")
		wantWord(t, m, "stat", "stat is not executed because it is not in the whitelist.\n")
	})
	t.Run("handshakeTimeout", func(t *testing.T) {
		began := time.Now()
		c := dialFrom(t, m, "")
		if err := c.Closed(process.Patience); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < time.Second || took > 8*time.Second { // by default 10 s
			t.Errorf("a connection that says nothing is closed after %v, want 2 s", took)
		}
	})
	t.Run("minSessionTimeout, maxSessionTimeout", func(t *testing.T) {
		for asked, want := range map[time.Duration]int32{time.Millisecond: 4000, 5 * time.Second: 5000, time.Hour: 12000} {
			c, granted := openFrom(t, m, "", asked)
			if granted.TimeOut != want {
				t.Errorf("asked for %v: %d ms granted, want %d", asked, granted.TimeOut, want)
			}
			_ = c.Close()
		}
	})
	t.Run("maxClientCnxns, maxCnxns", func(t *testing.T) {
		for _, step := range []struct {
			from  string
			taken int
		}{{"127.0.0.11", 3}, {"127.0.0.12", 2}, {"127.0.0.13", 0}} { // the last one is one too many in total
			for range step.taken {
				openFrom(t, m, step.from, longTimeout)
			}
			if granted, err := dialFrom(t, m, step.from).Open(longTimeout); err == nil || errors.Is(err, os.ErrDeadlineExceeded) { // one that is taken is answered
				t.Errorf("connection %d from %s: %+v, %v, want it closed", step.taken+1, step.from, granted, err)
			}
		}
	})
	t.Run("jute.maxbuffer", func(t *testing.T) {
		set := jute.SetDataRequest{Path: []byte("/"), Version: -1}
		set.Data = make([]byte, maxBuffer-len(wire.Frame(1, jute.OpSetData, set)))
		c, _ := openFrom(t, m, "", longTimeout)
		must(t, c, jute.OpSetData, set)
		set.Data = append(set.Data, 0)
		wantClosed(t, c, jute.OpSetData, set)
	})
	t.Run("connectionUnreadLimit", func(t *testing.T) {
		c, _ := openFrom(t, m, "", longTimeout)
		must(t, c, jute.OpCreate, create("/unread", make([]byte, 1024), jute.Persistent))
		get := jute.MultiOp{Op: jute.OpGetData, GetData: jute.GetDataRequest{Path: []byte("/unread")}}
		gets := ops(slices.Repeat([]jute.MultiOp{get}, 100)) // results of 110 KB
		must(t, c, jute.OpMultiRead, gets[:10])
		wantCode(t, c, jute.OpMultiRead, gets, jute.MarshallingError)
	})
	t.Run("connectionOutstandingLimit", func(t *testing.T) { wantOneByOne(t, m) })
	t.Run("enforceQuota", func(t *testing.T) {
		c, _ := openFrom(t, m, "", longTimeout)
		for _, path := range []string{"/quota", "/zookeeper/quota/quota"} {
			must(t, c, jute.OpCreate, create(path, nil, jute.Persistent))
		}
		limits := []byte("count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=2")
		must(t, c, jute.OpCreate, create("/zookeeper/quota/quota/zookeeper_limits", limits, jute.Persistent))
		must(t, c, jute.OpCreate, create("/zookeeper/quota/quota/zookeeper_stats", []byte("count=1,bytes=0"), jute.Persistent))
		must(t, c, jute.OpCreate, create("/quota/one", nil, jute.Persistent))
		wantCode(t, c, jute.OpCreate, create("/quota/two", nil, jute.Persistent), jute.QuotaExceeded)
	})
	t.Run("znode.container.checkIntervalMs", func(t *testing.T) {
		c, _ := openFrom(t, m, "", longTimeout)
		must(t, c, jute.OpCreateContainer, create("/container", nil, jute.Container))
		must(t, c, jute.OpCreate, create("/container/child", nil, jute.Persistent))
		must(t, c, jute.OpDelete, jute.DeleteRequest{Path: []byte("/container/child"), Version: -1})
		if err := process.Until(t.Context(), "the empty container is removed", func() bool { // by default after a minute
			return call(t, c, jute.OpExists, jute.ExistsRequest{Path: []byte("/container")}).Err == jute.NoNode
		}); err != nil {
			t.Error(err)
		}
	})
}

// The limits on all clients of a member together are enforced by a process.
func TestLimitsOfAllClients(t *testing.T) {
	needs.Check(t, needs.Usual)
	m := process.StartEnsemble(t, process.Config{Binary: rollcall, Size: 1, Tick: tick, Lines: `globalOutstandingLimit=1
clientMemoryLimit=4194304
`}).Members[0]
	t.Run("globalOutstandingLimit", func(t *testing.T) { wantOneByOne(t, m) })
	t.Run("clientMemoryLimit", func(t *testing.T) {
		c, _ := openFrom(t, m, "", longTimeout)
		must(t, c, jute.OpCreate, create("/large", make([]byte, 900<<10), jute.Persistent))
		for range 10 { // all of them together want 10 times 9 MB, and take what the kernel's buffers hold
			lazy, _ := openFrom(t, m, "", longTimeout)
			for xid := range int32(10) {
				if err := lazy.Send(xid+1, jute.OpGetData, jute.GetDataRequest{Path: []byte("/large")}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := process.Until(t.Context(), "a connection is closed for its share of the memory", func() bool {
			return figure(t, m, "client_memory_dropped") > 0
		}); err != nil {
			t.Error(err)
		}
	})
}

// wantOneByOne sends many writes at once on one connection. The member must take them one at a
// time; each is then written to the log alone.
func wantOneByOne(t *testing.T, m *process.Member) {
	t.Helper()
	const writes = 100
	c, _ := openFrom(t, m, "", longTimeout)
	before := figure(t, m, "cnt_fsynctime")
	for xid := range int32(writes) {
		if err := c.Send(xid+1, jute.OpSetData, jute.SetDataRequest{Path: []byte("/"), Version: -1}); err != nil {
			t.Fatal(err)
		}
	}
	for xid := range int32(writes) {
		if r, err := c.Recv(); err != nil || r.Xid != xid+1 || r.Err != jute.OK {
			t.Fatalf("%v, %v", r, err)
		}
	}
	if n := figure(t, m, "cnt_fsynctime") - before; n < writes {
		t.Errorf("%d writes, one at a time, are %d of the log", writes, n)
	}
}

// dialFrom opens a connection from an address of this machine; "" means any. It is closed with the
// test.
func dialFrom(t *testing.T, m *process.Member, from string) *wire.Conn {
	t.Helper()
	d := net.Dialer{Timeout: process.Patience}
	if from != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	conn, err := d.DialContext(t.Context(), "tcp", m.Clients)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(process.Patience)) // if it fails, so will what follows
	return wire.New(conn)
}

// openFrom opens a session. It tries again if the member still counts connections that earlier
// tests have closed.
func openFrom(t *testing.T, m *process.Member, from string, timeout time.Duration) (c *wire.Conn, granted jute.ConnectResponse) {
	t.Helper()
	if err := process.Until(t.Context(), "a session from "+from, func() bool {
		c = dialFrom(t, m, from)
		var err error
		granted, err = c.Open(timeout)
		return err == nil && granted.SessionID != 0
	}); err != nil {
		t.Fatal(err)
	}
	return c, granted
}

// ops is the record of a multi.
type ops []jute.MultiOp

func (o ops) Append(b []byte) []byte { return jute.AppendMulti(b, o) }

func create(path string, data []byte, mode jute.CreateMode) jute.CreateRequest {
	return jute.CreateRequest{Path: []byte(path), Data: data, ACL: jute.OpenACL, Flags: mode}
}

func call(t *testing.T, c *wire.Conn, op jute.Op, rec wire.Record) wire.Reply {
	t.Helper()
	r, _, err := c.Call(1, op, rec)
	if err != nil {
		t.Fatalf("%v: %v", op, err)
	}
	return r
}

func wantCode(t *testing.T, c *wire.Conn, op jute.Op, rec wire.Record, code jute.Code) {
	t.Helper()
	if r := call(t, c, op, rec); r.Err != code {
		t.Fatalf("%v: %v, want %v", op, r.Err, code)
	}
}

func must(t *testing.T, c *wire.Conn, op jute.Op, rec wire.Record) {
	t.Helper()
	wantCode(t, c, op, rec, jute.OK)
}

// wantClosed sends a request after which the member must close the connection without a reply. It would reply to the
// ping after it if the connection stayed open.
func wantClosed(t *testing.T, c *wire.Conn, op jute.Op, rec wire.Record) {
	t.Helper()
	if err := c.Send(2, op, rec); err != nil {
		t.Fatal(err)
	}
	_ = c.Send(jute.XidPing, jute.OpPing, nil) // the connection may be closed by now
	if err := c.Closed(process.Patience); err != nil {
		t.Errorf("%v: %v", op, err)
	}
}

// wantWord sends a four-letter command to a member until the reply contains some text: connections that earlier tests
// have closed may still count.
func wantWord(t *testing.T, m *process.Member, word, want string) {
	t.Helper()
	var got string
	if err := process.Until(t.Context(), word, func() bool {
		got = m.FourLetterWord(word)
		return strings.Contains(got, want)
	}); err != nil {
		t.Errorf("%v: the last answer is %q, want %q in it", err, got, want)
	}
}

// figure returns a metric from mntr.
func figure(t *testing.T, m *process.Member, name string) (n int) {
	t.Helper()
	if err := process.Until(t.Context(), name, func() bool {
		_, rest, named := strings.Cut(m.FourLetterWord("mntr"), "\nzk_"+name+"\t")
		value, _, whole := strings.Cut(rest, "\n")
		var err error
		n, err = strconv.Atoi(value)
		return named && whole && err == nil
	}); err != nil {
		t.Fatal(err)
	}
	return n
}
