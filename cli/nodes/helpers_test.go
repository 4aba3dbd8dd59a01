package nodes_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/cli/nodes"
	"rollcall/client"
	"rollcall/integration/alone"
	"rollcall/member"
)

// addr is where the member that all tests share takes clients.
var addr string

func TestMain(m *testing.M) {
	alone.Run(m, func(_ *member.Member, at string) { addr = at })
}

var spaceCount atomic.Int64

// newSpace returns a space below a node of the test's own, which exists, over a session that the end of the test closes.
func newSpace(t *testing.T, cfg client.Config) nodes.Space {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	cfg.InOrder, cfg.WhileSuspended = true, client.Fail // as the commands do
	c, err := client.Dial(ctx, addr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	s := nodes.New(c, fmt.Sprintf("/%s-%d", t.Name(), spaceCount.Add(1)))
	if _, _, err := c.Create(ctx, s.Root, nil, client.Persistent); err != nil {
		t.Fatal(err)
	}
	return s
}
