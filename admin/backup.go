package admin

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"rollcall/backup"
)

const (
	// maxBackups is how many backups of a member may be under way at once. Each keeps the state as it was when
	// it began, which takes memory for everything that is changed meanwhile. A second one is for an operator
	// whose first connection hangs.
	maxBackups = 2
	// backupTime is how long a backup may take: enough for 50 GiB at the default rate.
	backupTime = 2 * time.Hour
)

// Copy is the state of a member at one index.
type Copy struct {
	Head backup.Head
	// WriteTo writes the state. An error that is none of w says why the state is not to be trusted.
	WriteTo func(w io.Writer) (int64, error)
}

// backupEndpoint is the row of backups. A backup has the passwords of sessions and everybody's data, so only the
// member's own machine may ask for it, as for requests that change something.
var backupEndpoint = endpoint{
	method: "GET", path: "/v1/backup", class: changes, action: "backup", lasts: backupTime, answers: []byte{}, params: backupParams,
	fails: []int{http.StatusServiceUnavailable},
	help:  "a backup of the ensemble's state at one index, at a bounded rate; cut short if the member fails meanwhile", serve: (*HTTP).v1Backup,
}

var backupParams = []string{"rate"}

// v1Backup sends a backup.
func (h *HTTP) v1Backup(w http.ResponseWriter, r *http.Request) {
	q := newQuery(&endpoint{params: backupParams}, r, h.authorizer.who(r))
	rate := int64(q.number("rate")) << 20
	if rate == 0 {
		rate = backup.DefaultRate
	}
	if q.err != nil {
		q.err.write(w, r)
		return
	}
	if failed := h.sendCopy(w, r, rate); failed != nil {
		failed.write(w, r)
	}
}

// sendCopy sends a backup at a rate, in bytes in a second. It returns why there is none. If it fails later, the answer ends
// without the end of a backup.
func (h *HTTP) sendCopy(w http.ResponseWriter, r *http.Request, rate int64) *Failure {
	select {
	case h.backups <- struct{}{}:
		defer func() { <-h.backups }()
	default:
		return &Failure{Status: http.StatusServiceUnavailable, Text: "other backups of this member are being made; try again when they are done"}
	}
	c, err := h.ops.Copy(r.Context())
	if err != nil {
		return failure(err)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="`+backup.Name(c.Head)+`"`)
	w.Header().Set(lastZxid, fmt.Sprintf("0x%x", uint64(c.Head.Zxid)))
	if r.Method == http.MethodHead {
		return nil
	}
	if err := c.Send(r.Context(), w, rate); err != nil {
		h.log.Warn("a backup was not finished", "index", c.Head.Index, "to", r.RemoteAddr, "err", err)
		noteOutcome(w, &Failure{Status: http.StatusInternalServerError, Text: err.Error()})
	}
	return nil
}

// Send writes the backup to w at a rate, in bytes in a second.
func (c *Copy) Send(ctx context.Context, w io.Writer, rate int64) error {
	out, err := backup.NewWriter(backup.Paced(ctx, w, rate), c.Head)
	if err != nil {
		return err
	}
	if _, err := c.WriteTo(out); err != nil {
		return err
	}
	return out.Close()
}
