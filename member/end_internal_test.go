package member

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/sync/errgroup"

	"rollcall/config"
	"rollcall/follower"
	"rollcall/operator/audit"
	"rollcall/quorum"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// A member ends although one of its goroutines hangs in a disk, and says why it ended.
func TestEndDoesNotWaitForADisk(t *testing.T) {
	broken := errors.New("input/output error")
	for _, tt := range []struct {
		name   string
		hangs  time.Duration // how long one goroutine goes on after the end
		failed error         // why another one ended; nil: the member is told to end
		want   error
	}{
		{"told to end", time.Hour, nil, errNotStopped},
		{"something failed", time.Hour, broken, broken},
		{"the disk responds again", stopTimeout - time.Second, broken, broken},
		{"it has to start again", time.Hour, follower.ErrAddedAgain, errNotStopped},
		{"it has to start again, and the disk responds", stopTimeout - time.Second, follower.ErrAddedAgain, follower.ErrAddedAgain},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				g, inner := errgroup.WithContext(ctx)
				g.Go(func() error {
					<-inner.Done()
					time.Sleep(tt.hangs)
					return nil
				})
				g.Go(func() error {
					if tt.failed == nil {
						stop()
					}
					return tt.failed
				})
				begun := time.Now()
				err := awaitStop(inner, g)
				if took := time.Since(begun); !errors.Is(err, tt.want) || took != min(tt.hangs, stopTimeout) {
					t.Errorf("%v after %v, want %v after %v", err, took, tt.want, min(tt.hangs, stopTimeout))
				}
				if again := CanRestart(err); again != errors.Is(tt.want, follower.ErrAddedAgain) {
					t.Errorf("after %v this process may start another one: %t", err, again)
				}
				time.Sleep(tt.hangs) // the bubble waits for it
			})
		})
	}
}

// A node that fails closes the stores. What fails then in other goroutines is not why the member ended.
func TestEndReason(t *testing.T) {
	closed := fmt.Errorf("write state: %w", &fs.PathError{Op: "read", Path: "raft.db", Err: os.ErrClosed})
	damaged, taken := errors.New("data is damaged"), errors.New("address already in use")
	for _, tt := range []struct {
		name          string
		first, ofNode error
		want          []error
	}{
		{"the node failed, and another goroutine returned before it", closed, damaged, []error{damaged}},
		{"the node failed first", damaged, damaged, []error{damaged}},
		{"another goroutine failed", taken, nil, []error{taken}},
		{"another goroutine failed, and raft did not end", taken, quorum.ErrNotEnded, []error{taken, quorum.ErrNotEnded}},
		{"the node must start again", closed, wire.ErrRestart, []error{wire.ErrRestart}},
		{"the follower must start again, and the node could not close", follower.ErrAddedAgain, damaged, []error{follower.ErrAddedAgain, damaged}},
		{"a goroutine hangs", errors.Join(closed, errNotStopped), damaged, []error{damaged, errNotStopped}},
		{"told to end", nil, nil, nil},
	} {
		got := endReason(tt.first, tt.ofNode)
		for _, err := range []error{closed, damaged, taken, quorum.ErrNotEnded, wire.ErrRestart, follower.ErrAddedAgain, errNotStopped} {
			if errors.Is(got, err) != slices.Contains(tt.want, err) {
				t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
				break
			}
		}
	}
}

// The audit log of a member that ends may still be written by a goroutine that hangs in its disk. Then this process does not start
// another member, which would write to the same file.
func TestEndWithAnAuditLogThatHangs(t *testing.T) {
	for _, hangs := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			lines := &heldLines{hold: make(chan struct{})}
			if !hangs {
				close(lines.hold)
			}
			store := raft.NewInmemStore()
			m, err := New(Config{
				ID: 1, Servers: []Server{{ID: 1, GrpcAddr: "a:1", RaftAddr: "a:2"}}, ClientListener: failingListener{}, AuditOutput: lines,
				Stores:   &disk.Stores{Log: store, Stable: store, Snapshots: raft.NewInmemSnapshotStore()},
				Settings: config.Settings{Tick: time.Second, MinTimeout: 2 * time.Second, MaxTimeout: time.Minute, Audit: audit.Settings{Enable: true}}.WithDefaults(),
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Run(t.Context()); !errors.Is(err, net.ErrClosed) || errors.Is(err, errNotStopped) != hangs {
				t.Errorf("the audit log hangs: %t; %v", hangs, err)
			}
			if hangs {
				close(lines.hold)
			}
		})
	}
}

// heldLines takes no line before hold is closed.
type heldLines struct{ hold chan struct{} }

func (l *heldLines) Write(b []byte) (int, error) {
	<-l.hold
	return len(b), nil
}

// failingListener fails after a minute.
type failingListener struct{}

func (failingListener) Accept() (net.Conn, error) {
	time.Sleep(time.Minute)
	return nil, net.ErrClosed
}
func (failingListener) Close() error   { return nil }
func (failingListener) Addr() net.Addr { return &net.TCPAddr{} }
