package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/cli/subtree"
	"rollcall/client"
	"rollcall/operator/api"
	"rollcall/zk/jute"
)

// sessionCloseTimeout is how long a command waits for the end of its session.
const sessionCloseTimeout = 2 * time.Second

// nodeCommand is what commands on nodes have: their surroundings, and flags.
type nodeCommand struct {
	IOStreams
	*Link
	*Output
	adjustConfig func(*client.Config) // changes the configuration of the session; nil: nothing does
}

func newNodeCommand(w IOStreams) *nodeCommand {
	return &nodeCommand{IOStreams: w, Link: NewLink(w), Output: NewOutput(w)}
}

// registerCommand makes cmd a command on nodes that calls work with a session, and whose first argument is a path.
// change says that work changes something.
func (n *nodeCommand) registerCommand(cmd *cobra.Command, change bool, work func(ctx context.Context, s subtree.Space, args []string) error) *cobra.Command {
	cmd.GroupID = NodesGroup
	cmd.ValidArgsFunction = n.completePath
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			if err := subtree.CheckPath(args[0]); err != nil {
				return WithStatus(UsageError, fmt.Errorf("%s: %w", commandName(cmd), err))
			}
		}
		s, err := n.openSpace(cmd.Context())
		if err != nil {
			return err
		}
		defer closeSession(s.Client)
		return explainNodeError(commandName(cmd), s, change, work(cmd.Context(), s, args))
	}
	n.registerHosts(cmd, "`host:port,.../root` where members take clients; root is the node that is / here")
	markShared(cmd.Flags(), "hosts")
	markShared(cmd.Flags(), "auth")
	return cmd
}

// openSpace opens a session.
func (n *nodeCommand) openSpace(ctx context.Context) (subtree.Space, error) {
	cfg, err := n.SessionConfig()
	if err != nil {
		return subtree.Space{}, err
	}
	_, root, err := n.hostsAndRoot()
	if err != nil {
		return subtree.Space{}, err
	}
	if n.adjustConfig != nil {
		n.adjustConfig(&cfg)
	}
	c, err := n.openSession(ctx, cfg)
	return subtree.Space{Client: c, Root: root, OnWait: func() (over func()) {
		return startWaiting(n.IOStreams, summarizeServers(cfg.Servers)).Done
	}}, err
}

// closeSession ends a session, so that the servers need not wait for its end.
func closeSession(c *client.Client) {
	ctx, stop := context.WithTimeout(context.Background(), sessionCloseTimeout)
	defer stop()
	_ = c.Close(ctx) // if nobody answers, the session ends when it expires
}

// codeMeanings says what a server's answer means for the node that the error names.
var codeMeanings = []struct {
	code jute.Code
	text string
}{
	{jute.NoNode, "there is no such node"},
	{jute.NoAuth, "its access control list does not allow it; --auth scheme:identity shows another identity"},
	{jute.SessionClosedRequireSaslAuth, "the servers serve only clients that have logged in; --jaas FILE logs in by SASL, --auth scheme:identity shows another identity"},
	{jute.NodeExists, "there is such a node already"},
	{jute.NotEmpty, "the node has children; rm -r deletes them, too"},
	{jute.BadVersion, "the node has another version; rollcall stat shows it"},
	{jute.NoChildrenForEphemerals, "the parent is an ephemeral node, which cannot have children"},
	{jute.InvalidACL, "the servers do not accept this access control list: an entry has a scheme or id that they do not know, or it is auth and no identity was shown"},
	{jute.QuotaExceeded, "a quota does not allow it"},
	{jute.NoRoom, "there is no room for more data: dataQuota or the member's memoryLimit is reached; rollcall status says which"},
	{jute.NotReadOnly, "the server is read-only at present"},
}

// explainedError is an error with a text for people.
type explainedError struct {
	text string
	error
}

func (e explainedError) Error() string { return e.text }
func (e explainedError) Unwrap() error { return e.error }

