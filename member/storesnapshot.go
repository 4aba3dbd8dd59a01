package member

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"rollcall/operator/admin"
	"rollcall/quorum"
)

// StoreSnapshot implements admin.Operations.
func (o operations) StoreSnapshot(ctx context.Context) (admin.StoredSnapshot, error) {
	switch health := o.m.Health(); {
	case health.Damage != "" || health.Divergence != "":
		text, _ := health.StatusText()
		return admin.StoredSnapshot{},
			&admin.Failure{
				Status: http.StatusServiceUnavailable,
				Text:   text + "; a snapshot of this state would replace a sound one",
			}
	case health.Stalled != "": // apply may hold the state's lock
		return admin.StoredSnapshot{},
			&admin.Failure{Status: http.StatusServiceUnavailable, Text: health.Stalled + "; try again when it responds"}
	}
	state := o.m.state
	state.RLock()
	tree := state.TreeView()
	most := maxStateBytes(tree.DataSize(), tree.NodeCount(), state.SessionCount())
	state.RUnlock()
	s, err := o.m.node.Snapshots().TakeSnapshot(ctx, most)
	if err != nil {
		return admin.StoredSnapshot{}, snapshotFailure(ctx, err)
	}
	return admin.StoredSnapshot{Index: s.Index, Term: s.Term, Zxid: s.Zxid, Bytes: s.Bytes, WriteTime: s.WriteDuration},
		nil
}

// snapshotFailure converts the error of a snapshot for an operator.
func snapshotFailure(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, quorum.ErrSnapshotInProgress):
		return &admin.Failure{
			Status: http.StatusConflict,
			Text:   "this member is writing a snapshot already; /v1/status shows it when it is done",
		}
	case errors.Is(err, quorum.ErrNoSpace):
		return &admin.Failure{
			Status: http.StatusConflict,
			Text:   strings.TrimPrefix(err.Error(), "quorum: ") + "; nothing was written: free space there",
		}
	case ctx.Err() != nil:
		return &admin.Failure{
			Status: http.StatusServiceUnavailable,
			Text:   "the request ended, and the snapshot continues; /v1/status shows it when it is done",
		}
	}
	return &admin.Failure{
		Status: http.StatusServiceUnavailable,
		Text:   strings.TrimPrefix(err.Error(), "quorum: ") + "; try again when /v1/status shows a leader",
	}
}
