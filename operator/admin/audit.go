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

// AuditLog is the audit log of a member.
type AuditLog interface {
	// Add never blocks.
	Add(act events.Event)

	// Require returns nil when a line about an act is on the disk, or at once if the log need not have it. If it returns an error, the
	// act must not be done. It blocks for two seconds at most.
	Require(ctx context.Context, act events.Event) error
}

// maxRejectedLines limits the log lines in a minute about rejected requests of the class changes. Every user of this
// machine can send them without end, and the log must stay readable.
const maxRejectedLines = 20

// maxLoggedText is the longest target of a request, and the longest reason, in a line of the log, in bytes.
// Strangers choose the target.
const maxLoggedText = 300

// requestAuditor logs each request of the class changes as one line, "audit". The lines about refused requests are
// bounded, because strangers cause them. The others are not, because only administrators do.
type requestAuditor struct {
	processLog *slog.Logger
	auditLog   AuditLog

	mu               sync.Mutex
	minuteStart      time.Time // when the minute began in which refused requests are counted
	rejectedInMinute int       // of refused requests in that minute
}

// requestAttrs returns the fields of the log line for r. The argument who names the administrator. It is "" if r has
// no credentials.
func (a *requestAuditor) requestAttrs(e *endpoint, r *http.Request, who string) []any {
	target := "this member"
	if e.auditTarget != nil {
		target = e.auditTarget(r)
	}
	if who == "" {
		who = "nobody"
	}
	return []any{"action", e.action, "target", truncate(target), "by", who, "from", r.RemoteAddr}
}

// logFinished logs a request that an endpoint has answered. failure is the reason why it failed or why its outcome is not
// known; nil if it was done.
func (a *requestAuditor) logFinished(e *endpoint, r *http.Request, who string, failure *Failure) {
	outcome := "done"
	switch {
	case failure != nil && failure.Status == http.StatusGatewayTimeout:
		outcome = "unknown: " + failure.Text
	case failure != nil:
		outcome = "failed: " + failure.Text
	}
	a.processLog.Info("audit", append(a.requestAttrs(e, r, who), "outcome", truncate(outcome))...)
	a.addEvent(e, r, who, outcome)
}

// addEvent puts a request into the audit log, too, if this member has one.
func (a *requestAuditor) addEvent(e *endpoint, r *http.Request, who, outcome string) {
	if a.auditLog == nil {
		return
	}
	act := eventOf(e, r, who)
	if outcome != "done" {
		act.Result, act.Error = events.Failure, truncate(outcome)
	}
	a.auditLog.Add(act)
}

// eventOf returns the event of a request.
func eventOf(e *endpoint, r *http.Request, who string) events.Event {
	act := events.Event{User: cmp.Or(who, "nobody"), Address: r.RemoteAddr, Operation: e.action}
	if e.auditTarget != nil {
		act.Target = truncate(e.auditTarget(r))
	}
	return act
}

// requireEntry returns nil if an act may be done, or why not: it must have a line before, and has none.
func (a *requestAuditor) requireEntry(e *endpoint, r *http.Request, who string) *Failure {
	if a.auditLog == nil {
		return nil
	}
	if err := a.auditLog.Require(r.Context(), eventOf(e, r, who)); err != nil {
		return &Failure{Status: http.StatusServiceUnavailable, Text: err.Error() + "; nothing was done, because audit.required is set"}
	}
	return nil
}

// logRejected logs a request that no endpoint has answered. Of more than maxRefusals in a minute it logs how
// many there were, with the next one that it logs.
func (a *requestAuditor) logRejected(e *endpoint, r *http.Request, who, why string) {
	now := time.Now()
	a.mu.Lock()
	omitted := 0
	if now.Sub(a.minuteStart) >= time.Minute {
		omitted, a.minuteStart, a.rejectedInMinute = max(0, a.rejectedInMinute-maxRejectedLines), now, 0
	}
	a.rejectedInMinute++
	n := a.rejectedInMinute
	a.mu.Unlock()
	if n > maxRejectedLines {
		return
	}
	line := append(a.requestAttrs(e, r, who), "outcome", truncate("refused: "+why))
	if omitted > 0 {
		line = append(line, "omitted", omitted)
	}
	if n == maxRejectedLines {
		line = append(line, "more", "further refused requests of this minute are only counted")
	}
	a.processLog.Info("audit", line...)
	a.addEvent(e, r, who, "refused: "+why)
}

// truncate returns text, or the beginning of it.
func truncate(text string) string {
	if len(text) > maxLoggedText {
		return text[:maxLoggedText] + "…"
	}
	return text
}
