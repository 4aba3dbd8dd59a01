package member

import (
	"log/slog"
	"sync/atomic"

	"rollcall/internal/lockwatch"
	"rollcall/quorum"
	"rollcall/server"
)

// health stops serving while this member's state is damaged or disputed, or its disk hangs, and serves in
// read-only mode while there is no leader. It is safe for concurrent use.
type health struct {
	cfg           *Config
	node          *quorum.Node
	server        *server.Server
	terms         *terms
	removalWatch  *removalWatch
	cutOffWatch   *cutOffWatch
	applyProgress *applyProgress
	hangError     func() error // see Member.hangError
	log           *slog.Logger

	damageReports   chan string // the reason; one place
	lastDispute     atomic.Pointer[dispute]
	lastClaim       atomic.Pointer[claim]
	disputeReported chan struct{} // wakes disputeLoop; one place
	diskAway        atomic.Bool   // see diskAwayLoop
	lockWatch       *lockwatch.Watch
}
