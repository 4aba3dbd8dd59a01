package recipes

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/rollcalltest"
)

// sceneTimeout is the time after which a scene fails, in the bubble's time: something hangs.
const sceneTimeout = 10 * time.Minute

// sessionTimeout is the timeout of all clients of these tests.
const sessionTimeout = 10 * time.Second

// scene is one server in a bubble, and its clients.
type scene struct {
	t       *testing.T
	ctx     context.Context // ends after sceneTimeout
	srv     *rollcalltest.Server
	began   time.Time
	clients []*client.Client
	policy  client.SuspendedPolicy // of the client that atEach gives the scenario
}

// slowTick is a tick that is long for a test. A server does something several times in a tick, also while nothing happens, so a test
// of many scenes with long waits is cheaper with it. Without a silent session, no fault depends on the tick.
const slowTick = time.Second

// inScene runs test with one server in a bubble. At the end all goroutines of clients must have ended.
func inScene(t *testing.T, test func(s *scene)) {
	t.Helper()
	inSceneAt(t, rollcalltest.DefaultTick, test)
}

// inSceneAt does what inScene does, with a server that has a tick of its own.
func inSceneAt(t *testing.T, tick time.Duration, test func(s *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), sceneTimeout)
		defer cancel()
		s := &scene{t: t, ctx: ctx, began: time.Now(), srv: rollcalltest.StartWith(t, rollcalltest.Config{Pipes: true, Tick: tick})}
		defer func() {
			for _, c := range s.clients {
				c.Abandon()
			}
		}()
		test(s)
	})
}

// client opens a session.
func (s *scene) client() *client.Client { return s.clientWith(client.Config{}) }

// clientWith opens a session with a Config.
func (s *scene) clientWith(cfg client.Config) *client.Client {
	s.t.Helper()
	cfg.Timeout = sessionTimeout
	if cfg.Clock == nil {
		cfg.Clock = func() time.Duration { return time.Since(s.began) }
	}
	if cfg.DialConn == nil {
		cfg.DialConn = s.srv.Dial
	}
	c, err := client.Dial(s.ctx, s.srv.ConnectString(), cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	s.clients = append(s.clients, c)
	return c
}

func sessionOf(c *client.Client) int64 {
	id, _ := c.Session()
	return int64(id)
}

// expire ends the session of a client, and waits until the client knows.
func (s *scene) expire(c *client.Client) {
	s.t.Helper()
	s.check(s.srv.ExpireSession(sessionOf(c)))
	synctest.Wait()
}

// check fails the test if err is not nil.
func (s *scene) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// want fails the test if err is not reason.
func (s *scene) want(err, reason error) {
	s.t.Helper()
	if !errors.Is(err, reason) {
		s.t.Fatalf("error %v, want %v", err, reason)
	}
}

// children returns the current names below a parent, as another client reads them.
func (s *scene) children(folder string) []string {
	s.t.Helper()
	c := s.client()
	defer c.Abandon()
	s.check(c.Sync(s.ctx))
	names, _, err := c.Children(s.ctx, folder)
	if errors.Is(err, client.ErrNoNode) {
		return nil
	}
	s.check(err)
	return names
}

// fault breaks the connection at a request.
type fault struct {
	name    string
	verdict rollcalltest.Verdict
}

var (
	lostReply   = fault{"reply lost", rollcalltest.Verdict{LoseReply: true}}
	lostRequest = fault{"request lost", rollcalltest.Verdict{LoseRequest: true}}
)

// breakAt breaks the connection at the n-th request, from 1, that matches returns true for. It returns a function that
// reports whether that has happened.
func (s *scene) breakAt(n int, f fault, matches func(rollcalltest.Request) bool) (happened func() bool) {
	var mu sync.Mutex
	count := 0
	s.srv.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
		if r.InSession == 0 || !matches(r) {
			return rollcalltest.Verdict{}
		}
		mu.Lock()
		defer mu.Unlock()
		if count++; count == n {
			return f.verdict
		}
		return rollcalltest.Verdict{}
	})
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		return count >= n
	}
}

// maxRequests limits the requests of a scenario that atEachRequest runs.
const maxRequests = 200

// atEachRequest runs a scenario again and again, each time in a scene of its own. The n-th run breaks the connection
// of the client c at its n-th request. There are such runs for a lost request and for a lost reply, and for calls that
// wait for a connection and calls that fail without one.
func atEachRequest(t *testing.T, scenario func(s *scene, c *client.Client)) {
	t.Helper()
	for _, f := range []fault{lostRequest, lostReply} {
		for policy, name := range map[client.SuspendedPolicy]string{client.Wait: "wait", client.Fail: "fail"} {
			t.Run(f.name+", "+name, func(t *testing.T) { atEach(t, f, policy, scenario) })
		}
	}
}

// atEach runs a scenario with one kind of fault at each request in turn.
func atEach(t *testing.T, f fault, policy client.SuspendedPolicy, scenario func(s *scene, c *client.Client)) {
	for n := 1; n <= maxRequests; n++ {
		var happened func() bool
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			inScene(t, func(s *scene) {
				s.policy = policy
				c := s.clientWith(client.Config{WhileSuspended: policy})
				happened = s.breakAt(n, f, func(r rollcalltest.Request) bool { return r.Session == sessionOf(c) })
				scenario(s, c)
			})
		})
		if t.Failed() || !happened() {
			return
		}
	}
	t.Fatalf("the scenario has more than %d requests", maxRequests)
}

// opAt matches the requests with an operation on a path.
func opAt(op, path string) func(rollcalltest.Request) bool {
	return func(r rollcalltest.Request) bool { return r.Op == op && r.Path == path }
}

// countRequests calls count at each request of a session that is no ping, and lets it pass.
func countRequests(count func()) func(rollcalltest.Request) rollcalltest.Verdict {
	return func(r rollcalltest.Request) rollcalltest.Verdict {
		if r.InSession > 0 {
			count()
		}
		return rollcalltest.Verdict{}
	}
}

// breakAndHold breaks the connection of c at its first request that matches, and keeps c away until release is closed.
func breakAndHold(c *client.Client, f fault, release <-chan struct{},
	matches func(rollcalltest.Request) bool,
) func(rollcalltest.Request) rollcalltest.Verdict {
	broken := false
	return func(r rollcalltest.Request) rollcalltest.Verdict {
		if r.Session != sessionOf(c) {
			return rollcalltest.Verdict{}
		}
		if !broken && matches(r) {
			broken = true
			return f.verdict
		}
		select {
		case <-release:
			return rollcalltest.Verdict{}
		default:
			return rollcalltest.Verdict{LoseRequest: broken}
		}
	}
}

// atCall calls do at the beginning of a Client's calls.
type atCall func(op, path string)

// Begin implements client.Observer.
func (do atCall) Begin(ctx context.Context, op, path string) (context.Context, func(client.Outcome)) {
	do(op, path)
	return ctx, nil
}

// clientEndingAt opens a session that ends at the beginning of the client's first call of the operation *op. The call
// continues when the client knows.
func (s *scene) clientEndingAt(op *string) (c *client.Client) {
	s.t.Helper()
	c = s.clientWith(client.Config{Observer: atCall(func(called, _ string) {
		if called != *op {
			return
		}
		*op = ""
		if err := s.srv.ExpireSession(sessionOf(c)); err != nil {
			s.t.Error(err)
		}
		for range c.States(s.ctx) { // until the last state
		}
	})})
	return c
}
