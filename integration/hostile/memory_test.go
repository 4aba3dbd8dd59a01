package hostile

import (
	"context"
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/integration/wire"
	"rollcall/lab/process"
	"rollcall/zk/jute"
)

const (
	memoryLimit  = "250MiB" // the members' GOMEMLIMIT
	mostResident = 300 << 20

	silentConns   = 58              // attacking connections, from one address
	silentTimeout = 4 * time.Second // the timeout of their sessions
	silentFrom    = "127.66.66.66"
	silentReads   = 20 // after each write; several writes are in flight at a time
	silentBlocks  = 40 // how many writes, each with its reads, on one connection
	silentPause   = 200 * time.Millisecond
	// silentRounds is the least number of times that each of them must connect and send all of its blocks; with fewer
	// there was no attack. It is half of the 8.7 to 9.1 rounds (427,000 to 444,000 requests) of five runs on two cores
	// that two other programs kept busy.
	silentRounds = 4
	bigSize      = 1_000_000 // bytes of the nodes that they read
	listNames    = 5_000     // in the list that they read
	listName     = 190       // bytes of each name, besides six digits
)

// Fifty-eight connections from one address read the largest nodes and the longest lists, after writes of their own, and
// receive no replies. Each may leave 16 MiB unread.
func TestSilentReaders(t *testing.T) {
	needs.Check(t, needs.Nightly)
	e, o := startMembers(t, memoryLimit, "")
	victim := e.Members[0]
	prepare(t, victim)
	var sent atomic.Int64
	o.measureDuring(t, func(ctx context.Context) {
		var attackers sync.WaitGroup
		for i := range silentConns {
			block := silentBlock(i)
			attackers.Go(func() {
				for ctx.Err() == nil {
					sent.Add(int64(readInSilence(ctx, victim, block)))
					time.Sleep(silentPause)
				}
			})
		}
		attackers.Wait()
	})
	t.Logf("the attackers sent %d requests", sent.Load())
	t.Logf("member %d: %s", victim.ID, memoryLines.FindAllString(victim.FourLetterWord("mntr"), -1))
	if least := int64(silentRounds * silentConns * silentBlocks * (1 + silentReads)); sent.Load() < least {
		t.Errorf("the attackers sent %d requests, want at least %d", sent.Load(), least)
	}
	for _, m := range e.Members {
		if peak := peakMemory(t, m); peak > mostResident {
			t.Errorf("member %d had %d MiB in memory, want at most %d", m.ID, peak>>20, mostResident>>20)
		}
	}
}

// prepare creates what attackers read: a large node, a long list, and a large node of each one's
// own.
func prepare(t *testing.T, m *process.Member) {
	t.Helper()
	admin := &other{Conn: dial(t, m, ""), member: m, path: []byte("what attackers read")}
	if _, err := admin.Open(othersTimeout); err != nil {
		t.Fatal(err)
	}
	create := func(path string, data []byte) {
		admin.call(t, jute.OpCreate, jute.CreateRequest{Path: []byte(path), Data: data, ACL: jute.OpenACL})
	}
	create("/big", make([]byte, bigSize))
	create("/small", []byte{})
	create("/list", []byte{})
	for first := 0; first < listNames; first += listNames / 10 {
		var ops []jute.MultiOp
		for i := range listNames / 10 {
			name := fmt.Appendf(nil, "/list/%s%06d", strings.Repeat("x", listName), first+i)
			ops = append(ops, jute.MultiOp{Op: jute.OpCreate, Create: jute.CreateRequest{Path: name, Data: []byte{}, ACL: jute.OpenACL}})
		}
		admin.call(t, jute.OpMulti, raw(jute.AppendMulti(nil, ops)))
	}
	for i := range silentConns {
		create(fmt.Sprintf("/own%d", i), make([]byte, bigSize/2))
	}
}

// raw is a record that is encoded already.
type raw []byte

func (r raw) Append(b []byte) []byte { return append(b, r...) }

// silentBlock returns the bytes that the i-th attacker sends again and again: a write and reads after it. A third of the
// attackers read one large node, a third a list of many names, and a third a large node of their own.
func silentBlock(i int) []byte {
	write := jute.SetDataRequest{Path: []byte("/small"), Version: -1}
	read := wire.Frame(2, jute.OpGetData, jute.GetDataRequest{Path: []byte("/big")})
	switch i % 3 {
	case 1:
		read = wire.Frame(2, jute.OpGetChildren2, jute.GetChildrenRequest{Path: []byte("/list")})
	case 2:
		read = wire.Frame(2, jute.OpGetData, jute.GetDataRequest{Path: fmt.Appendf(nil, "/own%d", i)})
	}
	block := appendFrame(nil, wire.Frame(1, jute.OpSetData, write))
	for range silentReads {
		block = appendFrame(block, read)
	}
	return block
}

// readInSilence opens a session and sends the block silentBlocks times. Then it sends only a ping now and then until the
// member closes the connection. It returns the number of requests.
func readInSilence(ctx context.Context, m *process.Member, block []byte) (sent int) {
	sock, err := dialFrom(ctx, m, silentFrom)
	if err != nil {
		return 0
	}
	defer sock.Close()
	defer context.AfterFunc(ctx, func() { _ = sock.Close() })()
	_ = sock.(*net.TCPConn).SetReadBuffer(4096) // otherwise the kernel buffers megabytes
	c := wire.New(sock)
	if _, err := c.Open(silentTimeout); err != nil {
		return 0
	}
	for range silentBlocks {
		if _, err := c.Write(block); err != nil {
			return sent
		}
		sent += 1 + silentReads
	}
	for {
		time.Sleep(silentPause)
		if err := c.Send(jute.XidPing, jute.OpPing, nil); err != nil {
			return sent
		}
	}
}

func appendFrame(b, body []byte) []byte {
	b, mark := jute.BeginFrame(b)
	return jute.EndFrame(append(b, body...), mark)
}

var memoryLines = regexp.MustCompile(`(?m)^zk_client_memory.*$`)

var peakLine = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`)

// peakMemory returns the largest number of bytes of memory that the member's process has had.
func peakMemory(t *testing.T, m *process.Member) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.Process.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	match := peakLine.FindSubmatch(status)
	if match == nil {
		t.Fatalf("no peak of memory in %s", status)
	}
	kib, err := strconv.Atoi(string(match[1]))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("member %d: %d MiB at most", m.ID, kib>>10)
	return kib << 10
}
