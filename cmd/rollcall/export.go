package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"rollcall/cli"
	"rollcall/config"
	"rollcall/crossing"
	"rollcall/member"
	"rollcall/quorum/disk"
	"rollcall/znode"
)

// newExport returns the command that writes a member's data for ZooKeeper.
func newExport(w cli.World) *cobra.Command {
	var flags memberFlags
	file := ""
	cmd := &cobra.Command{
		Use: "export [flags] OUTDIR", Short: "write a stopped member's data for ZooKeeper", GroupID: cli.Run, Args: cli.Takes(1, 1, "one folder"),
		Long: "Writes the state of a stopped member as a folder from which ZooKeeper 3.6 to 3.9 starts: OUTDIR, which must be empty or missing, is then a dataDir for each server. " +
			"Stop all members first and take the one whose data go furthest. Sessions that were opened in ZooKeeper keep their clients. Sessions that were opened in Rollcall do not, because ZooKeeper " +
			"computes passwords from ids: their clients get new sessions. docs/moving-in.md has the steps.",
		RunE: func(_ *cobra.Command, args []string) error {
			if file == "" {
				return cli.With(cli.WrongUse, errors.New("export: --config names no zoo.cfg of the member"))
			}
			cfg, log, err := flags.configured(w, "export", []string{file})
			if err != nil {
				return err
			}
			if err := export(w, cfg, log.Logger(), args[0]); err != nil {
				return fmt.Errorf("export: %w", err)
			}
			return nil
		},
	}
	flags.register(cmd)
	cmd.Flags().StringVar(&file, "config", "", "`zoo.cfg` of the member")
	return cmd
}

// export writes the state of the member of a configuration.
func export(w cli.World, cfg config.Config, logger *slog.Logger, out string) error {
	reading := cli.NewProgress(w, "reading the member's files", 0)
	snapshot, extent, err := member.Stopped(cfg.Dir, cfg.LogDir, logger)
	reading.Done()
	if err != nil {
		return err
	}
	writing := cli.NewProgress(w, "writing ZooKeeper's files", 0)
	losses, err := writeForZooKeeper(snapshot, extent.Term, out)
	writing.Done()
	if err != nil {
		return err
	}
	_, err = io.WriteString(w.Out, exportText(extent, losses, out))
	return err
}

// writeForZooKeeper writes a state into an empty folder.
func writeForZooKeeper(snapshot *znode.Snapshot, term uint64, out string) (crossing.Losses, error) {
	image, to := io.Pipe()
	go func() { // ends when all is written, or at the latest when image is closed
		_, err := snapshot.WriteTo(to)
		_ = to.CloseWithError(err) // never fails
	}()
	state, losses, err := crossing.Back(image, term)
	_ = image.Close() // never fails
	if err != nil {
		return losses, err
	}
	return losses, state.Write(out)
}

// exportText says what was written, and what was not.
func exportText(e disk.Extent, l crossing.Losses, out string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Wrote %s and %s, up to index %d of term %d, into %s.\n", countOf(l.Nodes, "node"), countOf(l.Sessions, "session"), e.Index, e.Term, out)
	if l.Born > 0 {
		fmt.Fprintf(&b, "%s opened in Rollcall, and %s of theirs, will end: their clients get new sessions.\n", countOf(l.Born, "session"), countOf(l.BornEphemerals, "ephemeral node"))
	}
	if l.TTLs > 0 {
		fmt.Fprintf(&b, "%s: ZooKeeper needs extendedTypesEnabled=true, or it removes them when it starts.\n", countOf(l.TTLs, "node with a time to live"))
	}
	if l.Ended > 0 {
		fmt.Fprintf(&b, "%s of sessions that have ended were left out.\n", countOf(l.Ended, "node"))
	}
	b.WriteString("Copy the folder to each server's dataDir, add the server's myid, and start ZooKeeper.\n")
	return b.String()
}
