package bench

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/client"
)

// runResume lets all sessions lose their connections and come back at once, repeatedly. An op is a resumed
// session. Its latency counts from the start of its storm.
func (r *caseRun) runResume() (Result, error) {
	clients, err := r.openManySessions(r.ctx, r.params.Conns, func(i int) sessionConfig {
		return sessionConfig{servers: r.serverFor(i)}
	}, func(int, *client.Client) {})
	defer func() { r.closeOrAbandon(clients) }()
	if err != nil {
		return Result{}, err
	}
	back := &resumeResults{}
	var done atomic.Int64
	defer r.reportProgress(func() string { return fmt.Sprintf("%d of %d storms", done.Load(), r.params.ResumeRounds) })()
	for n := range r.params.ResumeRounds {
		if err := r.reconnectAll(back, clients, n+1); err != nil {
			return Result{}, err
		}
		done.Add(1)
	}
	return back.caseResult(r), nil
}

// resumeResults sums up all storms.
type resumeResults struct {
	intervals
	stormSpans []time.Duration // per storm, until the last session was back

	mu           sync.Mutex
	resumed      tally
	lostSessions int64
}

// reconnectAll drops the connections of all clients, and replaces each client by one that resumes its session
// at another server, as after the loss of a member. places is the distance to that server in the list. A
// client whose session is lost becomes nil.
func (r *caseRun) reconnectAll(back *resumeResults, clients []*client.Client, places int) error {
	sessions := make([]client.Handover, len(clients))
	for i, c := range clients {
		if c != nil {
			var err error
			if sessions[i], err = c.HandOver(r.ctx); err != nil {
				return err
			}
		}
	}
	begin, err := r.readUsage(false)
	if err != nil {
		return err
	}
	var wait sync.WaitGroup
	for i, c := range clients {
		if c == nil {
			continue
		}
		wait.Go(func() {
			c, err := r.openSession(r.ctx, sessionConfig{
				servers: r.serverFor(i + places), Config: client.Config{Resume: &sessions[i]},
			})
			clients[i] = c // nil after an error
			back.recordResume(time.Since(begin.at), err)
		})
	}
	wait.Wait()
	end, err := r.readUsage(true)
	if err != nil {
		return err
	}
	back.addInterval(begin, end)
	back.stormSpans = append(back.stormSpans, end.at.Sub(begin.at))
	return r.ctx.Err()
}

func (b *resumeResults) recordResume(after time.Duration, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.resumed.addFailures(innermostMessage(err), 1)
		b.lostSessions++
		return
	}
	b.resumed.latencies.Add(after)
}

func (b *resumeResults) caseResult(r *caseRun) Result {
	result := b.intervals.intervalResult(r, &b.resumed)
	slices.Sort(b.stormSpans)
	result.Extra = []Figure{
		faultFigure("sessions lost", b.lostSessions),
		millisFigure("all back p50", b.stormSpans[len(b.stormSpans)/2]),
		millisFigure("all back at most", b.stormSpans[len(b.stormSpans)-1]),
	}
	return result
}
