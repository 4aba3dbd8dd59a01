package hostile

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"rollcall/integration/needs"
	"rollcall/integration/wire"
	"rollcall/zk/jute"
)

const (
	watchSetters = 20     // connections that set watches
	longWatch    = 64_000 // bytes of a path that is watched
	longWatches  = 25     // of a connection at once, which takes 1.6 MB
)

// Watches are memory of a member. TestWatchesAgain sets many of them at once.
func TestExpensiveWatches(t *testing.T) {
	needs.Check(t, needs.Nightly)
	besiege(t, expense{name: "watches on long paths", run: watchLong, least: 500, free: freeBytesTime})
}

// watchLong: each connection watches long paths on which there is no node.
func watchLong(ctx context.Context, b *besieged) {
	b.attackers(ctx, watchSetters, func(ctx context.Context, i int, c *wire.Conn) error {
		return b.bursts(ctx, c, longWatches, func(n int) []byte {
			path := fmt.Appendf(nil, "/%d-%d%s", i, n, strings.Repeat("x", longWatch))
			return wire.Frame(1, jute.OpAddWatch, jute.AddWatchRequest{Path: path, Mode: jute.AddWatchPersistent})
		})
	})
}
