package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"net/url"

	"github.com/hashicorp/raft"

	"rollcall/quorum/history"
)

// Span returns what a member says of a part of its past, for history.NewChain.
func (s HistorySpan) Span() history.Span {
	span := history.Span{First: s.First, Last: s.Last}
	for _, n := range s.Snapshots {
		span.Snapshots = append(span.Snapshots, history.Snapshot{Name: n.Name, Index: n.Index, Term: n.Term, At: n.At, Bytes: n.Bytes})
	}
	for _, g := range s.Segments {
		span.Segments = append(span.Segments, history.Segment{Name: g.Name, First: g.First, Last: g.Last, FileBytes: g.Bytes})
	}
	return span
}

// FollowLog yields the committed entries after an index from the log of the member of a client, and waits for more until ctx ends. An
// error is the last that it yields. It is an *Error with ReasonEntriesGone if the log does not have the next one any more.
func FollowLog(ctx context.Context, c *Client, after uint64) iter.Seq2[*raft.Log, error] {
	return func(yield func(*raft.Log, error) bool) {
		for {
			body, err := c.OpenStream(ctx, fmt.Sprintf("history/entries?after=%d", after))
			if err != nil {
				yield(nil, err)
				return
			}
			more := true
			in := bufio.NewReader(body)
			for err == nil && more {
				var e *raft.Log
				if e, err = history.ReadEntry(in); err == nil {
					after, more = e.Index, yield(e, nil)
				}
			}
			_ = body.Close() // it was only read from
			if !more {
				return
			}
			if !errors.Is(err, io.EOF) {
				yield(nil, err)
				return
			}
		}
	}
}

// HistorySource has the files of the past of the member of a client.
type HistorySource struct{ Client *Client }

// Open implements history.Source. The error wraps fs.ErrNotExist if the member does not have the file any more.
func (s HistorySource) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	body, err := s.Client.OpenStream(ctx, "history/file?"+url.Values{"file": {name}}.Encode())
	if rejected, ok := errors.AsType[*Error](err); ok && rejected.Status == http.StatusNotFound {
		return nil, missingFile{err}
	}
	if err != nil {
		return nil, err
	}
	return historyFile{body, s.Location(name)}, nil
}

// missingFile is the error for a file that a member does not have any more.
type missingFile struct{ error }

// Unwrap returns the member's own error, and the one that stands for all missing files.
func (m missingFile) Unwrap() []error { return []error{m.error, fs.ErrNotExist} }

// historyFile is a file that a member sends. Its errors never look like the end of a damaged file.
type historyFile struct {
	io.ReadCloser
	where string
}

// Read implements io.Reader.
func (f historyFile) Read(b []byte) (int, error) {
	n, err := f.ReadCloser.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%s was not sent to its end: %s", f.where, err.Error()) // not wrapped: it may be io.ErrUnexpectedEOF
	}
	return n, err
}

// Location implements history.Source.
func (s HistorySource) Location(name string) string { return s.Client.Name() + ": " + name }
