package admin

import (
	"fmt"
	"net/http"
	"time"

	"rollcall/operator/api"
)

// MaxDrainTime bounds the time of a drain: a process that is to stop is killed after about as long.
const MaxDrainTime = time.Minute

const (
	// defaultDrainTime is the default time of a drain: a busy member's clients then come to the others at a
	// few thousand in a second.
	defaultDrainTime = 5 * time.Second
	// drainTimeout limits a drain and its reply. The drain tries to hand over for as long as it may take
	// to close connections.
	drainTimeout = 2*MaxDrainTime + replyTimeout
)

func (m *membersAPI) drainSelf(q *query) (any, error) {
	wanted := api.Drain{OverMs: defaultDrainTime.Milliseconds()}
	if q.decodeBody(&wanted); q.fault != nil {
		return nil, q.fault
	}
	over, err := drainTimeOf(wanted.OverMs)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	closed, leads := m.ops.DrainSelf(q.Context(), over)
	if err := q.Context().Err(); err != nil {
		return nil, &Failure{Status: http.StatusServiceUnavailable, Text: fmt.Sprintf("the request ended after %d connections were closed; drain again to close the rest", closed)}
	}
	return api.Drained{ClosedConnections: closed, StillLeads: leads, TookMs: time.Since(begun).Milliseconds()}, nil
}

// drainTimeOf returns the time of a drain that a request gives.
func drainTimeOf(ms int64) (time.Duration, error) {
	if ms < 0 || ms > MaxDrainTime.Milliseconds() {
		return 0, &Failure{Status: http.StatusBadRequest, Text: fmt.Sprintf("over_ms: %d; allowed is 0 to %d", ms, MaxDrainTime.Milliseconds())}
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// drainMember drains any member.
func (m *membersAPI) drainMember(q *query) (any, error) {
	wanted := api.MembersDrain{OverMs: defaultDrainTime.Milliseconds()}
	if q.decodeBody(&wanted); wanted.Member < 1 || wanted.Member > maxMemberID {
		q.addFault("member: %d; allowed are the numbers from 1 to %d", wanted.Member, maxMemberID)
	}
	if q.fault != nil {
		return nil, q.fault
	}
	over, err := drainTimeOf(wanted.OverMs)
	if err != nil {
		return nil, err
	}
	q.SetPathValue(auditMembersKey, fmt.Sprintf("member %d", wanted.Member))
	begun := time.Now()
	closed, leads, err := m.ops.DrainMember(q.Context(), wanted.Member, over, q.administrator+" from "+q.RemoteAddr)
	if err != nil {
		return nil, err
	}
	return api.Drained{ClosedConnections: closed, StillLeads: leads, TookMs: time.Since(begun).Milliseconds()}, nil
}
