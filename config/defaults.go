package config

import (
	"cmp"
	"time"
)

// Defaults of Settings. Other packages require a value.
const (
	// DefaultInitLimit and DefaultSyncLimit, in ticks, are in ZooKeeper's sample configuration.
	DefaultInitLimit, DefaultSyncLimit = 10, 5
	// DefaultHeartbeatTimeout lets a leader or a network pause for 400 ms (quorum.PauseTolerance). A leader that hangs is
	// replaced within a second.
	DefaultHeartbeatTimeout = 300 * time.Millisecond
	// MaxFailover is the longest failover that a configuration may have.
	MaxFailover = maxFailover * time.Millisecond
	// DefaultStallLimit is far longer than a slow disk needs. A leader that exceeds it is replaced before its clients
	// look for another server.
	DefaultStallLimit = 3 * time.Second
	// DefaultWatchHistory holds about 250,000 changes of nodes whose paths have 50 bytes. A client comes back before its
	// session expires, 40 s at most by default: that is 6,000 changes a second.
	DefaultWatchHistory = 16 << 20
)

// WithDefaults returns s with the defaults above in the fields that are 0.
func (s Settings) WithDefaults() Settings {
	s.InitLimit = cmp.Or(s.InitLimit, DefaultInitLimit)
	s.SyncLimit = cmp.Or(s.SyncLimit, DefaultSyncLimit)
	s.HeartbeatTimeout = cmp.Or(s.HeartbeatTimeout, DefaultHeartbeatTimeout)
	s.StoreStallLimit = cmp.Or(s.StoreStallLimit, DefaultStallLimit)
	s.WatchHistory = cmp.Or(s.WatchHistory, DefaultWatchHistory)
	return s
}
