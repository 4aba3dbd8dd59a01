package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"

	"github.com/hashicorp/raft"

	"rollcall/operator/api"
	"rollcall/operator/past"
	"rollcall/quorum/disk"
	"rollcall/quorum/history"
)

// OpenKeptLog is the KeptLogOpener of the program. Of a member it needs the credentials of an administrator, on the member's machine.
func OpenKeptLog(ctx context.Context, ensemble *EnsembleFlags, place KeptLogPlace, from past.Moment, follow bool) (KeptLog, error) {
	switch {
	case follow && place != KeptLogPlace{}:
		return KeptLog{}, UsageError.Errorf("--follow is for members: leave out --dir and --archive")
	case place.Directory != "":
		return openKeptDirectory(ctx, place.Directory, from)
	case place.Archive != "":
		return openArchive(ctx, ensemble.streams, place.Archive, from)
	}
	members, notFound := ensemble.adminClients(ctx)
	var candidates []KeptLog
	for _, c := range members {
		list, err := api.Get[api.History](ctx, c, "history", nil)
		if err != nil {
			notFound = errors.Join(notFound, WithAdvice(fmt.Errorf("%s: %w", c.Name(), err)))
			continue
		}
		var later past.LaterEntries
		if follow {
			later = laterEntries(c)
		}
		for i, s := range slices.Backward(list.Spans) {
			candidates = append(candidates, KeptLog{
				Chain:  past.Chain(past.NewKept(s.Span(), api.HistorySource{Client: c}, later)),
				Origin: fmt.Sprintf("member %d", list.MemberID), Damaged: list.Damaged, Close: func() error { return nil },
			}.beforeGapUnless(i == len(list.Spans)-1))
			later = nil // entries are missing after the others
		}
	}
	return chooseKeptLog(ctx, candidates, from, notFound)
}

// laterEntries follows the log of a member.
func laterEntries(c *api.Client) past.LaterEntries {
	return func(ctx context.Context, after uint64) iter.Seq2[*raft.Log, error] {
		return func(yield func(*raft.Log, error) bool) {
			for e, err := range api.FollowLog(ctx, c, after) {
				var rejected *api.Error
				if errors.As(err, &rejected) && rejected.Status == http.StatusGone {
					err = fmt.Errorf("%w; begin again with --from and the last zxid", err)
				}
				if !yield(e, err) {
					return
				}
			}
		}
	}
}

// beforeGapUnless returns the log as one after which entries are missing, unless it is the newest part.
func (k KeptLog) beforeGapUnless(isNewest bool) KeptLog {
	if !isNewest {
		k.Chain = past.BeforeGap(k.Chain)
	}
	return k
}

// chooseKeptLog returns the first candidate that reaches back to a moment, or else the one that reaches back farthest. failed says why
// there may be too few.
func chooseKeptLog(ctx context.Context, candidates []KeptLog, from past.Moment, failed error) (KeptLog, error) {
	var farthest KeptLog
	for _, c := range candidates {
		reaches, err := past.Reaches(ctx, c.Chain, from)
		switch {
		case err != nil:
			failed = errors.Join(failed, fmt.Errorf("%s: %w", c.Origin, err))
		case reaches:
			return c, nil
		case farthest.Chain == nil || c.FirstIndex() < farthest.FirstIndex():
			farthest = c
		}
	}
	switch {
	case farthest.Chain != nil:
		return farthest, nil
	case failed != nil:
		return KeptLog{}, failed
	}
	return KeptLog{}, NotFound.Errorf("no snapshot is kept, so no state of the past can be built; history.bytes is 0, or there was no " +
		"snapshot since it was set: rollcall snapshot makes one")
}

// openKeptDirectory opens the kept log in the directories of a member that does not run, or in copies of them.
func openKeptDirectory(ctx context.Context, names string, from past.Moment) (KeptLog, error) {
	data, log, apart := strings.Cut(names, ",")
	if !apart {
		log = data
	}
	dirs := history.Directories{Data: disk.OwnDirectory(data), Log: disk.OwnDirectory(log)}
	list, err := history.List(dirs, 0)
	if err != nil {
		return KeptLog{}, fmt.Errorf("%s: %w", names, err)
	}
	var candidates []KeptLog
	for i, s := range slices.Backward(list.Spans) {
		candidates = append(candidates, KeptLog{
			Chain: past.NewKept(s, history.DirectorySource{Directories: dirs}, nil), Origin: names, Damaged: list.Damaged,
			Close: func() error { return nil },
		}.beforeGapUnless(i == len(list.Spans)-1))
	}
	var damaged error
	if len(list.Damaged) > 0 {
		damaged = fmt.Errorf("%s: %s", names, strings.Join(list.Damaged, "; "))
	}
	if len(candidates) == 0 && damaged == nil {
		return KeptLog{}, NotFound.Errorf("%s has no log of a member: name a data directory (dataDir), and after a comma that of its log "+
			"(dataLogDir) if there is one", names)
	}
	return chooseKeptLog(ctx, candidates, from, damaged)
}
