// Package recipe has the tools for authors of recipes: code that makes a right, such as a lock, of a session's
// ephemeral nodes. Programs that use the recipes of this module do not need it.
package recipe

import (
	"context"

	"rollcall/client"
	"rollcall/client/internal/nodepath"
)

// Prove returns when the Client's right is proven: at once if a sync or a connect has proved it and that still counts,
// and else after a sync. Recipes call it before NewRight. The error is that of Client.Sync.
func Prove(ctx context.Context, c *client.Client) error { return client.RecipeToolsOf(c).Prove(ctx) }

// NewRight returns the right that stands for an ephemeral node of the Client's session. stat is the node's. Recipes
// call it once their node gives them the right, after Prove; it starts a goroutine that ends with the Right. If the
// Client's right to its session is not proven at that moment, because the process was stopped since, the Right has
// ended.
//
// The Right is worth no more than what its node proves. Give the node a path that no other node ever has, such as that
// of an EphemeralSequential node. A fixed path can be created again: if another client deletes the node and a session
// creates one there, Guard passes and Release can delete the other node, until this Client has heard of the deletion.
// With a fixed path, let each owner also set a persistent node, and add a check of its version to the operations of
// Guard: the package queue does that.
func NewRight(c *client.Client, path string, stat client.Stat) *client.Right {
	return NewRightWithToken(c, path, stat, client.Token(stat.Created))
}

// NewRightWithToken is NewRight for a node that has taken the place of another one, whose token the right keeps.
func NewRightWithToken(c *client.Client, path string, stat client.Stat, token client.Token) *client.Right {
	return client.RecipeToolsOf(c).NewRight(path, stat, token)
}

// End ends the Right and leaves its node. Recipes call it before a request of their own that deletes the node, so that
// the right is not held any more when the servers carry that out. If the request fails, Right.Release must follow.
func End(r *client.Right) { client.RecipeTools{}.End(r) }

// Outlast returns a context that ends with ctx, unless ctx is of Right.Context and ends because the Right does.
// Requests that give the right up need it. It keeps ctx's deadline; the end of ctx's parent after that of the Right is
// not seen.
func Outlast(ctx context.Context, r *client.Right) (context.Context, context.CancelFunc) {
	return client.RecipeTools{}.Outlast(ctx, r)
}

// AwaitWritable waits, after ErrReadOnly, until c is connected to a server that can write, or until ctx ends. If it
// never will be, it returns the reason. Recipes need it to give up what they hold.
func AwaitWritable(ctx context.Context, c *client.Client) error {
	return client.RecipeToolsOf(c).AwaitWritable(ctx)
}

// IsSuccessor reports whether the Client has the session of a process that handed it over, and so may find ephemeral
// nodes that are Inherited.
func IsSuccessor(c *client.Client) bool { return client.RecipeToolsOf(c).IsSuccessor() }

// Inherited reports whether an ephemeral node with this Stat is of the Client's session, and was created by a process
// that has handed the session over. Recipes remove such nodes if only that process could use them.
func Inherited(c *client.Client, stat client.Stat) bool {
	return client.RecipeToolsOf(c).Inherited(stat)
}

// PathOf returns the path of the child of parent with a name. If parent is not a valid path, the result is not either,
// so calls reject it.
func PathOf(parent, name string) string { return nodepath.Join(parent, name) }

// Shared returns the Client's value for key, which all users of a recipe share. create makes it at the first call. It
// lives as long as the Client. key must be comparable and of a type of the recipe's own. create must not call the
// Client.
func Shared[T any](c *client.Client, key any, create func() T) T {
	return client.RecipeToolsOf(c).Shared(key, func() any { return create() }).(T)
}
