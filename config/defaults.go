package config

import "time"

// Defaults of Settings. The packages below require a value.
const (
	// DefaultSyncLimit is in ZooKeeper's sample configuration.
	DefaultSyncLimit = 5
	// DefaultHeartbeatTimeout lets a leader send a heartbeat after a tenth to a fifth of it. So a leader is not replaced if
	// it, or a network, pauses for 200 ms, and is replaced within a second if it hangs.
	DefaultHeartbeatTimeout = 300 * time.Millisecond
	// DefaultStallLimit is far longer than a slow disk needs, and a leader that exceeds it is replaced before its clients
	// look for another server.
	DefaultStallLimit = 3 * time.Second
)
