package contender

import (
	"context"
	"fmt"
	"slices"

	"rollcall/client"
	"rollcall/client/internal/reconnect"
	"rollcall/client/recipe"
)

// Right returns the right of the contender's node. Call it once the contender has its turn, and do not use the contender
// afterwards: Right.Release deletes the node. If the Client may not act on its session at the moment, the contender
// leaves, and the error is client.ErrNotHeld. Right sends a sync if the last proof that the session lives is too old.
func (x *Contender) Right(ctx context.Context) (*client.Right, error) {
	if err := reconnect.Retry(ctx, x.c, func() error { return recipe.Prove(ctx, x.c) }); err != nil {
		x.Abandon()
		return nil, err
	}
	right := recipe.NewRightWithToken(x.c, x.Path(), x.stat, client.Token(x.token))
	if x.mayHaveDuplicates {
		right.OnLost(func() { _ = x.deleteDuplicates() })
	}
	if !right.Held() {
		go func() { _ = right.Release(context.Background()) }() // waits for the session at most
		return nil, fmt.Errorf("%s: %w", x.Path(), client.ErrNotHeld)
	}
	return right, nil
}

// deleteDuplicates deletes the other nodes with the contender's id. It keeps the contender's own node, which Release
// deletes, or a request that passes its place on.
func (x *Contender) deleteDuplicates() error {
	ctx := context.Background() // the session's end ends all calls
	names, err := x.findByID(ctx)
	if err != nil {
		return err
	}
	return x.deleteEach(ctx, slices.DeleteFunc(names, func(n Name) bool { return n == x.name }))
}
