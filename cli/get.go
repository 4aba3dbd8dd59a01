package cli

import (
	"context"
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"rollcall/cli/subtree"
	"rollcall/operator/api"
)

// newStat returns the command that prints what the servers tell of a node.
func newStat(w IOStreams) *cobra.Command {
	n := newNodeCommand(w)
	cmd := n.registerCommand(&cobra.Command{
		Use: "stat [flags] PATH", Short: "print versions, times and sizes of a node", Args: RangeArgs(1, 1, "one path"),
		Long: "Prints the versions, times and sizes of a node.",
	}, false, func(ctx context.Context, s subtree.Space, args []string) error {
		stat, err := s.Stat(ctx, args[0])
		if err != nil {
			return err
		}
		return printRow(n.Output, pathColumns(n.IOStreams), nodeStat{args[0], toAPIStat(stat)})
	})
	n.Output.Register(cmd)
	return cmd
}

func pathColumns(w IOStreams) []Column[nodeStat] {
	return append([]Column[nodeStat]{{Name: "path", Cell: func(r nodeStat) string { return r.Path }}},
		statColumns(w.Now(), func(r nodeStat) api.Stat { return r.Stat })...)
}

// nodeData is a node with its data, as JSON has it.
type nodeData struct {
	Path string  `json:"path"`
	Data []byte  `json:"data"` // base64; null if the node has none
	Text *string `json:"text"` // the same, if they are UTF-8
	api.Stat
}

// newGet returns the command that prints the data of a node.
func newGet(w IOStreams) *cobra.Command {
	n, raw := newNodeCommand(w), false
	cmd := n.registerCommand(&cobra.Command{
		Use: "get [flags] PATH", Short: "print the data of a node", Args: RangeArgs(1, 1, "one path"),
		Long: "Prints the data of a node, byte for byte. On a terminal it escapes bytes that are not printable, and ends the last line with a newline. -o wide, json and yaml " +
			"also show the node's Stat. In JSON and YAML \"data\" is base64, and \"text\" the same data if they are UTF-8.",
	}, false, func(ctx context.Context, s subtree.Space, args []string) error {
		data, stat, err := s.Get(ctx, args[0])
		switch {
		case err != nil:
			return err
		case n.format != "table":
			return printRow(n.Output, dataColumns(n.IOStreams), newNodeData(args[0], data, toAPIStat(stat)))
		case n.OutTerminal && !raw:
			data = []byte(visibleLines(string(data)))
		}
		_, err = n.Out.Write(data)
		return err
	})
	cmd.Flags().BoolVar(&raw, "raw", false, "print the bytes as they are on a terminal, too")
	n.Output.Register(cmd)
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
	columns := []Column[nodeData]{{Name: "path", Cell: func(d nodeData) string { return d.Path }}}
	columns = append(columns, statColumns(w.Now(), func(d nodeData) api.Stat { return d.Stat })...)
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

// visibleLines returns text for a terminal: each line visible, and the last one ended.
func visibleLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(EscapeUnprintable(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String()
}

// newSync returns the command that waits until a member has everything that was written before.
func newSync(w IOStreams) *cobra.Command {
	n := newNodeCommand(w)
	cmd := n.registerCommand(&cobra.Command{
		Use: "sync [flags] [PATH]", Short: "wait until the member has everything that was written before", Args: RangeArgs(0, 1, "one path"),
		Long: "Waits until the member that the command is connected to has applied every write made before, on any member. Then it prints that member's address and zxid. The path has no effect.",
	}, false, func(ctx context.Context, s subtree.Space, args []string) error {
		zxid, err := s.Sync(ctx, pathOr(args, "/"))
		if err != nil {
			return err
		}
		return printRow(n.Output, []Column[synced]{
			{Name: "server", Cell: func(r synced) string { return r.Server }},
			{Name: "zxid", Cell: func(r synced) string { return r.Zxid }},
		}, synced{s.Client.Server(), formatZxid(zxid)})
	})
	n.Output.Register(cmd)
	return cmd
}

// synced says how far a server has come.
type synced struct {
	Server string `json:"server"` // "" if the connection has broken since
	Zxid   string `json:"zxid"`
}