// explainNodeError returns err, which ended the command, with the path as the user knows it and what a server's
// answer means. change says that the command may have changed something before.
func explainNodeError(command string, s subtree.Space, change bool, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	text := err.Error()
	var failed *client.Error
	if errors.As(err, &failed) {
		meaning := failed.Err.Error()
		for _, c := range codeMeanings {
			if errors.Is(failed.Err, c.code) {
				meaning = c.text
			}
		}
		if failed.Op.IsCreate() || failed.Op == jute.OpDelete {
			meaning = strings.Replace(meaning, "its access control list", "the access control list of its parent", 1)
		}
		text = strings.Replace(text, failed.Error(), s.ShortPath(failed.Path)+": "+meaning, 1)
	}
	err = explainedError{EscapeUnprintable(command + ": " + text), err}
	switch {
	case !errors.Is(err, subtree.ErrNoReply):
		return err
	case change:
		return WithStatus(OutcomeUnknown, err)
	}
	return WithStatus(Unavailable, err)
}

// formatCount returns a number of things.
func formatCount(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// toAPIStat returns a Stat as JSON has it.
func toAPIStat(s jute.Stat) api.Stat {
	stat := api.Stat{
		Czxid: formatZxid(s.Czxid), Mzxid: formatZxid(s.Mzxid), Pzxid: formatZxid(s.Pzxid),
		Ctime: time.UnixMilli(s.Ctime).UTC(), Mtime: time.UnixMilli(s.Mtime).UTC(),
		Version: s.Version, Cversion: s.Cversion, Aversion: s.Aversion, DataLength: s.DataLength, NumChildren: s.NumChildren,
	}
	if s.EphemeralOwner != 0 {
		stat.Owner = s.EphemeralOwner.String()
	}
	return stat
}

func formatZxid(zxid int64) string { return fmt.Sprintf("0x%x", uint64(zxid)) }

// nodeStat is a node with its Stat, as JSON has it.
type nodeStat struct {
	Path string `json:"path"`
	api.Stat
}

// formatNodeAge is age for a node. The servers' own nodes have no time, which is written as 1970.
func formatNodeAge(now, at time.Time) string {
	if at.UnixMilli() == 0 {
		return unknownText
	}
	return formatAge(now, at)
}

// statColumns returns the columns of a Stat.
func statColumns[T any](now time.Time, of func(T) api.Stat) []Column[T] {
	number := func(name string, get func(api.Stat) int32) Column[T] {
		return Column[T]{Name: name, AlignRight: true, WideOnly: true, Cell: func(row T) string { return fmt.Sprint(get(of(row))) }}
	}
	text := func(name string, get func(api.Stat) string) Column[T] {
		return Column[T]{Name: name, WideOnly: true, Cell: func(row T) string { return get(of(row)) }}
	}
	columns := []Column[T]{
		{Name: "size", AlignRight: true, Cell: func(row T) string { return FormatSize(int64(of(row).DataLength)) }},
		number("children", func(s api.Stat) int32 { return s.NumChildren }),
		text("owner", func(s api.Stat) string { return orDash(s.Owner) }),
		{Name: "changed", AlignRight: true, Cell: func(row T) string { return formatNodeAge(now, of(row).Mtime) }},
		number("version", func(s api.Stat) int32 { return s.Version }),
		number("cversion", func(s api.Stat) int32 { return s.Cversion }),
		number("aversion", func(s api.Stat) int32 { return s.Aversion }),
		text("created", func(s api.Stat) string { return formatMillisecond(s.Ctime) }),
		text("modified", func(s api.Stat) string { return formatMillisecond(s.Mtime) }),
		text("czxid", func(s api.Stat) string { return s.Czxid }),
		text("mzxid", func(s api.Stat) string { return s.Mzxid }),
		text("pzxid", func(s api.Stat) string { return s.Pzxid }),
	}
	columns[1].WideOnly, columns[2].WideOnly = false, false
	return columns
}
