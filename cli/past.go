package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"rollcall/cli/nodes"
	"rollcall/operator/admin"
	"rollcall/operator/api"
	"rollcall/operator/past"
)

// KeptLog is a kept log that commands read, of a member or of a directory.
type KeptLog struct {
	past.Chain
	Origin  string   // the member or the directory, for users
	Damaged []string // files that cannot be used, with the reason
	Close   func() error
}

// KeptLogPlace says where a kept log is. The zero value is a member of the ensemble.
type KeptLogPlace struct {
	Directory string // the data directory of a member, and after a comma that of its log if that is apart
	Archive   string // the location of an archive
}

// register adds the flags --dir and --archive. without says what is shown without a moment.
func (p *KeptLogPlace) register(cmd *cobra.Command, without string) {
	cmd.Flags().StringVar(&p.Directory, "dir", "", dirHelp+without)
	cmd.Flags().StringVar(&p.Archive, "archive", "", archiveHelp)
}

// KeptLogOpener opens a kept log at a place. It prefers a member whose log reaches back to from, the earliest moment that is needed;
// the zero value is the newest state. If follow is set, the log waits at its end for more entries.
type KeptLogOpener func(ctx context.Context, ensemble *EnsembleFlags, place KeptLogPlace, from past.Moment, follow bool) (KeptLog, error)

// openKeptLog opens a kept log with the opener of the streams.
func openKeptLog(ctx context.Context, ensemble *EnsembleFlags, place KeptLogPlace, from past.Moment, follow bool) (KeptLog, error) {
	open := ensemble.streams.OpenKeptLog
	switch {
	case open == nil:
		return KeptLog{}, Unavailable.Errorf("this program cannot read kept logs")
	case place.Directory != "" && place.Archive != "":
		return KeptLog{}, UsageError.Errorf("--dir and --archive are two places; leave one of them out")
	}
	return open(ctx, ensemble, place, from, follow)
}

// pastFlags are the flags that select a state of the past instead of the present one.
type pastFlags struct {
	at string
	KeptLogPlace
}

const (
	archiveHelp = "`directory` or s3://bucket/prefix of an archive to read instead of a member"
	dirHelp     = "`directory` of a member that does not run, or a copy of it, to read instead of a member"
	momentHelp  = "a zxid (0x100000002), a time with its offset (2026-03-01T03:12:00Z) or a time ago (10m)"
)

func (p *pastFlags) register(cmd *cobra.Command) {
	p.registerMoment(cmd, "show the state as it was at this `moment`: ")
	cmd.Long += " With --at it shows the past."
}

// registerMoment adds the flags with what the command does with the moment.
func (p *pastFlags) registerMoment(cmd *cobra.Command, purpose string) {
	cmd.Flags().StringVar(&p.at, "at", "", purpose+momentHelp)
	p.KeptLogPlace.register(cmd, "; without --at its newest state")
	completeFlag(cmd, "at")
}

// isSet reports whether the user asks for a state of the past. A nil p has no flags.
func (p *pastFlags) isSet() bool { return p != nil && (p.at != "" || p.KeptLogPlace != KeptLogPlace{}) }

// open builds the state that the flags select, and prints which one that is. If whole is set, it builds it from the oldest
// snapshot, so that the state knows all removals of nodes that the log does. at is the time of the state, by which ages count.
func (p *pastFlags) open(ctx context.Context, ensemble *EnsembleFlags, whole bool) (l *past.Log, at time.Time, err error) {
	m, err := parseMoment(ensemble.streams, "at", p.at)
	if err != nil {
		return nil, at, err
	}
	kept, err := openKeptLog(ctx, ensemble, p.KeptLogPlace, m, false)
	if err != nil {
		return nil, at, err
	}
	progress := NewProgress(ensemble.streams, "entries", 0)
	chain := progressChain{kept.Chain, progress}
	if whole {
		if l, err = past.OpenOldest(ctx, chain); err == nil {
			err = l.Advance(m, nil)
			l.Close()
		}
	} else if l, err = past.Open(ctx, chain, m); err == nil {
		l.Close() // nothing more is read
	}
	progress.Done()
	if err = errors.Join(err, kept.Close()); err != nil {
		return nil, at, explainMomentError(kept.Origin, err)
	}
	warnOfSkipped(ensemble.streams, kept, l)
	point := l.Point()
	warnf(ensemble.streams, "the state after %v, from %s", point, kept.Origin)
	return l, cmp.Or(m.Time(), point.Time), nil
}

