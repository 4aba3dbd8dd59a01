package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/operator/backup"
	"rollcall/znode"
)

// verifiedRow is a backup that was checked, as JSON has it.
type verifiedRow struct {
	File      string    `json:"file"`
	Sound     bool      `json:"sound"`
	Reason    string    `json:"why"` // it is not sound
	Time      time.Time `json:"time"`
	Confirmed bool      `json:"confirmed"` // a leader has confirmed that no write is missing
	AsOf      time.Time `json:"as_of"`     // the log's time of the last entry
	Index     uint64    `json:"index"`
	Nodes     int       `json:"nodes"`
	Size      int64     `json:"size"`
	Digest    string    `json:"digest"`
}

var verifiedColumns = []Column[verifiedRow]{
	{Name: "sound", Cell: func(r verifiedRow) string { return map[bool]string{true: "yes", false: "NO"}[r.Sound] }, Tint: func(r verifiedRow) Tint { return map[bool]Tint{true: Green, false: Red}[r.Sound] }},
	{Name: "confirmed", Cell: formatConfirmed, Tint: func(r verifiedRow) Tint { return map[bool]Tint{true: Plain, false: Yellow}[r.Confirmed] }},
	{Name: "as of", Cell: formatVerifiedAsOf},
	{Name: "index", AlignRight: true, Cell: func(r verifiedRow) string { return fmt.Sprint(r.Index) }},
	{Name: "nodes", AlignRight: true, Cell: func(r verifiedRow) string { return fmt.Sprint(r.Nodes) }},
	{Name: "size", AlignRight: true, Cell: func(r verifiedRow) string { return FormatSize(r.Size) }},
	{Name: "digest", WideOnly: true, Cell: func(r verifiedRow) string { return orDash(r.Digest) }},
	{Name: "file", Cell: func(r verifiedRow) string { return r.File }},
	{Name: "why", Cell: func(r verifiedRow) string { return r.Reason }},
}

// formatConfirmed says whether a leader has confirmed the backup, or "-" if its head cannot be read.
func formatConfirmed(r verifiedRow) string {
	if r.AsOf.IsZero() {
		return unknownText
	}
	return map[bool]string{true: "yes", false: "NO"}[r.Confirmed]
}

// formatVerifiedAsOf returns the log's time of the last entry, or "-" if the head cannot be read.
func formatVerifiedAsOf(r verifiedRow) string {
	if r.AsOf.IsZero() {
		return unknownText
	}
	return formatSecond(r.AsOf)
}

// newBackupVerify returns the command that checks backups.
func newBackupVerify(w IOStreams) *cobra.Command {
	out := NewOutput(w)
	cmd := &cobra.Command{
		Use: "verify [flags] FILE|DIRECTORY...", Short: "check that backups are whole and unchanged", Args: RangeArgs(1, -1, "files, or directories with backups"),
		Long: "Reads whole backups, or all that end in " + backup.Suffix + " in a directory, and makes every check that a restore makes: checksums, the order and the kinds of nodes, their sessions, " +
			"and the digest of the state. It asks no member, and needs little memory. It also prints whether a leader has confirmed the backup, and the time of its last entry in the log. If a backup is not sound, the exit status is 1.",
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := backupFiles(w, args)
			if err != nil {
				return fmt.Errorf("backup verify: %w", err)
			}
			bad := 0
			err = PrintRows(out, verifiedColumns, func(yield func(verifiedRow, error) bool) {
				for _, file := range files {
					row, err := verifyFile(cmd.Context(), w, file)
					if !row.Sound {
						bad++
					}
					if !yield(row, err) || err != nil {
						return
					}
				}
			})
			if err == nil && bad > 0 {
				err = fmt.Errorf("%d of %d backups cannot be used", bad, len(files))
			}
			if err != nil {
				return fmt.Errorf("backup verify: %w", err)
			}
			return nil
		},
	}
	out.Register(cmd)
	return cmd
}

// backupFiles returns the files that arguments mean. It says how many others are in their directories.
func backupFiles(w IOStreams, args []string) (files []string, err error) {
	for _, arg := range args {
		info, err := os.Stat(arg)
		switch {
		case err != nil:
			return nil, err
		case !info.IsDir():
			files = append(files, arg)
			continue
		}
		entries, err := os.ReadDir(arg)
		if err != nil {
			return nil, err
		}
		before, others := len(files), 0
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), backup.Suffix) {
				files = append(files, filepath.Join(arg, e.Name()))
			} else if !e.IsDir() {
				others++
			}
		}
		if len(files) == before {
			return nil, fmt.Errorf("%s: no file in this directory ends in %s", arg, backup.Suffix)
		}
		if others > 0 {
			warnf(w, "backup verify: %s: not read: %s not ending in %s", arg, formatCount(others, "file", "files"), backup.Suffix)
		}
	}
	return files, nil
}

// verifyFile checks one backup. The error is that of the command, if it is to end.
func verifyFile(ctx context.Context, w IOStreams, file string) (verifiedRow, error) {
	if err := ctx.Err(); err != nil {
		return verifiedRow{}, errors.New("stopped before all were checked")
	}
	row, err := readBackup(w, file, znode.ImageVisitor{})
	v := verifiedRow{File: file, Sound: err == nil, Time: row.Time, Confirmed: row.Confirmed, AsOf: row.AsOf, Index: row.Index, Nodes: row.Nodes, Size: row.Size, Digest: row.Digest}
	if err != nil {
		v.Reason = withoutFileName(err)
	}
	return v, nil
}

// withoutFileName returns an error without the name of the file in front, which is in a column of its own.
func withoutFileName(err error) string {
	if inner := errors.Unwrap(err); inner != nil {
		return inner.Error()
	}
	return err.Error()
}
