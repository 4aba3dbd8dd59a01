package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"rollcall/cli"
	"rollcall/config"
	"rollcall/internal/tuning"
	"rollcall/member"
	"rollcall/operator/backup"
	"rollcall/znode"
)

// restorer holds the settings of the command.
type restorer struct {
	backupFile  string // the name of the state
	past        *cli.PastBackup
	configFile  string
	sessions    string
	commandText string // to repeat this run
}

func newRestore(w cli.IOStreams) *cobra.Command {
	r, out := restorer{sessions: "keep", past: cli.NewPastBackup(w)}, cli.NewOutput(w)
	live := cli.NewSubtreeRestore(w, out)
	cmd := &cobra.Command{
		Use:   "restore [flags] FILE [zoo.cfg]",
		Short: "begin a new ensemble with the state in a backup, or write a subtree of it into one that runs",
		Long: "Fills the empty directories of one member of a new ensemble with the state in a backup: of the member " +
			"whose zoo.cfg it gets. Then start all members, the others with empty directories: " +
			"they copy the state, and the ensemble serves once most of its voters have it. Nodes keep all that clients can " +
			"see of them, and zxids continue. " +
			"Clients can resume the sessions in the backup. With --sessions close they have ended, and their " +
			"ephemeral nodes are gone.\n\nWith --subtree, the command writes a " +
			"subtree of the backup into an ensemble that runs, as a client: it creates nodes that " +
			"are missing, and sets data and access control lists that differ. With --delete it also deletes nodes that are " +
			"not in the backup. It leaves out ephemeral nodes. Versions, times and the numbers of sequential nodes " +
			"begin anew. On a terminal it asks for confirmation; elsewhere it needs --yes. It can be repeated if it was " +
			"interrupted.\n\nWith --archive or --dir there is no backup: the command builds the state from an archive of the log, or from a " +
			"copy of a member's directory, as it was at the moment of --at, or else the newest one.",
		Example: "  rollcall backup restore ensemble.backup /etc/rollcall/zoo.cfg\n  rollcall backup restore --sessions " +
			"close ensemble.backup /etc/rollcall/zoo.cfg\n" +
			"  rollcall backup restore --subtree /app --dry-run ensemble.backup\n" +
			"  rollcall backup restore --at 2026-03-01T03:12:00Z --archive /mnt/archive /etc/rollcall/zoo.cfg",
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error { return r.checkArgs(cmd, live, args) }
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ofPast, _ := r.past.Requested() // checkArgs has checked it
		if subtree, _ := live.Requested(cmd.Flags()); subtree && ofPast {
			return live.Run(cmd.Context(), "", r.past.Open)
		} else if subtree {
			return live.Run(cmd.Context(), args[0], nil)
		}
		if !ofPast {
			r.backupFile = args[0]
		}
		r.configFile, r.commandText = args[len(args)-1], commandLine(cmd, args)
		if err := r.restoreMember(cmd.Context(), w, out); err != nil {
			return fmt.Errorf("backup restore: %w", err)
		}
		return nil
	}
	cmd.Flags().StringVar(&r.sessions, "sessions", r.sessions, "`keep|close` the sessions in the backup")
	r.past.Register(cmd)
	live.Register(cmd)
	out.Register(cmd)
	return cmd
}

// checkArgs checks the arguments, whose number depends on the flags.
func (r *restorer) checkArgs(cmd *cobra.Command, live *cli.SubtreeRestore, args []string) error {
	subtree, err := live.Requested(cmd.Flags())
	if err != nil {
		return err
	}
	ofPast, err := r.past.Requested()
	switch {
	case err != nil:
		return err
	case subtree && cmd.Flags().Changed("sessions"):
		return cli.UsageError.Errorf("backup restore: --sessions is for a new ensemble; --subtree restores no sessions")
	case subtree && ofPast:
		return cli.RangeArgs(0, 0, "flags only with --subtree and --archive or --dir; --hosts names the ensemble")(cmd, args)
	case subtree:
		return cli.RangeArgs(1, 1, "with --subtree, a backup; --hosts names the ensemble")(cmd, args)
	case ofPast:
		return cli.RangeArgs(1, 1, "with --archive or --dir, the zoo.cfg of one member; the others start with empty directories and copy it")(cmd, args)
	}
	return cli.RangeArgs(2, 2, "a backup, and the zoo.cfg of one member; the others start with empty directories and "+
		"copy it; --subtree restores into an ensemble that runs")(cmd, args)
}

