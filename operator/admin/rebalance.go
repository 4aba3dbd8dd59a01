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
	// defaultRebalanceRate is the default: clients that need some time to come back do so before many have left.
	defaultRebalanceRate = 100
	// rebalanceTimeout limits a rebalance: it is enough to move 80,000 clients of a member at the default rate.
	rebalanceTimeout = 20 * time.Minute
)

// RebalanceResult is the result of a rebalance.
type RebalanceResult struct {
	Members           []RebalancedMember // those that take clients, by id
	ClosedConnections int                // connections
	Balanced          bool               // all members answered, at least two of them take clients, and none has more than its share now
	Silent            []api.Silence      // members that did not answer
}

// RebalancedMember is the result of a rebalance on a member.
type RebalancedMember struct {
	Member                      uint32
	ClientsBefore, ClientsAfter int    // clients
	ClosedConnections           int    // connections
	FailureReason               string // why it closed none in the last round; "": it did, or had none too many
}

func (m *membersAPI) rebalanceClients(q *query) (any, error) {
	wanted := api.MembersRebalance{PerSecond: defaultRebalanceRate}
	if q.decodeBody(&wanted); wanted.PerSecond < 1 || wanted.PerSecond > MaxRebalanceRate {
		q.addFault("per_second: %d; allowed is 1 to %d", wanted.PerSecond, MaxRebalanceRate)
	}
	if q.fault != nil {
		return nil, q.fault
	}
	ctx, cancel := context.WithTimeout(q.Context(), rebalanceTimeout)
	defer cancel()
	begun := time.Now()
	done, err := m.ops.Rebalance(ctx, wanted.PerSecond, q.administrator+" from "+q.RemoteAddr)
	if err != nil {
		return nil, err
	}
	row := api.Rebalanced{Balanced: done.Balanced, ClosedConnections: done.ClosedConnections, TookMs: time.Since(begun).Milliseconds(), Silent: append([]api.Silence{}, done.Silent...), Items: make([]api.RebalancedMember, len(done.Members))}
	for i, m := range done.Members {
		row.Items[i] = api.RebalancedMember{MemberID: m.Member, ClientsBefore: m.ClientsBefore, ClientsAfter: m.ClientsAfter, ClosedConnections: m.ClosedConnections, FailureReason: m.FailureReason}
	}
	return row, nil
}
