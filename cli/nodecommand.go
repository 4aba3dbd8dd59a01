package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/cli/nodes"
	"rollcall/client"
	"rollcall/internal/screentext"
	"rollcall/operator/api"
	"rollcall/operator/subtree"
	"rollcall/zk/jute"
)

const sessionCloseTimeout = 2 * time.Second

// nodeCommand is shared by the commands on nodes.
type nodeCommand struct {
	streams      IOStreams
	ensemble     *EnsembleFlags
	output       *Output
	adjustConfig func(*client.Config) // changes the configuration of the session; nil: nothing does
	past         *pastFlags           // nil: the command shows the present only
}

func newNodeCommand(w IOStreams) *nodeCommand {
	return &nodeCommand{streams: w, ensemble: NewEnsembleFlags(w), output: NewOutput(w)}
}

// registerRead registers a command that reads nodes, now or in the past, and prints rows.
func (n *nodeCommand) registerRead(cmd *cobra.Command, work nodeWork) *cobra.Command {
	n.past = &pastFlags{}
	n.past.register(n.registerWithOutput(cmd, false, work))
	n.ensemble.registerOperatorFlags(cmd) // a member sends its past to operators
	return cmd
}

// registerWithOutput does the same as the next function, and adds the flag -o.
func (n *nodeCommand) registerWithOutput(cmd *cobra.Command, change bool, work nodeWork) *cobra.Command {
	return n.output.Register(n.registerSessionCommand(cmd, change, work))
}

type nodeWork func(ctx context.Context, s nodes.Space, args []string) error

// registerSessionCommand makes cmd a command on nodes that calls work with a session. Its first argument is a path.
// change is true if work changes anything.
func (n *nodeCommand) registerSessionCommand(cmd *cobra.Command, change bool, work nodeWork) *cobra.Command {
	cmd.GroupID = NodesGroup
	cmd.ValidArgsFunction = n.completePath
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			if err := subtree.CheckPath(args[0]); err != nil {
				return UsageError.Errorf("%s: %w", commandName(cmd), err)
			}
		}
		s, err := n.openSpace(cmd.Context())
		if err != nil {
			return err
		}
		if s.Client != nil {
			defer closeSession(s.Client)
		}
		return explainNodeError(commandName(cmd), s, change, work(cmd.Context(), s, args))
	}
	n.ensemble.registerSessionFlags(cmd, "`host:port,.../root` where members take clients; root is the node that is / here")
	markShared(cmd.Flags(), "hosts")
	markShared(cmd.Flags(), "auth")
	return cmd
}

// maxWalkTime limits the commands that show a subtree. Millions of nodes take minutes. A server that answers each
// request may go on for ever, with one more child below each node.
const maxWalkTime = time.Hour

var errEndlessWalk = fmt.Errorf("the subtree has not ended after %v; show less of it, or see what answers there", maxWalkTime)

// withinWalkTime returns work that ends with errEndlessWalk after maxWalkTime.
func withinWalkTime(work nodeWork) nodeWork {
	return func(ctx context.Context, s nodes.Space, args []string) error {
		limited, stop := context.WithTimeoutCause(ctx, maxWalkTime, errEndlessWalk)
		defer stop()
		err := work(limited, s, args)
		if err != nil && errors.Is(context.Cause(limited), errEndlessWalk) {
			return WithStatus(Unavailable, errEndlessWalk)
		}
		return err
	}
}

func (n *nodeCommand) openSpace(ctx context.Context) (nodes.Space, error) {
	if n.past.isSet() {
		return n.openPastSpace(ctx)
	}
	servers, root, err := n.ensemble.hostsAndRoot()
	if err != nil {
		return nodes.Space{}, err
	}
	cfg, err := n.ensemble.SessionConfig()
	if err != nil {
		return nodes.Space{}, err
	}
	if n.adjustConfig != nil {
		n.adjustConfig(&cfg)
	}
	c, err := n.ensemble.openSession(ctx, servers, cfg)
	s := nodes.New(c, root)
	s.OnWait = func() (over func()) { return startWaiting(n.streams, summarizeServers(servers)).Done }
	return s, err
}

// closeSession closes a session, so that the servers need not wait for its expiry.
func closeSession(c *client.Client) {
	ctx, stop := context.WithTimeout(context.Background(), sessionCloseTimeout)
	defer stop()
	_ = c.Close(ctx) // otherwise the session expires
}

// codeMeanings explain a server's error code for the node that the error names.
var codeMeanings = []struct {
	err  error
	text string
}{
	{client.ErrNoNode, "there is no such node"},
	{client.ErrNoAuth, "its access control list does not allow it; --auth scheme:identity shows another identity"},
	{
		client.ErrLoginRequired,
		"the servers serve only clients that have logged in; --jaas FILE logs in by SASL, --auth scheme:identity shows " +
			"another identity",
	},
	{client.ErrNodeExists, "there is such a node already"},
	{client.ErrNotEmpty, "the node has children; rm -r deletes them, too"},
	{client.ErrBadVersion, "the node has another version; rollcall stat shows it"},
	{client.ErrNoChildrenForEphemerals, "the parent is an ephemeral node, which cannot have children"},
	{client.ErrInvalidACL, "the servers do not accept this access control list: an entry has a scheme or id that they do " +
		"not know, or it is auth and no identity was shown"},
	{client.ErrQuotaExceeded, "a hard quota of this node or of one above it is used up, so writes that add to it are rejected; rollcall quota PATH " +
		"shows the limits and the usage"},
	{client.ErrNoRoom, "there is no room for more data: dataQuota or the member's memoryLimit is reached; rollcall status says which"},
	{client.ErrReadOnly, "the server is read-only at present"},
}

