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

// closeTime is how long a command waits for the end of its session.
const closeTime = 2 * time.Second

// nodes is what commands on nodes have: their surroundings, and flags.
type nodes struct {
	World
	*Link
	*Output
	adjust func(*client.Config) // changes the configuration of the session; nil: nothing does
}

func newNodes(w World) *nodes { return &nodes{World: w, Link: NewLink(w), Output: NewOutput(w)} }

// register makes cmd a command on nodes that calls work with a session, and whose first argument is a path.
// change says that work changes something.
func (n *nodes) register(cmd *cobra.Command, change bool, work func(ctx context.Context, s subtree.Space, args []string) error) *cobra.Command {
	cmd.GroupID = Nodes
	cmd.ValidArgsFunction = n.completePath
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			if err := subtree.CheckPath(args[0]); err != nil {
				return With(WrongUse, fmt.Errorf("%s: %w", name(cmd), err))
			}
		}
		s, err := n.space(cmd.Context())
		if err != nil {
			return err
		}
		defer closeSession(s.Client)
		return explainedNode(name(cmd), s, change, work(cmd.Context(), s, args))
	}
	n.registerHosts(cmd, "`host:port,.../root` where members take clients; root is the node that is / here")
	share(cmd.Flags(), "hosts")
	share(cmd.Flags(), "auth")
	return cmd
}

// space opens a session.
func (n *nodes) space(ctx context.Context) (subtree.Space, error) {
	cfg, err := n.Config()
	if err != nil {
		return subtree.Space{}, err
	}
	_, root, err := n.target()
	if err != nil {
		return subtree.Space{}, err
	}
	if n.adjust != nil {
		n.adjust(&cfg)
	}
	c, err := n.openSession(ctx, cfg)
	return subtree.Space{Client: c, Root: root, Waits: func() (over func()) {
		return waiting(n.World, oneOf(cfg.Servers)).Done
	}}, err
}

// closeSession ends a session, so that the servers need not wait for its end.
func closeSession(c *client.Client) {
	ctx, stop := context.WithTimeout(context.Background(), closeTime)
	defer stop()
	_ = c.Close(ctx) // if nobody answers, the session ends when it expires
}

// codeTexts says what a server's answer means for the node that the error names.
var codeTexts = []struct {
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

// nodeError is an error with a text for people.
type nodeError struct {
	text string
	error
}

func (e nodeError) Error() string { return e.text }
func (e nodeError) Unwrap() error { return e.error }

// explainedNode returns err, which ended the command, with the path as the user knows it and what a server's
// answer means. change says that the command may have changed something before.
func explainedNode(command string, s subtree.Space, change bool, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	text := err.Error()
	var failed *client.Error
	if errors.As(err, &failed) {
		meaning := failed.Err.Error()
		for _, c := range codeTexts {
			if errors.Is(failed.Err, c.code) {
				meaning = c.text
			}
		}
		if failed.Op.IsCreate() || failed.Op == jute.OpDelete {
			meaning = strings.Replace(meaning, "its access control list", "the access control list of its parent", 1)
		}
		text = strings.Replace(text, failed.Error(), s.Short(failed.Path)+": "+meaning, 1)
	}
	err = nodeError{Visible(command + ": " + text), err}
	switch {
	case !errors.Is(err, subtree.ErrSilent):
		return err
	case change:
		return With(Unknown, err)
	}
	return With(NoMember, err)
}

// plural returns a number of things.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// statOf returns a Stat as JSON has it.
func statOf(s jute.Stat) api.Stat {
	stat := api.Stat{
		Czxid: zxidText(s.Czxid), Mzxid: zxidText(s.Mzxid), Pzxid: zxidText(s.Pzxid),
		Ctime: time.UnixMilli(s.Ctime).UTC(), Mtime: time.UnixMilli(s.Mtime).UTC(),
		Version: s.Version, Cversion: s.Cversion, Aversion: s.Aversion, DataLength: s.DataLength, NumChildren: s.NumChildren,
	}
	if s.EphemeralOwner != 0 {
		stat.Owner = s.EphemeralOwner.String()
	}
	return stat
}

func zxidText(zxid int64) string { return fmt.Sprintf("0x%x", uint64(zxid)) }

// nodeStat is a node with its Stat, as JSON has it.
type nodeStat struct {
	Path string `json:"path"`
	api.Stat
}

// changedAge is age for a node. The servers' own nodes have no time, which is written as 1970.
func changedAge(now, at time.Time) string {
	if at.UnixMilli() == 0 {
		return unknown
	}
	return age(now, at)
}

// statColumns returns the columns of a Stat.
func statColumns[T any](now time.Time, of func(T) api.Stat) []Column[T] {
	number := func(name string, get func(api.Stat) int32) Column[T] {
		return Column[T]{Name: name, Right: true, Wide: true, Cell: func(row T) string { return fmt.Sprint(get(of(row))) }}
	}
	text := func(name string, get func(api.Stat) string) Column[T] {
		return Column[T]{Name: name, Wide: true, Cell: func(row T) string { return get(of(row)) }}
	}
	columns := []Column[T]{
		{Name: "size", Right: true, Cell: func(row T) string { return Size(int64(of(row).DataLength)) }},
		number("children", func(s api.Stat) int32 { return s.NumChildren }),
		text("owner", func(s api.Stat) string { return orDash(s.Owner) }),
		{Name: "changed", Right: true, Cell: func(row T) string { return changedAge(now, of(row).Mtime) }},
		number("version", func(s api.Stat) int32 { return s.Version }),
		number("cversion", func(s api.Stat) int32 { return s.Cversion }),
		number("aversion", func(s api.Stat) int32 { return s.Aversion }),
		text("created", func(s api.Stat) string { return timeText(s.Ctime) }),
		text("modified", func(s api.Stat) string { return timeText(s.Mtime) }),
		text("czxid", func(s api.Stat) string { return s.Czxid }),
		text("mzxid", func(s api.Stat) string { return s.Mzxid }),
		text("pzxid", func(s api.Stat) string { return s.Pzxid }),
	}
	columns[1].Wide, columns[2].Wide = false, false
	return columns
}
