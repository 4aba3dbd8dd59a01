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
	// maxTickets limits the tickets, of a few KiB each. Each member has one for each of its hosts, of which it has two
	// while its address changes.
	maxTickets = 256
)

// ticketSource gets tickets.
type ticketSource interface {
	// Request gets a ticket for each service from the KDC, within ctx. It returns those that it has got, and an error
	// about the others.
	Request(ctx context.Context, services []kerberos.Principal) ([]kerberos.ServiceTicket, error)
}

// tickets has a ticket for each other member, and gets the next one ahead of its end. It is safe for concurrent use.
type tickets struct {
	source ticketSource
	wanted func() []kerberos.Principal // of the other members; takes no lock of this package
	logger *slog.Logger
	needed chan struct{} // signals run that a handshake lacked a ticket; one place

	mu     sync.Mutex // never held over a request
	held   map[kerberos.Principal]heldTicket
	failed error     // of the last round; nil: none
	logged time.Time // when the last failure was logged; zero: none since the last success. The goroutine that gets tickets owns it
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
	return &tickets{source: source, wanted: wanted, logger: log, needed: make(chan struct{}, 1), held: map[kerberos.Principal]heldTicket{}}
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

// end returns the time at which the first ticket for a member ends, or the zero Time if one is missing.
func (t *tickets) end() (first time.Time) {
	wanted := t.wanted()
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
		if !sleep(ctx, max(pause, minTicketPause)) {
			return
		}
		if err == nil {
			t.awaitNeed(ctx)
		}
	}
}

// awaitNeed waits until a handshake lacks a ticket, or for ticketCheckInterval.
func (t *tickets) awaitNeed(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-t.needed:
	case <-time.After(ticketCheckInterval):
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

// due returns the members whose next ticket must be got, and forgets the tickets of others.
func (t *tickets) due() (due []kerberos.Principal) {
	wanted := t.wanted()
	wanted = wanted[:min(len(wanted), maxTickets)]
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
