package trust

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"rollcall/zk/kerberos"
)

// Rules for tickets:
//
//   - No handshake waits for the KDC. It takes a ticket from memory, or fails.
//   - A ticket is replaced after a quarter of its life, so a KDC may be away for three quarters of it.
const (
	// renewalShare is the share of a ticket's life after which the next one is got: one in 4.
	renewalShare = 4
	// minTicketPause is the least time between two rounds, and the first pause after a round that failed. The pause
	// doubles with each further failure, up to maxTicketPause.
	minTicketPause = time.Second
	maxTicketPause = time.Minute
	// ticketCheckInterval is the interval at which the members are compared with the tickets. It is far shorter than a
	// change of members takes, so a new member's ticket is there before an election needs it.
	ticketCheckInterval = 10 * time.Second
	// ticketRoundLimit limits the requests of one round.
	ticketRoundLimit = 30 * time.Second
	// ticketLogInterval is the least time between two log lines about rounds that fail.
	ticketLogInterval = 10 * time.Minute
	// maxTickets limits the tickets for known members, of a few KiB each. Each member has one for each of its hosts, of
	// which it has two while its address changes.
	maxTickets = 256
	// maxNewcomers limits the tickets for newcomers. A server list has at most 255 members.
	maxNewcomers = 255
	// newcomerLifetime is the time from the last dial of a newcomer until it is forgotten. A change dials its newcomers
	// every half second, for a few seconds, and then they are known or the change was rejected.
	newcomerLifetime = time.Minute
)

// ticketSource gets tickets.
type ticketSource interface {
	// Request gets a ticket for each service from the KDC, within ctx. It returns those that it has got, and an error
	// about the others.
	Request(ctx context.Context, services []kerberos.Principal) ([]kerberos.ServiceTicket, error)
}

// tickets has a ticket for each other member, and gets the next one ahead of its end. It also has one for each newcomer: a
// member that an operator's change names, and that may not be known yet. It is safe for concurrent use.
type tickets struct {
	source        ticketSource
	wanted        func() []kerberos.Principal // of the other members; takes no lock of this package
	logger        *slog.Logger
	needed        chan struct{} // signals run that a handshake lacked a ticket, or that the members have changed; one place
	newcomerAdded chan struct{} // signals run that there is another newcomer; one place

	mu        sync.Mutex // never held over a request
	held      map[kerberos.Principal]heldTicket
	newcomers map[kerberos.Principal]time.Time // when each was last dialed; at most maxNewcomers
	roundEnd  chan struct{}                    // closed at the end of the next round
	failed    error                            // of the last round; nil: none
	logged    time.Time                        // when the last failure was logged; zero: none since the last success. The goroutine that gets tickets owns it
}

// heldTicket is a ticket that was got at a time of this member's clock.
type heldTicket struct {
	kerberos.ServiceTicket
	since    time.Time
	rejected bool // its member did not accept it
}

// isDue reports whether the next ticket must be got. The age is by the monotonic clock, and what is left by the wall clock, which may
// have been set since.
func (h heldTicket) isDue(now time.Time) bool {
	age, left, life := now.Sub(h.since), h.Ends.Sub(now), h.Ends.Sub(h.since)
	return h.rejected || age >= life/renewalShare || left <= life-life/renewalShare
}

func newTickets(source ticketSource, wanted func() []kerberos.Principal, log *slog.Logger) *tickets {
	return &tickets{
		source: source, wanted: wanted, logger: log, needed: make(chan struct{}, 1), newcomerAdded: make(chan struct{}, 1),
		held: map[kerberos.Principal]heldTicket{}, newcomers: map[kerberos.Principal]time.Time{}, roundEnd: make(chan struct{}),
	}
}

// addNewcomer has run get the ticket for a newcomer, for newcomerLifetime. If there are maxNewcomers others, it forgets
// the one that was dialed longest ago.
func (t *tickets) addNewcomer(member kerberos.Principal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, again := t.newcomers[member]; !again {
		if len(t.newcomers) >= maxNewcomers {
			delete(t.newcomers, t.oldestNewcomer())
		}
		signalOnce(t.newcomerAdded)
	}
	t.newcomers[member] = time.Now()
}

// oldestNewcomer returns the newcomer that was dialed longest ago. The caller holds mu.
func (t *tickets) oldestNewcomer() (oldest kerberos.Principal) {
	first := true
	for member, dialed := range t.newcomers {
		if first || dialed.Before(t.newcomers[oldest]) {
			oldest, first = member, false
		}
	}
	return oldest
}

// allWanted returns the other members and the newcomers, each once. It forgets the newcomers whose time is over.
func (t *tickets) allWanted() []kerberos.Principal {
	all := t.wanted()
	all = all[:min(len(all), maxTickets)]
	t.mu.Lock()
	defer t.mu.Unlock()
	for member, dialed := range t.newcomers {
		if time.Since(dialed) > newcomerLifetime {
			delete(t.newcomers, member)
		} else if !slices.Contains(all, member) {
			all = append(all, member)
		}
	}
	return all
}

