package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/operator/api"
	"rollcall/operator/backup"
	"rollcall/znode"
)

// maxBackupSilence bounds a pause in the stream. It is longer than a write takes on a slow disk, and longer
// than a pause of the process that its ensemble survives.
const maxBackupSilence = 30 * time.Second

func newBackupSave(w IOStreams) *cobra.Command {
	a, rate, unconfirmed, moment := newAdminCommand(w), 0, false, &pastFlags{}
	cmd := a.registerFlags(&cobra.Command{
		Use: "save [flags] FILE|DIRECTORY|-", Short: "save the whole state of an ensemble to a file",
		Args: RangeArgs(1, 1, "a file, a directory, or - for standard output"),
		Long: "Asks the member of this machine for a backup: the state of the whole ensemble at one index of the log, " +
			"with all nodes and sessions. It checks the backup while it arrives. " +
			"The name of a file must be new. The file gets it only when it is whole and on the disk. In a directory, which " +
			"must exist, the name has the time and the index, and ends in " + backup.Suffix + ". " +
			"The backup has all data, and the passwords of sessions: keep it as secret as the ensemble. " +
			"If no leader confirms that the member has the last writes, the command saves nothing, unless --unconfirmed is " +
			"given. It needs an administrator's credentials.\n\nWith --at, it builds the state as it was at that moment from the log that a " +
			"member keeps, or from an archive, and saves that.",
		Example: "  rollcall backup save --token-file /etc/rollcall/token /var/backups/\n  rollcall backup save " +
			"--token-file /etc/rollcall/token - | zstd >rollcall.backup.zst\n  rollcall backup save --at 2026-03-01T03:12:00Z " +
			"--archive /mnt/archive before.backup",
		RunE: PrefixErrors(func(cmd *cobra.Command, args []string) error {
			if args[0] == "-" && w.OutTerminal {
				return UsageError.Errorf("a backup is no text for a terminal; give a file or a directory, or redirect " +
					"the output")
			}
			if moment.isSet() {
				row, err := savePast(cmd.Context(), a, moment, args[0])
				if err != nil || args[0] == "-" {
					return err
				}
				return printRow(a.output, backupColumns, row)
			}
			if w.LowerPriority != nil {
				// the backup is checked while it arrives, which takes more processor time than the member needs for it
				w.LowerPriority()
			}
			s := &backupSave{streams: w, query: url.Values{}, allowUnconfirmed: unconfirmed}
			if rate != 0 {
				s.query.Set("rate", strconv.Itoa(rate))
			}
			row, err := s.saveTo(cmd.Context(), a.ensemble, args[0])
			if err != nil {
				return err
			}
			if !row.Confirmed {
				warnf(w, "backup save: saved, but no leader has confirmed this backup: it is as of %s, and the last writes may "+
					"be missing", formatSecond(row.AsOf))
			}
			if args[0] == "-" {
				return nil // the output has the backup
			}
			return printRow(a.output, backupColumns, row)
		}),
	})
	moment.registerMoment(cmd, "save the state as it was at this `moment`: ")
	AddOutFlag(cmd, "`file`, directory, or - for standard output, in place of the argument")
	addIntFlag(cmd, &rate, "rate", fmt.Sprintf("the most `MiB` in a second, 1 to %d (default 8)", backup.MaxRate), 1,
		backup.MaxRate)
	cmd.Flags().BoolVar(&unconfirmed, "unconfirmed", false, "also save a backup that no leader has confirmed")
	return cmd
}

// errUnconfirmed is the error of a backup that may lack writes acknowledged before it began.
var errUnconfirmed = errors.New("no leader has confirmed that this member has the last writes; ask a member that " +
	"follows a leader, or add --unconfirmed to save what this one has")

type backupSave struct {
	streams          IOStreams
	query            url.Values
	allowUnconfirmed bool  // a backup that no leader has confirmed is saved, too
	allowRemoved     bool  // likewise one of a member that was removed from the ensemble
	writeErr         error // the error of the file
}

// saveTo saves a backup to target. It skips members that were removed from the ensemble. If no other member
// replies and --unconfirmed is given, it saves the backup of a removed one.
func (s *backupSave) saveTo(ctx context.Context, link *EnsembleFlags, target string) (row backupRow, err error) {
	to, err := parseDestination(s.streams, target)
	if err != nil {
		return row, err
	}
	by := func(admin *api.Client) error {
		row, err = s.saveFrom(ctx, admin, to)
		return err
	}
	if err = link.callInEnsemble(ctx, by); errors.Is(err, errRemovedState) && s.allowUnconfirmed {
		s.allowRemoved = true
		err = link.callInEnsemble(ctx, by)
	}
	return row, err
}