func (r *restorer) restoreMember(ctx context.Context, w cli.IOStreams, out *cli.Output) error {
	if r.sessions != "keep" && r.sessions != "close" {
		return cli.UsageError.Errorf("--sessions %q must be keep or close", r.sessions)
	}
	logger := slog.New(slog.NewTextHandler(w.Err, nil))
	cfg, warnings, err := config.Load(r.configFile, w.Env, config.Flags{})
	logWarnings(logger, warnings)
	if err != nil {
		return err
	}
	work := cli.NewProgress(w, "reading "+r.backupFile, 0)
	state, closed, err := r.readState(ctx)
	work.Done()
	if err != nil {
		return err
	}
	h := state.ImageHead()
	done := cli.RestoreResult{
		File: r.backupFile, Index: h.Index, Zxid: h.Zxid, Term: state.RaftTerm(), Nodes: h.NodeCount,
		Sessions: h.SessionCount, Closed: closed,
		Member: cfg.MyID, Config: r.configFile, Data: cfg.Dir,
	}
	warnMissingParent(cfg, logger)
	work = cli.NewProgress(w, fmt.Sprintf("filling %s", cfg.Dir), 0)
	done.Digest, err = seedMember(cfg, nil, h, done.Term, r.commandText, state.WriteImage)
	work.Done()
	if err != nil {
		return fmt.Errorf("%s: %w", r.configFile, err)
	}
	return cli.PrintText(out, restoredText(done, len(ensembleServers(cfg))), done)
}

// readState reads and checks the backup, and returns the state to restore.
func (r *restorer) readState(ctx context.Context) (state *member.RestoredState, closed int, err error) {
	read, err := r.stateReader(ctx)
	if err != nil {
		return nil, 0, err
	}
	image := member.ImageReader(read)
	if r.sessions == "close" {
		if closed, image, err = member.EndImageSessions(read, "rollcall backup restore"); err != nil {
			return nil, 0, err
		}
	}
	state, err = member.ReadForRestore(image)
	return state, closed, err
}

// stateReader returns what reads and checks the backup, or the state of the past.
func (r *restorer) stateReader(ctx context.Context) (read func(znode.ImageVisitor) error, err error) {
	if ofPast, _ := r.past.Requested(); ofPast {
		source, err := r.past.Open(ctx)
		r.backupFile = source.Name
		return func(v znode.ImageVisitor) error {
			_, err := source.Read(v)
			return err
		}, err
	}
	room := newMemoryGuard(tuning.FreeMemory())
	return func(v znode.ImageVisitor) error {
		f, err := os.Open(r.backupFile)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // it was only read
		if _, _, err := backup.Read(room.wrapReader(contextReader{ctx, f}), v); err != nil {
			return fmt.Errorf("%s: %w", r.backupFile, err)
		}
		return nil
	}, nil
}

// contextReader is a reader that fails at the end of its context.
type contextReader struct {
	ctx context.Context
	io.Reader
}

func (u contextReader) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.Reader.Read(p)
}

// seedMember fills the empty directories of a configured member, and returns the digest of its state, which write writes.
// again is the command line to repeat it. A nil logger logs nothing.
func seedMember(cfg config.Config, logger *slog.Logger, head znode.ImageHead, term uint64, again string,
	write func(io.Writer) (digest uint64, err error),
) (digest string, err error) {
	err = member.SeedMember(member.SeedConfig{
		ID: cfg.MyID, Servers: ensembleServers(cfg), Dir: cfg.Dir, LogDir: cfg.LogDir, Logger: logger,
		Index: head.Index, Term: term, RetryCommand: again,
		WriteImage: func(w io.Writer) error {
			sum, err := write(w)
			digest = backup.FormatDigest(sum)
			return err
		},
	})
	return digest, err
}

// restoredText describes the result and the next step.
func restoredText(done cli.RestoreResult, members int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d nodes and %d sessions, as of index %d", done.File, done.Nodes, done.Sessions, done.Index)
	if done.Closed > 0 {
		fmt.Fprintf(&b, "; %d sessions are closed", done.Closed)
	}
	fmt.Fprintf(&b, "\nThe last zxid is 0x%x. New ones begin above 0x%x.\n", done.Zxid, done.Term<<32)
	fmt.Fprintf(&b, "Member %d has it in %s.\n", done.Member, done.Data)
	if members > 1 {
		fmt.Fprintf(&b, "Start all %d members now. The others start with empty directories, and copy it.\n", members)
	}
	fmt.Fprintf(&b, "Start this one with: rollcall serve %s\n", done.Config)
	return b.String()
}
