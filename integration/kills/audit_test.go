package kills

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/integration/wire"
	"rollcall/lab/process"
	"rollcall/zk/jute"
)

const (
	auditRounds = 3
	auditWindow = 64   // creates under way
	auditSeen   = 2000 // creates in the audit log before the kill
)

// A member is killed while a client writes. After each restart its audit log has whole lines alone, also if the crash
// has left a part of one. Each acknowledged create is there once and in order, except the last ones before the kill:
// those that the file had not shown yet. If the client rests before the kill, nothing is missing.
func TestAuditLogSurvivesKills(t *testing.T) {
	needs.Check(t, needs.Usual)
	e := process.StartEnsemble(t, process.Config{Binary: rollcall, Size: 1, Tick: time.Second, Audited: true, Lines: "audit.fileSize=1000000000\n"}) // one file: a fast machine writes more than the default
	m := e.Members[0]
	for round := range auditRounds {
		rests := round == auditRounds-1
		w := &auditWriter{round: round, stop: make(chan struct{}), ended: make(chan struct{})}
		w.open(t, m)
		go w.run()
		shown := 0
		if err := process.Until(t.Context(), "the audit log has creates of this round", func() bool {
			shown = len(w.logged(t, m))
			return shown >= auditSeen
		}); err != nil {
			t.Fatal(err)
		}
		if rests {
			close(w.stop)
			<-w.ended
			if err := process.Until(t.Context(), "the audit log has all creates", func() bool { return len(w.logged(t, m)) == w.acked }); err != nil {
				t.Fatal(err)
			}
			shown = w.acked
		}
		m.Process.Kill()
		<-w.ended
		tear(t, m)
		e.Start(m)
		e.Settle()
		after := &auditWriter{round: auditRounds + round}
		after.open(t, m)
		if r, _, err := after.Call(1, jute.OpCreate, after.create(0)); err != nil || r.Err != jute.OK {
			t.Fatal(r, err)
		}
		if err := process.Until(t.Context(), "the create after the restart is in the audit log", func() bool { return len(after.logged(t, m)) == 1 }); err != nil {
			t.Fatal(err)
		}
		checkLines(t, m)
		got := w.logged(t, m)
		for i, path := range got {
			if want := string(w.create(i).Path); path != want {
				t.Fatalf("round %d: line %d is of %s, want %s", round, i, path, want)
			}
		}
		t.Logf("round %d: %d creates acknowledged, %d in the audit log, %d there before the kill", round, w.acked, len(got), shown)
		if len(got) < shown {
			t.Errorf("round %d: %d creates are in the audit log, and %d were there before the kill", round, len(got), shown)
		}
	}
}

// auditWriter creates nodes, numbered from 0, until its connection ends or it is stopped.
type auditWriter struct {
	*wire.Conn
	round int
	stop  chan struct{}
	acked int           // read it after ended
	ended chan struct{} // closed when run has returned
}

func (w *auditWriter) open(t *testing.T, m *process.Member) {
	t.Helper()
	c, err := net.Dial("tcp", m.Clients)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(process.Patience)) // if it fails, so will what follows
	w.Conn = wire.New(c)
	if s, err := w.Open(10 * time.Second); err != nil || s.SessionID == 0 {
		t.Fatal(s, err)
	}
}

func (w *auditWriter) create(i int) jute.CreateRequest {
	return jute.CreateRequest{Path: fmt.Appendf(nil, "/%d-%d", w.round, i), ACL: jute.OpenACL}
}

func (w *auditWriter) run() {
	defer close(w.ended)
	for sent := 0; ; {
		select {
		case <-w.stop:
		default:
			for ; sent < w.acked+auditWindow; sent++ {
				if w.Send(int32(sent+1), jute.OpCreate, w.create(sent)) != nil {
					return
				}
			}
		}
		if sent == w.acked {
			return
		}
		if r, err := w.Recv(); err != nil || r.Err != jute.OK {
			return
		}
		w.acked++
	}
}

// logged returns the paths of this writer's creates that are in the audit log, in its order.
func (w *auditWriter) logged(t *testing.T, m *process.Member) (paths []string) {
	t.Helper()
	text, err := os.ReadFile(m.Audit)
	if err != nil {
		t.Fatal(err)
	}
	mark := []byte(fmt.Sprintf(`"path":"/%d-`, w.round))
	for line := range bytes.Lines(text) {
		if _, rest, ok := bytes.Cut(line, mark); ok && line[len(line)-1] == '\n' {
			number, _, _ := bytes.Cut(rest, []byte(`"`))
			paths = append(paths, fmt.Sprintf("/%d-%s", w.round, number))
		}
	}
	return paths
}

// tear leaves a part of a line at the end of the audit log, as a crash may do.
func tear(t *testing.T, m *process.Member) {
	t.Helper()
	f, err := os.OpenFile(m.Audit, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(`{"at":"2026-11-21T20:32:53.432Z","member":1,"operation":"torn`)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// checkLines checks that the audit log has whole lines alone.
func checkLines(t *testing.T, m *process.Member) {
	t.Helper()
	text, err := os.ReadFile(m.Audit)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var l struct{ At, Operation string }
		if err := json.Unmarshal(line, &l); err != nil || l.At == "" || l.Operation == "" ||
			strings.Contains(l.Operation, "torn") || !bytes.HasSuffix(line, []byte("}\n")) {
			t.Errorf("not a line: %q, %v", line, err)
		}
	}
}
