// Package archivetest makes archives for tests:
//
//   - Fill: sends the log of an ensemble in memory to a store.
package archivetest

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/operator/archive"
	"rollcall/operator/past/pasttest"
	"rollcall/quorum/history"
)

// LogName is the log of the archives that Fill makes.
var LogName = archive.EnsembleLog([]byte{0xab, 0xcd})

// Fill sends all entries of an ensemble to a store, in virtual time. The archive has no snapshots. The test must not be in a bubble.
func Fill(t *testing.T, store archive.Store, e *pasttest.Ensemble) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		s := archive.NewSender(archive.SenderConfig{
			Store: store, Log: entries{e}, Member: leader{e}, MemberID: 1, Version: "test", Logger: slog.New(slog.DiscardHandler),
		})
		ended := make(chan struct{})
		go func() { defer close(ended); s.Run(ctx) }()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if n := s.Stats(); n.ArchivedIndex != uint64(len(e.Log)) {
			t.Errorf("the archive has %d of %d entries, after %d failures", n.ArchivedIndex, len(e.Log), n.Failures)
		}
		stop()
		<-ended
	})
}

// entries implements archive.MemberLog.
type entries struct{ *pasttest.Ensemble }

func (e entries) List() (history.Listing, error) {
	return history.Listing{Spans: []history.Span{{First: 1, Last: uint64(len(e.Log))}}}, nil
}

func (entries) Source() (history.Source, error) { return nil, nil }

func (e entries) ReadEntries(after uint64, _ int) (all []*raft.Log, err error) {
	for _, entry := range e.Log[after:] {
		l := &raft.Log{Index: entry.Index, Term: entry.Term, Type: raft.LogNoop, Data: entry.Data}
		if entry.Data != nil {
			l.Type = raft.LogCommand
		}
		all = append(all, l)
	}
	return all, nil
}

// leader implements archive.Member.
type leader struct{ *pasttest.Ensemble }

func (leader) LogName() string                    { return LogName }
func (leader) IsLeader() bool                     { return true }
func (l leader) AppliedIndex() uint64             { return uint64(len(l.Log)) }
func (leader) TakeSnapshot(context.Context) error { return nil }
