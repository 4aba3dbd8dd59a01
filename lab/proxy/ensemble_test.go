package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/rollcalltest"
	"rollcall/zk/jute"
)

// existingInMemory returns an ensemble that runs already, in virtual time, and a client of it.
func existingInMemory(t *testing.T, onRequest func(rollcalltest.Request) rollcalltest.Verdict) (Existing, *client.Client) {
	t.Helper()
	e, err := rollcalltest.New(t.Context(), 1, rollcalltest.Config{Pipes: true, OnRequest: onRequest})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	existing := Existing{Addresses: strings.Split(e.ConnectString(), ","), Dial: e.Dial}
	c, err := client.Dial(t.Context(), e.ConnectString(), client.Config{
		Timeout: time.Minute, DialConn: e.Dial,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Abandon)
	return existing, c
}

// checkNoChroots fails the test if a node of a run is left.
func checkNoChroots(t *testing.T, c *client.Client) {
	t.Helper()
	names, _, err := c.Children(t.Context(), "/")
	if err != nil || len(names) != 1 { // ZooKeeper's own
		t.Errorf("the nodes are %q, %v", names, err)
	}
}

// The nodes of a run are removed however long that takes, as long as the ensemble replies. Deletes do not wait for each
// other's replies.
func TestRemovalTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		var mu sync.Mutex
		sent := map[time.Time]int{} // deletes, by the time at which they came
		existing, c := existingInMemory(t, func(r rollcalltest.Request) rollcalltest.Verdict {
			if slow.Load() && r.Op == "delete" {
				mu.Lock()
				defer mu.Unlock()
				sent[time.Now()]++
				return rollcalltest.Verdict{Delay: time.Second}
			}
			return rollcalltest.Verdict{}
		})
		servers, err := existing.Fresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		const parents, children = 9, 9
		for parent := range parents {
			for child := range children {
				if err := c.CreateAll(t.Context(), fmt.Sprintf("%s/%d/%d", servers.Chroot, parent, child), client.Persistent); err != nil {
					t.Fatal(err)
				}
			}
		}
		slow.Store(true)
		began := time.Now()
		if err := servers.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < 2*manageTimeout {
			t.Errorf("it took %v, which tests nothing", took)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(sent) > 2*parents+2 { // those of a node's children come together, and then the node's own
			t.Errorf("deletes came at %d times", len(sent))
		}
		checkNoChroots(t, c)
	})
}

// An ensemble that does not reply is given up, and the error names the node and the command that removes it.
func TestRemovalGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var silent atomic.Bool
		existing, _ := existingInMemory(t, func(r rollcalltest.Request) rollcalltest.Verdict {
			if silent.Load() && r.Op == "delete" {
				return rollcalltest.Verdict{Delay: time.Hour}
			}
			return rollcalltest.Verdict{}
		})
		servers, err := existing.Fresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		silent.Store(true)
		began := time.Now()
		err = servers.Close(t.Context())
		want := "rollcall rm -r --hosts=" + existing.Addresses[0] + " " + servers.Chroot + " removes it"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if took := time.Since(began); took > 3*manageTimeout {
			t.Errorf("it took %v", took)
		}
	})
}

// A node that is made although the reply is lost does not stay.
func TestChrootWithoutReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		existing, c := existingInMemory(t, func(r rollcalltest.Request) rollcalltest.Verdict {
			return rollcalltest.Verdict{LoseReply: strings.HasPrefix(r.Path, chrootPrefix) && strings.HasPrefix(r.Op, "create")}
		})
		if servers, err := existing.Fresh(t.Context()); err == nil {
			t.Errorf("%s was made, and its reply came", servers.Chroot)
		}
		checkNoChroots(t, c)
	})
}

