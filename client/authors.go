package client

import (
	"sync"

	"rollcall/client/internal/authors"
)

func init() {
	authors.OfClient = authors.Tools[Client, Right, Stat, Token]{
		Prove: proveRight, NewRight: newProvenRight, End: (*Right).leaveNode, Outlast: (*Right).outlast,
		AwaitWritable: awaitWritable, IsSuccessor: isSuccessor, Inherited: isInherited, Shared: sharedByRecipes,
	}
}

// isSuccessor is recipe.IsSuccessor.
func isSuccessor(c *Client) bool { return c.inheritedUntil > 0 }

// isInherited is recipe.Inherited.
func isInherited(c *Client, stat Stat) bool {
	id, _ := c.Session()
	return stat.Owner == id && stat.Created <= c.inheritedUntil
}

// recipeState has what the recipes of a Client share, by a key of the recipe's own type. The zero value is empty.
type recipeState struct {
	mu     sync.Mutex
	values map[any]any
}

// sharedByRecipes is recipe.Shared.
func sharedByRecipes(c *Client, key any, create func() any) any {
	s := &c.recipes
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
