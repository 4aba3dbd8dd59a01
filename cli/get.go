package cli

import (
	"context"
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"rollcall/cli/nodes"
	"rollcall/operator/api"
	"rollcall/operator/subtree"
	"rollcall/zk/jute"
)

func newStat(w IOStreams) *cobra.Command {
	n := newNodeCommand(w)
	return n.registerRead(&cobra.Command{
		Use: "stat [flags] PATH", Short: "print versions, times and sizes of a node", Args: RangeArgs(1, 1, "one path"),
		Long: "Prints the versions, times and sizes of a node.",
	}, func(ctx context.Context, s nodes.Space, args []string) error {
		stat, err := s.Stat(ctx, args[0])
		if err != nil {
			return err
		}
		return printRow(n.output, pathColumns(n.streams), nodeStat{args[0], toAPIStat(stat)})
	})
}

func pathColumns(w IOStreams) []Column[nodeStat] {
	return withStat(w.Now(), "path", func(r nodeStat) string { return r.Path }, func(r nodeStat) *api.Stat { return &r.Stat })
}

type nodeData struct {
	Path string  `json:"path"`
	Data []byte  `json:"data"` // base64; null if the node has none
	Text *string `json:"text"` // the same, if they are UTF-8
	api.Stat
}

func newGet(w IOStreams) *cobra.Command {
	n, raw := newNodeCommand(w), false
	cmd := n.registerRead(&cobra.Command{
		Use: "get [flags] PATH", Short: "print the data of a node", Args: RangeArgs(1, 1, "one path"),
		Long: "Prints the data of a node, byte for byte. On a terminal it escapes bytes that are not printable, and ends " +
			"the last line with a newline. -o wide, json and yaml " +
			"also show the node's Stat. In JSON and YAML \"data\" is base64, and \"text\" the same data if they are UTF-8.",
	}, func(ctx context.Context, s nodes.Space, args []string) error {
		data, stat, err := s.Get(ctx, args[0])
		switch {
		case err != nil:
			return err
		case n.output.format != "table":
			return printRow(n.output, dataColumns(n.streams), newNodeData(args[0], data, toAPIStat(stat)))
		case n.streams.OutTerminal && !raw:
			data = []byte(escapeLines(string(data)))
		}
		_, err = n.streams.Out.Write(data)
		return err
	})
	cmd.Flags().BoolVar(&raw, "raw", false, "print the bytes as they are on a terminal, too")
	return cmd
}

func newNodeData(path string, data []byte, stat api.Stat) nodeData {
	d := nodeData{Path: path, Data: data, Stat: stat}
	if data != nil && utf8.Valid(data) {
		text := string(data)
		d.Text = &text
	}
	return d
}

func dataColumns(w IOStreams) []Column[nodeData] {
	columns := withStat(w.Now(), "path", func(d nodeData) string { return d.Path }, func(d nodeData) *api.Stat { return &d.Stat })
	return append(columns, Column[nodeData]{Name: "data", Cell: func(d nodeData) string {
		switch {
		case d.Data == nil:
			return "none"
		case d.Text == nil:
			return "base64 " + base64.StdEncoding.EncodeToString(d.Data)
		}
		return *d.Text
	}})
}

func escapeLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(EscapeUnprintable(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String()
}

func newSync(w IOStreams) *cobra.Command {
	n := newNodeCommand(w)
	return n.registerWithOutput(&cobra.Command{
		Use: "sync [flags] [PATH]", Short: "wait until the member has everything that was written before",
		Args: RangeArgs(0, 1, "one path"),
		Long: "Waits until the member that the command is connected to has applied every write made before, on any " +
			"member. Then it prints that member's address and zxid. The path has no effect.",
	}, false, func(ctx context.Context, s nodes.Space, args []string) error {
		zxid, err := s.Sync(ctx, pathOr(args, "/"))
		if err != nil {
			return err
		}
		return printRow(n.output, []Column[synced]{
			{Name: "server", Cell: func(r synced) string { return r.Server }},
			{Name: "zxid", Cell: func(r synced) string { return r.Zxid }},
		}, synced{s.Client.Server(), formatZxid(zxid)})
	})
}

type synced struct {
	Server string `json:"server"` // "" if the connection has broken since
	Zxid   string `json:"zxid"`
}

func newACL(w IOStreams) *cobra.Command {
	n, version := newNodeCommand(w), int32(0)
	var list []jute.ACL
	cmd := n.registerWithOutput(&cobra.Command{
		Use: "acl [flags] PATH [LIST...]", Short: "print or set the access control list of a node",
		Args: RangeArgs(1, -1, "a path and entries"),
		Long: "Prints who may do what with a node, or sets that if a list is given. An entry is scheme:id:perms. The " +
			"permissions are letters: c creates children, d deletes them, " +
			"r reads data and children, w writes data, a sets this list. auth::perms stands for the identities of --auth. " +
			"Nodes below it keep their own lists.",
		Example: "  rollcall acl /config\n  rollcall acl --auth digest:me:secret /config auth::cdrwa world:anyone:r",
	}, true, func(ctx context.Context, s nodes.Space, args []string) error {
		if list == nil {
			list, err := s.ACL(ctx, args[0])
			if err != nil {
				return err
			}
			return PrintRows(n.output, aclColumns, MapRows(RowsOf(list), toAPIACL))
		}
		stat, err := s.SetACL(ctx, args[0], list, version)
		if err != nil {
			return err
		}
		return n.printChanged(args[0], stat, "aversion", stat.Aversion)
	})
	addVersionFlag(cmd, &version, "aversion")
	cmd.PreRunE = func(_ *cobra.Command, args []string) (err error) {
		if len(args) == 1 {
			return nil
		}
		if list, err = subtree.ParseACL(strings.Join(args[1:], ",")); err != nil {
			return UsageError.Errorf("acl: %w", err)
		}
		return nil
	}
	return cmd
}

func toAPIACL(a jute.ACL) api.ACL {
	return api.ACL{Scheme: string(a.ID.Scheme), ID: string(a.ID.ID), Perms: a.Perms.String()}
}

var aclColumns = []Column[api.ACL]{
	{Name: "scheme", Cell: func(a api.ACL) string { return a.Scheme }},
	{Name: "id", Cell: func(a api.ACL) string { return orDash(a.ID) }},
	{Name: "perms", Cell: func(a api.ACL) string { return a.Perms }},
}
