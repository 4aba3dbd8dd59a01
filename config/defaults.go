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
)

// WithDefaults returns s with the defaults above in the fields that are 0.
func (s Settings) WithDefaults() Settings {
	s.InitLimit = cmp.Or(s.InitLimit, DefaultInitLimit)
	s.SyncLimit = cmp.Or(s.SyncLimit, DefaultSyncLimit)
	s.HeartbeatTimeout = cmp.Or(s.HeartbeatTimeout, DefaultHeartbeatTimeout)
	s.StoreStallLimit = cmp.Or(s.StoreStallLimit, DefaultStallLimit)
	return s
}