type explainedError struct {
	text string
	error
}

func (e explainedError) Error() string { return e.text }
func (e explainedError) Unwrap() error { return e.error }

// explainNodeError explains a server's code, with the path as the user typed it. If change is true, the
// command may have changed something before err.
func explainNodeError(command string, s nodes.Space, change bool, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	text := err.Error()
	var failed *client.Error
	if errors.As(err, &failed) {
		meaning := failed.Err.Error()
		for _, c := range codeMeanings {
			if errors.Is(failed.Err, c.err) {
				meaning = c.text
			}
		}
		if strings.HasPrefix(failed.Op, "create") || failed.Op == "delete" {
			meaning = strings.Replace(meaning, "its access control list", "the access control list of its parent", 1)
		}
		text = strings.Replace(text, failed.Error(), s.TrimRoot(failed.Path)+": "+meaning, 1)
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

func toAPIStat(s jute.Stat) api.Stat {
	stat := api.Stat{
		Czxid: formatZxid(s.Czxid), Mzxid: formatZxid(s.Mzxid), Pzxid: formatZxid(s.Pzxid),
		Ctime: time.UnixMilli(s.Ctime).UTC(), Mtime: time.UnixMilli(s.Mtime).UTC(),
		Version: s.Version, Cversion: s.Cversion, Aversion: s.Aversion,
		DataLength: s.DataLength, NumChildren: s.NumChildren,
	}
	if s.EphemeralOwner != 0 {
		stat.Owner = s.EphemeralOwner.String()
	}
	return stat
}

func formatZxid[T ~int64](zxid T) string { return fmt.Sprintf("0x%x", uint64(zxid)) }

type nodeStat struct {
	Path string `json:"path"`
	api.Stat
}

// formatNodeAge is formatAge for a node. The servers' own nodes have time 0.
func formatNodeAge(now, at time.Time) string {
	if at.UnixMilli() == 0 {
		return unknownText
	}
	return formatAge(now, at)
}

func statColumns(now time.Time) []Column[api.Stat] {
	return []Column[api.Stat]{
		{Name: "size", AlignRight: true, Cell: func(s api.Stat) string { return FormatSize(int64(s.DataLength)) }},
		{Name: "children", AlignRight: true, Cell: func(s api.Stat) string { return formatNumber(s.NumChildren) }},
		{Name: "owner", Cell: func(s api.Stat) string { return orDash(s.Owner) }},
		{Name: "changed", AlignRight: true, Cell: func(s api.Stat) string { return formatNodeAge(now, s.Mtime) }},
		{Name: "version", AlignRight: true, WideOnly: true, Cell: func(s api.Stat) string { return formatNumber(s.Version) }},
		{Name: "cversion", AlignRight: true, WideOnly: true, Cell: func(s api.Stat) string { return formatNumber(s.Cversion) }},
		{Name: "aversion", AlignRight: true, WideOnly: true, Cell: func(s api.Stat) string { return formatNumber(s.Aversion) }},
		{Name: "created", WideOnly: true, Cell: func(s api.Stat) string { return formatMillisecond(s.Ctime) }},
		{Name: "modified", WideOnly: true, Cell: func(s api.Stat) string { return formatMillisecond(s.Mtime) }},
		{Name: "czxid", WideOnly: true, Cell: func(s api.Stat) string { return s.Czxid }},
		{Name: "mzxid", WideOnly: true, Cell: func(s api.Stat) string { return s.Mzxid }},
		{Name: "pzxid", WideOnly: true, Cell: func(s api.Stat) string { return s.Pzxid }},
	}
}

// withStat returns a column of texts, and the columns of the Stat of each row.
func withStat[T any](now time.Time, name string, text func(T) string, of func(T) *api.Stat) []Column[T] {
	columns := []Column[T]{{Name: name, Cell: text}}
	for _, c := range statColumns(now) {
		columns = append(columns, columnOf(c, of))
	}
	return columns
}

const (
	completionTimeout = 2 * time.Second
	maxCompletions    = 1000
)

// completePath completes the first argument, the path of a node. It completes nothing if the servers do not
// reply or the parent is not readable.
func (n *nodeCommand) completePath(cmd *cobra.Command, args []string, begun string) ([]string,
	cobra.ShellCompDirective,
) {
	const nothingElse = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	switch {
	case len(args) > 0:
		return nil, cobra.ShellCompDirectiveDefault // data, or entries of a list
	case n.past.isSet():
		return nil, nothingElse // the state would have to be built
	}
	above, name := "/", ""
	if i := strings.LastIndexByte(begun, '/'); i > 0 {
		above, name = begun[:i], begun[i+1:]
	} else {
		name = strings.TrimPrefix(begun, "/")
	}
	if subtree.CheckPath(above) != nil {
		return nil, nothingElse
	}
	ctx, stop := context.WithTimeout(cmd.Context(), completionTimeout)
	defer stop()
	s, err := n.openSpace(ctx)
	if err != nil {
		return nil, nothingElse
	}
	defer closeSession(s.Client)
	names, _, err := s.Children(ctx, above)
	if err != nil {
		return nil, nothingElse
	}
	names = slices.DeleteFunc(names,
		func(found string) bool { return !strings.HasPrefix(found, name) || !screentext.IsPrintableASCII(found) })
	slices.Sort(names)
	names = names[:min(len(names), maxCompletions)]
	for i := range names {
		names[i] = strings.TrimSuffix(above, "/") + "/" + names[i]
	}
	return names, nothingElse
}
