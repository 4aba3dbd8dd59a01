package member

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/hashicorp/raft"

	"rollcall/operator/admin"
	"rollcall/operator/api"
	"rollcall/quorum"
	"rollcall/quorum/history"
)

// History implements admin.Operations.
func (o operations) History() (history.Listing, error) {
	return pastFiles{o.m}.List()
}

// HistoryFile implements admin.Operations.
func (o operations) HistoryFile(ctx context.Context, name string) (io.ReadCloser, error) {
	source, err := pastFiles{o.m}.Source()
	if err != nil {
		return nil, err
	}
	f, err := source.Open(ctx, name)
	if errors.Is(err, history.ErrNoSuchFile) {
		return nil, &admin.Failure{Status: http.StatusNotFound, Text: strings.TrimPrefix(err.Error(), "history: ")}
	}
	return f, err
}

// LaterEntries implements admin.Operations.
func (o operations) LaterEntries(after uint64, mostBytes int) ([]*raft.Log, error) {
	return pastFiles{o.m}.ReadEntries(after, mostBytes)
}

// pastFiles implements served.Files.
type pastFiles struct{ m *Member }

// List implements served.Files.
func (f pastFiles) List() (history.Listing, error) {
	l, err := f.m.node.Disk().Past().List()
	return l, pastFailure(err)
}

// Source implements served.Files.
func (f pastFiles) Source() (history.Source, error) {
	source, err := f.m.node.Disk().Past().Source()
	return source, pastFailure(err)
}

// ReadEntries implements served.Files.
func (f pastFiles) ReadEntries(after uint64, mostBytes int) ([]*raft.Log, error) {
	entries, err := f.m.node.Disk().Past().ReadEntries(after, mostBytes)
	return entries, pastFailure(err)
}

// LastIndex implements served.Files.
func (f pastFiles) LastIndex() (uint64, error) {
	last, err := f.m.node.Disk().Past().LastIndex()
	return last, pastFailure(err)
}

func pastFailure(err error) error {
	switch {
	case errors.Is(err, quorum.ErrNotRunning):
		return &admin.Failure{Status: http.StatusServiceUnavailable, Text: "this member has not applied an entry since its start; try again"}
	case errors.Is(err, quorum.ErrEntriesGone):
		return &admin.Failure{
			Status: http.StatusGone, Reason: api.ReasonEntriesGone,
			Text: "the log of this member begins after that entry; what it keeps of the past, at /v1/history, may have it",
		}
	case errors.Is(err, quorum.ErrNoDirectories):
		return &admin.Failure{Status: http.StatusConflict, Text: strings.TrimPrefix(err.Error(), "quorum: ")}
	}
	return err
}
