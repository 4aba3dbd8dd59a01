package admin

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// shedRequest is the body of the command shed_connections.
type shedRequest struct {
	Percentage *int `json:"percentage"` // of the connections; nil: it is missing
}

// shedCommand is a command of ZooKeeper 3.10: one member closes a share of its connections, so that their clients
// move to others. rollcall members rebalance instead counts the clients of all members.
func (a *adminServer) shedCommand() endpoint {
	return endpoint{method: http.MethodPost, timeout: rebalanceTimeout + replyTimeout, serve: a.serveShed}
}

func (a *adminServer) serveShed(w http.ResponseWriter, r *http.Request) {
	percentage, closed, failed := a.shedConnections(r)
	if failed != nil {
		writeCommand(w, failed.Status, "shed_connections", problemWriter(failed.Text))
		return
	}
	writeCommand(w, http.StatusOK, "shed_connections", func(j *commandReply) {
		j.field("percentage_requested", percentage)
		j.field("connections_shed", closed)
	})
}

// shedConnections closes the share that the body of r names.
func (a *adminServer) shedConnections(r *http.Request) (percentage, closed int, failed *Failure) {
	q := newQuery(&endpoint{}, r, a.authorizer.administratorOf(r))
	var wanted shedRequest
	switch q.decodeBody(&wanted); {
	case wanted.Percentage == nil:
		q.addFault(`the body has no percentage; send {"percentage":25} to close a quarter of the connections`)
	case *wanted.Percentage < 0 || *wanted.Percentage > 100:
		q.addFault("percentage: %d; must be 0 to 100", *wanted.Percentage)
	}
	if q.fault != nil {
		return 0, 0, q.fault
	}
	if a.source.Health().Role == "" { // the clients would find no leader elsewhere either
		return 0, 0, &Failure{Status: http.StatusServiceUnavailable, Text: strings.TrimSuffix(notServing, "\n")}
	}
	ctx, cancel := context.WithTimeout(r.Context(), rebalanceTimeout)
	defer cancel()
	closed, err := a.ops.ShedConnections(ctx, *wanted.Percentage)
	switch {
	case err != nil:
		return 0, 0, failureFrom(err)
	case ctx.Err() != nil:
		return 0, 0, &Failure{
			Status: http.StatusServiceUnavailable,
			Text: fmt.Sprintf("the request ended after %d connections were closed; repeat it with the percentage of the rest",
				closed),
		}
	}
	return *wanted.Percentage, closed, nil
}
