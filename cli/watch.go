package cli

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"rollcall/cli/subtree"
	"rollcall/client"
	"rollcall/zk/jute"
)

// maxEvents is how many events may wait to be printed. Above it they are dropped, and the command ends with
// an error: its output does not keep up.
const maxEvents = 100_000

// eventRow is an event of a node, as JSON has it.
type eventRow struct {
	Time time.Time `json:"time"` // when it arrived
	Type string    `json:"type"`
	Path string    `json:"path"`
	Zxid string    `json:"zxid"` // of the change; "": the server does not say
}

// watching is the command that prints events.
type watching struct {
	*nodes
	recursive bool
	count     int

	events chan eventRow
	ended  chan error // gets why the session ended, or that events were dropped
	root   string
	lost   bool // the connection; it belongs to the client's reader
}

// newWatch returns the command that prints the events of a node as they come.
func newWatch(w World) *cobra.Command {
	c := &watching{nodes: newNodes(w)}
	c.adjust = func(cfg *client.Config) {
		c.events, c.ended = make(chan eventRow, maxEvents), make(chan error, 1)
		_, c.root, _ = c.target() // checked before
		cfg.Watch, cfg.State = c.event, c.state
	}
	cmd := c.register(&cobra.Command{
		Use: "watch [flags] PATH", Short: "print the events of a node, or of a subtree, as they come", Args: Takes(1, 1, "one path"),
		Long: "Prints when a node is created, changed or deleted, and when its list of children changes, as it happens, until Ctrl-C or --count events. The node need not exist. " +
			"With --recursive it prints the events of all nodes below it, but not those of lists of children, which would only repeat them. If the connection breaks, the command connects to " +
			"another member and says so. It may miss the changes made in between. Setting the watch needs no permission, but the servers send no events of nodes that the identity may not read.",
	}, false, c.run)
	cmd.Flags().BoolVarP(&c.recursive, "recursive", "r", false, "all nodes below it, too")
	cmd.Flags().IntVarP(&c.count, "count", "n", 0, "end after so many `events` (0: at Ctrl-C)")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if c.count < 0 {
			return With(WrongUse, fmt.Errorf("watch: --count %d: allowed are 0, which is no end, and more", c.count))
		}
		return nil
	}
	c.Output.Register(cmd)
	return cmd
}

// event is called by the client's reader.
func (c *watching) event(e jute.WatcherEvent, zxid int64) {
	row := eventRow{Time: c.Now().UTC().Truncate(time.Millisecond), Type: e.Type.String(), Path: subtree.Space{Root: c.root}.Short(string(e.Path))}
	if zxid > 0 {
		row.Zxid = zxidText(zxid)
	}
	select {
	case c.events <- row:
	default:
		c.end(fmt.Errorf("more than %d events wait to be printed: the output does not take them as fast as they come", maxEvents))
	}
}

// state is called by the client's reader.
func (c *watching) state(state client.State, why error) {
	switch {
	case state == client.Disconnected:
		c.lost = true
		warn(c.World, "the connection is lost (%v); looking for another member", why)
	case state == client.Connected && c.lost:
		c.lost = false
		warn(c.World, "connected again; events of changes meanwhile may be missing")
	case state == client.Expired:
		c.end(fmt.Errorf("the session has ended, and the watch with it: %w", why))
	}
}

// end ends the command with an error, unless it ends with another already.
func (c *watching) end(err error) {
	select {
	case c.ended <- err:
	default:
	}
}

func (c *watching) run(ctx context.Context, s subtree.Space, args []string) error {
	mode := jute.AddWatchPersistent
	if c.recursive {
		mode = jute.AddWatchPersistentRecursive
	}
	if err := s.Write(ctx, func(ctx context.Context) error { return s.Client.AddWatch(ctx, s.Full(args[0]), mode) }); err != nil && ctx.Err() == nil {
		return err // after Ctrl-C there are no events, and JSON and YAML say that, too
	}
	switch rows := c.rows(ctx); c.format {
	case "json":
		return printJSON(c.Out, rows)
	case "yaml":
		return printYAML(c.Out, rows)
	default:
		return c.lines(rows)
	}
}

// rows yields events as they come.
func (c *watching) rows(ctx context.Context) iter.Seq2[eventRow, error] {
	return func(yield func(eventRow, error) bool) {
		for n := 1; ; n++ {
			select {
			case row := <-c.events:
				if !yield(row, nil) || n == c.count {
					return
				}
			case err := <-c.ended:
				yield(eventRow{}, err)
				return
			case <-ctx.Done():
				return
			}
		}
	}
}

// lines prints a line for each event at once.
func (c *watching) lines(rows iter.Seq2[eventRow, error]) error {
	for row, err := range rows {
		if err != nil {
			return err
		}
		zxid := ""
		if c.format == "wide" {
			zxid = fmt.Sprintf("%-12s  ", orDash(row.Zxid))
		}
		if _, err := fmt.Fprintf(c.Out, "%s  %s%-19s  %s\n", timeText(row.Time), zxid, row.Type, Visible(row.Path)); err != nil {
			return err
		}
	}
	return nil
}
