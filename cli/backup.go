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

func newBackup(w IOStreams) *cobra.Command {
	return newParentCommand("backup",
		"save the state of an ensemble to a file, check such files, and begin a new ensemble with one", ChangeGroup,
		"say save, inspect, verify or restore: rollcall backup save FILE, rollcall backup verify FILE",
		newBackupSave(w), newBackupInspect(w), newBackupVerify(w))
}

// backupRow is the head of a backup in JSON.
type backupRow struct {
	File string `json:"file"` // "-": it was written to standard output
	Size int64  `json:"size"` // of the file, in bytes
	backup.Head
}

var backupColumns = []Column[backupRow]{
	{Name: "file", Cell: func(r backupRow) string { return r.File + ", " + FormatSize(r.Size) }},
	{Name: "made", Cell: func(r backupRow) string {
		if r.Member == 0 {
			return "from a kept log, as of " + formatSecond(r.Time)
		}
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

func formatAsOf(r backupRow) string {
	if r.Member == 0 {
		return formatSecond(r.AsOf) + ", by the last entry of the log before the moment"
	}
	if r.Confirmed {
		return "the beginning of the backup: a leader has confirmed that no write is missing"
	}
	return formatSecond(r.AsOf) + ", by the last entry of the log: no leader has confirmed the backup, and the last " +
		"writes may be missing"
}

func formatSecond(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 MST") }

func formatServers(r backupRow) string {
	return orDash(JoinFunc(r.Servers, "  ", func(s backup.Server) string {
		return fmt.Sprintf("%d=%s %s %s", s.ID, s.Quorum, s.Election, orDash(s.Client))
	}))
}

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
	{
		Name: "sound", Cell: func(r verifiedRow) string { return yesOrNO(r.Sound) },
		Tint: func(r verifiedRow) Tint { return map[bool]Tint{true: Green, false: Red}[r.Sound] },
	},
	{
		Name: "confirmed", Cell: func(r verifiedRow) string { return r.textIfHeadRead(yesOrNO(r.Confirmed)) },
		Tint: func(r verifiedRow) Tint { return map[bool]Tint{true: Plain, false: Yellow}[r.Confirmed] },
	},
	{Name: "as of", Cell: func(r verifiedRow) string { return r.textIfHeadRead(formatSecond(r.AsOf)) }},
	{Name: "index", AlignRight: true, Cell: func(r verifiedRow) string { return fmt.Sprint(r.Index) }},
	{Name: "nodes", AlignRight: true, Cell: func(r verifiedRow) string { return fmt.Sprint(r.Nodes) }},
	{Name: "size", AlignRight: true, Cell: func(r verifiedRow) string { return FormatSize(r.Size) }},
	{Name: "digest", WideOnly: true, Cell: func(r verifiedRow) string { return orDash(r.Digest) }},
	{Name: "file", Cell: func(r verifiedRow) string { return r.File }},
	{Name: "why", Cell: func(r verifiedRow) string { return r.Reason }},
}

func yesOrNO(ok bool) string { return map[bool]string{true: "yes", false: "NO"}[ok] }

func (r verifiedRow) textIfHeadRead(text string) string {
	if r.AsOf.IsZero() {
		return unknownText
	}
	return text
}

func newBackupVerify(w IOStreams) *cobra.Command {
	out := NewOutput(w)
	return out.Register(&cobra.Command{
		Use: "verify [flags] FILE|DIRECTORY...", Short: "check that backups are whole and unchanged",
		Args: RangeArgs(1, -1, "files, or directories with backups"),
		Long: "Reads whole backups, or all that end in " + backup.Suffix +
			" in a directory, and makes every check that a restore makes: checksums, the order and the kinds of nodes, their " +
			"sessions, " +
			"and the digest of the state. It asks no member, and needs little memory. It also prints whether a leader has " +
			"confirmed the backup, and the time of its last entry in the log. If a backup is not sound, the exit status is 1.",
		RunE: PrefixErrors(func(cmd *cobra.Command, args []string) error {
			files, err := expandBackupPaths(w, args)
			if err != nil {
				return err
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
			return err
		}),
	})
}

// expandBackupPaths expands directories, and warns of the files in them that are not backups.
func expandBackupPaths(w IOStreams, args []string) (files []string, err error) {
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
			warnf(w, "backup verify: %s: not read: %s not ending in %s", arg, FormatCount(others, "file", "files"),
				backup.Suffix)
		}
	}
	return files, nil
}

func verifyFile(ctx context.Context, w IOStreams, file string) (verifiedRow, error) {
	if err := ctx.Err(); err != nil {
		return verifiedRow{}, errors.New("stopped before all were checked")
	}
	row, err := readBackup(w, file, znode.ImageVisitor{})
	v := verifiedRow{
		File: file, Sound: err == nil, Time: row.Time, Confirmed: row.Confirmed, AsOf: row.AsOf,
		Index: row.Index, Nodes: row.Nodes, Size: row.Size, Digest: row.Digest,
	}
	if err != nil {
		v.Reason = withoutFileName(err)
	}
	return v, nil
}

// withoutFileName removes the file name, which has its own column.
func withoutFileName(err error) string {
	if inner := errors.Unwrap(err); inner != nil {
		return inner.Error()
	}
	return err.Error()
}
