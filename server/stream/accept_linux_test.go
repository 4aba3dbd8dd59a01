package stream

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// acceptorOf returns an Acceptor of a port of addr, and a function that connects to it.
func acceptorOf(t *testing.T, addr string) (*Acceptor, func(host string) *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	a, err := NewAcceptor(l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); _ = l.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return a, func(host string) *net.TCPConn {
		c, err := net.Dial("tcp", net.JoinHostPort(host, port))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c.(*net.TCPConn)
	}
}

// accepted returns an owner of an accepted socket, and the other end. The stream is not served yet. Its first frame
// opens it.
func accepted(t *testing.T, change func(*Config)) (*owner, *client) {
	t.Helper()
	a, dial := acceptorOf(t, "127.0.0.1:0")
	theirs := dial("127.0.0.1")
	sock, err := a.Accept()
	if err != nil {
		t.Fatal(err)
	}
	o := &owner{ended: make(chan Reason, 1)}
	g := testGroup(t, func() []*Stream { return []*Stream{&o.Stream} })
	if change != nil {
		change(g.Config)
	}
	o.InitAccepted(sock, g, o)
	o.frame = func(frame []byte) bool {
		o.do(func() {
			o.Open(testTimeout)
			o.frame = o.echo
		})
		return o.echo(frame)
	}
	t.Cleanup(func() {
		o.HangUp(ByClient)
		o.whyEnded(t)
	})
	_ = theirs.SetDeadline(time.Now().Add(patience))
	return o, &client{theirs, t, bufio.NewReader(theirs)}
}

// A stream that begins in a loop stays there while its client sends frames.
func TestAccepted(t *testing.T) {
	o, c := accepted(t, nil)
	o.Start()
	_, _ = c.Write([]byte("\x00\x00"))
	waitFor(t, func() (kept bool) {
		o.do(func() { kept = o.State().PartialFrame })
		return kept
	})
	_, _ = c.Write([]byte("\x00\x05fi"))
	_, _ = c.Write([]byte("rst"))
	c.expect("first")
	c.send("second")
	c.expect("second")
	if !o.inLoop() {
		t.Error("the stream has left its loop")
	}
}

// A frame that comes before the stream is opened waits for that.
func TestAcceptedWaits(t *testing.T) {
	o, c := accepted(t, nil)
	o.frame = func([]byte) bool { return true }
	o.Start()
	_, _ = c.Write([]byte("\x00\x00\x00\x05first\x00\x00\x00\x06second"))
	waitFor(t, func() bool { return !o.inLoop() })
	o.do(func() {
		o.frame = o.echo
		o.queue([]byte("welcome"))
		o.Open(testTimeout)
		o.FlushLater()
	})
	c.expect("welcome")
	c.expect("second")
	o.sendUntilInLoop(c)
}

// The owner reads the first bytes itself if a loop cannot: they are no frame, or a long one.
func TestAcceptedByReader(t *testing.T) {
	long := strings.Repeat("x", 2*LoopBuffer)
	for _, tt := range []struct {
		name, bytes, want string
		ends              Reason
	}{
		{"a word", "word", "word", NumReasons},
		{"a long frame", string([]byte{0, 2, 0, 0}) + long, long, NumReasons},
		{"a length that is too long", "\x7f\x00\x00\x00", "", BadFrame},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, c := accepted(t, nil)
			got := make(chan string, 1)
			o.begin = func() bool {
				word, ok := o.PeekWord()
				if ok && string(word[:]) == "word" {
					got <- "word"
					o.Drop(NumReasons)
					return false
				}
				frame, ok := o.ReadFrame()
				got <- string(frame)
				if ok {
					o.Drop(NumReasons)
				}
				return false
			}
			o.Start()
			_, _ = c.Write([]byte(tt.bytes))
			if first := <-got; first != tt.want {
				t.Errorf("the owner got %d bytes, %.20q, want %.20q", len(first), first, tt.want)
			}
			if why := o.whyEnded(t); why != tt.ends {
				t.Errorf("ended for reason %d, want %d", why, tt.ends)
			}
		})
	}
}

// A client that goes away ends its stream, whether or not it has sent anything.
func TestAcceptedEnds(t *testing.T) {
	for _, first := range []string{"", "\x00\x00", "\x00\x00\x00\x05first"} {
		o, c := accepted(t, nil)
		o.frame = func([]byte) bool { return true }
		o.Start()
		_, _ = c.Write([]byte(first))
		_ = c.Close()
		if why := o.whyEnded(t); why != ByClient {
			t.Errorf("after %q it ended for reason %d, want %d", first, why, ByClient)
		}
	}
}

// Until a stream is opened, only its Limit ends it. The loops search for silent clients, and do not count it as one.
func TestAcceptedLimit(t *testing.T) {
	o, c := accepted(t, nil)
	o.DropAfter(time.Hour, NumReasons)
	o.Start()
	_, _ = c.Write([]byte("\x00\x00"))
	waitFor(t, func() (kept bool) {
		o.do(func() { kept = o.State().PartialFrame })
		return kept
	})
	loopVisit{&o.Stream}.dropIfSilent(o.group.loopOf(&o.Stream), time.Now().Add(2*time.Hour))
	o.do(func() {
		if o.HasEnded() {
			t.Error("a client that has not sent its first frame was dropped as a silent one")
		}
	})
	o.DropAfter(time.Millisecond, NumReasons)
	c.expectEnd()
	if why := o.whyEnded(t); why != NumReasons {
		t.Errorf("ended for reason %d, want %d", why, NumReasons)
	}
}

