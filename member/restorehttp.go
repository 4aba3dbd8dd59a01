package member

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"

	"rollcall/operator/admin"
	"rollcall/operator/backup"
	"rollcall/operator/subtree"
	"rollcall/znode"
)

const (
	// maxSpoolBytes limits a backup that a member restores over HTTP. Sending it takes an hour at backup.RestoreRate.
	maxSpoolBytes = 50 << 30
	// spoolFreeShare limits the backup to that fraction of the free space on the data's disk. Its nodes are also
	// written to the log and to the next snapshot.
	spoolFreeShare = 4
)

// RestoreBackup implements admin.Operations. It keeps the backup in a file without a name, because it reads it
// up to three times.
func (o operations) RestoreBackup(ctx context.Context, r admin.RestoreRequest) (admin.RestoreResult, error) {
	m := o.m
	if err := o.checkTakesWrites(ctx); err != nil {
		return admin.RestoreResult{}, err
	}
	most, err := o.maxSpoolSize()
	if err != nil {
		return admin.RestoreResult{}, spoolFailure(err)
	}
	file, err := o.spoolBody(ctx, r, most)
	if err != nil {
		return admin.RestoreResult{}, err
	}
	defer func() { _ = file.Close() }() // deletes it, because it has no name
	space := subtree.Space{Nodes: newInternalClient(m, r.CallerHost)}
	head, source, err := checkSpooled(ctx, space, file)
	if err != nil {
		return admin.RestoreResult{}, unreadableFailure(ctx, err)
	}
	m.log.Info("a backup is written into the ensemble", "index", head.Index, "digest", head.Digest, "nodes", source.Count,
		"from", r.CallerHost)
	done, err := space.LoadFrom(ctx, source,
		subtree.LoadOptions{Mode: subtree.Replace, OnBegin: func(subtree.Summary) {}, OnChange: func(subtree.Change) {}})
	if err != nil {
		return admin.RestoreResult{}, partialRestoreFailure(ctx, done, source.Count, err)
	}
	m.state.RLock()
	defer m.state.RUnlock()
	return admin.RestoreResult{
		Zxid: m.state.Zxid(), Nodes: done.Nodes, Created: done.Created, ChangedData: done.Set, ChangedACLs: done.ACLs,
		Deleted: done.Deleted, LeftNodes: done.LeftAlone, SkippedNodes: done.Skipped,
	}, nil
}

// checkTakesWrites returns an error unless this member serves and a leader replies to it.
func (o operations) checkTakesWrites(ctx context.Context) error {
	if !o.m.servesAllClients() {
		return errNotServing
	}
	within, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	if o.m.follower.AwaitSync(within) != nil {
		return errNothingDone
	}
	return nil
}

// spoolBody writes a body of at most most bytes to a file without a name, at a rate that leaves the disk to the
// log. The error is an *admin.Failure.
func (o operations) spoolBody(ctx context.Context, r admin.RestoreRequest, most int64) (*os.File, error) {
	tooLong := &admin.Failure{
		Status: http.StatusRequestEntityTooLarge,
		Text: fmt.Sprintf("the backup has more than the %d bytes that are available: at most %d, and one in %d free bytes "+
			"on the data's disk; nothing was changed. rollcall backup restore --subtree needs no space here", most,
			int64(maxSpoolBytes), spoolFreeShare),
	}
	if r.BodySize > most {
		return nil, tooLong
	}
	file, err := os.CreateTemp(o.m.cfg.Dir, "restore.*.part")
	if err != nil {
		return nil, spoolFailure(err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, spoolFailure(errors.Join(err, file.Close()))
	}
	n, err := io.Copy(backup.NewPacedWriter(ctx, file, backup.RestoreRate), io.LimitReader(r.Body, most+1))
	_, ofFile := errors.AsType[*fs.PathError](err)
	var failed *admin.Failure
	switch {
	case err == nil && n <= most:
		return file, nil
	case err == nil:
		failed = tooLong
	case ofFile:
		failed = spoolFailure(err)
	default:
		failed = &admin.Failure{
			Status: http.StatusBadRequest,
			Text:   fmt.Sprintf("the body ended after %d bytes: %v; nothing was changed", n, err),
		}
	}
	_ = file.Close() // the failure is reported
	return nil, failed
}

// maxSpoolSize returns the maximum size of a backup. Members without a directory, in tests, use the temporary
// directory.
func (o operations) maxSpoolSize() (most int64, err error) {
	if o.m.cfg.Dir == "" {
		return maxSpoolBytes, nil
	}
	free, _, err := o.m.node.Disk().Free()
	return min(maxSpoolBytes, free/spoolFreeShare), err
}

func spoolFailure(err error) *admin.Failure {
	return &admin.Failure{
		Status: http.StatusInsufficientStorage,
		Text:   fmt.Sprintf("the backup cannot be kept on the disk of the data: %v; nothing was changed", err),
	}
}

// checkSpooled checks the whole backup, and returns its head and its nodes. Each reading is paced as the writing was.
func checkSpooled(ctx context.Context, s subtree.Space, file *os.File) (head backup.Head, source subtree.Source,
	err error,
) {
	source, err = s.SourceFromBackup("/", func(v znode.ImageVisitor) (backup.Head, error) {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return head, err
		}
		head, _, err = backup.Read(io.TeeReader(file, backup.NewPacedWriter(ctx, io.Discard, backup.RestoreRate)), v)
		return head, err
	})
	return head, source, err
}

// unreadableFailure returns the reply for a backup that cannot be read, before any of it is written.
func unreadableFailure(ctx context.Context, err error) *admin.Failure {
	if ctx.Err() != nil {
		return &admin.Failure{Status: http.StatusServiceUnavailable, Text: "the request ended; nothing was changed"}
	}
	if _, ofFile := errors.AsType[*fs.PathError](err); ofFile {
		return spoolFailure(err)
	}
	return &admin.Failure{
		Status: http.StatusBadRequest,
		Text: fmt.Sprintf("the body is no backup that can be restored: %v; nothing was changed. rollcall backup verify "+
			"checks a file", err),
	}
}

// partialRestoreFailure returns the reply for a backup that was only partly written.
func partialRestoreFailure(ctx context.Context, done subtree.LoadResult, nodes int, err error) *admin.Failure {
	failed := &admin.Failure{Status: http.StatusInternalServerError, Text: err.Error()}
	of, ofNode := errors.AsType[*requestError](err)
	switch {
	case ctx.Err() != nil:
		failed.Text = "the request ended"
	case ofNode:
		failed.Text = nodeFailure(of.code, of.path).Error()
	}
	failed.Text = fmt.Sprintf("ended when %d of %d nodes were as in the backup, %d others deleted, and perhaps some "+
		"more: %s; the same backup, sent again, does the rest", done.Nodes, nodes, done.Deleted, failed.Text)
	return failed
}
