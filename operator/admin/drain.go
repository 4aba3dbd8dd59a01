package admin

import (
	"fmt"
	"net/http"
	"time"

	"rollcall/operator/api"
)

// MaxDrainOver bounds the time of a drain: a process that is to stop is killed after about as long.
const MaxDrainOver = time.Minute

const (
	// drainOver is the default time of a drain: a busy member's clients then come to the others at a
	// few thousand in a second.
	drainOver = 5 * time.Second
	// drainTime limits a drain and its reply. The drain tries to hand over for as long as it may take
	// to close connections.
	drainTime = 2*MaxDrainOver + answerTime
)

func (m *membersAPI) drain(q *query) (any, error) {
	wanted := api.Drain{OverMs: drainOver.Milliseconds()}
	if q.body(&wanted); q.err != nil {
		return nil, q.err
	}
	over, err := drainTimeOf(wanted.OverMs)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	closed, leads := m.ops.Drain(q.Context(), over)
	if err := q.Context().Err(); err != nil {
		return nil, &Failure{Status: http.StatusServiceUnavailable, Text: fmt.Sprintf("the request ended after %d connections were closed; drain again to close the rest", closed)}
	}
	return api.Drained{Connections: closed, Leads: leads, TookMs: time.Since(begun).Milliseconds()}, nil
}

// drainTimeOf returns the time of a drain that a request gives.
func drainTimeOf(ms int64) (time.Duration, error) {
	if ms < 0 || ms > MaxDrainOver.Milliseconds() {
		return 0, &Failure{Status: http.StatusBadRequest, Text: fmt.Sprintf("over_ms: %d; allowed is 0 to %d", ms, MaxDrainOver.Milliseconds())}
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// drainMember drains any member.
func (m *membersAPI) drainMember(q *query) (any, error) {
	wanted := api.MembersDrain{OverMs: drainOver.Milliseconds()}
	if q.body(&wanted); wanted.Member < 1 || wanted.Member > maxMember {
		q.wrong("member: %d; allowed are the numbers from 1 to %d", wanted.Member, maxMember)
	}
	if q.err != nil {
		return nil, q.err
	}
	over, err := drainTimeOf(wanted.OverMs)
	if err != nil {
		return nil, err
	}
	q.SetPathValue(membersPath, fmt.Sprintf("member %d", wanted.Member))
	begun := time.Now()
	closed, leads, err := m.ops.DrainMember(q.Context(), wanted.Member, over, q.who+" from "+q.RemoteAddr)
	if err != nil {
		return nil, err
	}
	return api.Drained{Connections: closed, Leads: leads, TookMs: time.Since(begun).Milliseconds()}, nil
}
