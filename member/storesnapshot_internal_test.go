package member

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"rollcall/operator/admin"
	"rollcall/quorum"
)

// An operator learns whether a snapshot on demand was begun, and what to do if it was not.
func TestSnapshotFailure(t *testing.T) {
	left, leave := context.WithCancel(t.Context())
	leave()
	for _, tt := range []struct {
		ctx    context.Context
		err    error
		status int
		want   string
	}{
		{t.Context(), quorum.ErrSnapshotInProgress, 409, "this member is writing a snapshot already"},
		{
			t.Context(), fmt.Errorf("%w: 5 bytes are free where the data are; a snapshot of this state may take 7, and 3 are left to the log", quorum.ErrNoSpace), 409,
			"there may be no room for one more snapshot: 5 bytes are free where the data are; a snapshot of this state may take 7, and 3 are left to the log; nothing was written: free space there",
		},
		{left, context.Canceled, 503, "the request ended, and the snapshot continues"},
		{t.Context(), quorum.ErrNotRunning, 503, "try again when /v1/status shows a leader"},
	} {
		f, ok := errors.AsType[*admin.Failure](snapshotFailure(tt.ctx, tt.err))
		if !ok || f.Status != tt.status || !strings.Contains(f.Text, tt.want) || strings.Contains(f.Text, "quorum: ") {
			t.Errorf("%v: %+v, want %d with %q", tt.err, f, tt.status, tt.want)
		}
	}
}
