package admin

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"rollcall/operator/audit"
)

// AuditLog is the audit log of a member.
type AuditLog interface {
	// Add never blocks.
	Add(act audit.Event)

	// WriteIfRequired returns nil once a line about the event is on disk, or at once if the log needs none. On an error
	// the event must not take place. It blocks for two seconds at most.
	WriteIfRequired(ctx context.Context, act audit.Event) error
}

// maxRejectedLines limits the log lines per minute about rejected changes, which every user of this machine can
// send without end.
const maxRejectedLines = 20

// maxLoggedText limits a request's target and a reason in the log, in bytes, because strangers choose the
// target.
const maxLoggedText = 300

// requestAuditor logs each request for a change as one line, "audit". Lines about rejected requests are bounded,
// because strangers cause them.
type requestAuditor struct {
	processLog *slog.Logger
	auditLog   AuditLog

	mu               sync.Mutex
	minuteStart      time.Time // start of the minute that rejectedInMinute counts
	rejectedInMinute int
}

// requestAttrs returns the log attributes of r. who is the administrator, or "" without credentials.
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

// logFinished logs a request that an endpoint has served. failure is nil if it succeeded.
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

func (a *requestAuditor) addEvent(e *endpoint, r *http.Request, who, outcome string) {
	if a.auditLog == nil {
		return
	}
	act := eventOf(e, r, who)
	if outcome != "done" {
		act.Result, act.Error = audit.Failure, truncate(outcome)
	}
	a.auditLog.Add(act)
}

func eventOf(e *endpoint, r *http.Request, who string) audit.Event {
	act := audit.Event{User: cmp.Or(who, "nobody"), Address: r.RemoteAddr, Operation: e.action}
	if e.auditTarget != nil {
		act.Target = truncate(e.auditTarget(r))
	}
	return act
}

// writeRequiredEntry returns a Failure if the audit log must have a line about the request first, and cannot write it.
func (a *requestAuditor) writeRequiredEntry(e *endpoint, r *http.Request, who string) *Failure {
	if a.auditLog == nil {
		return nil
	}
	if err := a.auditLog.WriteIfRequired(r.Context(), eventOf(e, r, who)); err != nil {
		return &Failure{
			Status: http.StatusServiceUnavailable,
			Text:   err.Error() + "; nothing was done, because audit.required is set",
		}
	}
	return nil
}

// logRejected logs a rejected request. Beyond maxRejectedLines in a minute it only counts them, and logs the
// count with the next line.
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
	line := append(a.requestAttrs(e, r, who), "outcome", truncate("rejected: "+why))
	if omitted > 0 {
		line = append(line, "omitted", omitted)
	}
	if n == maxRejectedLines {
		line = append(line, "more", "further rejected requests of this minute are only counted")
	}
	a.processLog.Info("audit", line...)
	a.addEvent(e, r, who, "rejected: "+why)
}

// truncate returns the first maxLoggedText bytes of text.
func truncate(text string) string {
	if len(text) > maxLoggedText {
		return text[:maxLoggedText] + "…"
	}
	return text
}
