package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"rollcall/cli/nodes"
	"rollcall/client"
	"rollcall/zk/jute"
)

// maxData bounds the data read from a file or stdin, in bytes. Servers accept far less.
const maxData = 16 << 20

// dataSource is the data argument of set and create, with the flag --file.
type dataSource struct {
	streams IOStreams
	file    string
}

func (d *dataSource) registerFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.file, "file", "", "take the data from a `file`")
}

// readData returns the data of an argument, of stdin if the argument is -, or of --file. It returns nil
// if there are none.
func (d *dataSource) readData(args []string) ([]byte, error) {
	switch {
	case len(args) > 0 && d.file != "":
		return nil, UsageError.Errorf("data are given twice: as an argument, and with --file")
	case len(args) > 0 && args[0] == "-":
		return readBounded(d.streams.In, "the input")
	case len(args) > 0:
		return []byte(args[0]), nil
	case d.file == "":
		return nil, nil
	}
	f, err := os.Open(d.file)
	if err != nil {
		return nil, UsageError.Errorf("--file: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	return readBounded(f, d.file)
}

func readBounded(r io.Reader, from string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxData+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", from, err)
	case len(data) > maxData:
		return nil, UsageError.Errorf("%s has more than %d bytes, and servers accept about 1 MiB (jute.maxbuffer)", from, maxData)
	}
	return data, nil
}

// defaultMaxBuffer is the usual jute.maxbuffer of servers.
const defaultMaxBuffer = 1 << 20

// explainTooLong adds advice if the data are too long, or probably are: servers close the connection without a reply.
func explainTooLong(err error, data []byte) error {
	if errors.Is(err, client.ErrTooLong) {
		return UsageError.Errorf("%w; nothing was sent. If jute.maxbuffer of all members is higher, use "+
			"--max-request", err)
	}
	if errors.Is(err, client.ErrConnectionLost) && len(data) >= defaultMaxBuffer-1024 {
		return Failed.Errorf("%w: the servers probably reject %d bytes of data (jute.maxbuffer); rollcall "+
			"stat shows whether they took them", err, len(data))
	}
	return err
}

func newSet(w IOStreams) *cobra.Command {
	n, data, version := newNodeCommand(w), &dataSource{streams: w}, int32(0)
	cmd := n.registerWithOutput(&cobra.Command{
		Use: "set [flags] PATH DATA", Short: "set the data of a node", Args: RangeArgs(1, 2, "a path and data"),
		Long:    "Sets the data of a node. If DATA is -, the command reads the data from stdin.",
		Example: "  rollcall set /config/db '{\"host\":\"db1\"}'\n  rollcall set --version 3 /config/db --file db.json",
	}, true, func(ctx context.Context, s nodes.Space, args []string) error {
		content, err := data.readData(args[1:])
		if err == nil && content == nil {
			err = UsageError.Errorf("data are missing: DATA, - for the input, or --file")
		}
		if err != nil {
			return err
		}
		stat, err := s.Set(ctx, args[0], content, version)
		if err != nil {
			return explainTooLong(err, content)
		}
		return n.printChanged(args[0], stat, "version", stat.Version)
	})
	data.registerFlag(cmd)
	addVersionFlag(cmd, &version, "version")
	return cmd
}

// addVersionFlag adds the flag --version; what names the version.
func addVersionFlag(cmd *cobra.Command, version *int32, what string) {
	cmd.Flags().Int32Var(version, "version", anyVersion, "do it only if the node has this `"+what+"`")
	cmd.Flags().Lookup("version").DefValue = "0" // so that the help shows no default
}

const anyVersion = -1

// printChanged prints the Stat of a changed node, or in a table only its new version.
func (n *nodeCommand) printChanged(path string, stat jute.Stat, versionName string, version int32) error {
	if n.output.format == "table" {
		_, err := fmt.Fprintf(n.streams.Out, "%s has %s %d.\n", EscapeUnprintable(path), versionName, version)
		return err
	}
	return printRow(n.output, pathColumns(n.streams), nodeStat{path, toAPIStat(stat)})
}
