package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"rollcall/cli/nodes"
	"rollcall/client"
	"rollcall/zk/jute"
)

type createCommand struct {
	*nodeCommand
	data                           dataSource
	ephemeral, sequence, container bool
	createParents, holdSession     bool
	ttl                            time.Duration
	acl                            aclFlag
	sessionEnded                   chan error // gets why the session ended before the command
}

func newCreate(w IOStreams) *cobra.Command {
	c := &createCommand{nodeCommand: newNodeCommand(w), data: dataSource{streams: w}, sessionEnded: make(chan error, 1)}
	c.adjustConfig = func(cfg *client.Config) {
		cfg.OnState = func(change client.StateChange) {
			if change.State == client.Expired {
				c.sessionEnded <- change.Err // it comes once
			}
		}
	}
	cmd := c.registerWithOutput(&cobra.Command{
		Use: "create [flags] PATH [DATA]", Short: "create a node", Args: RangeArgs(1, 2, "a path and data"),
		Long: "Creates a node and prints its path. Without DATA or --file the node has no data. If DATA is -, the command " +
			"reads the data from stdin.\n\n" +
			"An ephemeral node lives as long as the session that makes it. With --hold the command keeps its session, and so " +
			"the node, until Ctrl-C.",
		Example: "  rollcall create -p /config/db '{\"host\":\"db1\"}'\n  rollcall create --auth digest:me:secret --acl " +
			"auth::cdrwa --acl world:anyone:r /config/mine\n" +
			"  rollcall create -e --hold /locks/maintenance",
	}, true, c.run)
	fs := cmd.Flags()
	fs.BoolVarP(&c.ephemeral, "ephemeral", "e", false, "the node lives as long as the session; needs --hold")
	fs.BoolVarP(&c.sequence, "sequence", "s", false,
		"append a number to the name, which counts what was created below the parent")
	fs.BoolVarP(&c.container, "container", "c", false, "the servers delete the node some time after its last child")
	fs.DurationVarP(&c.ttl, "ttl", "t", 0,
		"the servers delete the node after this `duration` without children and changes, such as 30s or 24h")
	fs.Var(&c.acl, "acl", "access control `list` as scheme:id:perms,...; may be repeated (default world:anyone:cdrwa)")
	fs.BoolVarP(&c.createParents, "parents", "p", false,
		"create the missing nodes above it, too, without data and with the same list")
	fs.BoolVar(&c.holdSession, "hold", false, "keep the session until Ctrl-C; for --ephemeral")
	c.data.registerFlag(cmd)
	cmd.PreRunE = func(*cobra.Command, []string) error { return WithStatus(UsageError, c.validate()) }
	return cmd
}

func (c *createCommand) validate() error {
	switch {
	case c.ephemeral && !c.holdSession:
		return errors.New("create: an ephemeral node ends with the session of this command; --hold keeps both until Ctrl-C")
	case c.holdSession && !c.ephemeral:
		return errors.New("create: --hold is for --ephemeral: other nodes stay anyway")
	case c.container && (c.ephemeral || c.sequence || c.ttl != 0), c.ephemeral && c.ttl != 0:
		return errors.New("create: a node is ephemeral, a container or has a time to live, and a container has no --sequence")
	case c.ttl < 0 || c.ttl > 0 && c.ttl < time.Millisecond || c.ttl.Milliseconds() > jute.MaxTTL:
		return fmt.Errorf("create: --ttl %v: must be from 1ms to %v", c.ttl, jute.MaxTTL*time.Millisecond)
	}
	return nil
}

func (c *createCommand) run(ctx context.Context, s nodes.Space, args []string) error {
	data, err := c.data.readData(args[1:])
	if err != nil {
		return err
	}
	if c.createParents {
		if err := createParents(ctx, s, args[0], c.acl); err != nil {
			return err
		}
	}
	made, err := s.Create(ctx, args[0], data, nodes.Mode(c.ephemeral, c.sequence, c.container, c.ttl), c.acl)
	switch {
	case errors.Is(err, client.ErrUnimplemented):
		return fmt.Errorf("%s: the servers take no nodes of this kind; a time to live needs extendedTypesEnabled=true in "+
			"their configuration: %w", args[0], client.ErrUnimplemented)
	case errors.Is(err, client.ErrNoNode):
		return fmt.Errorf("%s: there is no parent for it; -p creates what is missing: %w", args[0], client.ErrNoNode)
	case err != nil:
		return explainTooLong(err, data)
	}
	if err := PrintText(c.output, EscapeUnprintable(made)+"\n", pathRow{made}); err != nil || !c.holdSession {
		return err
	}
	return c.awaitSessionEnd(ctx)
}

type pathRow struct {
	Path string `json:"path"`
}

// awaitSessionEnd waits for Ctrl-C, which is no error, or for the end of the session.
func (c *createCommand) awaitSessionEnd(ctx context.Context) error {
	warnf(c.streams, "the node is there until Ctrl-C")
	select {
	case <-ctx.Done():
		return nil
	case why := <-c.sessionEnded:
		return fmt.Errorf("the session has ended, and the node with it: %w", why)
	}
}

// createParents creates the missing ancestors of path, including those of the root in --hosts. It checks that
// a node is missing before it creates it, because servers reject a create without permission even if the node
// exists.
func createParents(ctx context.Context, s nodes.Space, path string, acl []jute.ACL) error {
	all := s
	all.Root = ""
	path = s.FullPath(path)
	for i := range path {
		if i == 0 || path[i] != '/' {
			continue
		}
		_, err := all.Stat(ctx, path[:i])
		if errors.Is(err, client.ErrNoNode) {
			_, err = all.Create(ctx, path[:i], nil, client.Persistent, acl)
		}
		if err != nil && !errors.Is(err, client.ErrNodeExists) && !errors.Is(err, client.ErrNoAuth) {
			// without permission the create of path says so
			return err
		}
	}
	return nil
}