// The sessions that a program leaves are ended at a server that replies, also if the first one does not.
func TestSessionsAreEndedAnywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		existing, c := existingInMemory(t, nil)
		var left []*session
		for range 3 {
			own, err := client.Dial(t.Context(), existing.Addresses[0], client.Config{
				Timeout: time.Hour, DialConn: existing.Dial,
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := own.Create(t.Context(), fmt.Sprintf("/%d", len(left)), nil, client.Ephemeral); err != nil {
				t.Fatal(err)
			}
			token, err := own.HandOver(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			left = append(left, &session{id: jute.SessionID(token.Session), password: token.Password, timeout: time.Hour})
		}
		servers := Servers{
			Addresses: []string{"silent:1", existing.Addresses[0]},
			Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				if address == "silent:1" {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return existing.Dial(ctx, network, address)
			},
		}
		if failed := endAll(t.Context(), servers, left); failed.sessions != 0 {
			t.Errorf("%d sessions were not ended: %v", failed.sessions, failed.err)
		}
		checkNoChroots(t, c) // their ephemeral nodes are gone
		servers.Addresses = servers.Addresses[:1]
		began := time.Now()
		failed := endAll(t.Context(), servers, left)
		if took := time.Since(began); failed.sessions != 3 || failed.err == nil || took != endTimeout {
			t.Errorf("no server answers: %d sessions were not ended, %v, after %v", failed.sessions, failed.err, took)
		}
	})
}

// lastingEnsemble is a memoryEnsemble that continues after a run, and takes no connection after the program has ended.
type lastingEnsemble struct {
	memoryEnsemble
	programEnded atomic.Bool
}

func (l *lastingEnsemble) Fresh(ctx context.Context) (Servers, error) {
	servers, err := l.memoryEnsemble.Fresh(ctx)
	dial := servers.Dial
	servers.Outlive = true
	servers.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if l.programEnded.Load() {
			return nil, errors.New("refused")
		}
		return dial(ctx, network, address)
	}
	return servers, err
}

// The result counts the sessions that could not be ended. They are no error: they expire.
func TestSessionsThatExpireAreCounted(t *testing.T) {
	ensemble := &lastingEnsemble{memoryEnsemble: memoryEnsemble{members: 1}}
	result, err := surveyOf(t, 1, Config{Ensemble: ensemble, Faults: []Fault{After}}, func(ctx context.Context, dial dialer) error {
		ensemble.programEnded.Store(false)
		defer ensemble.programEnded.Store(true)
		c, err := dial(ctx)
		if err == nil {
			c.Abandon()
		}
		return err
	})
	if err != nil || result.Unended < recordings || !strings.Contains(result.UnendedReason, "refused") {
		t.Errorf("%d sessions, %s; %v", result.Unended, result.UnendedReason, err)
	}
}

// stuckEnsemble is a memoryEnsemble that cannot be closed.
type stuckEnsemble struct {
	memoryEnsemble
	begun atomic.Int32
}

func (s *stuckEnsemble) Fresh(ctx context.Context) (Servers, error) {
	servers, err := s.memoryEnsemble.Fresh(ctx)
	if err != nil {
		return servers, err
	}
	end, n := servers.Close, s.begun.Add(1)
	servers.Close = func(ctx context.Context) error {
		return errors.Join(fmt.Errorf("node %d stays", n), end(ctx))
	}
	return servers, nil
}

// The error of a survey names the nodes that each run has left, also on servers that no run has used.
func TestAllThatIsLeftIsNamed(t *testing.T) {
	ensemble := &stuckEnsemble{memoryEnsemble: memoryEnsemble{members: 1}}
	result, err := surveyOf(t, 1, Config{Ensemble: ensemble, Faults: []Fault{Before}}, func(ctx context.Context, dial dialer) error {
		return counter(ctx, dial, true)
	})
	if err == nil || len(result.Runs) == 0 {
		t.Fatalf("%d runs, %v", len(result.Runs), err)
	}
	for n := range ensemble.begun.Load() {
		if want := fmt.Sprintf("node %d stays", n+1); !strings.Contains(err.Error()+"\n", want+"\n") {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	s := new(surveyRun)
	for range maxCloseErrors + 5 {
		s.noteClosed(errors.New("stuck"))
	}
	if errs := s.leftOpen(); len(errs) != maxCloseErrors+1 || errs[maxCloseErrors].Error() != "5 more of these errors are not shown" {
		t.Errorf("%d errors, the last one %v", len(errs), errs[len(errs)-1])
	}
}
