package rollcalltest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"rollcall/rollcalltest"
)

// BenchmarkStart measures the time until a server serves, and until three do.
func BenchmarkStart(b *testing.B) {
	for _, servers := range []int{1, 3} {
		b.Run(fmt.Sprintf("servers=%d", servers), func(b *testing.B) {
			for b.Loop() {
				e, err := rollcalltest.New(b.Context(), servers, rollcalltest.Config{})
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := e.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

// BenchmarkClose measures the end of servers.
func BenchmarkClose(b *testing.B) {
	for _, servers := range []int{1, 3} {
		b.Run(fmt.Sprintf("servers=%d", servers), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				e, err := rollcalltest.New(b.Context(), servers, rollcalltest.Config{})
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if err := e.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A start waits for next to nothing. Virtual time counts the waits and not the work, so a busy machine cannot fail
// this.
func TestStartDoesNotWait(t *testing.T) {
	for servers, most := range map[int]time.Duration{1: 10 * time.Millisecond, 3: 3 * time.Second} {
		inBubble(t, servers, rollcalltest.Config{}, func(t *testing.T, _ *rollcalltest.Ensemble) {
			began := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of every bubble
			if waited := time.Since(began); waited > most {
				t.Errorf("%d servers were ready after %v, want at most %v", servers, waited, most)
			}
		})
	}
}

// heap returns the bytes of live objects.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// A server with a session takes less than 20 MB, and leaves no goroutine.
func TestServerIsSmallAndLeavesNothing(t *testing.T) {
	const servers, most = 10, 20 << 20
	goroutines, before := runtime.NumGoroutine(), heap()
	t.Run("servers", func(t *testing.T) {
		for range servers {
			must(t, connect(t, rollcalltest.Start(t)).create("/a"))
		}
		if each := (heap() - before) / servers; each > most {
			t.Errorf("a server takes %d bytes, at most %d are allowed", each, most)
		} else {
			t.Logf("a server takes %d bytes", each)
		}
		must(t, connect(t, rollcalltest.StartEnsemble(t, 3)).create("/a"))
	})
	await(t, "the goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines })
}

// Twenty tests in parallel have a server each, and none sees another one's nodes.
func TestManyServersInParallel(t *testing.T) {
	for i := range 20 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			srv := rollcalltest.Start(t)
			conn := dialZK(t, srv.ConnectString(), nil)
			if _, err := conn.Create("/only", []byte(fmt.Sprint(i)), 0, zk.WorldACL(zk.PermAll)); err != nil {
				t.Fatal(err)
			}
			data, _, err := conn.Get("/only")
			if err != nil || string(data) != fmt.Sprint(i) {
				t.Errorf("the node of server %d has %q, %v", i, data, err)
			}
		})
	}
}

// quiet discards the log lines of go-zookeeper.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// dialZK connects with go-zookeeper, waits for a session, and closes the connection when the test ends. Without the wait a
// request fails if the server takes more than a second to accept the connection, which is the limit of go-zookeeper.
func dialZK(t *testing.T, servers string, observe func(zk.Event)) *zk.Conn {
	t.Helper()
	conn, _, err := zk.Connect(strings.Split(servers, ","), 10*time.Second, zk.WithLogger(quiet{}), zk.WithEventCallback(observe))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	await(t, "a session of go-zookeeper", func() bool { return conn.State() == zk.StateHasSession })
	return conn
}

// A client of others sees the faults over TCP: a lost reply, an expiry, and the death of a leader.
func TestFaultsOverTCP(t *testing.T) {
	t.Parallel()
	e := rollcalltest.StartEnsemble(t, 3)
	var expired atomic.Bool
	seen := func(e zk.Event) {
		if e.State == zk.StateExpired {
			expired.Store(true)
		}
	}
	conn := dialZK(t, e.ConnectString(), seen)
	create := func(path string) error {
		_, err := conn.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		return err
	}
	must(t, create("/a"))
	must(t, e.LoseReply(conn.SessionID(), 1))
	if err := create("/b"); !errors.Is(err, zk.ErrConnectionClosed) {
		t.Errorf("the reply was lost, and the create returned %v", err)
	}
	var there bool
	await(t, "a read", func() bool {
		var err error
		there, _, err = conn.Exists("/b")
		return err == nil
	})
	if !there {
		t.Error("the create was not carried out")
	}
	var killed *rollcalltest.Server
	await(t, "a leader", func() bool { // one that waits for a processor too long loses its office
		var err error
		killed, err = e.KillLeader()
		return err == nil
	})
	await(t, "a write without the leader", func() bool { return create("/c") == nil })
	must(t, killed.Restart())
	awaitReady(t, e)
	must(t, e.ExpireSession(conn.SessionID()))
	await(t, "the end of the session", expired.Load)
}

// Four-letter commands pass as they are. So does a client that sends nonsense, and the server ends its connection.
func TestFourLetterCommands(t *testing.T) {
	srv := rollcalltest.Start(t)
	for sent, want := range map[string]string{"ruok": "imok", "srvr": "Mode: standalone", "\x00\x00\x00\x04abcd": ""} {
		conn, err := srv.Dial(t.Context(), "tcp", srv.ConnectString())
		must(t, err)
		if _, err := io.WriteString(conn, sent); err != nil {
			t.Fatal(err)
		}
		must(t, conn.(*net.TCPConn).CloseWrite())
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		got, err := io.ReadAll(bufio.NewReader(conn))
		if errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(string(got), want) || want == "" && len(got) > 0 {
			t.Errorf("%q was answered with %q, %v", sent, got, err)
		}
		_ = conn.Close()
	}
}

// A port can be chosen. A port that is in use is an error, and nothing is left.
func TestPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	if e, err := rollcalltest.New(t.Context(), 1, rollcalltest.Config{Port: port}); err == nil {
		t.Errorf("a server has taken port %d, which is in use: %v", port, e.Close())
	}
	must(t, l.Close())
	srv := rollcalltest.StartWith(t, rollcalltest.Config{Port: port})
	if want := fmt.Sprintf("127.0.0.1:%d", port); srv.ConnectString() != want {
		t.Errorf("the server is at %s, want %s", srv.ConnectString(), want)
	}
	must(t, connect(t, srv).create("/a"))
}

// New returns when its context ends, and leaves no server.
func TestStartCanBeEnded(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := rollcalltest.New(ctx, 1, rollcalltest.Config{}); !errors.Is(err, context.Canceled) {
		t.Errorf("New returned %v, want the end of its context", err)
	}
	await(t, "the goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines })
}

// A server of a closed ensemble stays down.
func TestCloseIsFinal(t *testing.T) {
	e, err := rollcalltest.New(t.Context(), 1, rollcalltest.Config{})
	must(t, err)
	must(t, e.Close())
	must(t, e.Close()) // again
	if e.Servers[0].Restart() == nil {
		t.Error("a server of a closed ensemble was started")
	}
}

// The super user has the documented password.
func TestSuperUser(t *testing.T) {
	conn := dialZK(t, rollcalltest.Start(t).ConnectString(), nil)
	if _, err := conn.Create("/closed", nil, 0, zk.DigestACL(zk.PermAll, "other", "x")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := conn.Get("/closed"); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("without rights: %v", err)
	}
	must(t, conn.AddAuth("digest", []byte("super:secret")))
	if _, _, err := conn.Get("/closed"); err != nil {
		t.Errorf("as super: %v", err)
	}
}
