package admin

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"rollcall/operator/api"
	"rollcall/operator/view"
)

// snapshotTimeout limits a snapshot on demand. The member makes pauses while it writes one: see disk.Paced.
const snapshotTimeout = 2 * time.Hour

// StoredSnapshot is a snapshot that this member has written to its disk.
type StoredSnapshot struct {
	Index, Term uint64 // of the last log entry in it
	Zxid        int64  // of the last transaction in it
	Bytes       int64
	WriteTime   time.Duration // from copying the state until the snapshot was on the disk
}

func (c *backupsAPI) createSnapshot(q *query) (any, error) {
	if q.decodeBody(&struct{}{}); q.fault != nil {
		return nil, q.fault
	}
	s, err := c.ops.StoreSnapshot(q.Context())
	if err != nil {
		return nil, err
	}
	return api.Snapshot{MemberID: c.source.Ensemble().Self, Index: s.Index, Term: s.Term, Zxid: view.ZxidText(s.Zxid), Bytes: s.Bytes, TookMs: s.WriteTime.Milliseconds()}, nil
}

// storeSnapshot answers ZooKeeper's command snapshot with streaming=false: at most one in the interval, with ZooKeeper's headers.
func (c *backupsAPI) storeSnapshot(w http.ResponseWriter, r *http.Request) *Failure {
	s, err := c.ops.StoreSnapshot(r.Context())
	if err != nil {
		return failureFrom(err)
	}
	w.Header().Set(lastZxidHeader, fmt.Sprintf("0x%x", uint64(s.Zxid)))
	w.Header().Set("snapshot_size", strconv.FormatInt(s.Bytes, 10))
	writeCommand(w, http.StatusOK, "snapshot", func(*jsonWriter) string { return "" })
	return nil
}
