package admin

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"rollcall/operator/api"
	"rollcall/operator/backup"
)

const (
	// maxBackups limits concurrent backups. Each holds the state at its start, which takes memory for everything
	// that changes meanwhile. The second one is for an operator whose first connection hangs.
	maxBackups = 2
	// backupTimeout is enough for 50 GiB at the default rate.
	backupTimeout = 2 * time.Hour
)

// StateCopy is the state of a member at one index.
type StateCopy struct {
	Head backup.Head
	// WriteTo writes the state. An error that does not come from w means that the state is damaged.
	WriteTo func(w io.Writer) (int64, error)
}

// backupsAPI has the endpoints and ZooKeeper's commands for backups, snapshots and restores.
type backupsAPI struct {
	ops              Operations
	source           Source
	authorizer       *authorizer
	snapshotSettings snapshotSettings
	log              *slog.Logger
	backupSlots      chan struct{} // capacity maxBackups
	snapshotSlot     chan struct{} // capacity 1: the last snapshot, until its interval is over
	restoreSlot      chan struct{} // capacity 1: the last restore, until its interval is over
}

// snapshotSettings configure ZooKeeper's commands snapshot and restore.
type snapshotSettings struct {
	interval                time.Duration // as HTTPSettings.SnapshotInterval
	noSnapshots, noRestores bool
}

func newBackupsAPI(cfg *HTTPConfig, a *authorizer, log *slog.Logger) *backupsAPI {
	return &backupsAPI{
		ops: cfg.Operations, source: cfg.Source, authorizer: a, log: log,
		snapshotSettings: snapshotSettings{
			interval: cfg.SnapshotInterval, noSnapshots: cfg.NoSnapshots,
			noRestores: cfg.NoRestores,
		},
		backupSlots: make(chan struct{}, maxBackups), snapshotSlot: make(chan struct{}, 1),
		restoreSlot: make(chan struct{}, 1),
	}
}

// routes returns the rows under /v1/. A backup holds the passwords of sessions and all data, so it needs the
// same access as a change.
func (c *backupsAPI) routes() []endpoint {
	return []endpoint{
		{
			method: "POST", path: "/v1/snapshot", access: changeAccess, action: "snapshot", timeout: snapshotTimeout,
			responseBody: api.Snapshot{}, requestBody: struct{}{},
			failureStatuses: []int{http.StatusConflict, http.StatusServiceUnavailable},
			help:            "writes a snapshot to the member's disk and removes the log that it replaces; one at a time", replyJSON: c.createSnapshot,
		},
		{
			method: "GET", path: "/v1/backup", access: changeAccess, action: "backup", timeout: backupTimeout,
			responseBody: []byte{}, parameters: backupParameters,
			failureStatuses: []int{http.StatusServiceUnavailable},
			help:            "a backup of the ensemble; cut short if the member fails meanwhile", serve: c.serveBackup,
		},
	}
}

var backupParameters = []string{"rate"}

func (c *backupsAPI) serveBackup(w http.ResponseWriter, r *http.Request) {
	q := newQuery(&endpoint{parameters: backupParameters}, r, c.authorizer.administratorOf(r))
	rate := int64(q.intParameter("rate")) << 20
	if rate == 0 {
		rate = backup.DefaultRate
	}
	if q.fault != nil {
		q.fault.write(w, r)
		return
	}
	if failed := c.sendBackup(w, r, rate); failed != nil {
		failed.write(w, r)
	}
}

// sendBackup sends a backup at rate bytes per second. It returns a Failure if it sends none. If it fails later,
// the reply is cut short.
func (c *backupsAPI) sendBackup(w http.ResponseWriter, r *http.Request, rate int64) *Failure {
	select {
	case c.backupSlots <- struct{}{}:
		defer func() { <-c.backupSlots }()
	default:
		return &Failure{
			Status: http.StatusServiceUnavailable,
			Text:   "other backups of this member are being made; try again when they are done",
		}
	}
	state, err := c.ops.CopyState(r.Context())
	if err != nil {
		return failureFrom(err)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="`+backup.FileName(state.Head)+`"`)
	w.Header().Set(lastZxidHeader, fmt.Sprintf("0x%x", uint64(state.Head.Zxid)))
	if r.Method == http.MethodHead {
		return nil
	}
	if err := state.WriteBackup(r.Context(), w, rate); err != nil {
		c.log.Warn("a backup was not finished", "index", state.Head.Index, "to", r.RemoteAddr, "err", err)
		recordFailure(w, &Failure{Status: http.StatusInternalServerError, Text: err.Error()})
	}
	return nil
}

// WriteBackup writes the backup to w at rate bytes per second.
func (c *StateCopy) WriteBackup(ctx context.Context, w io.Writer, rate int64) error {
	out, err := backup.NewWriter(backup.NewPacedWriter(ctx, w, rate), c.Head)
	if err != nil {
		return err
	}
	if _, err := c.WriteTo(out); err != nil {
		return err
	}
	return out.Close()
}
