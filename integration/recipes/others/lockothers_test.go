package others

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"rollcall/client"
	"rollcall/client/lock"
	"rollcall/integration/needs"
	"rollcall/rollcalltest"
)

// curatorJars is the class path of Curator, as Debian's packages install it.
const curatorJars = "/usr/share/java/curator-recipes.jar:/usr/share/java/slf4j-simple.jar"

// lockTry is the time for which the programs and this test try to get a lock that should be held, in seconds of real
// time. A try that ends too early reports no false fault.
const lockTry = 2

// foreignLock is a process of another library that contends for a lock. See testdata.
type foreignLock struct {
	stdin io.Closer
	lines *bufio.Reader
	wait  func() error
}

// outcome returns the next line that the process prints.
func (f *foreignLock) outcome(t *testing.T) string {
	t.Helper()
	line, err := f.lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	word, text, _ := strings.Cut(strings.TrimSpace(line), " ")
	if word == "error" {
		t.Log(text)
	}
	return word
}

// release makes the process release the lock, and waits for its end.
func (f *foreignLock) release(t *testing.T) {
	t.Helper()
	if err := errors.Join(f.stdin.Close(), f.wait()); err != nil {
		t.Error(err)
	}
}

// others starts processes of other libraries.
type others struct {
	*testing.T
	servers string
	classes string // the directory of the compiled Java program
}

func newOthers(t *testing.T, servers string) *others {
	t.Helper()
	o := &others{T: t, servers: servers, classes: t.TempDir()}
	javac := exec.Command("javac", "-nowarn", "-d", o.classes, "-cp", curatorJars, "../testdata/java/Locks.java")
	if out, err := javac.CombinedOutput(); err != nil {
		t.Fatalf("packages default-jdk-headless, libcurator-recipes-java and python3-kazoo: %v\n%s", err, out)
	}
	return o
}

// start starts a lock of a library. It tries to get it for some seconds.
func (o *others) start(library, kind, folder string, seconds int) *foreignLock {
	o.Helper()
	args := []string{o.servers, kind, folder, fmt.Sprint(seconds)}
	name := "/usr/bin/python3"
	if library == "curator" {
		name, args = "java", append([]string{"-cp", o.classes + ":" + curatorJars, "Locks"}, args...)
	} else {
		args = append([]string{filepath.Join("..", "testdata", "kazoo_lock.py")}, args...)
	}
	process := exec.Command(name, args...)
	process.Stderr = io.Discard
	stdin, err := process.StdinPipe()
	if err != nil {
		o.Fatal(err)
	}
	stdout, err := process.StdoutPipe()
	if err != nil {
		o.Fatal(err)
	}
	if err := process.Start(); err != nil {
		o.Fatal(err)
	}
	o.Cleanup(func() {
		if process.ProcessState == nil {
			_ = process.Process.Kill()
			_ = process.Wait()
		}
	})
	return &foreignLock{stdin: stdin, lines: bufio.NewReader(stdout), wait: process.Wait}
}

// acquirer gets a lock of ours.
type acquirer func(ctx context.Context, c *client.Client, folder string) (*client.Right, error)

func mutexOf(layout lock.Layout) acquirer {
	return func(ctx context.Context, c *client.Client, folder string) (*client.Right, error) {
		return lock.NewMutex(c, folder, lock.Config{Layout: layout}).Lock(ctx)
	}
}

func readerOf(layout lock.Layout) acquirer {
	return func(ctx context.Context, c *client.Client, folder string) (*client.Right, error) {
		return lock.NewRWMutex(c, folder, lock.Config{Layout: layout}).RLock(ctx)
	}
}

func writerOf(layout lock.Layout) acquirer {
	return func(ctx context.Context, c *client.Client, folder string) (*client.Right, error) {
		right, err := lock.NewRWMutex(c, folder, lock.Config{Layout: layout}).Lock(ctx)
		if err != nil {
			return nil, err
		}
		return right.Right, nil
	}
}

// downgraded gets the right of a reader that was a writer.
func downgraded(ctx context.Context, c *client.Client, folder string) (*client.Right, error) {
	right, err := lock.NewRWMutex(c, folder, lock.Config{}).Lock(ctx)
	if err != nil {
		return nil, err
	}
	return right.Downgrade(ctx)
}

func permit(ctx context.Context, c *client.Client, folder string) (*client.Right, error) {
	semaphore, err := lock.NewSemaphore(c, folder, lock.SemaphoreConfig{Permits: 1})
	if err != nil {
		return nil, err
	}
	return semaphore.Acquire(ctx)
}

// awaitContenders waits until a parent has so many children.
func awaitContenders(t *testing.T, c *client.Client, folder string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		names, _, watch, err := c.ChildrenWatch(ctx, folder)
		if err != nil {
			t.Fatalf("waiting for %d children of %s: %v", n, folder, err)
		}
		if len(names) >= n {
			watch.Stop()
			return
		}
		select {
		case <-watch.Fired:
		case <-ctx.Done():
			t.Fatalf("%s has the children %q, want %d", folder, names, n)
		}
	}
}