// nextRound returns a channel that is closed at the end of the next round.
func (t *tickets) nextRound() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.roundEnd
}

// ticketFor returns the ticket for a member, or an error that names why there is none. It does not wait.
func (t *tickets) ticketFor(member kerberos.Principal) (kerberos.Ticket, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h, ok := t.held[member]
	if ok && time.Now().Before(h.Ends) {
		return h.Ticket, nil
	}
	signalOnce(t.needed)
	why := t.failed
	if why == nil {
		why = errors.New("it is being got from the KDC")
	}
	if ok {
		return kerberos.Ticket{}, fmt.Errorf("the Kerberos ticket for %s has expired at %s: %w", member, h.Ends.UTC().Format(time.RFC3339), why)
	}
	return kerberos.Ticket{}, fmt.Errorf("no Kerberos ticket for %s: %w", member, why)
}

// noteRejected records that a member has not accepted its ticket: its key may be a new one. The ticket stays in use until
// the next one is there. A young ticket is not replaced, so a member that rejects every one costs the KDC little.
func (t *tickets) noteRejected(member kerberos.Principal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h, ok := t.held[member]
	if ok && time.Since(h.since) >= ticketCheckInterval {
		h.rejected = true
		t.held[member] = h
		signalOnce(t.needed)
	}
}

// endOf returns the end of the ticket for a member, or the zero Time if it is missing.
func (t *tickets) endOf(member kerberos.Principal) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.held[member].Ends
}

// end returns the time at which the first ticket for a member or a newcomer ends, or the zero Time if one is missing.
func (t *tickets) end() (first time.Time) {
	wanted := t.allWanted()
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, member := range wanted {
		h, ok := t.held[member]
		if !ok {
			return time.Time{}
		}
		if i == 0 || h.Ends.Before(first) {
			first = h.Ends
		}
	}
	return first
}

// run gets tickets until ctx ends.
func (t *tickets) run(ctx context.Context) {
	pause := time.Duration(0) // after a round that has failed
	for {
		var err error
		if due := t.due(); len(due) > 0 {
			err = t.get(ctx, due)
		}
		if err != nil {
			pause = min(max(2*pause, minTicketPause), maxTicketPause)
		} else {
			pause = 0
		}
		if !sleep(ctx, minTicketPause) {
			return
		}
		if err == nil {
			t.awaitNeed(ctx, t.needed, ticketCheckInterval)
		} else { // what is needed has just failed
			t.awaitNeed(ctx, nil, pause-minTicketPause)
		}
	}
}

// awaitNeed waits until needed has a signal or there is another newcomer, for d at most.
func (t *tickets) awaitNeed(ctx context.Context, needed <-chan struct{}, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-needed:
	case <-t.newcomerAdded:
	case <-time.After(d):
	}
}

// sleep reports whether d passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// due returns the members and newcomers whose next ticket must be got, and forgets the tickets of others.
func (t *tickets) due() (due []kerberos.Principal) {
	wanted := t.allWanted()
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for member := range t.held {
		if !slices.Contains(wanted, member) {
			delete(t.held, member)
		}
	}
	for _, member := range wanted {
		if h, ok := t.held[member]; !ok || h.isDue(now) {
			due = append(due, member)
		}
	}
	return due
}

// get gets tickets from the KDC. Only one goroutine may call get.
func (t *tickets) get(ctx context.Context, members []kerberos.Principal) error {
	ctx, cancel := context.WithTimeout(ctx, ticketRoundLimit)
	defer cancel()
	since := time.Now()
	got, err := t.source.Request(ctx, members)
	t.mu.Lock()
	for _, ticket := range got {
		t.held[ticket.Service] = heldTicket{ServiceTicket: ticket, since: since}
	}
	t.failed = err
	close(t.roundEnd)
	t.roundEnd = make(chan struct{})
	t.mu.Unlock()
	switch {
	case err == nil && !t.logged.IsZero():
		t.logged = time.Time{}
		t.logger.Info("Kerberos tickets for members were got again", "first_ends", t.end().UTC())
	case err != nil && time.Since(t.logged) >= ticketLogInterval && !errors.Is(ctx.Err(), context.Canceled):
		t.logged = time.Now()
		t.logFailure(err)
	}
	return err
}

func (t *tickets) logFailure(err error) {
	end := t.end()
	if end.IsZero() {
		t.logger.Warn("a Kerberos ticket for a member is missing", "err", err)
		return
	}
	t.logger.Warn("Kerberos tickets for members cannot be renewed", "first_ends", end.UTC(), "err", err)
}
