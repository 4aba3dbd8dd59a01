package hostile

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"rollcall/integration/wire"
	"rollcall/jute"
)

const (
	watchSetters = 20     // connections that set watches
	setPaths     = 75_000 // in one setWatches2
	longWatch    = 64_000 // bytes of a path that is watched
	longWatches  = 100    // on each connection, which takes 6.4 MB
)

// Watches are memory of a member, and setting many of them at once takes time.
func TestExpensiveWatches(t *testing.T) {
	for _, a := range []expense{
		{name: "setWatches of many paths", run: setMany, least: watchSetters},
		{name: "watches on long paths", run: watchLong, least: 500},
	} {
		t.Run(a.name, func(t *testing.T) { besiege(t, a) })
	}
}

// setMany: each connection sets as many watches with one request as it has room for.
func setMany(ctx context.Context, b *besieged) {
	b.attackers(ctx, watchSetters, func(ctx context.Context, i int, c *wire.Conn) error {
		set := jute.SetWatches2{RelativeZxid: 1 << 62, Data: [][]byte{}, Exist: [][]byte{}, Child: [][]byte{}, Recursive: [][]byte{}}
		for n := range setPaths {
			set.Persistent = append(set.Persistent, fmt.Appendf(nil, "/%x%05x", i, n))
		}
		frame := wire.Frame(jute.XidSetWatches, jute.OpSetWatches2, set)
		return b.bursts(ctx, c, 1, func(int) []byte { return frame })
	})
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
