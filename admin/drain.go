package admin

import (
	"fmt"
	"net/http"
	"time"

	"rollcall/api"
)

const (
	// drainOver is how long a drain takes by default: a busy member's clients then come to the others at a
	// few thousand in a second.
	drainOver = 5 * time.Second
	// maxDrainOver bounds the time of a drain: a process that is to stop is killed after about as long.
	maxDrainOver = time.Minute
	// drainTime is how long a drain and its answer may take. The drain tries to hand over for as long as it may take
	// to close connections.
	drainTime = 2*maxDrainOver + answerTime
)

// drainEndpoint is the row of the drain.
var drainEndpoint = endpoint{
	method: "POST", path: "/v1/drain", class: changes, action: "drain", lasts: drainTime, answers: api.Drained{}, takes: api.Drain{},
	help: "hands leadership over, closes the clients' connections and takes no others; for a member that is about to stop", ask: (*HTTP).v1Drain,
}

func (h *HTTP) v1Drain(q *query) (any, error) {
	wanted := api.Drain{OverMs: drainOver.Milliseconds()}
	if q.body(&wanted); q.err != nil {
		return nil, q.err
	}
	if wanted.OverMs < 0 || wanted.OverMs > maxDrainOver.Milliseconds() {
		return nil, &Failure{http.StatusBadRequest, fmt.Sprintf("over_ms: %d; allowed is 0 to %d", wanted.OverMs, maxDrainOver.Milliseconds())}
	}
	begun := time.Now()
	closed, leads := h.ops.Drain(q.Context(), time.Duration(wanted.OverMs)*time.Millisecond)
	if err := q.Context().Err(); err != nil {
		return nil, &Failure{http.StatusServiceUnavailable, fmt.Sprintf("the request ended after %d connections were closed; drain again to close the rest", closed)}
	}
	return api.Drained{Connections: closed, Leads: leads, TookMs: time.Since(begun).Milliseconds()}, nil
}