func (s *backupSave) saveFrom(ctx context.Context, admin *api.Client, to destination) (row backupRow, err error) {
	ctx, quiet := context.WithCancelCause(ctx)
	defer quiet(nil)
	err = admin.GetStream(ctx, "backup", s.query, func(body io.Reader) error {
		row, err = s.receiveBackup(&idleTimeoutReader{body: body, cancel: quiet}, to,
			func() error { return s.checkMaySaveUnconfirmed(ctx, admin) })
		return err
	})
	var apiErr *api.Error
	var unreachable *unreachableError
	switch {
	case err == nil:
		return row, nil
	case s.writeErr != nil:
		return row, s.writeErr
	case context.Cause(ctx) != nil:
		return row, fmt.Errorf("%s: nothing was saved: %w", admin.Name(), context.Cause(ctx))
	case errors.Is(err, errUnconfirmed), errors.Is(err, errRemovedState):
		return row, Unavailable.Errorf("%s: nothing was saved: %w", admin.Name(), err)
	case errors.As(err, &apiErr), errors.As(err, &unreachable):
		return row, withAdviceAt(admin.Name(), err)
	}
	return row, fmt.Errorf("%s: nothing was saved: %w; if the member has stopped, ask another one", admin.Name(),
		WithAdvice(err))
}

func (s *backupSave) checkMaySaveUnconfirmed(ctx context.Context, admin *api.Client) error {
	if !s.allowRemoved {
		if m, err := api.Get[api.Members](ctx, admin, "members", nil); err == nil && m.WasRemoved {
			return errRemovedState
		}
	}
	if !s.allowUnconfirmed {
		return errUnconfirmed
	}
	return nil
}

// receiveBackup saves an arriving backup. If no leader confirmed it, receiveBackup returns the error of
// unconfirmed.
func (s *backupSave) receiveBackup(body io.Reader, to destination, unconfirmed func() error) (row backupRow,
	err error,
) {
	out, err := to.open()
	if err != nil {
		s.writeErr = err
		return row, err
	}
	progress := NewProgress(s.streams, "MiB of the backup", 0)
	defer progress.Done()
	var first bytes.Buffer // what is read with the head; the output gets it if the head is accepted
	c := &countingWriter{s, &first, progress, 0}
	in, err := backup.NewReader(io.TeeReader(body, c))
	if err == nil && !in.Head.Confirmed {
		err = unconfirmed()
	}
	if err == nil {
		c.out = out
		_, err = first.WriteTo(out)
		s.writeErr = err
	}
	if err == nil {
		row.Head = in.Head
		row.Size, err = in.VerifyRest(znode.ImageVisitor{})
	}
	if err != nil {
		return row, errors.Join(err, to.abort())
	}
	row.File, s.writeErr = to.commit(row.Head)
	return row, s.writeErr
}

// countingWriter shows the written MiB as progress, and keeps the write error.
type countingWriter struct {
	saving    *backupSave
	out       io.Writer
	progress  *Progress
	uncounted int // bytes that are not counted yet
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.out.Write(p)
	if err != nil {
		c.saving.writeErr = err
	}
	c.uncounted += n
	c.progress.Add(c.uncounted >> 20)
	c.uncounted &= 1<<20 - 1
	return n, err
}

type idleTimeoutReader struct {
	body   io.Reader
	cancel context.CancelCauseFunc
}

func (l *idleTimeoutReader) Read(p []byte) (int, error) {
	over := time.AfterFunc(maxBackupSilence,
		func() { l.cancel(fmt.Errorf("the member has sent nothing for %v", maxBackupSilence)) })
	defer over.Stop()
	return l.body.Read(p)
}

type destination interface {
	open() (io.Writer, error)
	commit(backup.Head) (name string, err error)
	abort() error
}

func parseDestination(w IOStreams, target string) (destination, error) {
	if target == "-" {
		return stdoutDestination{w.Out}, nil
	}
	info, err := os.Stat(target)
	switch {
	case err == nil && info.IsDir():
		return &fileDestination{dir: target}, nil
	case err == nil:
		return nil, fmt.Errorf("%s: %w", target, backup.ErrExists)
	case errors.Is(err, os.ErrNotExist) && strings.HasSuffix(target, string(filepath.Separator)):
		return nil, UsageError.Errorf("%s: there is no such directory; make it, or leave out the slash at the end for a new file",
			target)
	case errors.Is(err, os.ErrNotExist):
		return &fileDestination{dir: filepath.Dir(target), name: filepath.Base(target)}, nil
	}
	return nil, err
}

type stdoutDestination struct{ out io.Writer }

func (o stdoutDestination) open() (io.Writer, error)           { return o.out, nil }
func (o stdoutDestination) commit(backup.Head) (string, error) { return "-", nil }
func (o stdoutDestination) abort() error                       { return nil }

// fileDestination is a file, or a new file in a directory.
type fileDestination struct {
	dir, name string // name is "" for one that the head gives
	partFile  *backup.PartFile
}

func (f *fileDestination) open() (out io.Writer, err error) {
	f.partFile, err = backup.CreatePart(f.dir, cmp.Or(f.name, "rollcall"))
	return f.partFile, err
}

func (f *fileDestination) commit(h backup.Head) (string, error) {
	f.name = cmp.Or(f.name, backup.FileName(h))
	return filepath.Join(f.dir, f.name), f.partFile.Commit(f.name)
}

func (f *fileDestination) abort() error { return f.partFile.Abort() }
