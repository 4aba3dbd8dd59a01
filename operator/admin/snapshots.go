package admin

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"rollcall/operator/api"
	"rollcall/operator/backup"
	"rollcall/operator/view"
)

// DefaultSnapshotInterval is ZooKeeper's default of HTTPSettings.SnapshotInterval.
const DefaultSnapshotInterval = 5 * time.Minute

// lastZxidHeader is ZooKeeper's name for the last zxid: a header of the command snapshot, and a field of
// restore.
const lastZxidHeader = "last_zxid"

// streamingParameter is a parameter of ZooKeeper's command snapshot. With false, the snapshot is only written to
// disk.
const streamingParameter = "streaming"

// snapshotCommand and restoreCommand are commands of ZooKeeper 3.9 about whole states.
func (a *adminServer) snapshotCommand() endpoint {
	return endpoint{method: http.MethodGet, timeout: backupTimeout, serve: a.backups.serveSnapshot}
}

func (a *adminServer) restoreCommand() endpoint {
	return endpoint{
		method: http.MethodPost, contentType: "application/octet-stream", timeout: restoreTimeout,
		serve: a.backups.serveRestore,
	}
}

// serveSnapshot sends a backup, as /v1/backup does, or writes a snapshot to disk, as /v1/snapshot does, at most
// once per interval. Failures have the statuses of ZooKeeper's command.
func (c *backupsAPI) serveSnapshot(w http.ResponseWriter, r *http.Request) {
	failed := c.snapshotFault(r)
	switch {
	case failed != nil:
	case r.Method == http.MethodHead: // without the bytes of a backup it does not count
		failed = c.sendBackup(w, r, backup.DefaultRate)
	default:
		failed = c.sendOrStoreSnapshot(w, r)
	}
	if failed != nil {
		writeCommand(w, failed.Status, "snapshot", problemWriter(failed.Text))
	}
}

// sendOrStoreSnapshot sends a backup or writes a snapshot, unless another one was begun within the interval.
func (c *backupsAPI) sendOrStoreSnapshot(w http.ResponseWriter, r *http.Request) *Failure {
	select {
	case c.snapshotSlot <- struct{}{}:
	default:
		w.Header().Set("Retry-After", strconv.Itoa(int(c.snapshotSettings.interval/time.Second)+1))
		return &Failure{
			Status: http.StatusTooManyRequests,
			Text: fmt.Sprintf("this member takes one snapshot in %v (admin.rateLimiterIntervalInMS); try again later, or use "+
				"rollcall backup save or rollcall snapshot", c.snapshotSettings.interval),
		}
	}
	var failed *Failure
	if r.URL.Query().Get(streamingParameter) == "false" {
		failed = c.storeSnapshot(w, r)
	} else {
		failed = c.sendBackup(w, r, backup.DefaultRate)
	}
	if failed != nil {
		<-c.snapshotSlot
		return failed
	}
	time.AfterFunc(c.snapshotSettings.interval, func() { <-c.snapshotSlot })
	return nil
}

// snapshotFault returns a Failure if the request must be rejected.
func (c *backupsAPI) snapshotFault(r *http.Request) *Failure {
	switch streaming := r.URL.Query()[streamingParameter]; {
	case c.snapshotSettings.noSnapshots:
		return &Failure{
			Status: http.StatusServiceUnavailable,
			Text:   "admin.snapshot.enabled=false has switched this command off",
		}
	case len(streaming) > 1, len(streaming) == 1 && streaming[0] != "true" && streaming[0] != "false":
		return &Failure{
			Status: http.StatusBadRequest,
			Text:   "must have streaming=true or streaming=false, once, or no parameter streaming",
		}
	}
	return nil
}

// snapshotTimeout limits a snapshot on demand. The member pauses while it writes one: see disk.NewPacedWriter.
const snapshotTimeout = 2 * time.Hour

// StoredSnapshot is a snapshot on this member's disk.
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
	return api.Snapshot{
		MemberID: c.source.Ensemble().Self, Index: s.Index, Term: s.Term, Zxid: view.ZxidText(s.Zxid),
		Bytes: s.Bytes, TookMs: s.WriteTime.Milliseconds(),
	}, nil
}

// storeSnapshot serves ZooKeeper's command snapshot with streaming=false, with ZooKeeper's headers.
func (c *backupsAPI) storeSnapshot(w http.ResponseWriter, r *http.Request) *Failure {
	s, err := c.ops.StoreSnapshot(r.Context())
	if err != nil {
		return failureFrom(err)
	}
	w.Header().Set(lastZxidHeader, fmt.Sprintf("0x%x", uint64(s.Zxid)))
	w.Header().Set("snapshot_size", strconv.FormatInt(s.Bytes, 10))
	writeCommand(w, http.StatusOK, "snapshot", func(*commandReply) {})
	return nil
}
