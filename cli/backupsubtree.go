package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rollcall/cli/subtree"
	"rollcall/operator/backup"
	"rollcall/znode"
)

// SubtreeRestore is the part of rollcall backup restore that writes a subtree of a backup into an ensemble that runs,
// through a client's session. It has the flags --subtree, --delete, --dry-run and --yes, and those of a session.
type SubtreeRestore struct {
	*nodes
	tree                string
	delete, dryRun, yes bool
}

// NewSubtreeRestore returns the part, which prints with out.
func NewSubtreeRestore(w World, out *Output) *SubtreeRestore {
	return &SubtreeRestore{nodes: &nodes{World: w, Link: NewLink(w), Output: out}}
}

// Register adds the flags to cmd.
func (r *SubtreeRestore) Register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&r.tree, "subtree", "", "write this subtree of the backup into an ensemble that runs: `/path[=/target]`")
	fs.BoolVar(&r.delete, "delete", false, "with --subtree: also delete the nodes there that are not in the backup")
	fs.BoolVar(&r.dryRun, "dry-run", false, "with --subtree: print what would be changed, and change nothing")
	fs.BoolVar(&r.yes, "yes", false, "with --subtree: do it without asking")
	r.registerHosts(cmd, "`host:port,.../root` where members take clients, with --subtree; root is the node that is / here")
	share(fs, "hosts")
	share(fs, "auth")
}

// Asked reports whether the command has the flag --subtree. Its error names a flag that needs it.
func (r *SubtreeRestore) Asked(flags *pflag.FlagSet) (bool, error) {
	if flags.Changed("subtree") {
		return true, nil
	}
	for _, name := range []string{"delete", "dry-run", "yes", "hosts", "auth", "jaas"} {
		if flags.Changed(name) {
			return false, With(WrongUse, fmt.Errorf("backup restore: --%s is for --subtree, which restores into an ensemble that runs", name))
		}
	}
	return false, nil
}

// Run restores the subtree from the backup in a file.
func (r *SubtreeRestore) Run(ctx context.Context, file string) error {
	from, into, err := r.paths()
	if err == nil {
		err = r.check(file)
	}
	if err != nil {
		return With(WrongUse, fmt.Errorf("backup restore: %w", err))
	}
	s, err := r.space(ctx)
	if err != nil {
		return err
	}
	defer closeSession(s.Client)
	source, err := r.source(s, file, from)
	if err != nil {
		return fmt.Errorf("backup restore: %w", err)
	}
	if n := source.Ephemerals; n > 0 {
		warn(r.World, "backup restore: left out %s", plural(n, "ephemeral node, which belongs to a session", "ephemeral nodes, which belong to sessions"))
	}
	return explainedNode("backup restore", s, !r.dryRun, r.restore(ctx, &loadWork{
		World: r.World, Output: r.Output, from: "the subtree of the backup", again: sameAgain,
		how: subtree.Loading{Into: into, Mode: r.mode()},
		do: func(ctx context.Context, how subtree.Loading) (subtree.Loaded, error) {
			return s.LoadFrom(ctx, source, how)
		},
	}))
}

func (r *SubtreeRestore) mode() subtree.Mode {
	if r.delete {
		return subtree.Replace
	}
	return subtree.Merge
}

// paths returns the paths that --subtree says.
func (r *SubtreeRestore) paths() (from, into string, err error) {
	from, into, two := strings.Cut(r.tree, "=/") // a name may have "=" in it
	if into = "/" + into; !two {
		into = from
	}
	for _, path := range []string{from, into} {
		if err := subtree.CheckPath(path); err != nil {
			return "", "", fmt.Errorf("--subtree: %w; allowed is /path or /path=/target", err)
		}
		if path == subtree.Servers || path == subtree.Servers+"/config" {
			return "", "", fmt.Errorf("--subtree: %s belongs to the servers; for quotas name %s", path, subtree.Servers+"/quota")
		}
	}
	return from, into, nil
}

// check returns an error if the flags do not fit the surroundings, or the file cannot be read several times.
func (r *SubtreeRestore) check(file string) error {
	if !r.dryRun && !r.yes && !r.InTerminal {
		return errors.New("there is no terminal to ask on; --dry-run prints what would be changed, and --yes does it without asking")
	}
	info, err := os.Stat(file)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file, and is read more than once; copy it into a file", file)
	}
	return err
}

// restore shows the changes, or makes them when the user wants that.
func (r *SubtreeRestore) restore(ctx context.Context, work *loadWork) error {
	switch {
	case r.dryRun:
		return work.show(ctx)
	case !r.yes:
		would, err := work.would(ctx)
		if err != nil {
			return err
		}
		if would.Created+would.Set+would.ACLs+would.Deleted > 0 {
			err = Confirm(r.World, "backup restore", "Of "+strings.TrimPrefix(wouldText(work.from, would), "of ")+". --dry-run lists them. Do it?")
		}
		if err != nil {
			return err
		}
	}
	return work.carryOut(ctx)
}

// source reads the whole backup with all checks, and returns the subtree in it.
func (r *SubtreeRestore) source(s subtree.Space, file, from string) (subtree.Source, error) {
	source, err := s.FromBackup(from, func(v znode.ImageVisitor) (backup.Head, error) {
		row, err := readBackup(r.World, file, v)
		return row.Head, err
	})
	if errors.Is(err, subtree.ErrNotThere) {
		err = With(Conflict, fmt.Errorf("%s: %w; rollcall backup inspect shows what is in it", file, err))
	}
	return source, err
}
