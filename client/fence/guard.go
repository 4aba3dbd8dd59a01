package fence

import (
	"context"
	"sync"

	"rollcall/client"
)

// Guard is a Fence in memory, for a store that lives and dies with its process. The zero value has seen no token. It is
// safe for concurrent use.
type Guard struct {
	mu       sync.Mutex
	greatest client.Token
	running  int           // acts of token current
	current  client.Token  // whose acts run; at most greatest
	idle     chan struct{} // closed when running becomes 0; nil while no goroutine waits for that
}

// Do calls act if no greater token has been seen, and returns its error. It implements Fence. Acts of the same token
// may run at the same time. A greater token waits until the acts of smaller ones have returned.
func (g *Guard) Do(ctx context.Context, token client.Token, act func() error) error {
	if err := g.begin(ctx, token); err != nil {
		return err
	}
	defer g.end()
	return act()
}

// begin waits until no act of another token runs, and counts one of token.
func (g *Guard) begin(ctx context.Context, token client.Token) error {
	for {
		g.mu.Lock()
		if err := check(token, g.greatest); err != nil {
			g.mu.Unlock()
			return err
		}
		g.greatest = token // from now on smaller ones are rejected, although their acts may still run
		if g.running == 0 || g.current == token {
			g.current = token
			g.running++
			g.mu.Unlock()
			return nil
		}
		if g.idle == nil {
			g.idle = make(chan struct{})
		}
		idle := g.idle
		g.mu.Unlock()
		select {
		case <-idle:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// end counts an act that has returned.
func (g *Guard) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	if g.running == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// Check records a token, or rejects it. It is for a caller that carries out the write while it holds a lock of its own
// around both. Other callers use Do.
func (g *Guard) Check(token client.Token) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := check(token, g.greatest)
	if err == nil {
		g.greatest = token
	}
	return err
}

// Greatest returns the greatest token that has been seen, or 0.
func (g *Guard) Greatest() client.Token {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.greatest
}
