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
	return c.recipes.loadOrCreate(key, create)
}

// recipeState has what the recipes of a Client share, by a key of the recipe's own type. The zero value is empty.
type recipeState struct {
	mu     sync.Mutex
	values map[any]any
}

func (s *recipeState) loadOrCreate(key any, create func() any) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok := s.values[key]
	if !ok {
		if s.values == nil {
			s.values = map[any]any{}
		}
		value = create()
		s.values[key] = value
	}
	return value
}
