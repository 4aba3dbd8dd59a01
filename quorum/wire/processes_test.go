package wire

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/quorum/disk"
)

// met is processes with the connections that a test has made.
type met struct {
	*processTable
	t *testing.T
}

// isKnown is the check of a process table to which all members are known.
func isKnown(uint32) bool { return true }

// hello says hello as a process of the disk d3 of member 3, and returns its connection.
func (p met) hello(start uint64) (*Conn, error) {
	ours, theirs := net.Pipe()
	p.t.Cleanup(func() { theirs.Close() })
	of := Process{ID: 3, DiskID: 0xd3, RunID: start, Addr: "m3:1"}
	conn := &Conn{Conn: ours, PeerID: of.ID, PeerDisk: of.DiskID, knownProcesses: p.processTable, process: of}
	return conn, p.processTable.recordClosingTwins(of, conn)
}

// takes says hello as a process, whose connection must be taken.
func (p met) takes(start uint64) *Conn {
	p.t.Helper()
	conn, err := p.hello(start)
	if err != nil || isClosed(conn) {
		p.t.Fatalf("start %d gets no connection: %v", start, err)
	}
	return conn
}

// refuses says hello as a process, which must be rejected.
func (p met) refuses(start uint64, want error) {
	p.t.Helper()
	if _, err := p.hello(start); !errors.Is(err, want) {
		p.t.Fatalf("start %d: %v, want %v", start, err, want)
	}
}

// isClosed reports whether this end of a connection in memory is closed.
func isClosed(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Unix(1, 0))
	_, err := c.Read(make([]byte, 1))
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// A process that starts again takes the place of the one before, whose connections end. A hello of the one before that is
// read late changes nothing.
func TestRestartIsNoTwin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := met{newProcessTable(isKnown), t}
		first, again := p.takes(1), p.takes(1)
		for start := range uint64(20) {
			time.Sleep(time.Millisecond)
			second := p.takes(start + 2)
			if !isClosed(first) || !isClosed(again) {
				t.Errorf("start %d: the connections of the process before are open", start+2)
			}
			time.Sleep(twinGrace)
			p.refuses(start+1, errSuperseded)
			time.Sleep(time.Hour)
			if isClosed(second) {
				t.Errorf("start %d: its connection has ended because of the process before", start+2)
			}
			first, again = second, p.takes(start+2)
		}
	})
}

// If the process before says hello again later, both run: neither gets or keeps a connection, until one of them has been
// silent for twinTimeout. It does not matter which of them stays, nor whether the second one says hello again.
func TestTwins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := met{newProcessTable(isKnown), t}
		p.takes(1)
		time.Sleep(time.Hour)
		second := p.takes(2)
		time.Sleep(twinGrace + 1)
		p.refuses(1, ErrTwins) // the second one has said nothing since, and is connected
		if !isClosed(second) {
			t.Error("the connection of the second process is open")
		}
		for range 100 {
			p.refuses(2, ErrTwins)
			p.refuses(1, ErrTwins)
			time.Sleep(time.Second)
		}
		time.Sleep(twinTimeout - time.Second)
		p.refuses(1, ErrTwins) // the second one has been silent for twinTimeout, and not longer
		time.Sleep(time.Nanosecond)
		first := p.takes(1)
		time.Sleep(time.Hour)
		p.refuses(2, ErrTwins) // it was paused
		if !isClosed(first) {
			t.Error("the connection of the first process is open after the second one is back")
		}
		time.Sleep(twinTimeout + 1)
		p.takes(2)
		p.takes(3) // both have been stopped
	})
}

// A process that has a connection runs, however long ago its hello was. When the connection ends, it counts as running for
// twinTimeout.
func TestTwinIsHeardWhileConnected(t *testing.T) {
	for _, connected := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p := met{newProcessTable(isKnown), t}
			p.takes(1)
			time.Sleep(time.Minute)
			second := p.takes(2)
			time.Sleep(time.Hour)
			if !connected {
				second.Close()
				time.Sleep(twinTimeout)
			}
			p.refuses(1, ErrTwins)
			if !isClosed(second) {
				t.Error("the connection of the second process is open")
			}
			if connected { // until now
				time.Sleep(twinTimeout)
				p.refuses(1, ErrTwins)
			}
			time.Sleep(twinTimeout + 1)
			p.takes(1)
		})
	}
}

