package clients

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// watching is a program of java/PersistentWatches.java.
type watching struct {
	kind string
	stop func()

	mu    sync.Mutex
	first map[string]int // by line: the number of lines before it
	count map[string]int // by line
	total int
}

func startWatching(ctx context.Context, t *testing.T, classPath, kind, servers, path string) *watching {
	t.Helper()
	cmd := java(classPath, "PersistentWatches", kind, servers, path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := &watching{kind: kind, first: map[string]int{}, count: map[string]int{}}
	ready, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		w.read(out, ready)
	}()
	w.stop = sync.OnceFunc(func() {
		_ = in.Close()
		<-done
		_ = cmd.Wait()
	})
	t.Cleanup(w.stop)
	context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	select {
	case <-ready:
	case <-done:
		t.Fatalf("%s has ended", kind)
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	}
	return w
}

func (w *watching) read(out io.Reader, ready chan<- struct{}) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		if line == "ready" {
			close(ready)
			continue
		}
		w.mu.Lock()
		if w.count[line]++; w.count[line] == 1 {
			w.first[line] = w.total
		}
		w.total++
		w.mu.Unlock()
	}
}

// await waits until the program has printed a line.
func (w *watching) await(ctx context.Context, line string) error {
	for {
		w.mu.Lock()
		_, there := w.first[line]
		w.mu.Unlock()
		if there {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s has not printed %q: %w", w.kind, line, ctx.Err())
		}
	}
}

// inOrder returns an error unless the lines are among those that the program has printed, and came in this order. Any may have come
// twice.
func (w *watching) inOrder(lines []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, before := -1, "the beginning"
	for _, line := range lines {
		at, there := w.first[line]
		switch {
		case !there:
			return fmt.Errorf("%s has missed %q, one of %d events", w.kind, line, len(lines))
		case at < last:
			return fmt.Errorf("%s has got %q before %q", w.kind, line, before)
		}
		last, before = at, line
	}
	return nil
}

// Members are killed and started again, each in turn, while nodes are made, changed and deleted. The persistent watches of Java's own
// client and of Curator miss no event of them, and get them in the order of the log. CuratorCache, which reads its tree again after each
// reconnect, ends with what there is.
func TestPersistentWatchesMissNothing(t *testing.T) {
	needs.Check(t, needs.Usual)
	classPath := compileJava(t)
	e := process.StartEnsemble(t, process.Config{Binary: rollcall, Size: 3, Tick: tick, Lines: fewElections})
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	defer cancel()
	writer := client(ctx, t, e)
	if _, err := writer.Create("/watched", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	servers := strings.Join(e.ClientAddresses(e.Settle()), ",")
	all := map[string]*watching{}
	for _, kind := range []string{"recursive", "persistent", "curator", "cache"} {
		all[kind] = startWatching(ctx, t, classPath, kind, servers, "/watched")
	}
	writing, endWriting := context.WithCancel(ctx)
	nodes, written := 0, make(chan error, 1)
	go func() {
		var err error
		for ; writing.Err() == nil && err == nil; nodes++ {
			err = writeNode(ctx, writer, watchedNode(nodes))
		}
		written <- err
	}()
	killInTurn(e, needs.Amount(3, 6, 18))
	endWriting()
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range nodes {
		for _, event := range []string{"NodeCreated ", "NodeDataChanged ", "NodeDeleted "} {
			want = append(want, event+watchedNode(i))
		}
	}
	if err := writeNode(ctx, writer, "/watched/last"); err != nil {
		t.Fatal(err)
	}
	if _, err := writer.Set("/watched", nil, -1); err != nil {
		t.Fatal(err)
	}
	for kind, last := range map[string]string{
		"recursive": "NodeDataChanged /watched", "curator": "NodeDataChanged /watched", "persistent": "NodeDataChanged /watched",
		"cache": "NODE_CHANGED /watched",
	} {
		w := all[kind]
		if err := w.await(ctx, last); err != nil {
			t.Error(err)
		}
		if kind == "recursive" || kind == "curator" {
			if err := w.inOrder(want); err != nil {
				t.Error(err)
			}
		}
		if children := w.count["NodeChildrenChanged /watched"]; kind == "persistent" && children < 2*nodes {
			t.Errorf("%s has got %d events of children, want %d at least", kind, children, 2*nodes)
		}
		t.Logf("%s: %d different events of %d nodes, %d in all", kind, len(w.count), nodes, w.total)
	}
}

func watchedNode(i int) string { return fmt.Sprintf("/watched/n-%06d", i) }

// killInTurn kills members and starts them again, one after the other.
func killInTurn(e *process.Ensemble, kills int) {
	for i := range kills {
		m := e.Members[i%len(e.Members)]
		process.KillAll([]*process.Member{m})
		time.Sleep(tick / 2) // so that there are changes in between
		e.Start(m)
		e.Joined()
	}
}

// writeNode makes, changes and deletes a node. A request that is lost with its connection is repeated.
func writeNode(ctx context.Context, c *goClient, path string) error {
	steps := []func() error{
		func() error {
			_, err := c.Create(path, nil, 0, zk.WorldACL(zk.PermAll))
			if errors.Is(err, zk.ErrNodeExists) {
				err = nil
			}
			return err
		},
		func() error { _, err := c.Set(path, []byte("x"), -1); return err },
		func() error {
			err := c.Delete(path, -1)
			if errors.Is(err, zk.ErrNoNode) {
				err = nil
			}
			return err
		},
	}
	for _, step := range steps {
		for err := step(); err != nil; err = step() {
			if lost := errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrNoServer); !lost || ctx.Err() != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	return nil
}
