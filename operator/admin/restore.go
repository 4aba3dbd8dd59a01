package admin

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"time"
)

// restoreTimeout limits a restore. At backup.RestoreRate, 50 GiB take an hour to send, and an hour each to
// check, to write, and to find the nodes that the backup lacks.
const restoreTimeout = 4 * time.Hour

// RestoreRequest is a backup to be written into the ensemble.
type RestoreRequest struct {
	Body       io.Reader
	BodySize   int64  // of the body; -1: it is not known
	CallerHost string // address of the administrator, without a port
}

// RestoreResult is the result of a restore.
type RestoreResult struct {
	Zxid         int64 // the member's last one when all was written
	Nodes        int   // of the backup that are now as it says
	Created      int
	ChangedData  int // data changed
	ChangedACLs  int // lists changed
	Deleted      int
	LeftNodes    int // ephemeral nodes of living sessions, and nodes above them, that were left as they are
	SkippedNodes int // ephemeral nodes of the backup, which are not restored
}

// serveRestore writes a backup into the ensemble, at most one per interval. ZooKeeper's command instead replaces
// the state of the one server, which would then differ from the other members.
func (c *backupsAPI) serveRestore(w http.ResponseWriter, r *http.Request) {
	done, failed := c.runRestore(w, r)
	if failed != nil {
		writeCommand(w, failed.Status, "restore", problemWriter(failed.Text))
		return
	}
	writeCommand(w, http.StatusOK, "restore", func(j *commandReply) {
		j.field(lastZxidHeader, done.Zxid)
		j.field("nodes", done.Nodes)
		j.field("created", done.Created)
		j.field("set", done.ChangedData)
		j.field("acls", done.ChangedACLs)
		j.field("deleted", done.Deleted)
		j.field("left", done.LeftNodes)
		j.field("skipped", done.SkippedNodes)
	})
}

// runRestore restores the body. It returns a Failure if it did not restore all of it.
func (c *backupsAPI) runRestore(w http.ResponseWriter, r *http.Request) (RestoreResult, *Failure) {
	switch {
	case c.snapshotSettings.noRestores:
		ignoreBody(w)
		return RestoreResult{}, &Failure{
			Status: http.StatusServiceUnavailable,
			Text:   "admin.restore.enabled=false has switched this command off",
		}
	case r.ContentLength == 0:
		return RestoreResult{}, &Failure{
			Status: http.StatusBadRequest,
			Text:   "the body is empty; send a backup, as the command snapshot and rollcall backup save make it",
		}
	}
	select {
	case c.restoreSlot <- struct{}{}:
	default:
		ignoreBody(w)
		w.Header().Set("Retry-After", strconv.Itoa(int(c.snapshotSettings.interval/time.Second)+1))
		return RestoreResult{}, &Failure{
			Status: http.StatusTooManyRequests,
			Text: fmt.Sprintf("this member takes one restore at a time, and the next one %v after it is done "+
				"(admin.rateLimiterIntervalInMS); try again later, or use rollcall backup restore --subtree",
				c.snapshotSettings.interval),
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), restoreTimeout)
	defer cancel()
	body := &pacedBody{body: r.Body, control: http.NewResponseController(w)}
	done, err := c.ops.RestoreBackup(ctx,
		RestoreRequest{Body: body, BodySize: r.ContentLength, CallerHost: hostOfCaller(r)})
	if err != nil {
		<-c.restoreSlot // it can be sent again at once
		return done, failureFrom(err)
	}
	time.AfterFunc(c.snapshotSettings.interval, func() { <-c.restoreSlot })
	return done, nil
}

// pacedBody gives the client partTimeout for each part of a long body, instead of requestTimeout for all of it.
type pacedBody struct {
	body    io.Reader
	control *http.ResponseController
	err     error // after the end, the server itself reads, to see whether the client leaves
}

func (b *pacedBody) Read(p []byte) (n int, err error) {
	if b.err == nil {
		b.err = b.control.SetReadDeadline(time.Now().Add(partTimeout))
	}
	if b.err == nil {
		n, b.err = b.body.Read(p)
	}
	return n, b.err
}

// hostOfCaller returns the sender's address without a port, as ACLs have it, or "" at a local socket.
func hostOfCaller(r *http.Request) string {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil { // a local socket
		return ""
	}
	return from.Addr().Unmap().WithZone("").String()
}