// parseMoment parses the value of a flag. An empty one is the newest state.
func parseMoment(w IOStreams, flag, text string) (past.Moment, error) {
	if text == "" {
		return past.Moment{}, nil
	}
	m, err := past.ParseMoment(text, w.Now())
	if err != nil {
		return m, UsageError.Errorf("--%s: %w", flag, err)
	}
	return m, nil
}

// explainMomentError names the log that an error of package past is about.
func explainMomentError(origin string, err error) error {
	for _, missing := range []error{past.ErrTooEarly, past.ErrTooLate, past.ErrNeverGiven, past.ErrGap} {
		if errors.Is(err, missing) {
			return NotFound.Errorf("%s: %w", origin, err)
		}
	}
	return fmt.Errorf("%s: %w", origin, err)
}

// warnOfSkipped names the snapshots that were left out, and the files of the log that cannot be used.
func warnOfSkipped(w IOStreams, kept KeptLog, l *past.Log) {
	for _, text := range kept.Damaged {
		warnf(w, "%s: a damaged file was left out: %s", kept.Origin, text)
	}
	for _, err := range l.NewlySkipped() {
		warnf(w, "%s: a snapshot was left out, and the state was built from an older one: %v", kept.Origin, err)
	}
}

// progressChain counts the entries that are read.
type progressChain struct {
	past.Chain
	progress *Progress
}

// Entries implements past.Chain.
func (c progressChain) Entries(ctx context.Context, after uint64) iter.Seq2[past.Entry, error] {
	return func(yield func(past.Entry, error) bool) {
		for e, err := range c.Chain.Entries(ctx, after) {
			c.progress.Add(1)
			if !yield(e, err) {
				return
			}
		}
	}
}

// openPastSpace returns the nodes of the state that the flags select.
func (n *nodeCommand) openPastSpace(ctx context.Context) (nodes.Space, error) {
	_, root, err := n.ensemble.hostsAndRoot()
	if err != nil {
		return nodes.Space{}, err
	}
	l, at, err := n.past.open(ctx, n.ensemble, false)
	if err != nil {
		return nodes.Space{}, err
	}
	n.streams.Now = func() time.Time { return at }
	return nodes.OfState(l.State(), root), nil
}

// registerPast adds the flags --at, --dir and --archive to a command that shows what the replicated state has. If whole is set, the command
// shows removals of nodes.
func (a *adminCommand) registerPast(cmd *cobra.Command, whole bool) *cobra.Command {
	a.past = &pastFlags{}
	a.past.register(cmd)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if a.past.isSet() {
			if err := a.openPast(cmd.Context(), whole); err != nil {
				return fmt.Errorf("%s: %w", commandName(cmd), err)
			}
		}
		return run(cmd, args)
	}
	return cmd
}

// openPast makes the state that the flags select answer the requests of the command.
func (a *adminCommand) openPast(ctx context.Context, whole bool) error {
	l, at, err := a.past.open(ctx, a.ensemble, whole)
	if err != nil {
		return err
	}
	a.streams.Now = func() time.Time { return at }
	h, err := admin.NewPastHandler(l.State(), a.streams.Now)
	if err != nil {
		return err
	}
	a.ensemble.pastClient = &api.Client{BaseURL: "http://past", HTTPClient: &http.Client{Transport: handlerTransport{h}}}
	warnf(a.streams, "what only running members know is missing: connections, watches, and when a session was heard last")
	return nil
}

// handlerTransport is an http.RoundTripper that calls a handler of this process.
type handlerTransport struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (t handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &bufferedReply{header: http.Header{}, status: http.StatusOK}
	t.handler.ServeHTTP(w, r)
	return &http.Response{
		StatusCode: w.status, Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}

// bufferedReply is an http.ResponseWriter that keeps a reply. Its size is bounded by that of a page.
type bufferedReply struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *bufferedReply) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *bufferedReply) WriteHeader(status int) { w.status = status }

// Write implements http.ResponseWriter.
func (w *bufferedReply) Write(p []byte) (int, error) { return w.body.Write(p) }

// The names of the columns that only running members can fill, of sessions and of servers.
var (
	liveSessionColumns = []string{
		"state", "left", "heard", "watches", "watched", "rate", "bytes", "received", "sent", "queued", "average", "slowest",
	}
	liveServerColumns = []string{"lag", "applied", "detail"}
)

// knownColumns returns columns without the live ones, if the command shows a state of the past.
func knownColumns[T any](a *adminCommand, columns []Column[T], live []string) []Column[T] {
	if a.ensemble.pastClient == nil {
		return columns
	}
	return slices.DeleteFunc(slices.Clone(columns), func(c Column[T]) bool { return slices.Contains(live, c.Name) })
}
