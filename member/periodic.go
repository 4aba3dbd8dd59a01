package member

import (
	"context"
	"time"
)

// repeat calls step once in each interval, the first time after one, until ctx ends or step returns an error, which it returns. If
// a step takes longer than the interval, the next one follows at once.
func repeat(ctx context.Context, interval time.Duration, step func() error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := step(); err != nil {
			return err
		}
	}
}
