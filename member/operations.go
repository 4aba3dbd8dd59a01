package member

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strings"
	"time"

	"rollcall/config"
	"rollcall/operator/admin"
	"rollcall/operator/api"
	"rollcall/operator/stateview"
	"rollcall/operator/view"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// operations implements admin.Operations.
type operations struct {
	*view.Collector
	m *Member
}

// ReadLoad implements admin.Operations.
func (o operations) ReadLoad() admin.Load {
	st := o.m.server.Stats()
	return admin.Load{
		Reads: st.ReadLatency, Updates: st.UpdateLatency, OutstandingRequests: st.OutstandingRequests,
		Connections: st.Connections,
	}
}

// SessionEnds implements admin.Operations.
func (o operations) SessionEnds(session jute.SessionID, address string, before uint64) iter.Seq[znode.SessionEnd] {
	return o.m.SessionEnds(stateview.EndFilter{Session: session, Address: address, Before: before})
}

// KillSession implements admin.Operations.
func (o operations) KillSession(ctx context.Context, id jute.SessionID, by string) error {
	return killFailure(o.m.KillSession(ctx, id, by))
}

// killFailure converts an error of KillSession for an operator.
func killFailure(err error) error {
	for _, row := range killFailureReplies {
		if errors.Is(err, row.err) {
			return &admin.Failure{Status: row.status, Text: strings.TrimPrefix(err.Error(), "member: ") + row.advice}
		}
	}
	return err
}

// DrainSelf implements admin.Operations.
func (o operations) DrainSelf(ctx context.Context, over time.Duration) (closed int, leads bool) {
	return o.m.Drain(ctx, over)
}

var killFailureReplies = []struct {
	err    error
	status int
	advice string
}{
	{ErrUnknownSession, http.StatusNotFound, "; /v1/ends shows the ends of sessions"},
	{ErrSessionMoved, http.StatusConflict, "; try again if it is to end all the same"},
	{ErrNotConfirmed, http.StatusGatewayTimeout, "; query the session again"},
	{ErrNoLeader, http.StatusServiceUnavailable, "; nothing was done: try again when /v1/status shows a leader"},
	{ErrNotListed, http.StatusServiceUnavailable, "; nothing was done"},
	{ErrNotSound, http.StatusServiceUnavailable, "; nothing was done"},
}

// settingRows returns the keys of the configuration for /v1/config.
func settingRows(keys []config.Key) (rows []api.Setting) {
	for _, k := range keys {
		rows = append(rows, k.Setting())
	}
	return rows
}
