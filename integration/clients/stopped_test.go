package clients

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sync/errgroup"

	"rollcall/integration/needs"
	"rollcall/integration/wire"
	"rollcall/lab/process"
	"rollcall/zk/jute"
)

// A signal stops the leader's process until its clients have moved to other members, and then it
// continues. (Nothing inside a process can stop it in this way.) Clients of the other members
// notice only a pause. No session is lost, and every acknowledged write is there. If a session has
// moved, nothing that the old leader was doing for it, or reads for it later, is applied.
func TestLeaderStopped(t *testing.T) {
	needs.Check(t, needs.Nightly)
	e := startEnsemble(t, 3)
	leader := e.Settle()
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	defer cancel()
	all := client(ctx, t, e)
	for _, path := range []string{"/writes", "/sessions"} {
		if _, err := all.Create(path, nil, 0, world); err != nil {
			t.Fatal(err)
		}
	}
	all.Close()
	writers, moves := stopWriters(ctx, t, e, leader)
	late, session := openRaw(t, leader)

	g, writing := errgroup.WithContext(ctx)
	enough := make(chan struct{})
	for _, w := range writers {
		g.Go(func() error { return w.write(writing, enough) })
	}
	if err := underWay(writing, writers); err != nil {
		t.Fatal(err)
	}
	states, _ := moves.seen()
	stopped := time.Now()
	if err := leader.Process.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := late.Send(1, jute.OpCreate, &jute.CreateRequest{Path: []byte("/late"), ACL: jute.OpenACL}); err != nil {
		t.Fatal(err) // the kernel accepts it; the process will read it when it goes on
	}
	next, elected := otherLeader(ctx, t, e, leader), time.Since(stopped)
	now := resumeRaw(t, next, session)
	if r, _, err := now.Call(1, jute.OpCreate, &jute.CreateRequest{Path: []byte("/new"), ACL: jute.OpenACL}); err != nil || r.Err != jute.OK {
		t.Fatalf("write of the session that moved: %v, %v", r, err)
	}
	if err := moves.hasSession(ctx, len(states)); err != nil {
		t.Fatal(err)
	}
	stood := time.Since(stopped)
	if err := leader.Process.Continue(); err != nil {
		t.Fatal(err)
	}

	if e.Settle() == leader {
		t.Errorf("member %d, which was stopped, leads again without the writes of member %d's term", leader.ID, next.ID)
	}
	if err := late.Closed(process.Patience); err != nil {
		t.Errorf("the old connection of the session that moved: %v", err)
	}
	close(enough)
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := now.Call(2, jute.OpPing, nil); err != nil {
		t.Errorf("the session that moved, on its new connection: %v", err)
	}
	for _, m := range e.Members {
		if err := hasAll(ctx, m, writers); err != nil {
			t.Errorf("member %d, afterwards: %v", m.ID, err)
		}
	}
	for _, w := range writers {
		t.Logf("%s: %d writes acknowledged, %d of unknown outcome, longest pause %.1f s",
			w.at.name, len(w.acked), len(w.unknown), w.pause.Seconds())
	}
	if t.Failed() {
		return
	}
	t.Logf("another leader after %.1f s, the stopped one stood for %.1f s", elected.Seconds(), stood.Seconds())
	fmt.Println("client scenario: go-leader-stopped ok")
}

// pace is the pause of a client between writes.
const pace = 20 * time.Millisecond

// stopWriters puts a client on each member. The leader's client can move elsewhere.
func stopWriters(ctx context.Context, t *testing.T, e *process.Ensemble, leader *process.Member) (writers []*stopWriter, moves *goClient) {
	t.Helper()
	for _, at := range seats(e, leader, true) {
		c, err := dialGo(ctx, at, sessionTimeout)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		if _, err := c.Create("/sessions/"+at.name, nil, zk.FlagEphemeral, world); err != nil {
			t.Fatal(err)
		}
		if at.moves {
			moves = c
		}
		writers = append(writers, &stopWriter{goClient: c, first: make(chan struct{})})
	}
	return writers, moves
}

// stopWriter writes one node after the other.
type stopWriter struct {
	*goClient
	first          chan struct{} // closed when its first write is acknowledged
	acked, unknown []string
	pause          time.Duration // the longest time that a write took
}

