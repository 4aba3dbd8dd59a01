package audit

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// deleteA is the record of a request to delete /a.
var deleteA = jute.DeleteRequest{Path: []byte("/a")}.Append(nil)

// intend says that a client is about to delete /a.
func intend(l *Log) error {
	return l.WriteChangeIfRequired(context.Background(), time.Hour, 5, bob, jute.OpDelete, deleteA)
}

// required returns a running Log that must have a line for each change.
func required(t *testing.T) (*Log, *disk, func() string) {
	t.Helper()
	l, d, warnings := newLog(t, Settings{Required: true})
	l.Start()
	time.Sleep(2 * gatherTime) // until the line of the start is written
	return l, d, warnings.String
}

// A change waits until its line is written, and no longer. The line of its result comes after it.
func TestLineBeforeChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d, _ := required(t)
		defer l.Close()
		for i := range 3 {
			begun := time.Now()
			if err := intend(l); err != nil || time.Since(begun) != 0 {
				t.Fatalf("%v after %v", err, time.Since(begun))
			}
			lines := d.lines()
			if len(lines) != 2*i+1 || !strings.Contains(lines[2*i], `"operation":"delete","path":"/a","result":"invoked"`) ||
				!strings.Contains(lines[2*i], `"session":"0x5"`) {
				t.Fatalf("lines %q", lines)
			}
			l.AddApplied(1, &proto.Txn{Op: int32(jute.OpDelete), Body: deleteA}, bob, &znode.Result{})
			time.Sleep(2 * gatherTime)
		}
		if lines := d.lines(); len(lines) != 6 || !strings.Contains(lines[5], `"path":"/a","result":"success"`) {
			t.Errorf("lines %q", lines)
		}
	})
}

// Each operation of a multi has its line. What cannot be read has one, because apply decides about it.
func TestLinesBeforeMulti(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d, _ := required(t)
		defer l.Close()
		for _, body := range [][]byte{multiBody("/a"), []byte("no multi")} {
			if err := l.WriteChangeIfRequired(t.Context(), time.Hour, 5, bob, jute.OpMulti, body); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for _, line := range d.lines() {
			_, rest, _ := strings.Cut(line, `"operation":`)
			got = append(got, rest)
		}
		want := []string{
			`"create","path":"/m-","type":"ephemeral_sequential","result":"invoked"}`, `"create","path":"/box","type":"container","result":"invoked"}`,
			`"setData","path":"/a","result":"invoked"}`, `"delete","path":"/d","result":"invoked"}`, `"multiOperation","result":"invoked"}`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("lines %q", got)
		}
	})
}

// While the disk is full, changes are rejected, and acts of administrators too. When it has room again, they are not.
func TestFullDiskRejects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d, warnings := required(t)
		defer l.Close()
		full := errors.New("no space left on device")
		d.set(full, nil)
		for range 3 {
			if err := intend(l); !errors.Is(err, full) {
				t.Errorf("a change: %v", err)
			}
		}
		if err := l.WriteIfRequired(t.Context(), Event{User: "super", Operation: "kill session"}); !errors.Is(err, full) {
			t.Errorf("an act: %v", err)
		}
		if n := l.RejectedChanges(); n != 4 {
			t.Errorf("%d changes are counted as rejected", n)
		}
		if n := strings.Count(warnings(), "changes are rejected: their audit lines cannot be written"); n != 1 {
			t.Errorf("%d warnings: %s", n, warnings())
		}
		d.set(nil, nil)
		if err := intend(l); err != nil {
			t.Errorf("a change when there is room again: %v", err)
		}
		if err := l.WriteIfRequired(t.Context(), Event{User: "super", Operation: "kill session"}); err != nil {
			t.Errorf("an act: %v", err)
		}
		if lines := d.lines(); len(lines) != 3 || !strings.Contains(lines[0], `"dropped":4`) ||
			!strings.Contains(lines[2], `"who":["user:super"],"operation":"kill session","result":"invoked"`) {
			t.Errorf("lines %q", lines)
		}
	})
}

// While the disk hangs, changes wait for a bounded time, and then they are rejected. Apply waits for nothing meanwhile.
func TestHangingDiskRejects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d, _ := required(t)
		stuck := make(chan struct{})
		d.set(nil, stuck)
		took := func(f func() error) time.Duration {
			begun := time.Now()
			if err := f(); err == nil {
				t.Error("a change is not rejected")
			}
			return time.Since(begun)
		}
		if d := took(func() error { return intend(l) }); d != RequireTimeout {
			t.Errorf("a change waited for %v", d)
		}
		if d := took(func() error { return l.WriteChangeIfRequired(t.Context(), time.Second, 5, bob, jute.OpDelete, deleteA) }); d != time.Second {
			t.Errorf("a change of a client with a short timeout waited for %v", d)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if d := took(func() error { return l.WriteChangeIfRequired(ctx, time.Hour, 5, bob, jute.OpDelete, deleteA) }); d != 0 {
			t.Errorf("a change of a client that has gone waited for %v", d)
		}
		if waiting := took(func() error {
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() { _ = intend(l) })
			}
			synctest.Wait()
			begun := time.Now()
			l.AddApplied(1, &proto.Txn{Op: int32(jute.OpDelete), Body: deleteA}, bob, &znode.Result{})
			if d := time.Since(begun); d != 0 {
				t.Errorf("apply waited for %v", d)
			}
			all.Wait()
			return errors.New("all were rejected")
		}); waiting != RequireTimeout {
			t.Errorf("100 changes waited for %v", waiting)
		}
		for waiting(l) < maxQueueBytes {
			l.Add(Event{Operation: "create", Path: strings.Repeat("x", 1000)})
		}
		if d := took(func() error { return intend(l) }); d != 0 {
			t.Errorf("with a full queue a change waited for %v", d)
		}
		close(stuck)
		time.Sleep(time.Second)
		if err := intend(l); err != nil {
			t.Errorf("when the disk works again: %v", err)
		}
		l.Close()
		if err := intend(l); !errors.Is(err, errStopped) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// Nothing waits if lines are not required. They cannot be required of no log.
func TestNotRequired(t *testing.T) {
	l, d, _ := newLog(t, Settings{})
	d.set(errors.New("no space left on device"), nil)
	if err := errors.Join(intend(l), l.WriteIfRequired(t.Context(), Event{}), intend(nil), (*Log)(nil).WriteIfRequired(t.Context(), Event{})); err != nil || len(l.queue) > 0 {
		t.Errorf("%v, and %d bytes wait", err, len(l.queue))
	}
	if _, err := Open(Config{Settings: Settings{Required: true}}); err == nil || !strings.Contains(err.Error(), "audit.enable") {
		t.Errorf("required of no log: %v", err)
	}
}

// The lines of a file that are required are on the disk, and not only with the system.
func TestRequiredLinesAreSynced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	l, err := Open(Config{Settings: Settings{Enable: true, Required: true, File: path}})
	if err != nil {
		t.Fatal(err)
	}
	if !l.lineSink.(*fileSink).syncWrites {
		t.Error("the file is not written to the disk before a change is made")
	}
	l.Start()
	if err := intend(l); err != nil || !strings.Contains(read(t, path), `"result":"invoked"`) {
		t.Errorf("%v, the file has %q", err, read(t, path))
	}
	l.Close()
}
