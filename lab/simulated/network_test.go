package simulated

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// dialed returns both ends of a connection from host 1 to host 2.
func dialed(t *testing.T, n *Network) (ours, theirs net.Conn) {
	t.Helper()
	l, err := n.Listen(2, "two")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn)
	go func() {
		c, _ := l.Accept()
		accepted <- c
	}()
	if ours, err = n.Dial(context.Background(), 1, "two"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return ours, <-accepted
}

// readWithin reads within d of virtual time.
func readWithin(c net.Conn, d time.Duration) (string, error) {
	var b [64]byte
	_ = c.SetReadDeadline(time.Now().Add(d))
	n, err := c.Read(b[:])
	return string(b[:n]), err
}

// Sent bytes and the end of a connection arrive when the link flows again, even if the sender is
// gone by then.
func TestCloseWhileTheLinkHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		ours, theirs := dialed(t, n)
		n.Hang(1, 2)
		if _, err := ours.Write([]byte("last")); err != nil {
			t.Fatal(err)
		}
		_ = ours.Close()
		if got, err := readWithin(theirs, time.Minute); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read %q, %v while the link hangs, want nothing", got, err)
		}
		n.EndHang(1, 2)
		if got, err := readWithin(theirs, time.Minute); got != "last" || err != nil {
			t.Fatalf("read %q, %v once the link flows, want what was sent", got, err)
		}
		if got, err := readWithin(theirs, time.Minute); !errors.Is(err, io.EOF) {
			t.Fatalf("read %q, %v then, want the end", got, err)
		}
	})
}

// If the link hangs again after one end has closed, the other end sees the close only when it
// flows.
func TestHangAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		ours, theirs := dialed(t, n)
		n.DelayBy(1, 2, time.Second)
		_ = ours.Close()
		n.Hang(1, 2)
		if got, err := readWithin(theirs, time.Minute); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read %q, %v while the link hangs, want nothing", got, err)
		}
		n.EndHang(1, 2)
		if got, err := readWithin(theirs, time.Minute); !errors.Is(err, io.EOF) {
			t.Fatalf("read %q, %v once the link flows, want the end", got, err)
		}
	})
}

// A write to a closed end does not fail before a read would see the close.
func TestWriteToClosedBeforeTheEndHasCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		ours, theirs := dialed(t, n)
		n.DelayBy(1, 2, time.Second)
		n.DelayBy(2, 1, time.Second)
		if _, err := theirs.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		_ = theirs.Close()
		for _, after := range []time.Duration{0, time.Second - 1} {
			time.Sleep(after)
			if _, err := ours.Write([]byte("x")); err != nil {
				t.Fatalf("write: %v before the end has come, want success", err)
			}
		}
		time.Sleep(time.Nanosecond)
		if _, err := ours.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Fatalf("write: %v once the end has come, want %v", err, syscall.EPIPE)
		}
	})
}

// A writer does not learn that the other end has closed while the link to it hangs.
func TestWriteToClosedWhileTheWayHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		ours, theirs := dialed(t, n)
		n.Hang(1, 2)
		_ = theirs.Close()
		if _, err := ours.Write([]byte("x")); err != nil {
			t.Fatalf("write: %v while the link hangs, want success", err)
		}
		n.EndHang(1, 2)
		if _, err := ours.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Fatalf("write: %v once the link flows, want %v", err, syscall.EPIPE)
		}
	})
}

// A killed host rejects connections and resets the existing ones, as a kernel does for a process. A host that is cut off
// does not reply, and one that is back accepts connections.
func TestDeadHostRefusesAndOneCutOffDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		dial := func(addr string) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			c, err := n.Dial(ctx, 1, addr)
			if err == nil {
				_ = c.Close()
			}
			return err
		}
		if err := dial("nowhere"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("where nothing listens: %v", err)
		}
		ours, _ := dialed(t, n)
		n.Cut(1, 2)
		if _, err := readWithin(ours, time.Second); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a connection that is cut: %v", err)
		}
		for _, when := range []string{"alive", "dead"} {
			if err := dial("two"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s and cut off: %v", when, err)
			}
			n.Kill(2)
		}
		n.Heal(1, 2)
		if err := dial("two"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a host that was killed: %v", err)
		}
		n.Revive(2)
		ours, _ = dialed(t, n)
		n.Kill(2)
		if _, err := readWithin(ours, time.Second); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a connection to a host that was killed: %v", err)
		}
	})
}