// Locks of package lock and of other libraries exclude each other, whichever comes first.
func TestLocksOfOthers(t *testing.T) {
	needs.Check(t, needs.Usual, needs.Curator, needs.Kazoo)
	srv := rollcalltest.Start(t)
	c, err := client.Dial(t.Context(), srv.ConnectString(), client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Abandon)
	o := newOthers(t, srv.ConnectString())
	for i, pair := range []struct {
		library, kind string
		ours          acquirer
		name          string
		together      bool // both hold the lock, as readers do
	}{
		{"curator", "mutex", mutexOf(lock.Curator), "mutex", false},
		{"curator", "selector", mutexOf(lock.Curator), "mutex", false},
		{"curator", "write", writerOf(lock.Curator), "writer", false},
		{"curator", "read", writerOf(lock.Curator), "writer", false},
		{"curator", "write", readerOf(lock.Curator), "reader", false},
		{"curator", "write", downgraded, "downgraded reader", false},
		{"curator", "read", readerOf(lock.Curator), "reader", true},
		{"curator", "semaphore", permit, "permit", false},
		{"kazoo", "lock", mutexOf(lock.Kazoo), "mutex", false},
		{"kazoo", "write", writerOf(lock.Kazoo), "writer", false},
		{"kazoo", "read", writerOf(lock.Kazoo), "writer", false},
		{"kazoo", "write", readerOf(lock.Kazoo), "reader", false},
		{"kazoo", "read", readerOf(lock.Kazoo), "reader", true},
	} {
		t.Run(fmt.Sprintf("%s %s, %s", pair.library, pair.kind, pair.name), func(t *testing.T) {
			t.Parallel()
			o := &others{t, o.servers, o.classes}
			folder := fmt.Sprintf("/pair%d", i)
			right, err := pair.ours(t.Context(), c, folder)
			if err != nil {
				t.Fatal(err)
			}
			second := o.start(pair.library, pair.kind, folder, lockTry)
			want := map[bool]string{false: "timeout", true: "held"}[pair.together]
			if got := second.outcome(t); got != want {
				t.Errorf("we hold, and the other one says %s, want %s", got, want)
			}
			second.release(t)
			third := o.start(pair.library, pair.kind, folder, 60)
			if !pair.together {
				awaitContenders(t, c, folder, 2) // without one, the folder may be deleted between two of its requests
			}
			if err := right.Release(t.Context()); err != nil {
				t.Error(err)
			}
			if got := third.outcome(t); got != "held" {
				t.Errorf("we have released, and the other one says %s", got)
			}
			ctx, cancel := context.WithTimeout(t.Context(), lockTry*time.Second)
			defer cancel()
			right, err = pair.ours(ctx, c, folder)
			if (err == nil) != pair.together {
				t.Errorf("the other one holds, and our error is %v", err)
			}
			if err == nil {
				_ = right.Release(t.Context())
			}
			third.release(t)
			if right, err = pair.ours(t.Context(), c, folder); err != nil {
				t.Fatal(err)
			}
			_ = right.Release(t.Context())
		})
	}
}

// A lock whose parent has nodes of another layout is rejected. Curator's holder gets the request to revoke its lock, and
// go-zookeeper's Lock and a Mutex exclude each other.
func TestLocksOfOthersInOneFolder(t *testing.T) {
	needs.Check(t, needs.Usual, needs.Curator, needs.Kazoo)
	srv := rollcalltest.Start(t)
	c, err := client.Dial(t.Context(), srv.ConnectString(), client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Abandon)
	o := newOthers(t, srv.ConnectString())
	holder := o.start("kazoo", "lock", "/foreign", 60)
	if got := holder.outcome(t); got != "held" {
		t.Fatal(got)
	}
	if _, err := mutexOf(lock.Curator)(t.Context(), c, "/foreign"); !errors.Is(err, lock.ErrForeignContenders) {
		t.Errorf("kazoo holds, and our error is %v", err)
	}
	holder.release(t)
	holder = o.start("curator", "revocable", "/revocable", 60)
	if got := holder.outcome(t); got != "held" {
		t.Fatal(got)
	}
	if _, err := mutexOf(lock.Kazoo)(t.Context(), c, "/revocable"); !errors.Is(err, lock.ErrForeignContenders) {
		t.Errorf("Curator holds, and our error is %v", err)
	}
	if err := lock.NewRevocable(c, "/revocable", lock.Config{}).Revoke(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := holder.outcome(t); got != "revoked" {
		t.Errorf("the holder says %s", got)
	}
	holder.release(t)
	conn, events, err := zk.Connect([]string{srv.ConnectString()}, 10*time.Second, zk.WithLogger(discardLog{}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// Its requests fail until it has a session, if the server takes more than a second to accept the connection.
	for limit := time.After(time.Minute); conn.State() != zk.StateHasSession; {
		select {
		case <-events:
		case <-limit:
			t.Fatal("go-zookeeper has no session after a minute")
		}
	}
	excludesGoZooKeeper(t, c, conn)
}

type discardLog struct{}

func (discardLog) Printf(string, ...any) {}

func excludesGoZooKeeper(t *testing.T, c *client.Client, conn *zk.Conn) {
	right, err := mutexOf(lock.Curator)(t.Context(), c, "/go")
	if err != nil {
		t.Fatal(err)
	}
	theirs := zk.NewLock(conn, "/go", zk.WorldACL(zk.PermAll))
	got := make(chan error, 1)
	go func() { got <- theirs.Lock() }()
	select {
	case err := <-got:
		t.Errorf("go-zookeeper holds beside us: %v", err)
	case <-time.After(lockTry * time.Second):
	}
	if err := errors.Join(right.Release(t.Context()), <-got); err != nil {
		t.Fatal(err)
	}
	if _, err := lock.NewMutex(c, "/go", lock.Config{}).TryLock(t.Context()); !errors.Is(err, lock.ErrBusy) {
		t.Errorf("go-zookeeper holds, and our error is %v", err)
	}
	if err := theirs.Unlock(); err != nil {
		t.Error(err)
	}
}
