package load

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"rollcall/client"
	"rollcall/lab/judge"
	"rollcall/lab/result"
	"rollcall/zk/jute"
)

// clientSlot is a client of the load. It has one session after the other: its lives.
type clientSlot struct {
	load            *Load
	name            string
	servers         string // connect string
	gate            clientGate
	random          *rand.Rand
	onEvent         func(v *sessionLife, e client.Event) // on the client's goroutine; nil: nothing is watched
	abandonRequests chan struct{}                        // a value makes a holder abandon its session
}

// sessionLife is one session of a seat.
type sessionLife struct {
	slot   *clientSlot
	client *client.Client
	id     string

	// The recorder's lock guards these.
	rec     judge.Session
	state   judge.State
	timeout result.Millis
}

// retryAfter is the time after a failure before the next attempt, so that a server that fails at once is not flooded.
const retryAfter = 50 * time.Millisecond

// runSessions opens one session after the other until the load stops, and works with each. work returns when v.isOver,
// or when it has abandoned the session.
func (s *clientSlot) runSessions(work func(v *sessionLife)) {
	for !s.load.isStopping() {
		v, err := s.openSession()
		if err != nil {
			s.load.sleepWhileRunning(retryAfter)
			continue
		}
		work(v)
		v.closeSession()
	}
}

// openSession opens a session. It waits until a server accepts it, or the load stops.
func (s *clientSlot) openSession() (*sessionLife, error) {
	if s.abandonRequests != nil { // a holder: there may be thousands
		select {
		case s.load.opening <- struct{}{}:
			defer func() { <-s.load.opening }()
		case <-s.load.running.Done():
			return nil, s.load.running.Err()
		}
	}
	v := &sessionLife{slot: s, timeout: result.Since(s.load.cfg.Timeout)}
	v.rec.Client = s.name
	r := s.load.recorder
	r.noteOpening(v)
	cfg := client.Config{
		Timeout: s.load.cfg.Timeout, TLS: s.load.cfg.TLS, Clock: s.load.cfg.Clock, DialConn: s.gate.dialConn,
		// A session ends when a server says so: what the client alone believes is not evidence.
		GiveUpAfter: client.NeverGiveUp,
		// A request is sent once, so that each answer is of one request.
		WhileSuspended: client.Fail,
		OnState: func(change client.StateChange) {
			r.stateChanged(v, change, result.Since(time.Duration(s.gate.dialedAt.Load())))
		},
		OnPong: func(took time.Duration) {
			now := r.sinceStartMillis()
			r.noteAnswer(v, judge.Answer{Sent: now - result.Since(took), At: now, Ask: judge.Ping, Member: v.currentMember()})
		},
	}
	if s.onEvent != nil {
		cfg.OnEvent = func(e client.Event) { s.onEvent(v, e) }
	}
	c, err := client.Dial(s.load.running, s.servers, cfg)
	if err != nil {
		r.noteEnd(v, judge.Abandoned)
		return nil, err
	}
	v.client = c
	id, timeout := c.Session()
	v.id = id.String()
	r.noteSession(v, v.id, result.Since(timeout))
	return v, nil
}

// currentMember returns the member that the client is connected to, or was.
func (v *sessionLife) currentMember() string {
	r := v.slot.load.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	return v.state.Member
}

// isOver reports whether the work must end: the load stops, or the session has ended.
func (v *sessionLife) isOver() bool {
	return v.slot.load.isStopping() || v.client.State().State.IsFinal()
}

// pauseFor waits between two requests.
func (v *sessionLife) pauseFor(d time.Duration) {
	v.slot.load.sleepWhileRunning(d)
	v.slot.gate.waitOpen(v.slot.load.final.Done())
}

// sendRequest sends a request and notes its answer. Unless the load ends sooner, f's context lasts for two timeouts: a server
// that answers later has lost the session's lease. f sends one request.
func (v *sessionLife) sendRequest(ask judge.Ask, f func(ctx context.Context) error) (answer judge.Answer, err error) {
	v.slot.gate.waitOpen(v.slot.load.final.Done())
	ctx, cancel := context.WithTimeout(v.slot.load.final, 2*v.slot.load.cfg.Timeout)
	defer cancel()
	r := v.slot.load.recorder
	answer = judge.Answer{Ask: ask, Sent: r.sinceStartMillis(), Member: v.currentMember()}
	err = f(ctx)
	answer.At = r.sinceStartMillis()
	if v.currentMember() != answer.Member {
		answer.Member = ""
	}
	if hasReply(err) {
		r.noteAnswer(v, answer)
	}
	return answer, err
}

// hasReply reports whether a server has answered the request with this error, and the session lived.
func hasReply(err error) bool {
	if err == nil {
		return true
	}
	_, code := errors.AsType[jute.Code](err)
	return code && !client.MayHaveHappened(err) && !errors.Is(err, client.ErrExpired)
}

// outcomeOf returns the outcome of a write with this error.
func outcomeOf(err error) judge.Outcome {
	switch {
	case err == nil:
		return judge.Acked
	case client.MayHaveHappened(err):
		return judge.Unknown
	default:
		return judge.Failed
	}
}

func isNodeExists(err error) bool { return errors.Is(err, client.ErrNodeExists) }

func isNoNode(err error) bool { return errors.Is(err, client.ErrNoNode) }

// closeSession closes the session, if it lives. If that is not answered before the load ends, the session is abandoned.
func (v *sessionLife) closeSession() {
	how := judge.Closed
	if err := v.client.Close(v.slot.load.final); err != nil {
		how = judge.Abandoned
	}
	v.slot.load.recorder.noteEnd(v, how)
}
