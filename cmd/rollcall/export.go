package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"rollcall/cli"
	"rollcall/internal/screentext"
	"rollcall/member"
	"rollcall/migrate"
	"rollcall/operator/backup"
	"rollcall/zk/jute"
)

// exporter is one run of the command.
type exporter struct {
	streams    cli.IOStreams
	out        *cli.Output
	flags      memberFlags
	configFile string // zoo.cfg
	backupFile string
}

func newExport(w cli.IOStreams) *cobra.Command {
	e := exporter{streams: w, out: cli.NewOutput(w)}
	cmd := &cobra.Command{
		Use: "export [flags] OUTDIR", Short: "write a stopped member's data, or a backup, for ZooKeeper",
		GroupID: cli.RunGroup, Args: cli.RangeArgs(1, 1, "one directory"),
		Long: "Writes the state of a stopped member as a directory from which ZooKeeper 3.6 to 3.9 starts: OUTDIR, which " +
			"must be empty or missing, is then a dataDir for each server. " +
			"Stop all members first and take the one whose data go furthest. With --backup, it writes the state in a backup " +
			"instead, and the members may run. " +
			"Clients of sessions that were opened in ZooKeeper keep them, and others get new sessions. " +
			"docs/moving-in.md has the steps. No other user may write in OUTDIR or replace it.",
		Example: "  rollcall export --config /etc/rollcall/zoo.cfg /srv/back\n  rollcall export --backup ensemble.backup " +
			"/srv/back",
		RunE: cli.PrefixErrors(func(cmd *cobra.Command, args []string) error {
			done, err := e.exportState(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return cli.PrintText(e.out, exportText(done), done)
		}),
	}
	cli.AddOutFlag(cmd, "`directory`, in place of the argument")
	e.flags.registerFlags(cmd)
	cmd.Flags().StringVar(&e.configFile, "config", "", "`zoo.cfg` of the member")
	cmd.Flags().StringVar(&e.backupFile, "backup", "", "write the state in this backup `file`, instead of a member's")
	e.out.Register(cmd)
	return cmd
}

// exportState writes the state of a configured member, or of a backup.
func (e *exporter) exportState(ctx context.Context, into string) (cli.ExportResult, error) {
	switch {
	case e.configFile == "" && e.backupFile == "":
		return cli.ExportResult{}, cli.UsageError.Errorf("--config names no zoo.cfg of the member, and --backup no backup")
	case e.configFile != "" && e.backupFile != "":
		return cli.ExportResult{}, cli.UsageError.Errorf("--config is for a member's data, and --backup for a backup: give one of them")
	case e.backupFile != "":
		return e.exportBackup(ctx, into)
	}
	cfg, log, err := e.flags.loadConfigAndLog(e.streams, []string{e.configFile})
	if err != nil {
		return cli.ExportResult{}, err
	}
	reading := cli.NewProgress(e.streams, "reading the member's files", 0)
	snapshot, extent, err := member.ReadStopped(cfg.Dir, cfg.LogDir, log.Logger())
	reading.Done()
	if err != nil {
		return cli.ExportResult{}, err
	}
	image := pipeSnapshot(snapshot)
	defer func() { _ = image.Close() }() // never fails
	return e.writeState(image, cli.ExportResult{Index: extent.Index, Term: extent.Term, Confirmed: true}, into)
}

// exportBackup writes the state of a backup. It reads the file twice: first to check all of it.
func (e *exporter) exportBackup(ctx context.Context, into string) (done cli.ExportResult, err error) {
	f, err := os.Open(e.backupFile)
	if err != nil {
		return done, cli.WithStatus(cli.UsageError, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	checking := cli.NewProgress(e.streams, "checking "+e.backupFile, 0)
	head, _, err := backup.Verify(contextReader{ctx, f})
	checking.Done()
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return done, fmt.Errorf("%s: %w", e.backupFile, err)
	}
	again, err := backup.NewReader(contextReader{ctx, f})
	if err == nil && (again.Head.Index != head.Index || again.Head.Digest != head.Digest) {
		err = errors.New("the file was changed while it was read")
	}
	if err != nil {
		return done, fmt.Errorf("%s: %w", e.backupFile, err)
	}
	return e.writeState(again,
		cli.ExportResult{Backup: e.backupFile, Index: head.Index, Term: head.Term, Confirmed: head.Confirmed}, into)
}

// pipeSnapshot returns a reader of what a snapshot writes. Its Close ends that.
func pipeSnapshot(from io.WriterTo) io.ReadCloser {
	image, to := io.Pipe()
	go func() {
		_, err := from.WriteTo(to)
		_ = to.CloseWithError(err) // never fails
	}()
	return image
}

// writeState writes the state of an image into a directory, and adds what carried over to done.
func (e *exporter) writeState(image io.Reader, done cli.ExportResult, into string) (cli.ExportResult, error) {
	defer cli.NewProgress(e.streams, "writing ZooKeeper's files", 0).Done()
	state, l, err := migrate.ToZooKeeper(image, done.Term)
	if err == nil {
		err = state.Write(into)
	}
	done.Into, done.Nodes, done.Sessions = into, l.Nodes, l.Sessions
	done.RollcallSessions, done.RollcallEphemerals, done.OrphanNodes, done.TTLs = l.NativeSessions, l.NativeEphemerals,
		l.EndedNodes, l.TTLs
	done.UsedUpParents, done.UsedUpParent = l.UsedUpParents, l.UsedUpParent
	return done, err
}

// exportText describes the result for people.
func exportText(e cli.ExportResult) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Wrote %s and %s, up to index %d of term %d, into %s.\n", cli.FormatCount(e.Nodes, "node", "nodes"),
		cli.FormatCount(e.Sessions, "session", "sessions"), e.Index, e.Term, e.Into)
	if !e.Confirmed {
		b.WriteString("No leader had confirmed the backup: the last writes may be missing.\n")
	}
	if e.RollcallSessions > 0 {
		fmt.Fprintf(&b, "%s opened in Rollcall, and %s of theirs, will end: their clients get new sessions.\n",
			cli.FormatCount(e.RollcallSessions, "session", "sessions"), cli.FormatCount(e.RollcallEphemerals, "ephemeral node", "ephemeral nodes"))
	}
	if e.TTLs > 0 {
		fmt.Fprintf(&b, "%s: ZooKeeper needs extendedTypesEnabled=true, or it removes them when it starts.\n",
			cli.FormatCount(e.TTLs, "node with a time to live", "nodes with a time to live"))
	}
	if e.OrphanNodes > 0 {
		fmt.Fprintf(&b, "%s of sessions that have ended were left out.\n", cli.FormatCount(e.OrphanNodes, "node", "nodes"))
	}
	if e.UsedUpParents > 0 {
		fmt.Fprintf(&b, "%s (the first is %s): the numbers of ZooKeeper end at %d. ZooKeeper gives that number again, or the create fails. "+
			"Let clients use other parents.\n", cli.FormatCount(e.UsedUpParents, "parent with longer sequential names", "parents with longer sequential names"),
			screentext.Escape(e.UsedUpParent), jute.MaxZooKeeperSequence)
	}
	b.WriteString("Copy the directory to each server's dataDir, add the server's myid, and start ZooKeeper.\n")
	return b.String()
}
