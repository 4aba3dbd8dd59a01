package keystore

import (
	"slices"
	"time"
)

const (
	day = 24 * time.Hour
	// Notice is how long before its end a certificate is called soon to expire. An operator who has to ask
	// somebody else for a new one has time for that.
	Notice = 30 * day

	// form is how texts show a time.
	form = "2006-01-02 15:04:05 MST"
)

// expiryWarnings are the times before the own certificate expires at which Watch warns, the shortest first.
var expiryWarnings = []time.Duration{0, day, 7 * day, Notice}

// expiry warns of the end of the own certificate. The goroutine of Watch owns it.
type expiry struct {
	until  time.Time     // end of the certificate that was warned of
	warned time.Duration // the last of expiryWarnings that it has passed; -1: none
	last   time.Time     // of the last warning of any certificate
}

// due reports whether a warning is due at now, for a certificate that is valid until until. Each of
// expiryWarnings gives one warning for each certificate. Except for the last one, there is at most one in a day,
// however often certificates change.
func (e *expiry) due(until, now time.Time) bool {
	if !until.Equal(e.until) {
		e.until, e.warned = until, -1
	}
	left := until.Sub(now)
	i := slices.IndexFunc(expiryWarnings, func(w time.Duration) bool { return left <= w })
	if i < 0 || e.warned >= 0 && e.warned <= expiryWarnings[i] {
		return false
	}
	if left > 0 && !e.last.IsZero() && now.Sub(e.last) < day {
		return false
	}
	e.warned, e.last = expiryWarnings[i], now
	return true
}

// warnOfExpiry logs that the own certificate expires soon or has expired, if a line is due.
func (k *Keys) warnOfExpiry() {
	cert, now := k.Certificate(), k.o.Now()
	if cert == nil || !k.expiry.due(cert.Leaf.NotAfter, now) {
		return
	}
	line := []any{"key", k.o.Prefix + ".keyStore.location", "file", k.o.Key.Location, "until", cert.Leaf.NotAfter.UTC().Format(time.RFC3339)}
	if left := cert.Leaf.NotAfter.Sub(now); left > 0 {
		k.o.Log.Warn("this member's certificate expires soon; replace it, or those who connect will refuse this member", append(line, "left", left.Round(time.Hour))...)
		return
	}
	k.o.Log.Error("this member's certificate has expired, so those who connect refuse this member; replace it, or set this machine's clock if that is wrong", append(line, "clock", now.UTC().Format(time.RFC3339))...)
}
