package bench

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/client"
)

// resume lets all sessions lose their connections and come back at once, again and again. An op is a session that is
// back. Its latency counts from when all begin to come back.
func (r *run) resume() (Result, error) {
	clients, err := r.openAll(r.ctx, r.p.Conns, func(i int) client.Config {
		return client.Config{Servers: r.home(i)}
	}, func(int, *client.Client) {})
	defer func() { r.closeAll(clients) }()
	if err != nil {
		return Result{}, err
	}
	back := &returns{}
	var done atomic.Int64
	defer r.report(func() string { return fmt.Sprintf("%d of %d storms", done.Load(), r.p.Storms) })()
	for n := range r.p.Storms {
		if err := r.comeBack(back, clients, n+1); err != nil {
			return Result{}, err
		}
		done.Add(1)
	}
	return back.result(r), nil
}

// returns holds the results of all storms of resume.
type returns struct {
	intervals
	spans []time.Duration // for each storm, until the last session was back

	mu   sync.Mutex
	back tally
	lost int64
}

// comeBack ends the connections of all clients, and replaces each of them by one that resumes its session at the server
// that is so many places after its first one, as after the loss of a member. A client whose session does not come back
// becomes nil.
func (r *run) comeBack(back *returns, clients []*client.Client, places int) error {
	sessions := make([]client.Resume, len(clients))
	for i, c := range clients {
		if c != nil {
			sessions[i] = c.Resume()
		}
	}
	abandonAll(clients)
	begin, err := r.read(false)
	if err != nil {
		return err
	}
	var wait sync.WaitGroup
	for i, c := range clients {
		if c == nil {
			continue
		}
		wait.Go(func() {
			c, err := r.open(r.ctx, client.Config{Servers: r.home(i + places), Resume: &sessions[i]})
			clients[i] = c // nil after an error
			back.note(time.Since(begin.at), err)
		})
	}
	wait.Wait()
	end, err := r.read(true)
	if err != nil {
		return err
	}
	back.spend(begin, end)
	back.spans = append(back.spans, end.at.Sub(begin.at))
	return r.ctx.Err()
}

// note counts a session that has come back after so long, or has not.
func (b *returns) note(after time.Duration, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.back.fail(plain(err), 1)
		b.lost++
		return
	}
	b.back.ok.Add(after)
}

func (b *returns) result(r *run) Result {
	result := b.intervals.result(r, &b.back)
	slices.Sort(b.spans)
	result.Extra = []Figure{
		faults("sessions lost", b.lost),
		millis("all back p50", b.spans[len(b.spans)/2]), millis("all back at most", b.spans[len(b.spans)-1]),
	}
	return result
}
