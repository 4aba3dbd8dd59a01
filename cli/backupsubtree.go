package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rollcall/cli/nodes"
	"rollcall/operator/subtree"
)

// SubtreeRestore is the part of rollcall backup restore that writes a subtree of a backup into a running
// ensemble through a client session. Its flags are --subtree, --delete, --dry-run and --yes, and those of a
// session.
type SubtreeRestore struct {
	*nodeCommand
	subtreeFlag                      string
	deleteExtra, dryRun, skipConfirm bool
}

// NewSubtreeRestore returns a SubtreeRestore that prints with out.
func NewSubtreeRestore(w IOStreams, out *Output) *SubtreeRestore {
	return &SubtreeRestore{nodeCommand: &nodeCommand{streams: w, ensemble: NewEnsembleFlags(w), output: out}}
}

// Register adds the flags to cmd.
func (r *SubtreeRestore) Register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&r.subtreeFlag, "subtree", "",
		"write this subtree of the backup into an ensemble that runs: `/path[=/target]`")
	fs.BoolVar(&r.deleteExtra, "delete", false, "with --subtree: also delete the nodes there that are not in the backup")
	fs.BoolVar(&r.dryRun, "dry-run", false, "with --subtree: print what would be changed, and change nothing")
	fs.BoolVar(&r.skipConfirm, "yes", false, "with --subtree: do it without asking")
	r.ensemble.registerSessionFlags(cmd, "`host:port,.../root` where members take clients, with --subtree; root is the node "+
		"that is / here")
	markShared(fs, "hosts")
	markShared(fs, "auth")
}

// Requested reports whether --subtree is given. It returns an error if it is not, and a flag that needs it
// is.
func (r *SubtreeRestore) Requested(flags *pflag.FlagSet) (bool, error) {
	if flags.Changed("subtree") {
		return true, nil
	}
	for _, name := range []string{"delete", "dry-run", "yes", "hosts", "auth", "jaas"} {
		if flags.Changed(name) {
			return false, UsageError.Errorf("backup restore: --%s is for --subtree, which restores into an ensemble that runs", name)
		}
	}
	return false, nil
}

// Run restores the subtree from a backup file or, if open is not nil, from the state that it opens.
func (r *SubtreeRestore) Run(ctx context.Context, file string, open func(context.Context) (BackupSource, error)) error {
	from, into, err := r.parsePaths()
	if err == nil {
		err = r.validate(file)
	}
	if err != nil {
		return UsageError.Errorf("backup restore: %w", err)
	}
	state := BackupFile(r.streams, file)
	if open != nil {
		if state, err = open(ctx); err != nil {
			return fmt.Errorf("backup restore: %w", err)
		}
	}
	s, err := r.openSpace(ctx)
	if err != nil {
		return err
	}
	defer closeSession(s.Client)
	source, err := r.readSource(s, state, from)
	if err != nil {
		return fmt.Errorf("backup restore: %w", err)
	}
	if n := source.Ephemerals; n > 0 {
		warnf(r.streams, "backup restore: left out %s",
			FormatCount(n, "ephemeral node, which belongs to a session", "ephemeral nodes, which belong to sessions"))
	}
	return explainNodeError("backup restore", s, !r.dryRun, r.showOrRestore(ctx, &loadJob{
		streams: r.streams, output: r.output, sourceName: "the subtree of the backup", resumeAdvice: repeatCompletes,
		options: subtree.LoadOptions{Into: into, Mode: r.loadMode()},
		runLoad: func(ctx context.Context, how subtree.LoadOptions) (subtree.LoadResult, error) {
			return s.LoadFrom(ctx, source, how)
		},
	}))
}

func (r *SubtreeRestore) loadMode() subtree.LoadMode {
	if r.deleteExtra {
		return subtree.Replace
	}
	return subtree.Merge
}

func (r *SubtreeRestore) parsePaths() (from, into string, err error) {
	from, into, two := strings.Cut(r.subtreeFlag, "=/") // a name may have "=" in it
	if into = "/" + into; !two {
		into = from
	}
	for _, path := range []string{from, into} {
		if err := subtree.CheckPath(path); err != nil {
			return "", "", fmt.Errorf("--subtree: %w; it must be /path or /path=/target", err)
		}
		if path == subtree.ServersNode || path == subtree.ServersNode+"/config" {
			return "", "", fmt.Errorf("--subtree: %s belongs to the servers; for quotas name %s", path,
				subtree.ServersNode+"/quota")
		}
	}
	return from, into, nil
}

// validate also returns an error if the file cannot be read several times. file is "" for a state of the past.
func (r *SubtreeRestore) validate(file string) error {
	if !r.dryRun && !r.skipConfirm && !r.streams.InTerminal {
		return errors.New("there is no terminal to ask on; --dry-run prints what would be changed, and --yes does it " +
			"without asking")
	}
	if file == "" { // the state is of the past
		return nil
	}
	info, err := os.Stat(file)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file, and is read more than once; copy it into a file", file)
	}
	return err
}

func (r *SubtreeRestore) showOrRestore(ctx context.Context, work *loadJob) error {
	switch {
	case r.dryRun:
		return work.printChanges(ctx)
	case !r.skipConfirm:
		would, err := work.dryRunLoad(ctx, func(subtree.Change) {})
		if err != nil {
			return err
		}
		if would.Created+would.Set+would.ACLs+would.Deleted > 0 {
			err = Confirm(r.streams,
				"Of "+strings.TrimPrefix(planSummary(work.sourceName, would), "of ")+". --dry-run lists them. Do it?")
		}
		if err != nil {
			return err
		}
	}
	return work.loadAndPrint(ctx)
}

func (r *SubtreeRestore) readSource(s nodes.Space, state BackupSource, from string) (subtree.Source, error) {
	source, err := s.SourceFromBackup(from, state.Read)
	if errors.Is(err, subtree.ErrNotInBackup) {
		err = Conflict.Errorf("%s: %w; rollcall backup inspect shows what is in it", state.Name, err)
	}
	return source, err
}
