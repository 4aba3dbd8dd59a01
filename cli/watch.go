package cli

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"rollcall/cli/nodes"
	"rollcall/client"
	"rollcall/operator/subtree"
	"rollcall/zk/jute"
)

// maxQueuedEvents bounds the events that wait for a slow output. Above it the command ends with an error.
const maxQueuedEvents = 100_000

type eventRow struct {
	Time time.Time `json:"time"` // when it arrived
	Type string    `json:"type"`
	Path string    `json:"path"`
	Zxid string    `json:"zxid"` // of the change; "": the server does not say
}

type nodeWatchCommand struct {
	*nodeCommand
	recursive     bool
	maxEventCount int

	eventRows chan eventRow
	endReason chan error // gets why the session ended, or that events were dropped
	root      string
}

func newNodeWatch(w IOStreams) *cobra.Command {
	c := &nodeWatchCommand{nodeCommand: newNodeCommand(w)}
	c.adjustConfig = func(cfg *client.Config) {
		c.eventRows, c.endReason = make(chan eventRow, maxQueuedEvents), make(chan error, 1)
		_, c.root, _ = c.ensemble.hostsAndRoot() // checked before
		cfg.OnEvent, cfg.OnState = c.onEvent, c.onState
	}
	cmd := c.registerWithOutput(&cobra.Command{
		Use: "watch [flags] PATH", Short: "print the events of a node, or of a subtree, as they come",
		Args: RangeArgs(1, 1, "one path"),
		Long: "Prints when a node is created, changed or deleted, and when its list of children changes, as it happens, " +
			"until Ctrl-C or --count events. The node need not exist. " +
			"With --recursive it prints the events of all nodes below it, but not those of lists of children, which would " +
			"only repeat them. If the connection breaks, the command connects to " +
			"another member and says so. It may miss the changes made in between. Setting the watch needs no permission, but " +
			"the servers send no events of nodes that the identity may not read.",
	}, false, c.run)
	cmd.Flags().BoolVarP(&c.recursive, "recursive", "r", false, "all nodes below it, too")
	cmd.Flags().VarP(boundedInt{&c.maxEventCount, 0, noMaximum}, "count", "n", "end after so many `events` (0: at Ctrl-C)")
	return cmd
}

// onEvent is called by the client's reader.
func (c *nodeWatchCommand) onEvent(e client.Event) {
	row := eventRow{
		Time: c.streams.Now().UTC().Truncate(time.Millisecond), Type: jute.EventType(e.Type).String(),
		Path: subtree.Space{Root: c.root}.TrimRoot(e.Path),
	}
	if e.Zxid > 0 {
		row.Zxid = formatZxid(e.Zxid)
	}
	select {
	case c.eventRows <- row:
	default:
		c.endWith(fmt.Errorf("more than %d events wait to be printed: the output does not take them as fast as they come",
			maxQueuedEvents))
	}
}

// onState is called by a goroutine of the client, in the order of the changes.
func (c *nodeWatchCommand) onState(change client.StateChange) {
	switch change.State {
	case client.Suspended:
		warnf(c.streams, "the connection is lost (%v); looking for another member", change.Err)
	case client.Reconnected:
		warnf(c.streams, "connected again; the last event may come again, and events of changes meanwhile may be missing if the server does not keep them")
	case client.Expired:
		c.endWith(fmt.Errorf("the session has ended, and the watch with it: %w", change.Err))
	}
}

func (c *nodeWatchCommand) endWith(err error) {
	select {
	case c.endReason <- err:
	default:
	}
}

func (c *nodeWatchCommand) run(ctx context.Context, s nodes.Space, args []string) error {
	if err := s.SendOnce(ctx, func(ctx context.Context) error {
		return s.Client.AddWatch(ctx, s.FullPath(args[0]), c.recursive)
	}); err != nil && ctx.Err() == nil {
		return err // after Ctrl-C there are no events, and JSON and YAML say that, too
	}
	return printLines(c.output, c.incomingRows(ctx), func(row eventRow) string {
		zxid := ""
		if c.output.format == "wide" {
			zxid = fmt.Sprintf("%-12s  ", orDash(row.Zxid))
		}
		return fmt.Sprintf("%s  %s%-19s  %s", formatMillisecond(row.Time), zxid, row.Type, row.Path)
	})
}

func (c *nodeWatchCommand) incomingRows(ctx context.Context) iter.Seq2[eventRow, error] {
	return func(yield func(eventRow, error) bool) {
		for n := 1; ; n++ {
			select {
			case row := <-c.eventRows:
				if !yield(row, nil) || n == c.maxEventCount {
					return
				}
			case err := <-c.endReason:
				yield(eventRow{}, err)
				return
			case <-ctx.Done():
				return
			}
		}
	}
}
