package member

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// shutdownHandler is a log handler that lowers warnings to level info while the member stops: losing leadership and the
// links to other members is expected then.
type shutdownHandler struct {
	slog.Handler
	stopping *atomic.Bool
}

// Handle implements slog.Handler.
func (c shutdownHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level == slog.LevelWarn && c.stopping.Load() {
		r.Level = slog.LevelInfo
		if !c.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return c.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (c shutdownHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return shutdownHandler{c.Handler.WithAttrs(attrs), c.stopping}
}

// WithGroup implements slog.Handler.
func (c shutdownHandler) WithGroup(name string) slog.Handler {
	return shutdownHandler{c.Handler.WithGroup(name), c.stopping}
}
