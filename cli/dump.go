package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"rollcall/cli/nodes"
	"rollcall/client"
	"rollcall/internal/durable"
	"rollcall/operator/subtree"
)

type dumpCommand struct {
	*nodeCommand
	file           string
	withEphemerals bool
}

func newDump(w IOStreams) *cobra.Command {
	d := &dumpCommand{nodeCommand: newNodeCommand(w)}
	cmd := d.registerSessionCommand(&cobra.Command{
		Use: "dump [flags] PATH", Short: "write a subtree as JSON, for rollcall load", Args: RangeArgs(1, 1, "one path"),
		Long: "Writes the subtree at a node as one JSON document with a checksum: paths, data and access control lists. It " +
			"leaves out ephemeral nodes, and at / the servers' own nodes below " + subtree.ServersNode +
			". It also leaves out versions, times and the counters of sequential nodes, which a client cannot " +
			"set, and whether a node is a container or has a time to live, which the protocol does not show.\n\n" +
			"Each node is as it was when it was read. If others write meanwhile, the dump is no picture of one " +
			"moment, and the summary says so.",
		Example: "  rollcall dump /app >app.json\n  rollcall dump / --out backup.json",
	}, false, d.run)
	registerOutFlag(cmd, &d.file, "write to this `file`, which is replaced only when the dump is whole")
	cmd.Flags().BoolVar(&d.withEphemerals, "with-ephemerals", false,
		"show ephemeral nodes, too; rollcall load leaves them out")
	return cmd
}

func (d *dumpCommand) run(ctx context.Context, s nodes.Space, args []string) error {
	if d.file == "" {
		return d.writeDump(ctx, s, args[0], d.streams.Out)
	}
	var incomplete incompleteDumpError
	err := replaceFile(d.file, func(w io.Writer) error {
		err := d.writeDump(ctx, s, args[0], w)
		if errors.As(err, &incomplete) {
			return nil
		}
		return err
	})
	if incomplete.error != nil {
		err = errors.Join(err, incomplete)
	}
	return err
}

func (d *dumpCommand) writeDump(ctx context.Context, s nodes.Space, path string, w io.Writer) error {
	progress := NewProgress(d.streams, "nodes", 0)
	defer progress.Done()
	var warnings []string
	sum, err := s.Dump(ctx, w, path, subtree.DumpOptions{
		IncludeEphemerals: d.withEphemerals, Now: d.streams.Now(),
		OnRecord: func(*subtree.Record) { progress.Add(1) },
		OnWarning: func(path, why string) {
			if len(warnings) < maxUnreadShown {
				warnings = append(warnings, path+": "+why)
			}
		},
	})
	progress.Done()
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: interrupted after %d nodes; what was written is no whole dump", path, sum.Count)
	case errors.Is(err, subtree.ErrEphemeral):
		return fmt.Errorf("%w; --with-ephemerals shows it", err)
	case err != nil:
		return err
	}
	for _, text := range warnings {
		warnf(d.streams, "%s", text)
	}
	summary := fmt.Sprintf("dumped %s with %s of data", FormatCount(sum.Count, "node", "nodes"), FormatSize(sum.Bytes))
	if sum.LeftOut > 0 {
		summary += "; left out " + FormatCount(sum.LeftOut, "ephemeral node", "ephemeral nodes")
	}
	if sum.Newer > 0 {
		summary += fmt.Sprintf("; %s changed meanwhile, so the dump is no picture of one moment", formatNodesWere(sum.Newer))
	}
	warnf(d.streams, "%s", summary)
	if sum.Unread+sum.Hidden > 0 {
		return incompleteDumpError{fmt.Errorf("%s: the dump lacks parts of %s: %w; --auth shows another identity", path,
			FormatCount(sum.Unread+sum.Hidden, "node", "nodes"), client.ErrNoAuth)}
	}
	return nil
}

// incompleteDumpError is the error of a finished dump without the nodes that its maker may not read.
type incompleteDumpError struct{ error }

func (e incompleteDumpError) Unwrap() error { return e.error }

func replaceFile(name string, write func(io.Writer) error) error {
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return UsageError.Errorf("--out: %s is no regular file, and is not replaced; leave --out away and redirect the output",
			name)
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return UsageError.Errorf("--out: %w", err)
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
		return err
	}
	return durable.SyncDirectory(filepath.Dir(name))
}
