package client

import (
	"context"
	"sync"

	"rollcall/client/internal/authors"
)

// authorTools are what package recipe shows to authors of recipes.
type authorTools struct{}

func init() { authors.Tools = authorTools{} }

// Prove implements recipe.Prove.
func (authorTools) Prove(ctx context.Context, c *Client) error { return proveRight(ctx, c) }

// NewRight implements recipe.NewRightWithToken.
func (authorTools) NewRight(c *Client, path string, stat Stat, token Token) *Right {
	return newProvenRight(c, path, stat, token)
}

// End implements recipe.End.
func (authorTools) End(r *Right) { r.leaveNode() }

// Outlast implements recipe.Outlast.
func (authorTools) Outlast(ctx context.Context, r *Right) (context.Context, context.CancelFunc) {
	return r.outlast(ctx)
}

// AwaitWritable implements recipe.AwaitWritable.
func (authorTools) AwaitWritable(ctx context.Context, c *Client) error { return awaitWritable(ctx, c) }

// IsSuccessor implements recipe.IsSuccessor.
func (authorTools) IsSuccessor(c *Client) bool { return c.inheritedUntil > 0 }

// Inherited implements recipe.Inherited.
func (authorTools) Inherited(c *Client, stat Stat) bool {
	id, _ := c.Session()
	return stat.Owner == id && stat.Created <= c.inheritedUntil
}

// Shared implements recipe.Shared.
func (authorTools) Shared(c *Client, key any, create func() any) any {
	value, _ := c.recipes.LoadOrStore(key, sync.OnceValue(create))
	return value.(func() any)()
}
