package admin

import (
	"context"
	"time"

	"rollcall/operator/api"
)

const (
	// MaxRebalanceRate limits the connections that a member closes in a second for a rebalance: the other members take a few
	// thousand in a second, from several members.
	MaxRebalanceRate = 1000
	// rebalanceRate is the default: clients that need some time to come back do so before many have left.
	rebalanceRate = 100
	// rebalanceTime limits a rebalance: it is enough to move 80,000 clients of a member at the default rate.
	rebalanceTime = 20 * time.Minute
)

// Rebalanced is the result of a rebalance.
type Rebalanced struct {
	Members  []RebalancedMember // those that take clients, by id
	Closed   int                // connections
	Balanced bool               // all members answered, at least two of them take clients, and none has more than its share now
	Silent   []api.Silence      // members that did not answer
}

// RebalancedMember is the result of a rebalance on a member.
type RebalancedMember struct {
	Member        uint32
	Before, After int    // clients
	Closed        int    // connections
	Failed        string // why it closed none in the last round; "": it did, or had none too many
}

func (m *membersAPI) rebalance(q *query) (any, error) {
	wanted := api.MembersRebalance{PerSecond: rebalanceRate}
	if q.body(&wanted); wanted.PerSecond < 1 || wanted.PerSecond > MaxRebalanceRate {
		q.wrong("per_second: %d; allowed is 1 to %d", wanted.PerSecond, MaxRebalanceRate)
	}
	if q.err != nil {
		return nil, q.err
	}
	ctx, cancel := context.WithTimeout(q.Context(), rebalanceTime)
	defer cancel()
	begun := time.Now()
	done, err := m.ops.Rebalance(ctx, wanted.PerSecond, q.who+" from "+q.RemoteAddr)
	if err != nil {
		return nil, err
	}
	row := api.Rebalanced{Balanced: done.Balanced, Connections: done.Closed, TookMs: time.Since(begun).Milliseconds(), Silent: append([]api.Silence{}, done.Silent...), Items: make([]api.RebalancedMember, len(done.Members))}
	for i, m := range done.Members {
		row.Items[i] = api.RebalancedMember{Member: m.Member, Before: m.Before, After: m.After, Closed: m.Closed, Failed: m.Failed}
	}
	return row, nil
}
