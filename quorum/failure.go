package quorum

import (
	"log/slog"
	"sync"

	"rollcall/quorum/disk"
)

// failure is the error that ends a member. It is safe for concurrent use.
type failure struct {
	logger *slog.Logger
	others bool // other members may join: see disk.Explain

	once   sync.Once
	failed chan struct{} // closed by set
	reason error         // set before failed is closed
}

func newFailure(logger *slog.Logger, others bool) *failure {
	return &failure{logger: logger, others: others, failed: make(chan struct{})}
}

// set ends the member: Node.Run returns err. Only the first call counts.
func (f *failure) set(err error) {
	f.once.Do(func() {
		err := disk.Explain(err, f.others)
		f.logger.Error("this member stops", "err", err)
		f.reason = err
		close(f.failed)
	})
}

// err returns the error that ends the member, or nil if there is none.
func (f *failure) err() error {
	select {
	case <-f.failed:
		return f.reason
	default:
		return nil
	}
}
