package shared

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"rollcall/client"
	"rollcall/client/internal/contender"
)

// line is where the writers of a Value wait for their turns while they get in each other's way. Otherwise each of many
// writers would mostly find that another one was faster. It decides nothing: a write counts only if it is based on the
// present revision. So a writer that cannot wait in line, or whose place another one has deleted, continues without.
//
// The writers of one Value wait for each other first, and one of them at a time waits for those of other Values and
// clients, with an ephemeral node.
type line struct {
	c   *client.Client
	cfg contender.Config

	turn         chan struct{} // has room for one: the writer of this Value that has the turn
	crowdedHere  atomic.Bool   // the last writer met others: the next one waits for its turn from the start
	crowdedThere atomic.Bool   // the last writer with a place met others: the next one takes a place from the start
}

// turnLimit is the time for which a writer may have its turn. After it, the next one continues: the process may be
// stopped, or the function of Update may take long.
const turnLimit = time.Second

func newLine(c *client.Client, path string, acl []client.ACL) *line {
	cfg := contender.Config{Parent: path + "-writers", Layout: contender.CuratorLock, ACL: acl}
	return &line{c: c, cfg: cfg, turn: make(chan struct{}, 1)}
}

// place is the place of one write in the line. The zero value has none.
type place struct {
	line      *line
	hasTurn   bool                 // among the writers of the Value
	contender *contender.Contender // nil: it has no node
	unusable  bool                 // the servers reject the node
}

// await waits in line if writers get in each other's way. met is set if this write has met another one.
func (p *place) await(ctx context.Context, met bool) {
	metOther := met && p.hasTurn
	if !p.hasTurn && (met || p.line.crowdedHere.Load() || p.line.crowdedThere.Load()) {
		p.awaitHere(ctx, met)
	}
	if p.contender == nil && !p.unusable && (metOther || p.hasTurn && p.line.crowdedThere.Load()) {
		p.awaitThere(ctx, metOther)
	}
}

// awaitHere waits for the turn among the writers of the Value.
func (p *place) awaitHere(ctx context.Context, met bool) {
	waited := false
	select {
	case p.line.turn <- struct{}{}:
		p.hasTurn = true
	default:
		waited = true
		limit := time.NewTimer(turnLimit)
		defer limit.Stop()
		select {
		case p.line.turn <- struct{}{}:
			p.hasTurn = true
		case <-limit.C:
		case <-ctx.Done():
		}
	}
	p.line.crowdedHere.Store(met || waited)
}

// awaitThere waits for the turn among all writers that have a node.
func (p *place) awaitThere(ctx context.Context, met bool) {
	x, err := contender.Enter(ctx, p.line.c, p.line.cfg)
	if err == nil {
		var waited bool
		waited, err = x.AwaitShortTurn(ctx, turnLimit)
		p.line.crowdedThere.Store(met || waited)
	}
	if err != nil { // the write itself meets the error, if it matters
		p.unusable = !errors.Is(err, contender.ErrRemoved)
		return
	}
	p.contender = x
}

// leaveOps returns the operations with which a write leaves the line.
func (p *place) leaveOps() []client.Operation {
	if p.contender == nil {
		return nil
	}
	return []client.Operation{client.DeleteOp(p.contender.Path(), client.AnyVersion)}
}

// nodeLeft records that leaveOps were carried out.
func (p *place) nodeLeft() { p.contender = nil }

// nodeLost records that leaveOps have failed with err: another writer has deleted the node, or the servers reject that.
func (p *place) nodeLost(err error) {
	p.unusable = !errors.Is(err, client.ErrNoNode)
	p.deleteNode()
}

// deleteNode deletes the node, if there still is one. It does not wait for the servers.
func (p *place) deleteNode() {
	if p.contender != nil {
		p.contender.Abandon()
		p.contender = nil
	}
}

// leave gives the place up.
func (p *place) leave() {
	p.deleteNode()
	if p.hasTurn {
		<-p.line.turn
		p.hasTurn = false
	}
}