// A stream that ends before it begins closes its socket.
func TestAcceptedDropped(t *testing.T) {
	o, c := accepted(t, nil)
	o.Drop(NumReasons)
	o.Start()
	c.expectEnd()
	if why := o.whyEnded(t); why != NumReasons {
		t.Errorf("ended for reason %d, want %d", why, NumReasons)
	}
}

// While a loop is held up, new streams get readers.
func TestStuckLoop(t *testing.T) {
	held, _ := accepted(t, nil)
	l := held.group.loopOf(&held.Stream)
	now := time.Now()
	for _, tt := range []struct {
		begun int64
		stuck bool
	}{{0, false}, {now.Add(-stuckAfter / 2).UnixNano(), false}, {now.Add(-2 * stuckAfter).UnixNano(), true}} {
		if l.batchStartedAt.Store(tt.begun); l.isStuck(now) != tt.stuck {
			t.Errorf("serving since %d of %d: stuck is %v", tt.begun, now.UnixNano(), !tt.stuck)
		}
	}
	begun := make(chan bool, 1)
	held.begin = func() bool {
		begun <- held.InLoop()
		return false
	}
	held.Start()
	if in := <-begun; in || held.inLoop() {
		t.Error("a stream began in a loop that is held up")
	}
}

// While a loop serves events, it says since when.
func TestLoopTellsTime(t *testing.T) {
	o, c := accepted(t, nil)
	l := o.group.loopOf(&o.Stream)
	var during atomic.Int64
	o.frame = func(frame []byte) bool {
		during.Store(l.batchStartedAt.Load())
		o.do(func() { o.Open(testTimeout) })
		return o.echo(frame)
	}
	before := time.Now().UnixNano()
	o.Start()
	c.send("now")
	c.expect("now")
	if after := time.Now().UnixNano(); during.Load() < before || during.Load() > after {
		t.Errorf("the loop served since %d, want between %d and %d", during.Load(), before, after)
	}
	waitFor(t, func() bool { return l.batchStartedAt.Load() == 0 })
}

// An accepted socket has the options that Go sets, and its client's address.
func TestAcceptor(t *testing.T) {
	for _, tt := range []struct {
		listen, dial string
		six          bool
	}{
		{"127.0.0.1:0", "127.0.0.1", false}, {"[::1]:0", "::1", true}, {"[::]:0", "127.0.0.1", true},
	} {
		t.Run(tt.listen+" "+tt.dial, func(t *testing.T) {
			if _, err := os.Stat("/proc/net/if_inet6"); tt.six && err != nil {
				t.Skip("this kernel has no IPv6:", err)
			}
			a, dial := acceptorOf(t, tt.listen)
			c := dial(tt.dial)
			sock, err := a.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer sock.Close()
			if got, want := sock.Addr.String(), c.LocalAddr().String(); got != want {
				t.Errorf("the client is %s, want %s", got, want)
			}
			for _, o := range []struct {
				name                  string
				level, option, expect int
			}{
				{"TCP_NODELAY", syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1},
				{"SO_KEEPALIVE", syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1},
				{"TCP_KEEPIDLE", syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, keepAliveIdle},
				{"TCP_KEEPINTVL", syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, keepAliveInterval},
				{"TCP_KEEPCNT", syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, keepAliveCount},
			} {
				if got, err := syscall.GetsockoptInt(sock.fd, o.level, o.option); err != nil || got != o.expect {
					t.Errorf("%s is %d, %v, want %d", o.name, got, err, o.expect)
				}
			}
		})
	}
}

// The name of a client's interface is read once a minute. An interface without a name has its number.
func TestZones(t *testing.T) {
	z := newZones()
	asked, failed := 0, error(nil)
	z.interfaceByIndex = func(index int) (*net.Interface, error) {
		asked++
		return &net.Interface{Name: "eth" + strconv.Itoa(asked)}, failed
	}
	now := time.Now()
	for _, tt := range []struct {
		after time.Duration
		id    uint32
		want  string
		fails error
	}{
		{0, 3, "eth1", nil},
		{zoneCacheTime - 1, 3, "eth1", nil},
		{zoneCacheTime - 1, 4, "eth2", nil},
		{zoneCacheTime, 3, "eth3", nil},
		{2 * zoneCacheTime, 3, "3", errors.New("no such interface")},
	} {
		failed = tt.fails
		if got := z.nameOf(tt.id, now.Add(tt.after)); got != tt.want {
			t.Errorf("interface %d after %v: %q, want %q", tt.id, tt.after, got, tt.want)
		}
	}
	link := syscall.SockaddrInet6{Addr: [16]byte{0: 0xfe, 1: 0x80, 15: 1}, Port: 9, ZoneId: 7}
	z.cachedZones[7] = cachedZone{"wlan0", time.Now()}
	if got, want := (&Acceptor{zones: z}).addrPortOf(&link).String(), "[fe80::1%wlan0]:9"; got != want {
		t.Errorf("the client is %s, want %s", got, want)
	}
}

// Close ends an Accept that waits. Only TCP listeners have an Acceptor.
func TestAcceptorCloses(t *testing.T) {
	a, _ := acceptorOf(t, "127.0.0.1:0")
	failed := make(chan error)
	go func() {
		_, err := a.Accept()
		failed <- err
	}()
	a.Close()
	if err := <-failed; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept: %v, want %v", err, net.ErrClosed)
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", t.TempDir()+"/socket")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if a, err := NewAcceptor(l); a != nil || err != nil {
		t.Errorf("a port that is not TCP's: %v, %v", a, err)
	}
}
