package bench

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"rollcall/client"
	"rollcall/jute"
)

// expiry has sessions end without a word, all at once, each with an ephemeral node whose
// end an observer hears of. An op is an expiry; its latency is how late it came: from the
// session's timeout after its last request was sent.
func (r *run) expiry() (Result, error) {
	o, err := r.observe("silent")
	if err != nil {
		return Result{}, err
	}
	defer o.c.Abandon()
	gone := make([]<-chan time.Time, r.p.Silent)
	clients, err := r.openAll(r.ctx, r.p.Silent, func(i int) client.Config {
		return client.Config{Servers: r.home(i)}
	}, func(i int, _ *client.Client) { gone[i] = o.expect(strconv.Itoa(i), 1) })
	defer func() { r.closeAll(clients) }()
	if err != nil {
		return Result{}, err
	}
	err = inParallel(r.ctx, r.p.Silent, openers, func(_ context.Context, i int) error {
		path := appendPadded([]byte(o.folder.path+"/"+strconv.Itoa(i)+"-"), 0)
		_, err := clients[i].Create(r.ctx, string(path), nil, jute.Ephemeral, nil)
		return err
	})
	if err != nil {
		return Result{}, err
	}
	due := make([]time.Time, r.p.Silent)
	err = inParallel(r.ctx, r.p.Silent, openers, func(_ context.Context, i int) error {
		_, timeout := clients[i].Session()
		due[i] = time.Now().Add(timeout)
		_, err := clients[i].Exists(r.ctx, o.folder.path, false)
		clients[i].Abandon()
		return err
	})
	if err != nil {
		return Result{}, err
	}
	return r.awaitExpiry(gone, due)
}

// lateTime is how late, after three timeouts, an expiry is waited for.
const lateTime = 10 * time.Second

func (r *run) awaitExpiry(gone []<-chan time.Time, due []time.Time) (Result, error) {
	begin, err := r.read(false)
	if err != nil {
		return Result{}, err
	}
	var heard atomic.Int64
	defer r.report(func() string { return fmt.Sprintf("%d of %d expired", heard.Load(), len(gone)) })()
	limit := time.NewTimer(3*r.p.Timeout + lateTime)
	defer limit.Stop()
	var late tally
	var early, missing int64
	var earliest time.Duration
	var first, last time.Time
	over := false
	for i, g := range gone {
		var at time.Time
		select {
		case at = <-g:
		default:
			if !over {
				select {
				case at = <-g:
				case <-limit.C:
					over = true
				case <-r.ctx.Done():
					return Result{}, r.ctx.Err()
				}
			}
		}
		if at.IsZero() {
			missing++
			continue
		}
		heard.Add(1)
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
		if d := at.Sub(due[i]); d < 0 {
			early++
			earliest = max(earliest, -d)
		}
		late.ok.Add(at.Sub(due[i]))
	}
	late.fail("did not expire in time", missing)
	end, err := r.read(true)
	if err != nil {
		return Result{}, err
	}
	result := r.result(&late, begin, end)
	result.Seconds = round(end.at.Sub(begin.at).Seconds())
	result.PerSecond = round(float64(result.Ops) / end.at.Sub(begin.at).Seconds())
	result.Extra = []Figure{faults("early", early), millis("earliest by", earliest), millis("first to last", last.Sub(first))}
	return result, nil
}
