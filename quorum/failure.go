package quorum

import (
	"log/slog"
	"sync"

	"rollcall/quorum/disk"
)

// memberFailure holds the error that ends a member. It is safe for concurrent use.
type memberFailure struct {
	logger   *slog.Logger
	joinable bool // other members may join: see disk.WithAdvice

	once   sync.Once
	ended  chan struct{} // closed by end
	reason error         // set before ended is closed
}

func newMemberFailure(logger *slog.Logger, others bool) *memberFailure {
	return &memberFailure{logger: logger, joinable: others, ended: make(chan struct{})}
}

// endMember makes Node.Run return err. Only the first call counts.
func (f *memberFailure) endMember(err error) {
	f.once.Do(func() {
		err := disk.WithAdvice(err, f.joinable)
		f.logger.Error("this member stops", "err", err)
		f.reason = err
		close(f.ended)
	})
}

// endError returns the error that ends the member, or nil.
func (f *memberFailure) endError() error {
	select {
	case <-f.ended:
		return f.reason
	default:
		return nil
	}
}