// What a process says on a connection that it has opened before counts as a hello.
func TestHeardOnOpenConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hello := testHello(1)
		p := met{hello.knownProcesses, t}
		say := func(start uint64) error { return hello.RecordClosingTwins(Process{ID: 3, DiskID: 0xd3, RunID: start}) }
		first := p.takes(1)
		if err := say(1); err != nil || isClosed(first) {
			t.Errorf("a process that runs alone: %v", err)
		}
		if err := say(2); err != nil || !isClosed(first) {
			t.Errorf("a second process: %v", err)
		}
		time.Sleep(twinGrace + 1)
		if err := say(1); !errors.Is(err, ErrTwins) {
			t.Errorf("both run: %v", err)
		}
	})
}

// Other disks, and other members that say the same disk, are not twins: a member speaks for itself only.
func TestOthersAreNoTwins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := met{newProcessTable(isKnown), t}
		mine := p.takes(1)
		for _, of := range []Process{{ID: 3, DiskID: 0xe3, RunID: 2}, {ID: 4, DiskID: 0xd3, RunID: 2}} {
			for range 3 {
				if err := p.recordClosingTwins(of, mine); err != nil {
					t.Errorf("%+v: %v", of, err)
				}
				time.Sleep(time.Minute)
				p.takes(1)
			}
		}
		if isClosed(mine) {
			t.Error("a connection has ended because of another disk")
		}
	})
}

// What members say takes bounded memory. One that says many disks or starts pushes out nothing of another member, and no
// process of its own that is connected.
func TestProcessesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := met{newProcessTable(isKnown), t}
		p.takes(1)
		other := &Conn{Conn: &net.TCPConn{}, knownProcesses: p.processTable, process: Process{ID: 4, DiskID: 0xd4, RunID: 1}}
		if err := p.recordClosingTwins(other.process, other); err != nil {
			t.Fatal(err)
		}
		for i := range uint64(1000) {
			time.Sleep(time.Millisecond)
			ours, theirs := net.Pipe()
			theirs.Close()
			of := Process{ID: 3, DiskID: disk.ID(1000 + i/2), RunID: i}
			conn := &Conn{Conn: ours, knownProcesses: p.processTable, process: of}
			_ = p.recordClosingTwins(of, conn)
			conn.Close()
		}
		if n := len(p.byMember[3]); n != maxProcessesPerMember {
			t.Errorf("%d processes of a member are remembered, want %d", n, maxProcessesPerMember)
		}
		if p.byMember[3][0].DiskID != 0xd3 || len(p.byMember[3][0].openConns) != 1 {
			t.Errorf("a connected process was forgotten: %+v", p.byMember[3][0])
		}
		if n := len(p.byMember[4]); n != 1 {
			t.Errorf("%d processes of another member, want 1", n)
		}
		for _, s := range p.byMember[3][1:] {
			if len(s.openConns) > 0 {
				t.Errorf("a closed connection is remembered: %+v", s)
			}
		}
	})
}

// The two processes of a copied directory hear of each other by hellos: the member that they dial closes the connections
// of both, sends them the addresses and starts of both, and logs that. A member that dials one of them rejects it, too.
func TestCopiedDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs bytes.Buffer
		come := make(arrivals)
		here := testHello(1)
		l := NewListener(come, here, slog.New(slog.NewTextHandler(&logs, nil)))
		defer l.Close()
		go func() {
			for {
				if _, err := l.Accept(); err != nil {
					return
				}
			}
		}()
		first, second := testHello(3), testHello(3)
		first.addressBook.runID, second.addressBook.runID = 0xf1, 0xf2
		before, err := first.HandshakeDialed(come.from("10.0.0.3:1"), 1)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // its answer has been sent
		after, err := second.HandshakeDialed(come.from("10.0.0.4:1"), 1)
		synctest.Wait()
		if err != nil || !ended(before) || ended(after) {
			t.Fatalf("the second process: %v", err)
		}
		if _, err := first.HandshakeDialed(come.from("10.0.0.3:2"), 1); !errors.Is(err, errHelloRejected) || errors.Is(err, ErrTwins) {
			t.Errorf("the first process, at once: %v", err)
		}
		synctest.Wait()
		if logs.Len() > 0 {
			t.Errorf("logged for a restart: %s", logs.String())
		}
		time.Sleep(twinGrace + 1)
		if _, err = first.HandshakeDialed(come.from("10.0.0.3:3"), 1); !errors.Is(err, errHelloRejected) {
			t.Errorf("the first process, later: %v", err)
		}
		synctest.Wait() // its confirmation has been read
		if !ended(after) {
			t.Error("the connection of the second process is open, and both run")
		}
		if _, err = first.HandshakeDialed(come.from("10.0.0.3:3"), 1); !errors.Is(err, ErrTwins) {
			t.Errorf("the first process, again: %v", err)
		}
		_, again := second.HandshakeDialed(come.from("10.0.0.4:2"), 1)
		synctest.Wait()
		for _, said := range []string{err.Error(), again.Error(), logs.String()} {
			if !strings.Contains(said, "start 00000000000000f1 at 10.0.0.3:3") || !strings.Contains(said, "start 00000000000000f2 at 10.0.0.4:") ||
				!strings.Contains(said, "The way out: stop one of them") {
				t.Errorf("said %q", said)
			}
		}
		if n := strings.Count(logs.String(), "\n"); n != 1 {
			t.Errorf("logged: %s", logs.String())
		}

		theirs := make(arrivals)
		far := NewListener(theirs, first, nil)
		defer far.Close()
		if c, err := here.HandshakeDialed(theirs.from("10.0.0.3:3888"), 3); !errors.Is(err, ErrTwins) {
			t.Errorf("dialed: %v, %v", c, err)
		}
		time.Sleep(twinTimeout + 1)
		if _, err := here.HandshakeDialed(theirs.from("10.0.0.3:3888"), 3); err != nil {
			t.Errorf("dialed when the second one has been stopped: %v", err)
		}
	})
}

