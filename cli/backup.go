package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"rollcall/operator/backup"
)

// newBackup returns the command about backups.
func newBackup(w IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use: "backup", Short: "save the state of an ensemble to a file, check such files, and begin a new ensemble with one", GroupID: ChangeGroup,
		Args: func(*cobra.Command, []string) error {
			return WithStatus(UsageError, errors.New("backup: say save, inspect, verify or restore: rollcall backup save FILE, rollcall backup verify FILE"))
		},
		RunE: func(*cobra.Command, []string) error { return nil }, // Args has refused
	}
	cmd.AddCommand(newBackupSave(w), newBackupInspect(w), newBackupVerify(w))
	return cmd
}

// backupRow is what a backup says of itself, as JSON has it.
type backupRow struct {
	File string `json:"file"` // "-": it was written to standard output
	Size int64  `json:"size"` // of the file, in bytes
	backup.Head
}

var backupColumns = []Column[backupRow]{
	{Name: "file", Cell: func(r backupRow) string { return r.File + ", " + FormatSize(r.Size) }},
	{Name: "made", Cell: func(r backupRow) string {
		return fmt.Sprintf("%s by member %d, rollcall %s", formatSecond(r.Time), r.Member, r.Program)
	}},
	{Name: "state", Cell: func(r backupRow) string {
		return fmt.Sprintf("index %d of term %d, zxid 0x%x, digest 0x%s", r.Index, r.Term, r.Zxid, r.Digest)
	}},
	{Name: "as of", Cell: formatAsOf},
	{Name: "nodes", Cell: func(r backupRow) string {
		return fmt.Sprintf("%d, with %s of paths and data", r.Nodes, FormatSize(r.DataBytes))
	}},
	{Name: "sessions", Cell: func(r backupRow) string { return fmt.Sprint(r.Sessions) }},
	{Name: "servers", Cell: formatServers},
}

// formatAsOf says how fresh the state was.
func formatAsOf(r backupRow) string {
	if r.Confirmed {
		return "the beginning of the backup: a leader has confirmed that no write is missing"
	}
	return formatSecond(r.AsOf) + ", by the last entry of the log: no leader has confirmed the backup, and the last writes may be missing"
}

// formatSecond returns a time for people, to the second.
func formatSecond(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 MST") }

// formatServers returns the server list, as in zoo.cfg.
func formatServers(r backupRow) string {
	text := ""
	for i, s := range r.Servers {
		if i > 0 {
			text += "  "
		}
		text += fmt.Sprintf("%d=%s %s %s", s.ID, s.Quorum, s.Election, orDash(s.Client))
	}
	return orDash(text)
}
