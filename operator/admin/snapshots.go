package admin

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"rollcall/operator/backup"
)

// DefaultSnapshotInterval is the default of HTTPSettings.SnapshotInterval, as in ZooKeeper.
const DefaultSnapshotInterval = 5 * time.Minute

// lastZxidHeader is the header in which ZooKeeper's command snapshot gives the last zxid of its answer, and the field in which restore does.
const lastZxidHeader = "last_zxid"

// streamingParameter is the parameter of ZooKeeper's command snapshot: false has the snapshot written to the disk alone.
const streamingParameter = "streaming"

// snapshotCommand and restoreCommand are ZooKeeper's commands about whole states. ZooKeeper 3.9 has them.
func (c *backupsAPI) snapshotCommand() endpoint {
	return endpoint{method: http.MethodGet, timeout: backupTimeout, serve: c.serveSnapshot}
}

func (c *backupsAPI) restoreCommand() endpoint {
	return endpoint{method: http.MethodPost, contentType: "application/octet-stream", timeout: restoreTimeout, serve: c.serveRestore}
}

// serveSnapshot sends a backup, as /v1/backup does, or writes a snapshot to the disk, as /v1/snapshot does: at most one in the interval. It says why there is
// none with the statuses of ZooKeeper's command.
func (c *backupsAPI) serveSnapshot(w http.ResponseWriter, r *http.Request) {
	failed := c.snapshotFault(r)
	switch {
	case failed != nil:
	case r.Method == http.MethodHead: // it gets no bytes of the backup, so it does not count
		failed = c.sendBackup(w, r, backup.DefaultRate)
	default:
		failed = c.takeSnapshot(w, r)
	}
	if failed != nil {
		writeCommand(w, failed.Status, "snapshot", func(*jsonWriter) string { return failed.Text })
	}
}

// takeSnapshot sends a backup or writes a snapshot, unless one was taken in the interval, or is being taken.
func (c *backupsAPI) takeSnapshot(w http.ResponseWriter, r *http.Request) *Failure {
	select {
	case c.snapshotSlot <- struct{}{}:
	default:
		w.Header().Set("Retry-After", strconv.Itoa(int(c.snapshotSettings.interval/time.Second)+1))
		return &Failure{Status: http.StatusTooManyRequests, Text: fmt.Sprintf("this member takes one snapshot in %v (admin.rateLimiterIntervalInMS); try again later, or use rollcall backup save or rollcall snapshot", c.snapshotSettings.interval)}
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

// snapshotFault returns a Failure if a request for a snapshot is rejected.
func (c *backupsAPI) snapshotFault(r *http.Request) *Failure {
	switch streaming := r.URL.Query()[streamingParameter]; {
	case c.snapshotSettings.noSnapshots:
		return &Failure{Status: http.StatusServiceUnavailable, Text: "admin.snapshot.enabled=false has switched this command off"}
	case len(streaming) > 1, len(streaming) == 1 && streaming[0] != "true" && streaming[0] != "false":
		return &Failure{Status: http.StatusBadRequest, Text: "allowed is streaming=true or streaming=false, once, or no such parameter"}
	}
	return nil
}
