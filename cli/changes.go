package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/spf13/cobra"

	"rollcall/operator/api"
	"rollcall/operator/past"
	"rollcall/operator/stateview"
	"rollcall/operator/subtree"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// rangeFlags select the part of a kept log between two moments.
type rangeFlags struct {
	from, to string
	KeptLogPlace
}

func (r *rangeFlags) register(cmd *cobra.Command, from, to string) {
	cmd.Flags().StringVar(&r.from, "from", "", "begin after this `moment`: "+momentHelp+from)
	cmd.Flags().StringVar(&r.to, "to", "", "end at this `moment`"+to)
	r.KeptLogPlace.register(cmd, "")
	completeFlag(cmd, "from")
	completeFlag(cmd, "to")
}

// parse returns the moments of the flags.
func (r *rangeFlags) parse(w IOStreams) (from, to past.Moment, err error) {
	if from, err = parseMoment(w, "from", r.from); err == nil {
		to, err = parseMoment(w, "to", r.to)
	}
	return from, to, err
}

type changesCommand struct {
	*adminCommand
	rangeFlags
	path, session string
	follow        bool
}

func newChanges(w IOStreams) *cobra.Command {
	c := &changesCommand{adminCommand: newAdminCommand(w)}
	cmd := c.registerFlags(&cobra.Command{
		Use: "changes [flags]", Short: "list what has changed: each change of nodes and sessions, in the order of the log",
		GroupID: InspectGroup, Args: RangeArgs(0, 0, "flags only"),
		Long: "Lists each change that the ensemble has made, in the order of its log: a line for each node that was created, " +
			"changed or deleted, and for each session that was opened or ended, with the session and the address of the client " +
			"that did it. Nodes that went with a session have a line each. Writes that were rejected have none. It reads the log " +
			"that a member keeps, or that in a directory or an archive, and needs the credentials of an administrator. It never shows data, " +
			"access control lists or passwords. --from with the last zxid of an earlier list continues that list.",
		Example: "  rollcall changes --from 10m --path /locks\n  rollcall changes --from 2026-03-01T03:00:00Z --to " +
			"2026-03-01T03:15:00Z\n  rollcall changes --session 0x1000012f99a0001 -o json\n  rollcall changes --from 0x100000002 --follow",
		RunE: PrefixErrors(func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) }),
	})
	c.rangeFlags.register(cmd, "; default the oldest one of the log", "; default the end of the log")
	cmd.Flags().StringVar(&c.path, "path", "", "only changes of the node at this `path` and of all nodes below it")
	cmd.Flags().StringVar(&c.session, "session", "", "only changes by the client of the session with this `id`, and of the session itself")
	cmd.Flags().BoolVar(&c.follow, "follow", false, "at the end of the log, wait for more changes, until Ctrl-C")
	return cmd
}

func (c *changesCommand) filter() (f stateview.ChangeFilter, err error) {
	if c.path != "" {
		if f.Path, err = c.fullPath(c.path); err == nil {
			err = WithStatus(UsageError, subtree.CheckPath(c.path))
		}
	}
	if c.session != "" && err == nil {
		f.Session, err = jute.ParseSessionID(c.session)
		err = WithStatus(UsageError, err)
	}
	return f, err
}

func (c *changesCommand) run(ctx context.Context) error {
	from, to, err := c.parse(c.streams)
	if err != nil {
		return err
	}
	if c.follow && c.to != "" {
		return UsageError.Errorf("--follow has no end, and --to is one; leave one of them out")
	}
	filter, err := c.filter()
	if err != nil {
		return err
	}
	kept, err := openKeptLog(ctx, c.ensemble, c.KeptLogPlace, from, c.follow)
	if err != nil {
		return err
	}
	l, err := c.openAt(ctx, kept, from)
	if err != nil {
		return errors.Join(explainMomentError(kept.Origin, err), kept.Close())
	}
	defer l.Close()
	warnf(c.streams, "changes after %v, from %s", l.Point(), kept.Origin)
	rows := relativeRows(c.adminCommand, changeRows(l, kept.Origin, to, filter), func(r *api.Change) *string { return &r.Path })
	err = ignoreCanceled(ctx, printLines(c.output, rows, formatChange))
	warnOfSkipped(c.streams, kept, l)
	if err == nil && !c.follow {
		warnf(c.streams, "these are the changes up to %v", l.Point())
	}
	return errors.Join(err, kept.Close())
}

// openAt builds the state after which the list begins.
func (c *changesCommand) openAt(ctx context.Context, kept KeptLog, from past.Moment) (*past.Log, error) {
	if c.from == "" {
		return past.OpenOldest(ctx, kept)
	}
	progress := NewProgress(c.streams, "entries", 0)
	defer progress.Done()
	return openFrom(ctx, progressChain{kept, progress}, from)
}

// openFrom builds the state at a moment. Before the first entry of the ensemble nothing was there.
func openFrom(ctx context.Context, chain past.Chain, from past.Moment) (*past.Log, error) {
	l, err := past.Open(ctx, chain, from)
	if errors.Is(err, past.ErrTooEarly) && chain.FirstIndex() <= 1 {
		return past.OpenOldest(ctx, chain)
	}
	return l, err
}

var errEnoughRows = errors.New("no more rows are wanted")

// changeRows yields the changes from the place of l, a log of origin, to a moment.
func changeRows(l *past.Log, origin string, to past.Moment, f stateview.ChangeFilter) iter.Seq2[api.Change, error] {
	return func(yield func(api.Change, error) bool) {
		err := l.Advance(to, func(c *znode.Change) error {
			if f.Matches(c) && !yield(stateview.ChangeRow(c), nil) {
				return errEnoughRows
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnoughRows) {
			yield(api.Change{}, explainMomentError(origin, err))
		}
	}
}

// formatChange returns the line of a change.
func formatChange(c api.Change) string {
	what := c.Path
	if c.Version != nil {
		what += "  version " + strconv.Itoa(int(*c.Version)) + ", " + FormatSize(int64(*c.DataLength))
	}
	if c.Cause != "" && c.Cause != "delete" {
		what += "  (" + c.Cause + ")"
	}
	return fmt.Sprintf("%s  %-12s  %-14s  %-19s  %-21s  %s", formatMillisecond(c.At), c.Zxid, c.Operation, orDash(c.SessionID),
		orDash(c.Address), what)
}
