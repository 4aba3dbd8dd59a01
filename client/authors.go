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

// sharedByRecipes is recipe.Shared.
func sharedByRecipes(c *Client, key any, create func() any) any {
	value, _ := c.recipes.LoadOrStore(key, sync.OnceValue(create))
	return value.(func() any)()
}
