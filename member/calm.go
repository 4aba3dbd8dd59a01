package member

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// calm is a log's handler. While the member stops, it writes warnings at the level of information: a
// member that stops loses its leadership and its links to the others, and nobody has to act on that.
type calm struct {
	slog.Handler
	leaving *atomic.Bool
}

// Handle implements slog.Handler.
func (c calm) Handle(ctx context.Context, r slog.Record) error {
	if r.Level == slog.LevelWarn && c.leaving.Load() {
		r.Level = slog.LevelInfo
		if !c.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return c.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (c calm) WithAttrs(attrs []slog.Attr) slog.Handler {
	return calm{c.Handler.WithAttrs(attrs), c.leaving}
}

// WithGroup implements slog.Handler.
func (c calm) WithGroup(name string) slog.Handler { return calm{c.Handler.WithGroup(name), c.leaving} }
