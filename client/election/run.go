package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rollcall/client"
)

// Config has the settings of an Election. The zero value is ready for use.
type Config struct {
	Layout Layout       // of the nodes; default: Latch
	Data   []byte       // of this client's candidates, for observers: such as an id or an address
	ACL    []client.ACL // of the nodes; nil: everyone has every permission

	// OnHang is called if Run's function has not returned within Grace after the leadership ended. It should end the
	// process, because a function that continues may do harm. If OnHang is nil, Run waits for the function.
	OnHang func()

	// Grace is the time within which Run's function must return after the leadership has ended. Default: a twentieth of
	// the session timeout.
	Grace time.Duration
}

// graceDivisor makes the default grace half of the margin between the end of a right and the earliest time at which the
// servers can give it to another client.
const graceDivisor = 20

// resignPatience limits the time for which Run waits for the servers after its function has returned. After that, the
// node is deleted in the background.
const resignPatience = 2 * time.Second

// Run campaigns, and calls lead when this client leads. Run returns when lead has returned, and resigns then. It leads
// once: call it in a loop to campaign again.
//
// The context of lead ends with ctx and when the leadership ends; lead must return then, because another client may
// lead soon. See Config.OnHang.
//
// The error is that of lead. errors.Is also finds client.ErrNotHeld if the leadership ended before lead returned,
// unless lead resigned itself. If the campaign fails, lead is not called.
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context, l *Leadership) error) (err error) {
	l, err := e.Campaign(ctx)
	if err != nil {
		return err
	}
	leading, cancel := l.Context(ctx)
	defer cancel()
	returned := make(chan struct{})
	l.OnLost(func() { e.enforceGrace(returned) })
	defer func() { // also if lead panics
		close(returned)
		if lost := l.resignAfterLead(ctx); lost != nil {
			err = errors.Join(err, lost)
		}
	}()
	return lead(leading, l)
}

// Run is Election.Run with the default Config.
func Run(ctx context.Context, c *client.Client, parent string,
	lead func(ctx context.Context, l *Leadership) error,
) error {
	return New(c, parent, Config{}).Run(ctx, lead)
}

// enforceGrace calls OnHang if lead does not return within Grace. It is called when the leadership ends.
func (e *Election) enforceGrace(returned <-chan struct{}) {
	if e.cfg.OnHang == nil {
		return
	}
	grace := e.cfg.Grace
	if grace == 0 {
		_, timeout := e.c.Session()
		grace = timeout / graceDivisor
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-returned:
	case <-timer.C:
		e.cfg.OnHang()
	}
}

// resignAfterLead resigns after lead has returned. It returns an error if the leadership had ended already.
func (l *Leadership) resignAfterLead(ctx context.Context) (lost error) {
	if !l.Held() && !l.givenUp.Load() {
		lost = fmt.Errorf("election: %s: %w", l.Path(), client.ErrNotHeld)
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignPatience)
	defer cancel()
	_ = l.Release(patience) // continues in the background until the node is gone or the session has ended
	return lost
}

// Keep takes part in the election under parent until ctx ends, and calls lead each time this program leads. It
// campaigns again after the end of a session, as client.Keep does, and after a leadership that has ended by itself,
// whatever lead then returns.
//
// The context of lead ends with ctx, with the session, and when the leadership ends; lead must return then: see
// Election.Run. If lead returns while it leads, Keep resigns, closes the session, and returns lead's error, which may
// be nil. Otherwise the error is that of client.Keep, or of the campaign.
func Keep(ctx context.Context, servers string, session client.Config, parent string, cfg Config,
	lead func(ctx context.Context, l *Leadership) error,
) error {
	var left error // what lead has returned while it led; not for client.Keep, which continues after some errors
	err := client.Keep(ctx, servers, session, func(ctx context.Context, c *client.Client) error {
		var err error
		left, err = New(c, parent, cfg).keepLeading(ctx, lead)
		return err
	})
	if left != nil {
		return left
	}
	return err
}

// campaignPause is the time until Keep campaigns again when it could not prove in time that its session lives. After a
// suspend that takes a hundredth of the timeout. Without a pause, Keep would send requests all that time.
const campaignPause = 100 * time.Millisecond

// keepLeading campaigns, and calls lead, until lead returns while it leads; left is then its error. err is that of a
// campaign.
func (e *Election) keepLeading(ctx context.Context, lead func(context.Context, *Leadership) error) (left, err error) {
	for {
		var called, ended bool // ended: the leadership, before lead returned
		err := e.Run(ctx, func(leading context.Context, l *Leadership) error {
			called = true
			err := lead(leading, l)
			ended = !l.Held() && !l.givenUp.Load() // the context ends later: a timer ends it
			return err
		})
		switch {
		case ctx.Err() == nil && ended:
		case called:
			return err, nil
		case ctx.Err() == nil && errors.Is(err, client.ErrNotHeld):
			select {
			case <-time.After(campaignPause):
			case <-ctx.Done():
			}
		default:
			return nil, err
		}
	}
}
