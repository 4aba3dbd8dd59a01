package api

import (
	"context"
	"io"
	"net/url"

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

// HistorySource has the files of the past of the member of a client.
type HistorySource struct{ Client *Client }

// Open implements history.Source.
func (s HistorySource) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	return s.Client.OpenStream(ctx, "history/file?"+url.Values{"file": {name}}.Encode())
}

// Location implements history.Source.
func (s HistorySource) Location(name string) string { return s.Client.Name() + ": " + name }
