package follower

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	protobuf "google.golang.org/protobuf/proto"

	"rollcall/proto"
	"rollcall/sessiontracker"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// incarnation is this process of the member, which the replicated state knows by its boot. It draws the ids of
// new sessions. Make one with newIncarnation. It is safe for concurrent use.
type incarnation struct {
	self      uint32
	boot      uint64
	state     State
	wallClock func() time.Time // the base of session ids
	log       *slog.Logger

	announced chan struct{}               // closed once boot is the member's current one
	ids       *sessiontracker.IDGenerator // set before announced is closed
	over      chan struct{}               // closed once boot is no longer current, or once this member was added again
	endOnce   sync.Once                   // sets endReason and closes over
	endReason error

	mu          sync.Mutex
	currentBoot uint64 // of the member in the replicated state
	wasOurs     bool   // boot is, or once was, the current one
	listVersion int64  // version of the list of servers; 0: none
}

func newIncarnation(cfg *Config, log *slog.Logger) *incarnation {
	return &incarnation{
		self: cfg.Self, boot: cfg.Boot, state: cfg.State, wallClock: cfg.WallClock, log: log,
		announced: make(chan struct{}), over: make(chan struct{}),
	}
}

// observeBoot records the member's current boot, and reports whether this incarnation has just been
// announced. If another boot replaces this one, the incarnation is over. If another one is current
// before that, the next announcement names it as its predecessor.
func (i *incarnation) observeBoot(boot uint64) (announced bool) {
	i.mu.Lock()
	was, wasCurrent := i.currentBoot, i.wasOurs
	i.currentBoot, i.wasOurs = boot, wasCurrent || boot == i.boot
	i.mu.Unlock()
	switch {
	case boot == was || boot == 0: // 0: this member was removed. If it is added again, it announces itself as the first
	case boot == i.boot && !wasCurrent:
		highest := i.state.HighestSession(i.self)
		i.ids = sessiontracker.NewIDGenerator(i.self, i.wallClock().UnixMilli(), highest)
		close(i.announced)
		i.log.Debug("announced", "replaces", was)
		return true
	case was == i.boot:
		i.endFor(ErrReplaced)
	}
	return false
}

// endIfAddedAgain records the version of the list of servers. If this incarnation was announced, and the
// member is listed but has no boot, it has been removed and added again: the incarnation is over.
func (i *incarnation) endIfAddedAgain(version int64, listed bool) {
	i.mu.Lock()
	i.listVersion = version
	again := listed && i.wasOurs && i.currentBoot == 0
	i.mu.Unlock()
	if again {
		i.endFor(ErrAddedAgain)
	}
}

// endFor ends this incarnation for a reason. Only the first call has an effect.
func (i *incarnation) endFor(why error) {
	i.endOnce.Do(func() {
		i.endReason = why
		close(i.over)
	})
}

// waitForEnd waits until this incarnation is over and returns the reason, or nil if ctx ends first.
func (i *incarnation) waitForEnd(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-i.over:
		return i.endReason
	}
}

// awaitNewSessionID waits until this incarnation is announced, and returns the id of a new session.
func (i *incarnation) awaitNewSessionID(ctx context.Context) (jute.SessionID, error) {
	select {
	case <-i.announced:
		return i.ids.Next(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("follower: draw a session id: %w", ctx.Err())
	}
}

// tryNewSessionID is awaitNewSessionID without waiting.
func (i *incarnation) tryNewSessionID() (id jute.SessionID, ok bool) {
	select {
	case <-i.announced:
		return i.ids.Next(), true
	default:
		return 0, false
	}
}

// announcement is the last announcement of this incarnation on a link.
type announcement struct {
	txn          *proto.Txn // nil if none was sent
	replacedBoot uint64
	listVersion  int64 // an announcement from before this member was added again has no effect
}

// refreshAnnouncement fills in a and returns true if an announcement must be sent. None is needed once this
// boot has been the member's current one, or if a already replaces the present boot, under the present list
// of servers.
func (i *incarnation) refreshAnnouncement(a *announcement) bool {
	i.mu.Lock()
	current, wasCurrent, list := i.currentBoot, i.wasOurs, i.listVersion
	i.mu.Unlock()
	if wasCurrent || a.txn != nil && a.replacedBoot == current && a.listVersion == list {
		return false
	}
	body, err := protobuf.Marshal(&proto.Announce{Replaces: current, Format: znode.FormatLevel})
	if err != nil {
		panic(err) // cannot happen: these are two numbers
	}
	a.replacedBoot, a.listVersion = current, list
	a.txn = &proto.Txn{Member: i.self, Incarnation: i.boot, Op: int32(jute.OpAnnounce), Body: body}
	return true
}
