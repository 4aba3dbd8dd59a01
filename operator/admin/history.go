package admin

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"rollcall/operator/api"
	"rollcall/operator/backup"
	"rollcall/quorum/history"
)

const (
	// maxHistoryFiles limits the files that are sent at a time. The second one is for an operator whose first connection hangs.
	maxHistoryFiles = 2
	// historyRate limits the bytes of a file in a second. At this rate a member spends less than a tenth of a processor.
	historyRate = 64 << 20
	// maxHistoryFollowers limits the callers that follow the log.
	maxHistoryFollowers = 8
	// followPart is the number of bytes of entries that are read at a time. The last one may exceed it.
	followPart = 1 << 20
	// followTime limits a reply with the entries of a log, and followPoll is the time between two looks for more.
	followTime = 10 * time.Minute
	followPoll = 100 * time.Millisecond
	// historyTimeout is enough for the state of 50 GiB at that rate.
	historyTimeout = 20 * time.Minute
)

// historyAPI has the endpoints for what the member keeps of the past. It sends files; whoever asks builds the states.
type historyAPI struct {
	ops        Operations
	source     Source
	authorizer *authorizer
	log        *slog.Logger
	slots      chan struct{} // capacity maxHistoryFiles
	followers  chan struct{} // capacity maxHistoryFollowers
}

var (
	historyParameters = []string{"file"}
	followParameters  = []string{"after"}
)

// routes returns the rows under /v1/. The files hold what a backup holds, so they need the same access.
func (c *historyAPI) routes() []endpoint {
	return []endpoint{
		{
			method: "GET", path: "/v1/history", access: changeAccess, action: "history", longReply: true,
			responseBody:    api.History{},
			failureStatuses: []int{http.StatusConflict, http.StatusServiceUnavailable},
			help:            "what the member keeps of the past", replyJSON: c.list,
		},
		{
			method: "GET", path: "/v1/history/file", access: changeAccess, action: "history file", timeout: historyTimeout,
			responseBody: []byte{}, parameters: historyParameters, requiredParameters: historyParameters,
			failureStatuses: []int{http.StatusConflict, http.StatusNotFound, http.StatusServiceUnavailable},
			help:            "a file of the past; one of a log goes up to the last entry applied", serve: c.serveFile,
		},
		{
			method: "GET", path: "/v1/history/entries", access: changeAccess, action: "history entries", timeout: 2 * followTime,
			responseBody: []byte{}, parameters: followParameters, requiredParameters: followParameters,
			failureStatuses: []int{http.StatusConflict, http.StatusGone, http.StatusServiceUnavailable},
			help:            "the entries of the log after one, and for ten minutes those that are committed meanwhile", serve: c.serveEntries,
		},
	}
}

func (c *historyAPI) list(*query) (any, error) {
	l, err := c.ops.History()
	if err != nil {
		return nil, err
	}
	reply := api.History{MemberID: c.source.Ensemble().Self, Spans: []api.HistorySpan{}, Damaged: append([]string{}, l.Damaged...)}
	for _, s := range l.Spans {
		reply.Spans = append(reply.Spans, spanReply(s))
	}
	return reply, nil
}

func spanReply(s history.Span) api.HistorySpan {
	reply := api.HistorySpan{First: s.First, Last: s.Last, Snapshots: []api.HistorySnapshot{}, Segments: []api.HistorySegment{}}
	for _, n := range s.Snapshots {
		reply.Snapshots = append(reply.Snapshots, api.HistorySnapshot{Name: n.Name, Index: n.Index, Term: n.Term, At: n.At, Bytes: n.Bytes})
	}
	for _, g := range s.Segments {
		reply.Segments = append(reply.Segments, api.HistorySegment{Name: g.Name, First: g.First, Last: g.Last, Bytes: g.FileBytes})
	}
	return reply
}

func (c *historyAPI) serveFile(w http.ResponseWriter, r *http.Request) {
	q := newQuery(&endpoint{parameters: historyParameters, requiredParameters: historyParameters}, r, c.authorizer.administratorOf(r))
	if q.fault != nil {
		q.fault.write(w, r)
		return
	}
	if failed := c.sendFile(w, r, q.values.Get("file")); failed != nil {
		failed.write(w, r)
	}
}

// sendFile sends a file. It returns a Failure if it sends nothing. If it fails later, the reply is cut short.
func (c *historyAPI) sendFile(w http.ResponseWriter, r *http.Request, name string) *Failure {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	default:
		return &Failure{
			Status: http.StatusServiceUnavailable,
			Text:   fmt.Sprintf("%d files of the past are being sent; try again when they are done", maxHistoryFiles),
		}
	}
	f, err := c.ops.HistoryFile(r.Context(), name)
	if errors.Is(err, fs.ErrNotExist) {
		return &Failure{Status: http.StatusNotFound, Text: err.Error() + "; it may have been removed: list what there is now"}
	}
	if err != nil {
		return failureFrom(err)
	}
	defer func() { _ = f.Close() }() // it was read
	w.Header().Set("Content-Type", "application/octet-stream")
	if r.Method == http.MethodHead {
		return nil
	}
	if _, err := io.Copy(backup.NewPacedWriter(r.Context(), w, historyRate), f); err != nil {
		c.log.Warn("a file of the past was not sent to its end", "file", name, "to", r.RemoteAddr, "err", err)
		recordFailure(w, &Failure{Status: http.StatusInternalServerError, Text: err.Error()})
		panic(http.ErrAbortHandler) // the caller must not take it for the whole file
	}
	return nil
}

func (c *historyAPI) serveEntries(w http.ResponseWriter, r *http.Request) {
	q := newQuery(&endpoint{parameters: followParameters, requiredParameters: followParameters}, r, c.authorizer.administratorOf(r))
	after := q.intParameter("after")
	if q.fault != nil {
		q.fault.write(w, r)
		return
	}
	if failed := c.sendEntries(w, r, uint64(after)); failed != nil {
		failed.write(w, r)
	}
}

// sendEntries sends the entries after an index, and more as they are committed, until the caller leaves or followTime is over. It
// returns a Failure if it sends nothing.
func (c *historyAPI) sendEntries(w http.ResponseWriter, r *http.Request, after uint64) *Failure {
	select {
	case c.followers <- struct{}{}:
		defer func() { <-c.followers }()
	default:
		return &Failure{
			Status: http.StatusServiceUnavailable,
			Text:   fmt.Sprintf("%d callers follow the log; try again when one has left", maxHistoryFollowers),
		}
	}
	entries, err := c.ops.LaterEntries(after, followPart)
	if err != nil {
		return failureFrom(err)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if r.Method == http.MethodHead {
		return nil
	}
	looks := time.NewTicker(followPoll)
	defer looks.Stop()
	var b []byte
	for until := time.Now().Add(followTime); err == nil && time.Now().Before(until); entries, err = c.ops.LaterEntries(after, followPart) {
		for _, e := range entries {
			b, after = history.AppendEntry(b[:0], e), e.Index
			if _, err := w.Write(b); err != nil {
				return nil // the caller has left
			}
		}
		if len(entries) > 0 {
			continue
		}
		if http.NewResponseController(w).Flush() != nil {
			return nil // likewise
		}
		select {
		case <-looks.C:
		case <-r.Context().Done():
			return nil
		}
	}
	return nil // an error comes again in the next request
}
