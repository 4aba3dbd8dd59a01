package server

import (
	"bytes"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/operator/audit"
	"rollcall/zk/jute"
)

// auditLines is an audit log whose lines a test reads.
type auditLines struct {
	log *audit.Log
	out bytes.Buffer // until the log is closed, the log writes it
}

func newAuditLines(t *testing.T) *auditLines {
	t.Helper()
	a := new(auditLines)
	var err error
	if a.log, err = audit.Open(audit.Config{Settings: audit.Settings{Enable: true}, Out: &a.out}); err != nil {
		t.Fatal(err)
	}
	a.log.Start()
	t.Cleanup(func() { a.log.Close() })
	return a
}

// text closes the log and returns its lines.
func (a *auditLines) text() string {
	for !a.log.Close() { // it does not wait for a machine that is busy for seconds
	}
	return a.out.String()
}

// faulty is the file of an audit log. It can be full, and it can hang.
type faulty struct {
	mu    sync.Mutex
	out   bytes.Buffer
	full  bool
	stuck chan struct{} // not nil: writes wait until it is closed
}

func (f *faulty) set(full bool, stuck chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.full, f.stuck = full, stuck
}

func (f *faulty) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out.String()
}

// Write implements io.Writer.
func (f *faulty) Write(b []byte) (int, error) {
	f.mu.Lock()
	stuck := f.stuck
	f.mu.Unlock()
	if stuck != nil {
		<-stuck
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full {
		return 0, syscall.ENOSPC
	}
	return f.out.Write(b)
}

// newRequiredWorld serves clients whose changes need lines.
func newRequiredWorld(t *testing.T, tcp bool) (*world, *faulty) {
	t.Helper()
	out := new(faulty)
	log, err := audit.Open(audit.Config{Settings: audit.Settings{Enable: true, Required: true}, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	log.Start()
	t.Cleanup(func() { log.Close() })
	return newWorld(t, tcp, func(cfg *Config) { cfg.Audit = log }), out
}

// makeNode is a request to create a node.
func makeNode(path string) record {
	return jute.CreateRequest{Path: []byte(path), ACL: jute.OpenACL}
}

// A change gets into the log when its line is written, also on a connection that a loop serves. While the disk of the audit log is full,
// changes are rejected, and reads and sessions are served.
func TestNoChangeWithoutLine(t *testing.T) {
	for _, tcp := range []bool{false, true} {
		w, out := newRequiredWorld(t, tcp)
		c := w.connect()
		for range 20 { // a loop serves it after that
			c.must(jute.OpPing)
		}
		c.must(jute.OpCreate, makeNode("/a"))
		if text := out.text(); !strings.Contains(text, `"path":"/a","type":"persistent","result":"invoked"`) {
			t.Errorf("the change was answered before it had a line: %s", text)
		}
		out.set(true, nil)
		for _, tt := range []struct {
			op  jute.Op
			rec record
		}{
			{jute.OpCreate, makeNode("/b")},
			{jute.OpSetData, jute.SetDataRequest{Path: []byte("/a"), Version: -1}},
			{jute.OpDelete, jute.DeleteRequest{Path: []byte("/a"), Version: -1}},
			{jute.OpMulti, raw(jute.AppendMulti(nil, []jute.MultiOp{{Op: jute.OpDelete, Delete: jute.DeleteRequest{Path: []byte("/a"), Version: -1}}}))},
		} {
			if h, _ := c.call(tt.op, tt.rec); h.Err != jute.NoRoom {
				t.Errorf("%v without a line: %v", tt.op, h.Err)
			}
		}
		c.must(jute.OpGetData, getData("/a", false))
		if h, _ := c.call(jute.OpGetData, getData("/b", false)); h.Err != jute.NoNode {
			t.Errorf("a node without a line: %v", h.Err)
		}
		other := w.connect()
		other.must(jute.OpPing)
		out.set(false, nil)
		other.must(jute.OpCreate, makeNode("/b"))
	}
}

// While the disk of the audit log hangs, a change waits, and is rejected before the session could expire. Other
// connections are served, and apply works.
func TestHangingAuditLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, out := newRequiredWorld(t, false)
		c, other := w.connect(), w.connect()
		stuck := make(chan struct{})
		out.set(false, stuck)
		begun := time.Now()
		c.request(jute.OpCreate, makeNode("/a"))
		synctest.Wait()
		other.must(jute.OpGetData, getData("/", false))
		w.connect() // a session is opened by the log
		if took := time.Since(begun); took != 0 {
			t.Errorf("others waited for %v", took)
		}
		c.expect(c.xid, jute.NoRoom)
		if took := time.Since(begun); took == 0 || took > audit.RequireTimeout {
			t.Errorf("the change was rejected after %v", took)
		}
		close(stuck)
		out.set(false, nil)
		c.must(jute.OpCreate, makeNode("/a"))
	})
}
