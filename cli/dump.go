package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"rollcall/cli/subtree"
	"rollcall/internal/durable"
	"rollcall/zk/jute"
)

// dumping is the command that writes a subtree as JSON.
type dumping struct {
	*nodes
	file       string
	ephemerals bool
}

// newDump returns the command that writes a subtree as JSON.
func newDump(w World) *cobra.Command {
	d := &dumping{nodes: newNodes(w)}
	cmd := d.register(&cobra.Command{
		Use: "dump [flags] PATH", Short: "write a subtree as JSON, for rollcall load", Args: Takes(1, 1, "one path"),
		Long: "Writes the subtree at a node as one JSON document: paths, data and access control lists. Its end has a checksum, without which rollcall load takes nothing. It leaves out ephemeral nodes, " +
			"which end with their sessions, and at / the servers' own nodes below " + subtree.Servers + ". It leaves out versions, times and the counters of sequential nodes, because a client cannot " +
			"set them. It leaves out whether a node is a container or has a time to live, because the protocol does not show it.\n\nEach node is as it was when it was read. If others write meanwhile, the dump is no picture of one moment, and the summary says so.",
		Example: "  rollcall dump /app >app.json\n  rollcall dump / --out backup.json",
	}, false, d.run)
	registerOut(cmd, &d.file, "write to this `file`, which is replaced only when the dump is whole")
	cmd.Flags().BoolVar(&d.ephemerals, "with-ephemerals", false, "show ephemeral nodes, too; rollcall load leaves them out")
	return cmd
}

func (d *dumping) run(ctx context.Context, s subtree.Space, args []string) error {
	if d.file == "" {
		return d.write(ctx, s, args[0], d.Out)
	}
	var missing error // the dump is whole, and lacks something
	err := replaceFile(d.file, func(w io.Writer) error {
		missing = d.write(ctx, s, args[0], w)
		if errors.Is(missing, errMissing) {
			return nil
		}
		return missing
	})
	return errors.Join(err, onlyMissing(missing))
}

var errMissing = errors.New("the dump lacks something")

func onlyMissing(err error) error {
	if errors.Is(err, errMissing) {
		return err
	}
	return nil
}

// write writes the dump, and a summary for people.
func (d *dumping) write(ctx context.Context, s subtree.Space, path string, w io.Writer) error {
	progress := NewProgress(d.World, "nodes", 0)
	defer progress.Done()
	var warnings []string
	sum, err := s.Dump(ctx, w, path, subtree.Dumping{
		Ephemerals: d.ephemerals, Now: d.Now(),
		Each: func(*subtree.Record) { progress.Add(1) },
		Warn: func(path, why string) {
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
		warn(d.World, "%s", text)
	}
	summary := fmt.Sprintf("dumped %s with %s of data", plural(sum.Count, "node", "nodes"), Size(sum.Bytes))
	if sum.LeftOut > 0 {
		summary += "; left out " + plural(sum.LeftOut, "ephemeral node", "ephemeral nodes")
	}
	if sum.Newer > 0 {
		summary += fmt.Sprintf("; %s changed meanwhile, so the dump is no picture of one moment", nodesWere(sum.Newer))
	}
	warn(d.World, "%s", summary)
	if sum.Unread+sum.Hidden > 0 {
		return missingError{fmt.Errorf("%s: the dump lacks parts of %s: %w; --auth shows another identity", path, plural(sum.Unread+sum.Hidden, "node", "nodes"), jute.NoAuth)}
	}
	return nil
}

// missingError is the error of a dump that is whole, but lacks what its maker may not read.
type missingError struct{ error }

func (e missingError) Unwrap() []error { return []error{e.error, errMissing} }

// replaceFile writes a file under another name, and gives it its name when it is complete.
func replaceFile(name string, write func(io.Writer) error) error {
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return With(WrongUse, fmt.Errorf("--out: %s is no regular file, and is not replaced; leave --out away and redirect the output", name))
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return With(WrongUse, fmt.Errorf("--out: %w", err))
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
