package wire

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

// SourceLimiter bounds the TLS handshakes of each address at a port for operators, to sourceRate. No address takes
// tokens of another one, so strangers lock nobody else out. Loopback addresses have no limit: all users and probes of
// the machine share them. It is safe for concurrent use.
type SourceLimiter struct {
	mu            sync.Mutex
	buckets       *addressBuckets // by source
	unloggedCount uint64          // rejections since the last log line
	lastLogged    logTimes[origin]
}

// NewSourceLimiter returns a limiter with a full bucket for each address.
func NewSourceLimiter() *SourceLimiter {
	return &SourceLimiter{buckets: newAddressBuckets(sourceRate, maxSources), lastLogged: logTimes[origin]{}}
}

// Admit takes the token for a handshake with remote. If there is none it returns an error, and logs that now and then.
func (d *SourceLimiter) Admit(log *slog.Logger, remote net.Addr) error {
	from, err := netip.ParseAddrPort(remote.String())
	addr := from.Addr().Unmap()
	if err != nil || addr.IsLoopback() {
		return nil // in memory, or on this machine
	}
	source, now := sourceOf(addr), time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.buckets.hasToken(source, now) {
		d.buckets.takeToken(source, now)
		return nil
	}
	d.unloggedCount++
	if d.lastLogged.allowLine(fromStranger) {
		log.Warn("refused connections for operators, because one address makes them faster than this member takes them",
			"remote", remote.String(), "closed", d.unloggedCount)
		d.unloggedCount = 0
	}
	return tooFastError{fromStranger}
}
