package member

import (
	"log/slog"
	"sync/atomic"

	"rollcall/quorum"
	"rollcall/server"
)

// health takes this member out of service while its state is damaged or disputed, or its disk hangs, and serves in read-only mode
// while it has no leader. It is safe for concurrent use.
type health struct {
	cfg           *Config
	node          *quorum.Node
	server        *server.Server
	terms         *terms
	removalWatch  *removalWatch
	applyProgress *applyProgress
	log           *slog.Logger

	damageReports  chan string // the reason; one place
	currentDispute atomic.Pointer[dispute]
}
