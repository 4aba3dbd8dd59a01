package admin

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	events "rollcall/operator/audit"
)

// Acts is the audit log of a member.
type Acts interface {
	// Add never blocks.
	Add(act events.Event)

	// Require returns nil when a line about an act is on the disk, or at once if the log need not have it. If it returns an error, the
	// act must not be done. It blocks for two seconds at most.
	Require(ctx context.Context, act events.Event) error
}

// maxRefusals limits the log lines in a minute about rejected requests of the class changes. Every user of this
// machine can send them without end, and the log must stay readable.
const maxRefusals = 20

// maxTarget is the longest target of a request, and the longest reason, in a line of the log, in bytes.
// Strangers choose the target.
const maxTarget = 300

// audit logs each request of the class changes as one line, "audit". The lines about refused requests are
// bounded, because strangers cause them. The others are not, because only administrators do.
type audit struct {
	log      *slog.Logger
	auditLog Acts

	mu     sync.Mutex
	minute time.Time // when the minute began in which refused requests are counted
	count  int       // of refused requests in that minute
}

// request returns the fields of the log line for r. The argument who names the administrator. It is "" if r has
// no credentials.
func (a *audit) request(e *endpoint, r *http.Request, who string) []any {
	target := "this member"
	if e.target != nil {
		target = e.target(r)
	}
	if who == "" {
		who = "nobody"
	}
	return []any{"action", e.action, "target", short(target), "by", who, "from", r.RemoteAddr}
}

// finished logs a request that an endpoint has answered. failure is the reason why it failed or why its outcome is not
// known; nil if it was done.
func (a *audit) finished(e *endpoint, r *http.Request, who string, failure *Failure) {
	outcome := "done"
	switch {
	case failure != nil && failure.Status == http.StatusGatewayTimeout:
		outcome = "unknown: " + failure.Text
	case failure != nil:
		outcome = "failed: " + failure.Text
	}
	a.log.Info("audit", append(a.request(e, r, who), "outcome", short(outcome))...)
	a.act(e, r, who, outcome)
}

// act puts a request into the audit log, too, if this member has one.
func (a *audit) act(e *endpoint, r *http.Request, who, outcome string) {
	if a.auditLog == nil {
		return
	}
	act := actOf(e, r, who)
	if outcome != "done" {
		act.Result, act.Error = events.Failure, short(outcome)
	}
	a.auditLog.Add(act)
}

// actOf returns the event of a request.
func actOf(e *endpoint, r *http.Request, who string) events.Event {
	act := events.Event{User: cmp.Or(who, "nobody"), Address: r.RemoteAddr, Operation: e.action}
	if e.target != nil {
		act.Target = short(e.target(r))
	}
	return act
}

// required returns nil if an act may be done, or why not: it must have a line before, and has none.
func (a *audit) required(e *endpoint, r *http.Request, who string) *Failure {
	if a.auditLog == nil {
		return nil
	}
	if err := a.auditLog.Require(r.Context(), actOf(e, r, who)); err != nil {
		return &Failure{Status: http.StatusServiceUnavailable, Text: err.Error() + "; nothing was done, because audit.required is set"}
	}
	return nil
}

// rejected logs a request that no endpoint has answered. Of more than maxRefusals in a minute it logs how
// many there were, with the next one that it logs.
func (a *audit) rejected(e *endpoint, r *http.Request, who, why string) {
	now := time.Now()
	a.mu.Lock()
	omitted := 0
	if now.Sub(a.minute) >= time.Minute {
		omitted, a.minute, a.count = max(0, a.count-maxRefusals), now, 0
	}
	a.count++
	n := a.count
	a.mu.Unlock()
	if n > maxRefusals {
		return
	}
	line := append(a.request(e, r, who), "outcome", short("refused: "+why))
	if omitted > 0 {
		line = append(line, "omitted", omitted)
	}
	if n == maxRefusals {
		line = append(line, "more", "further refused requests of this minute are only counted")
	}
	a.log.Info("audit", line...)
	a.act(e, r, who, "refused: "+why)
}

// short returns text, or the beginning of it.
func short(text string) string {
	if len(text) > maxTarget {
		return text[:maxTarget] + "…"
	}
	return text
}