// What is lost comes after retransmission timeouts, in order, and the same with the same seed. What is written meanwhile
// comes with it or later.
func TestLose(t *testing.T) {
	arrivals := func(seed uint64) (at [40]time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			n := NewNetwork()
			ours, theirs := dialed(t, n)
			n.Lose(1, 2, Loss{Share: 0.3, Seed: seed})
			began := time.Now()
			go func() {
				for i := range at {
					_, _ = ours.Write([]byte{byte(i)})
					time.Sleep(10 * time.Millisecond)
				}
			}()
			for i := range at {
				var b [1]byte
				if _, err := io.ReadFull(theirs, b[:]); err != nil || b[0] != byte(i) {
					t.Fatalf("byte %d: %v, %v", i, b, err)
				}
				at[i] = time.Since(began)
			}
		})
		return at
	}
	if first := arrivals(1); first != arrivals(1) || first == arrivals(2) || first[len(first)-1] < 39*10*time.Millisecond+1 {
		t.Errorf("bytes arrived after %v", first)
	}
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		ours, theirs := dialed(t, n)
		n.Lose(1, 2, Loss{Share: 1 - 1e-9, Seed: 1, Port: ":1"}) // another port
		_, _ = ours.Write([]byte("x"))
		if got, err := readWithin(theirs, time.Millisecond); got != "x" || err != nil {
			t.Errorf("read %q, %v on a connection that loses nothing", got, err)
		}
	})
}

// Each connection comes from a port of its own.
func TestPortsOfClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		_, first := dialed(t, n)
		n.Kill(2)
		n.Revive(2)
		_, second := dialed(t, n)
		if a, b := first.RemoteAddr().String(), second.RemoteAddr().String(); a == b || !strings.HasPrefix(a, "127.0.0.1:") {
			t.Errorf("the connections come from %s and %s", a, b)
		}
	})
}

// The chosen bit of the chosen byte is flipped, once, whichever write has it. The connection that carried it is counted
// as long as it is open, and as early until a record of TLS may have come.
func TestFlipBit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		ours, theirs := dialed(t, n)
		check := func(when string, bits, open, early int) {
			t.Helper()
			if b, o, e := n.FlippedBits(); b != bits || o != open || e != early {
				t.Errorf("%s: %d bits, %d open, %d early; want %d, %d, %d", when, b, o, e, bits, open, early)
			}
		}
		n.FlipBit(1, 2, 7)
		for _, tt := range []struct{ sent, want string }{{"abc", "abc"}, {"", ""}, {"defg", "defw"}, {"defg", "defg"}} {
			if _, err := ours.Write([]byte(tt.sent)); err != nil {
				t.Fatal(err)
			}
			if got, _ := readWithin(theirs, time.Second); got != tt.want {
				t.Errorf("%q arrives as %q, want %q", tt.sent, got, tt.want)
			}
		}
		check("after the last byte of a write", 1, 1, 1)
		_, _ = theirs.Write([]byte("abc"))
		if got, err := readWithin(ours, time.Second); got != "abc" || err != nil {
			t.Errorf("the other way: %q, %v", got, err)
		}
		n.FlipBit(1, 2, 0)
		_, _ = ours.Write([]byte("a"))
		if got, _ := readWithin(theirs, time.Second); got != "`" {
			t.Errorf("the first byte arrives as %q", got)
		}
		go func() { _, _ = ours.Write(make([]byte, longestRecord)) }()
		_, _ = io.ReadFull(theirs, make([]byte, longestRecord))
		check("after a record", 2, 2, 0)
		_ = theirs.Close()
		check("after the end", 2, 0, 0)
	})
}