// ended reports whether the far end of a connection is closed.
func ended(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := c.Read(make([]byte, 1))
	return errors.Is(err, io.EOF)
}

// A connection whose hello is answered too late is closed, and its process does not count as connected.
func TestUnansweredHelloLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hello := testHello(1)
		come := make(arrivals)
		l := NewListener(come, hello, nil)
		defer l.Close()
		conn := come.from("10.0.0.3:1")
		dialer := NewHello(testBook(3, testPeers))
		if _, err := conn.Write(dialer.encodeHello(1)); err != nil { // and it does not read the answer
			t.Fatal(err)
		}
		time.Sleep(helloTimeout + 1)
		synctest.Wait()
		if all := hello.knownProcesses.byMember[3]; len(all) != 1 || len(all[0].openConns) > 0 {
			t.Errorf("left: %+v", all)
		}
	})
}

// A hello that an ended process has sent may be read minutes after the next process has come. It changes nothing: only a process
// that runs confirms the rejection.
func TestLateHelloIsNoTwin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		come := make(arrivals)
		hello := testHello(1)
		l := NewListener(come, hello, nil)
		defer l.Close()
		go func() {
			for {
				if _, err := l.Accept(); err != nil {
					return
				}
			}
		}()
		first, second := testHello(3), testHello(3)
		first.addressBook.runID, second.addressBook.runID = 0xf1, 0xf2
		if _, err := first.HandshakeDialed(come.from("10.0.0.3:1"), 1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // its reply has been sent
		running, err := second.HandshakeDialed(come.from("10.0.0.3:2"), 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, late := range []time.Duration{time.Millisecond, twinGrace + 1, time.Minute} {
			time.Sleep(late)
			conn := come.from("10.0.0.3:3")
			if _, err := conn.Write(first.encodeHello(1)); err != nil {
				t.Fatal(err)
			}
			if code, _, err := readHelloReply(conn); err != nil || code != helloSuperseded {
				t.Errorf("after %v: code %d, %v", late, code, err)
			}
			conn.Close()
			synctest.Wait()
			if ended(running) {
				t.Fatalf("after %v: the connection of the process that runs has ended", late)
			}
			if _, err := second.HandshakeDialed(come.from("10.0.0.3:4"), 1); err != nil {
				t.Errorf("after %v: the process that runs: %v", late, err)
			}
		}
	})
}

// Unknown members have one share of the records, and take none of a known one's. A member that becomes known takes its processes with it,
// so a twin of one is found, and the connections of both are closed.
func TestUnknownMembersShareTheRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := map[uint32]bool{3: true}
		p := met{newProcessTable(func(member uint32) bool { return known[member] }), t}
		listed := p.takes(1)
		for id := uint32(100); id < 200; id++ {
			if err := p.recordClosingTwins(Process{ID: id, DiskID: 0xd3, RunID: 1}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(p.byMember[unknownMembers]); n != maxProcessesPerMember || len(p.byMember) != 2 || isClosed(listed) {
			t.Errorf("%d processes of unknown members, want %d; shares: %d; the known one's connection is closed: %t", n,
				maxProcessesPerMember, len(p.byMember), isClosed(listed))
		}
		known[3] = false
		first := p.takes(5)
		known[3] = true
		time.Sleep(2 * twinGrace)
		p.takes(6)
		if !isClosed(first) || len(p.byMember[unknownMembers]) != maxProcessesPerMember-1 {
			t.Errorf("the connection of the earlier process is closed: %t; %d processes are left", isClosed(first), len(p.byMember[unknownMembers]))
		}
		time.Sleep(2 * twinGrace)
		p.refuses(5, ErrTwins)
	})
}
