package load

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"rollcall/client"
	"rollcall/operator/drill/judge"
	"rollcall/operator/drill/result"
	"rollcall/zk/jute"
)

// seat is a client of the load. It has one session after the other: its lives.
type seat struct {
	l       *Load
	name    string
	servers string // connect string
	gate    gate
	random  *rand.Rand
	events  func(v *life, e client.Event) // on the client's goroutine; nil: nothing is watched
	quit    chan struct{}                 // a value makes a holder abandon its session
}

// life is one session of a seat.
type life struct {
	seat *seat
	c    *client.Client
	id   string

	// The recorder's lock guards these.
	rec     judge.Session
	state   judge.State
	timeout result.Millis
}

// retryAfter is the time after a failure before the next attempt, so that a server that fails at once is not flooded.
const retryAfter = 50 * time.Millisecond

// run opens one session after the other until the load stops, and works with each. work returns when v.over, or when
// it has abandoned the session.
func (s *seat) run(work func(v *life)) {
	for !s.l.stopping() {
		v, err := s.open()
		if err != nil {
			s.l.sleep(retryAfter)
			continue
		}
		work(v)
		v.end()
	}
}

// open opens a session. It waits until a server accepts it, or the load stops.
func (s *seat) open() (*life, error) {
	if s.quit != nil { // a holder: there may be thousands
		select {
		case s.l.opening <- struct{}{}:
			defer func() { <-s.l.opening }()
		case <-s.l.run.Done():
			return nil, s.l.run.Err()
		}
	}
	v := &life{seat: s, timeout: result.Since(s.l.cfg.Timeout)}
	v.rec.Client = s.name
	r := s.l.rec
	r.born(v)
	cfg := client.Config{
		Timeout: s.l.cfg.Timeout, TLS: s.l.cfg.TLS, Clock: s.l.cfg.Clock, DialConn: s.gate.dialConn,
		// A session ends when a server says so: what the client alone believes is not evidence.
		GiveUpAfter: client.NeverGiveUp,
		// A request is sent once, so that each answer is of one request.
		WhileSuspended: client.Fail,
		OnState: func(change client.StateChange) {
			r.stateChanged(v, change, result.Since(time.Duration(s.gate.dialed.Load())))
		},
		OnPong: func(took time.Duration) {
			now := r.now()
			r.answered(v, judge.Answer{Sent: now - result.Since(took), At: now, Ask: judge.Ping, Member: v.member()})
		},
	}
	if s.events != nil {
		cfg.OnEvent = func(e client.Event) { s.events(v, e) }
	}
	c, err := client.Dial(s.l.run, s.servers, cfg)
	if err != nil {
		r.ended(v, judge.Abandoned)
		return nil, err
	}
	v.c = c
	id, timeout := c.Session()
	v.id = id.String()
	r.named(v, v.id, result.Since(timeout))
	return v, nil
}

// member returns the member that the client is connected to, or was.
func (v *life) member() string {
	r := v.seat.l.rec
	r.mu.Lock()
	defer r.mu.Unlock()
	return v.state.Member
}

// over reports whether the work must end: the load stops, or the session has ended.
func (v *life) over() bool { return v.seat.l.stopping() || v.c.State().State.IsFinal() }

// pause waits between two requests.
func (v *life) pause(d time.Duration) {
	v.seat.l.sleep(d)
	v.seat.gate.wait(v.seat.l.final.Done())
}

// call sends a request and notes its answer. Unless the load ends sooner, f's context lasts for two timeouts: a server
// that answers later has lost the session's lease. f sends one request.
func (v *life) call(ask judge.Ask, f func(ctx context.Context) error) (answer judge.Answer, err error) {
	v.seat.gate.wait(v.seat.l.final.Done())
	ctx, cancel := context.WithTimeout(v.seat.l.final, 2*v.seat.l.cfg.Timeout)
	defer cancel()
	r := v.seat.l.rec
	answer = judge.Answer{Ask: ask, Sent: r.now(), Member: v.member()}
	err = f(ctx)
	answer.At = r.now()
	if v.member() != answer.Member {
		answer.Member = ""
	}
	if answered(err) {
		r.answered(v, answer)
	}
	return answer, err
}

// answered reports whether a server has answered the request with this error, and the session lived.
func answered(err error) bool {
	if err == nil {
		return true
	}
	_, code := errors.AsType[jute.Code](err)
	return code && !client.MayHaveHappened(err) && !errors.Is(err, client.ErrExpired)
}

// outcome returns the outcome of a write with this error.
func outcome(err error) judge.Outcome {
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

// end closes the session, if it lives. If that is not answered before the load ends, the session is abandoned.
func (v *life) end() {
	how := judge.Closed
	if err := v.c.Close(v.seat.l.final); err != nil {
		how = judge.Abandoned
	}
	v.seat.l.rec.ended(v, how)
}

// abandon ends the client and leaves its session to expire.
func (v *life) abandon() {
	v.c.Abandon()
	v.seat.l.rec.ended(v, judge.Abandoned)
}
