package cli

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"rollcall/operator/past"
	"rollcall/operator/subtree"
	"rollcall/zk/jute"
	"rollcall/znode"
)

type diffCommand struct {
	*adminCommand
	rangeFlags
}

// diffRow is a node that differs between two moments.
type diffRow struct {
	Path   string `json:"path"`
	Change string `json:"change"` // "created", "deleted", "created again" or "changed"
	// what has changed of a node that was there at both moments
	Data  bool `json:"data"`
	ACL   bool `json:"acl"`
	Owner bool `json:"owner"` // its session
	// null: the node was not there
	Before *diffStat `json:"before"`
	After  *diffStat `json:"after"`
}

// diffStat is what a node was at a moment.
type diffStat struct {
	Version    int32  `json:"version"`
	Aversion   int32  `json:"aversion"`
	DataLength int32  `json:"data_length"`
	Owner      string `json:"owner"` // session of an ephemeral node; "": none
	Czxid      string `json:"czxid"`
	Mzxid      string `json:"mzxid"`
}

func newDiff(w IOStreams) *cobra.Command {
	d := &diffCommand{adminCommand: newAdminCommand(w)}
	cmd := d.registerFlags(&cobra.Command{
		Use: "diff [flags] [PATH]", Short: "list what differs in a subtree between two moments", GroupID: InspectGroup,
		Args: RangeArgs(0, 1, "one path"),
		Long: "Lists the nodes of a subtree that were created, deleted or changed between two moments, in the order of their " +
			"paths: the difference of the two states, however often a node has changed in between. It reads the log that a " +
			"member keeps, or that in a directory, and needs the credentials of an administrator.",
		Example: "  rollcall diff --from 1h /config\n  rollcall diff --from 0x100000002 --to 0x10000001f -o json",
		RunE:    PrefixErrors(func(cmd *cobra.Command, args []string) error { return d.run(cmd.Context(), pathOr(args, "/")) }),
	})
	d.rangeFlags.register(cmd, "", "; default the end of the log")
	return cmd
}

func (d *diffCommand) run(ctx context.Context, path string) error {
	from, to, err := d.parse(d.streams)
	switch {
	case err != nil:
		return err
	case d.from == "":
		return UsageError.Errorf("--from is missing: it names the earlier moment")
	}
	if err := subtree.CheckPath(path); err != nil {
		return WithStatus(UsageError, err)
	}
	full, err := d.fullPath(path)
	if err != nil {
		return err
	}
	kept, err := openKeptLog(ctx, d.ensemble, d.KeptLogPlace, from, false)
	if err != nil {
		return err
	}
	before, after, err := d.buildTrees(ctx, kept, from, to)
	if err := errors.Join(err, kept.Close()); err != nil {
		return explainMomentError(kept.Origin, err)
	}
	return PrintRows(d.output, diffColumns, relativeRows(d.adminCommand, diffRows(before, after, full), func(r *diffRow) *string { return &r.Path }))
}

// buildTrees builds the trees at both moments. They share what has not changed.
func (d *diffCommand) buildTrees(ctx context.Context, kept KeptLog, from, to past.Moment) (before, after znode.TreeView, err error) {
	progress := NewProgress(d.streams, "entries", 0)
	defer progress.Done()
	l, err := openFrom(ctx, progressChain{kept, progress}, from)
	if err != nil {
		return before, after, err
	}
	defer l.Close()
	before = l.State().FreezeTree()
	begins := l.Point()
	if err := l.Advance(to, nil); err != nil {
		return before, after, err
	}
	progress.Done()
	warnOfSkipped(d.streams, kept, l)
	warnf(d.streams, "the difference between the states after %v and after %v, from %s", begins, l.Point(), kept.Origin)
	return before, l.State().TreeView(), nil
}

func diffRows(before, after znode.TreeView, top string) iter.Seq2[diffRow, error] {
	return func(yield func(diffRow, error) bool) {
		znode.DiffTrees(before, after, top, func(n znode.NodeDifference) bool {
			row := diffRow{
				Path: n.Path, Change: "changed", Data: n.Data, ACL: n.ACL, Owner: n.Owner,
				Before: toDiffStat(n.Before), After: toDiffStat(n.After),
			}
			switch {
			case n.Before == nil:
				row.Change = "created"
			case n.After == nil:
				row.Change = "deleted"
			case n.Before.Czxid != n.After.Czxid:
				row.Change = "created again"
			}
			return yield(row, nil)
		})
	}
}

func toDiffStat(s *jute.Stat) *diffStat {
	if s == nil {
		return nil
	}
	d := &diffStat{
		Version: s.Version, Aversion: s.Aversion, DataLength: s.DataLength, Czxid: formatZxid(s.Czxid), Mzxid: formatZxid(s.Mzxid),
	}
	if s.EphemeralOwner != 0 {
		d.Owner = s.EphemeralOwner.String()
	}
	return d
}

var diffColumns = []Column[diffRow]{
	{Name: "change", Cell: func(r diffRow) string { return r.Change }, Tint: diffTint},
	{Name: "what", Cell: formatDifference},
	{Name: "size", AlignRight: true, Cell: func(r diffRow) string {
		return beforeAndAfter(r, func(s *diffStat) string { return FormatSize(int64(s.DataLength)) })
	}},
	{Name: "version", AlignRight: true, Cell: func(r diffRow) string {
		return beforeAndAfter(r, func(s *diffStat) string { return formatNumber(s.Version) })
	}},
	{Name: "owner", Cell: func(r diffRow) string {
		return beforeAndAfter(r, func(s *diffStat) string { return orDash(s.Owner) })
	}},
	{Name: "path", Cell: func(r diffRow) string { return r.Path }},
}

// beforeAndAfter returns the text of both states, or of the only one, or of both if they are equal.
func beforeAndAfter(r diffRow, text func(*diffStat) string) string {
	switch {
	case r.Before == nil:
		return text(r.After)
	case r.After == nil || text(r.Before) == text(r.After):
		return text(r.Before)
	}
	return text(r.Before) + " → " + text(r.After)
}

func formatDifference(r diffRow) string {
	var parts []string
	for _, part := range []struct {
		name    string
		differs bool
	}{{"data", r.Data}, {"acl", r.ACL}, {"owner", r.Owner}} {
		if part.differs {
			parts = append(parts, part.name)
		}
	}
	return orDash(strings.Join(parts, ", "))
}

func diffTint(r diffRow) Tint {
	switch r.Change {
	case "created":
		return Green
	case "deleted":
		return Yellow
	}
	return Plain
}
