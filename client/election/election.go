// Package election elects one of many clients as the leader.
//
//	e := election.New(c, "/app/leader", election.Config{Data: []byte("10.0.0.7:8080"), OnHang: func() { os.Exit(1) }})
//	err := e.Run(ctx, func(ctx context.Context, l *election.Leadership) error {
//		return serve(ctx, l) // until ctx ends
//	})
//
// # Guarantees
//
//   - Candidates are ordered by the time at which they entered. The first one leads.
//   - A Leadership is a client.Right. Held is exact at the moment of the call: while it returns true, the ensemble has
//     given the leadership to nobody else. Guard carries writes out only if the leadership is still held. Token is the
//     fencing token, which grows with every leader, for stores outside of the ensemble.
//   - The leadership ends when it is given up, when another client deletes its node, and when the Client may not act
//     on its session any more: see Rights in package client. The context of Run's function and Lost and OnLost report
//     that, but timers do not run while a process is stopped. So check Held, or use Guard or Token, where two leaders
//     would do harm.
//   - A lost connection does not end the leadership, as long as the session is heard in time. A create whose reply is
//     lost is found again.
//   - A candidate that gives up (its ctx ends) leaves no node, in the background if necessary.
//   - If a leader ends, one candidate is woken. If a candidate ends, the one after it is. There is one request for the
//     list of candidates each time.
//
// # Hand-over
//
// Leadership.HandOver gives the leadership to a candidate that it names. No third one leads in between, and there is no
// time without a leader: one transaction deletes the leader's node and those of the candidates between. The order is by
// the servers' numbers, so the candidates between cannot keep their places. They enter again, after all others.
//
// # Layout
//
// The parent is a container with an ephemeral sequential node for each candidate. The default is that of Curator's
// LeaderLatch: _c_<uuid>-latch-<number>, whose data are the id of the participant. See Layout for others. Clients of
// Curator and kazoo can be candidates under the same parent if the layout is theirs. All methods fail if the parent has
// other nodes: see ErrForeignContenders.
package election

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"rollcall/client"
	"rollcall/client/internal/contender"
	"rollcall/client/internal/reconnect"
	"rollcall/client/recipe"
)

// ErrForeignContenders means that the parent has children of another layout. Their creators do not respect the
// candidates, so there could be two leaders. The text of the error names the nodes.
var ErrForeignContenders = contender.ErrForeignContenders

// Layout is the form of the candidates' names.
type Layout int

// Programs elect one leader only if they use the same parent with the same layout.
const (
	Latch    Layout = iota // Curator's LeaderLatch
	Selector               // Curator's LeaderSelector, which is that of its InterProcessMutex too
	Kazoo                  // kazoo's Election, which is that of its Lock too
)

// contenderLayout returns the layout of the candidates' nodes. For an unknown Layout it returns that of Latch.
func (l Layout) contenderLayout() contender.Layout {
	switch l {
	case Selector:
		return contender.CuratorLock
	case Kazoo:
		return contender.KazooLock
	default:
		return contender.CuratorLatch
	}
}

// Election is an election among the children of one parent. It is safe for concurrent use. Each call of Campaign or Run
// is a candidate of its own.
type Election struct {
	c      *client.Client
	parent string
	cfg    Config
	layout contender.Layout
}

// New returns the Election whose candidates are children of parent. It does not use the network.
func New(c *client.Client, parent string, cfg Config) *Election {
	return &Election{c: c, parent: parent, cfg: cfg, layout: cfg.Layout.contenderLayout()}
}

// Campaign waits until this client leads, or until ctx ends. If it returns an error, the client is no candidate any
// more.
//
// If another client deletes the candidate's node, as a hand-over does, Campaign enters again.
func (e *Election) Campaign(ctx context.Context) (*Leadership, error) {
	for {
		right, err := e.tryCampaign(ctx)
		switch {
		case err == nil:
			return &Leadership{Right: right, election: e}, nil
		case !errors.Is(err, contender.ErrRemoved): // which another client must have caused: no limit is needed
			return nil, fmt.Errorf("election: campaign: %w", err)
		}
	}
}

func (e *Election) tryCampaign(ctx context.Context) (*client.Right, error) {
	candidate, err := contender.Enter(ctx, e.c, contender.Config{
		Parent: e.parent, Layout: e.layout, Data: e.cfg.Data, ACL: e.cfg.ACL,
	})
	if err != nil {
		return nil, err
	}
	if err := candidate.AwaitTurn(ctx); err != nil {
		return nil, err
	}
	return candidate.Right(ctx)
}

// Candidate is a client that campaigns or leads.
type Candidate struct {
	Path  string       // of its node
	Token client.Token // its fencing token if it leads
	Data  []byte       // its Config.Data
}

// readsAtOnce is the number of candidates whose data are read by one request.
const readsAtOnce = 100

// Candidates returns all candidates, in order: the first one leads. The list is as recent as the Client's server.
func (e *Election) Candidates(ctx context.Context) ([]Candidate, error) {
	names, err := contender.List(ctx, e.c, e.parent, e.layout)
	if err != nil {
		return nil, fmt.Errorf("election: list candidates: %w", err)
	}
	candidates := make([]Candidate, 0, len(names))
	for some := range slices.Chunk(names, readsAtOnce) {
		part, err := e.readCandidates(ctx, some)
		if err != nil {
			return nil, fmt.Errorf("election: read candidates: %w", err)
		}
		candidates = append(candidates, part...)
	}
	return candidates, nil
}

// readCandidates returns the named candidates that still exist.
func (e *Election) readCandidates(ctx context.Context, names []contender.Name) ([]Candidate, error) {
	ops := make([]client.Operation, len(names))
	for i, name := range names {
		ops[i] = client.GetOp(e.pathOf(name))
	}
	var results []client.Result
	err := reconnect.Retry(ctx, e.c, func() (err error) {
		results, err = e.c.Multi(ctx, ops...)
		return err
	})
	if err != nil {
		return nil, err
	}
	var candidates []Candidate
	for i, result := range results {
		switch {
		case result.Err == nil:
			candidates = append(candidates, newCandidate(ops[i].Path(), result.Data, result.Stat))
		case !errors.Is(result.Err, client.ErrNoNode):
			return nil, fmt.Errorf("%s: %w", ops[i].Path(), result.Err)
		}
	}
	return candidates, nil
}

func newCandidate(path string, data []byte, stat client.Stat) Candidate {
	return Candidate{Path: path, Token: client.Token(stat.Created), Data: data}
}

func (e *Election) pathOf(name contender.Name) string { return recipe.PathOf(e.parent, name.Text) }
