package client

import (
	"context"
	"sync"
)

// RecipeTools are a Client's tools for authors of recipes. Package recipe documents each of them and gives them their
// types; programs that use recipes need neither. The zero value has no Client, and serves for End and Outlast.
type RecipeTools struct{ c *Client }

// RecipeToolsOf returns c's tools for authors of recipes; see package recipe.
func RecipeToolsOf(c *Client) RecipeTools { return RecipeTools{c} }

// Prove is recipe.Prove.
func (t RecipeTools) Prove(ctx context.Context) error { return proveRight(ctx, t.c) }

// NewRight is recipe.NewRightWithToken.
func (t RecipeTools) NewRight(path string, stat Stat, token Token) *Right {
	return newProvenRight(t.c, path, stat, token)
}

// End is recipe.End.
func (t RecipeTools) End(r *Right) { r.leaveNode() }

// Outlast is recipe.Outlast.
func (t RecipeTools) Outlast(ctx context.Context, r *Right) (context.Context, context.CancelFunc) {
	return r.outlast(ctx)
}

// AwaitWritable is recipe.AwaitWritable.
func (t RecipeTools) AwaitWritable(ctx context.Context) error { return awaitWritable(ctx, t.c) }

// IsSuccessor is recipe.IsSuccessor.
func (t RecipeTools) IsSuccessor() bool { return isSuccessor(t.c) }

// Inherited is recipe.Inherited.
func (t RecipeTools) Inherited(stat Stat) bool { return isInherited(t.c, stat) }

// Shared is recipe.Shared, without its type.
func (t RecipeTools) Shared(key any, create func() any) any {
	return t.c.recipes.valueOf(key, create)
}

// isSuccessor reports whether c has the session of a process that handed it over.
func isSuccessor(c *Client) bool { return c.inheritedUntil > 0 }

// isInherited reports whether a node with this Stat is of c's session, and was created by a process that handed it over.
func isInherited(c *Client, stat Stat) bool {
	id, _ := c.Session()
	return stat.Owner == id && stat.Created <= c.inheritedUntil
}

// recipeState has what the recipes of a Client share, by a key of the recipe's own type. The zero value is empty. It is
// safe for concurrent use.
type recipeState struct {
	mu     sync.Mutex
	values map[any]any
}

// valueOf returns the value for key, which create makes at the first call, under the lock.
func (s *recipeState) valueOf(key any, create func() any) any {
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