// write writes until enough is closed. For a client that does not move, no write may fail.
func (w *stopWriter) write(ctx context.Context, enough <-chan struct{}) error {
	for i := 0; ctx.Err() == nil; i++ {
		select {
		case <-enough:
			return w.undisturbed()
		case <-time.After(pace):
		}
		name := fmt.Sprintf("%s-%d", w.at.name, i)
		began := time.Now()
		_, err := w.Create("/writes/"+name, nil, 0, world)
		switch {
		case err == nil:
			if w.acked = append(w.acked, name); len(w.acked) == 1 {
				close(w.first)
			}
			w.pause = max(w.pause, time.Since(began))
		case w.at.moves:
			w.unknown = append(w.unknown, name)
		default:
			return fmt.Errorf("%s: create %s: %w", w.at.name, name, err)
		}
	}
	return ctx.Err()
}

// underWay waits until each writer has an acknowledged write. It returns the error of a writer that
// ends before that.
func underWay(ctx context.Context, writers []*stopWriter) error {
	for _, w := range writers {
		select {
		case <-w.first:
		case <-ctx.Done():
			return fmt.Errorf("no write of %s is acknowledged: %w", w.at.name, context.Cause(ctx))
		}
	}
	return nil
}

// hasAll checks what a member shows. It must show every acknowledged write, no write that no client
// made, and every session's ephemeral. Of the session that moved, it must show only what it has
// written since.
func hasAll(ctx context.Context, m *process.Member, writers []*stopWriter) error {
	c, err := dialGo(ctx, seat{name: "check", hosts: []string{m.Clients}}, sessionTimeout)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Sync("/"); err != nil {
		return err
	}
	names, _, err := c.Children("/writes")
	if err != nil {
		return err
	}
	var made []string
	for _, w := range writers {
		for _, name := range w.acked {
			if !slices.Contains(names, name) {
				err = errors.Join(err, fmt.Errorf("%s was acknowledged and is not there", name))
			}
		}
		made = append(append(made, w.acked...), w.unknown...)
		if exists, stat, serr := c.Exists("/sessions/" + w.at.name); serr != nil || !exists || stat.EphemeralOwner != w.sid {
			err = errors.Join(err, serr, fmt.Errorf("ephemeral of %s: exists %t, %+v; want it owned by %#x", w.at.name, exists, stat, w.sid))
		}
	}
	for _, name := range names {
		if !slices.Contains(made, name) {
			err = errors.Join(err, fmt.Errorf("%s is there, and nobody wrote it", name))
		}
	}
	late, _, lerr := c.Exists("/late")
	isNew, _, nerr := c.Exists("/new")
	if late || !isNew {
		err = errors.Join(err, fmt.Errorf("late write of the session that moved: %t, want none; its new one: %t", late, isNew))
	}
	return errors.Join(err, lerr, nerr)
}

// otherLeader waits until a member other than the old leader leads. It does not query the old leader.
func otherLeader(ctx context.Context, t *testing.T, e *process.Ensemble, old *process.Member) (leader *process.Member) {
	t.Helper()
	if err := process.Until(ctx, "another member leads", func() bool {
		i := slices.IndexFunc(e.Members, func(m *process.Member) bool { return m != old && m.Mode() == "leader" })
		if i >= 0 {
			leader = e.Members[i]
		}
		return i >= 0
	}); err != nil {
		t.Fatal(err)
	}
	return leader
}

// openRaw opens a session that is not kept alive.
func openRaw(t *testing.T, m *process.Member) (*wire.Conn, jute.ConnectResponse) {
	t.Helper()
	c := dialRaw(t, m)
	session, err := c.Open(longTimeout)
	if err != nil || session.SessionID == 0 {
		t.Fatalf("open: %+v, %v", session, err)
	}
	return c, session
}

// resumeRaw resumes a session.
func resumeRaw(t *testing.T, m *process.Member, session jute.ConnectResponse) *wire.Conn {
	t.Helper()
	c := dialRaw(t, m)
	if got, err := c.Resume(session, 0); err != nil || got.SessionID != session.SessionID {
		t.Fatalf("resume %v: %+v, %v", session.SessionID, got, err)
	}
	return c
}

func dialRaw(t *testing.T, m *process.Member) *wire.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", m.Clients, process.Patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(scenarioLimit)); err != nil {
		t.Fatal(err)
	}
	return wire.New(conn)
}
