package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"rollcall/cli/subtree"
	"rollcall/zk/jute"
)

// maxData is how many bytes of data a command reads from a file or from its input: far more than servers
// accept.
const maxData = 16 << 20

// dataSource is where set and create take data from.
type dataSource struct {
	world World
	file  string
}

func (d *dataSource) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.file, "file", "", "take the data from a `file`")
}

// read returns the data that a command's arguments after the path name: the data themselves, or - for its
// input. It returns nil if neither they nor --file name any.
func (d *dataSource) read(args []string) ([]byte, error) {
	switch {
	case len(args) > 0 && d.file != "":
		return nil, With(WrongUse, errors.New("data are given twice: as an argument, and with --file"))
	case len(args) > 0 && args[0] == "-":
		return readData(d.world.In, "the input")
	case len(args) > 0:
		return []byte(args[0]), nil
	case d.file == "":
		return nil, nil
	}
	f, err := os.Open(d.file)
	if err != nil {
		return nil, With(WrongUse, fmt.Errorf("--file: %w", err))
	}
	defer func() { _ = f.Close() }() // it was only read
	return readData(f, d.file)
}

func readData(r io.Reader, from string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxData+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", from, err)
	case len(data) > maxData:
		return nil, With(WrongUse, fmt.Errorf("%s has more than %d bytes, and servers accept about 1 MiB (jute.maxbuffer)", from, maxData))
	}
	return data, nil
}

// usualMaxBuffer is from which length of data on a broken connection is probably due to them.
const usualMaxBuffer = 1 << 20

// tooLong adds to the error of a write that its data are probably too long. Servers then close the
// connection without a word.
func tooLong(err error, data []byte) error {
	if errors.Is(err, jute.ConnectionLoss) && len(data) >= usualMaxBuffer-1024 {
		return With(Failed, fmt.Errorf("%w: the servers probably refuse %d bytes of data (jute.maxbuffer); rollcall stat shows whether they took them", err, len(data)))
	}
	return err
}

// newSet returns the command that sets the data of a node.
func newSet(w World) *cobra.Command {
	n, data, version := newNodes(w), &dataSource{world: w}, int32(0)
	cmd := n.register(&cobra.Command{
		Use: "set [flags] PATH DATA", Short: "set the data of a node", Args: Takes(1, 2, "a path and data"),
		Long:    "Sets the data of a node. If DATA is -, the command reads the data from stdin.",
		Example: "  rollcall set /config/db '{\"host\":\"db1\"}'\n  rollcall set --version 3 /config/db --file db.json",
	}, true, func(ctx context.Context, s subtree.Space, args []string) error {
		content, err := data.read(args[1:])
		if err == nil && content == nil {
			err = With(WrongUse, errors.New("data are missing: DATA, - for the input, or --file"))
		}
		if err != nil {
			return err
		}
		var stat jute.Stat
		err = s.Write(ctx, func(ctx context.Context) error {
			stat, err = s.Client.Set(ctx, s.Full(args[0]), content, version)
			return err
		})
		if err != nil {
			return tooLong(err, content)
		}
		return n.changed(args[0], stat, "version", stat.Version)
	})
	data.register(cmd)
	versionFlag(cmd, &version, "version")
	n.Output.Register(cmd)
	return cmd
}

// versionFlag adds the flag --version. what names the version.
func versionFlag(cmd *cobra.Command, version *int32, what string) {
	cmd.Flags().Int32Var(version, "version", anyVersion, "do it only if the node has this `"+what+"`")
	cmd.Flags().Lookup("version").DefValue = "0" // so that the help shows no default
}

// anyVersion is the version of a change that does not depend on it.
const anyVersion = -1

// changed prints the Stat of a node after a change: for people, only the version that has changed.
func (n *nodes) changed(path string, stat jute.Stat, what string, version int32) error {
	if n.format == "table" {
		_, err := fmt.Fprintf(n.Out, "%s has %s %d.\n", Visible(path), what, version)
		return err
	}
	return printOne(n.Output, pathColumns(n.World), nodeStat{path, statOf(stat)})
}
