package keystore

import (
	"slices"
	"time"
)

const (
	day = 24 * time.Hour
	// ExpiryNotice is the time before its end from which on a certificate is said to expire soon. It is long
	// enough to get a new one from another department.
	ExpiryNotice = 30 * day

	timeFormat = "2006-01-02 15:04:05 MST"
)

// expiryThresholds are the times before the expiry of the own certificate at which Watch warns, the shortest
// first.
var expiryThresholds = []time.Duration{0, day, 7 * day, ExpiryNotice}

// expiryWarner decides when to warn of the own certificate's end. The goroutine of Watch owns it.
type expiryWarner struct {
	certificateEnd time.Time     // of the certificate in the last warning
	lastThreshold  time.Duration // of certificateEnd; -1: none
	lastWarning    time.Time     // of the last warning of any certificate
}

// recordIfDue reports whether a warning is due at now, for a certificate that is valid until until, and
// records the warning as given. Each of expiryThresholds gives one warning for each certificate. Except for
// the last one, there is at most one in a day, however often certificates change.
func (e *expiryWarner) recordIfDue(until, now time.Time) bool {
	if !until.Equal(e.certificateEnd) {
		e.certificateEnd, e.lastThreshold = until, -1
	}
	left := until.Sub(now)
	i := slices.IndexFunc(expiryThresholds, func(w time.Duration) bool { return left <= w })
	if i < 0 || e.lastThreshold >= 0 && e.lastThreshold <= expiryThresholds[i] {
		return false
	}
	if left > 0 && !e.lastWarning.IsZero() && now.Sub(e.lastWarning) < day {
		return false
	}
	e.lastThreshold, e.lastWarning = expiryThresholds[i], now
	return true
}

// warnIfExpiryDue logs that the own certificate expires soon or has expired, if a line is due.
func (k *Keys) warnIfExpiryDue() {
	cert, now := k.Certificate(), k.options.Now()
	if cert == nil || !k.expiryWarner.recordIfDue(cert.Leaf.NotAfter, now) {
		return
	}
	line := []any{
		"key", k.options.Prefix + ".keyStore.location", "file", k.options.Key.Location, "until",
		cert.Leaf.NotAfter.UTC().Format(time.RFC3339),
	}
	if left := cert.Leaf.NotAfter.Sub(now); left > 0 {
		k.options.Log.Warn("this member's certificate expires soon; replace it, or peers and clients will reject this member",
			append(line, "left", left.Round(time.Hour))...)
		return
	}
	k.options.Log.Error("this member's certificate has expired, so peers and clients reject this member; replace it, "+
		"or set this machine's clock if that is wrong", append(line, "clock", now.UTC().Format(time.RFC3339))...)
}
