package cli

import (
	"bytes"
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

// maxBackupSilence is for how long a member may send nothing of a backup: longer than its writes take on a disk
// that is slow, and than a pause of its process that its ensemble survives.
const maxBackupSilence = 30 * time.Second

// newBackupSave returns the command that makes a backup.
func newBackupSave(w IOStreams) *cobra.Command {
	link, out, rate, unconfirmed := NewLink(w), NewOutput(w), backupRate(0), false
	cmd := &cobra.Command{
		Use: "save [flags] FILE|DIRECTORY|-", Short: "save the whole state of an ensemble to a file", Args: RangeArgs(1, 1, "a file, a directory, or - for standard output"),
		Long: "Asks the member of this machine for a backup: the state of the whole ensemble at one index of the log, with all nodes and sessions. It checks the backup while it arrives. " +
			"The name of a file must be new. The file gets it only when it is whole and on the disk. In a directory, which must exist, the name has the time and the index. Of the files in a directory, rollcall backup verify reads those that end in " + backup.Suffix + ". " +
			"The backup has all data, and the passwords of sessions: keep it as secret as the ensemble. " +
			"If no leader confirms that the member has the last writes, the command saves nothing, unless --unconfirmed is given. It needs the credentials of an administrator.",
		Example: "  rollcall backup save --token-file /etc/rollcall/token /var/backups/\n  rollcall backup save --token-file /etc/rollcall/token - | zstd >rollcall.backup.zst",
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "-" && w.OutTerminal {
				return WithStatus(UsageError, errors.New("backup save: a backup is no text for a terminal; give a file or a directory, or redirect the output"))
			}
			if w.LowerPriority != nil {
				w.LowerPriority() // the backup is checked while it arrives, which takes more processor time than the member needs for it
			}
			s := &backupSave{streams: w, query: url.Values{}, allowUnconfirmed: unconfirmed}
			if rate != 0 {
				s.query.Set("rate", rate.String())
			}
			row, err := s.saveTo(cmd.Context(), link, args[0])
			if err != nil {
				return fmt.Errorf("backup save: %w", err)
			}
			if !row.Confirmed {
				warnf(w, "backup save: saved, but no leader has confirmed this backup: it is as of %s, and the last writes may be missing", formatSecond(row.AsOf))
			}
			if args[0] == "-" {
				return nil // the output has the backup
			}
			return printRow(out, backupColumns, row)
		},
	}
	WithOut(cmd, "`file`, directory, or - for standard output, in place of the argument")
	cmd.Flags().Var(&rate, "rate", fmt.Sprintf("the most `MiB` in a second, 1 to %d (default 8)", backup.MaxRate))
	cmd.Flags().BoolVar(&unconfirmed, "unconfirmed", false, "also save a backup that no leader has confirmed")
	link.Register(cmd)
	out.Register(cmd)
	return cmd
}

// backupRate is the flag --rate, in MiB in a second. If it is 0, the flag is not given.
type backupRate int

// Set implements pflag.Value.
func (r *backupRate) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > backup.MaxRate {
		return fmt.Errorf("allowed is a number of MiB from 1 to %d, such as 5", backup.MaxRate)
	}
	*r = backupRate(n)
	return nil
}

// String implements pflag.Value.
func (r *backupRate) String() string { return strconv.Itoa(int(*r)) }

// Type implements pflag.Value.
func (r *backupRate) Type() string { return "MiB" }

// errUnconfirmed says that a backup may lack writes that were acknowledged before it began.
var errUnconfirmed = errors.New("no leader has confirmed that this member has the last writes; ask a member that follows a leader, or add --unconfirmed to save what this one has")

// backupSave is a backup that is being saved.
type backupSave struct {
	streams          IOStreams
	query            url.Values
	allowUnconfirmed bool  // a backup that no leader has confirmed is saved, too
	allowRemoved     bool  // likewise one of a member that was removed from the ensemble
	writeErr         error // the error of the file
}

// saveTo asks for a backup and saves it to target. It passes over members that were removed from the ensemble. If no other member answers
// and --unconfirmed is given, it saves the backup of a removed one.
func (s *backupSave) saveTo(ctx context.Context, link *Link, target string) (row backupRow, err error) {
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

// saveFrom asks one member for a backup and saves it.
func (s *backupSave) saveFrom(ctx context.Context, admin *api.Client, to destination) (row backupRow, err error) {
	ctx, quiet := context.WithCancelCause(ctx)
	defer quiet(nil)
	err = admin.GetStream(ctx, "backup", s.query, func(body io.Reader) error {
		row, err = s.receiveBackup(&idleTimeoutReader{body: body, cancel: quiet}, to, func() error { return s.checkUnconfirmed(ctx, admin) })
		return err
	})
	var refused *api.Error
	var nobody *unreachableError
	switch {
	case err == nil:
		return row, nil
	case s.writeErr != nil:
		return row, s.writeErr
	case context.Cause(ctx) != nil:
		return row, fmt.Errorf("%s: nothing was saved: %w", admin.BaseURL, context.Cause(ctx))
	case errors.Is(err, errUnconfirmed), errors.Is(err, errRemovedState):
		return row, WithStatus(Unavailable, fmt.Errorf("%s: nothing was saved: %w", admin.BaseURL, err))
	case errors.As(err, &refused), errors.As(err, &nobody):
		return row, withAdviceAt(admin.BaseURL, err)
	}
	return row, fmt.Errorf("%s: nothing was saved: %w; if the member has stopped, ask another one", admin.BaseURL, WithAdvice(err))
}

// checkUnconfirmed returns nil if a backup of a member is saved that no leader has confirmed, or why it is not.
func (s *backupSave) checkUnconfirmed(ctx context.Context, admin *api.Client) error {
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

// receiveBackup saves a backup that arrives. If no leader has confirmed it, unconfirmed returns an error unless it is to be saved.
func (s *backupSave) receiveBackup(body io.Reader, to destination, unconfirmed func() error) (row backupRow, err error) {
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
		row.Size, err = in.Verify(znode.ImageVisitor{})
	}
	if err != nil {
		return row, errors.Join(err, to.abort())
	}
	row.File, s.writeErr = to.commit(row.Head)
	return row, s.writeErr
}

// countingWriter writes what arrives, counts it, and keeps the error.
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

// idleTimeoutReader reads from another reader, and ends the request if nothing arrives for backupSilence.
type idleTimeoutReader struct {
	body   io.Reader
	cancel context.CancelCauseFunc
}

func (l *idleTimeoutReader) Read(p []byte) (int, error) {
	over := time.AfterFunc(maxBackupSilence, func() { l.cancel(fmt.Errorf("the member has sent nothing for %v", maxBackupSilence)) })
	defer over.Stop()
	return l.body.Read(p)
}

// destination is where a backup is saved.
type destination interface {
	open() (io.Writer, error)
	commit(backup.Head) (name string, err error)
	abort() error
}

// parseDestination returns the destination that an argument means.
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
		return nil, WithStatus(UsageError, fmt.Errorf("%s: there is no such directory; make it, or leave out the slash at the end for a new file", target))
	case errors.Is(err, os.ErrNotExist):
		return &fileDestination{dir: filepath.Dir(target), name: filepath.Base(target)}, nil
	}
	return nil, err
}

// stdoutDestination is standard output.
type stdoutDestination struct{ out io.Writer }

func (o stdoutDestination) open() (io.Writer, error)           { return o.out, nil }
func (o stdoutDestination) commit(backup.Head) (string, error) { return "-", nil }
func (o stdoutDestination) abort() error                       { return nil }

// fileDestination is a file, or a new one in a directory.
type fileDestination struct {
	dir, name string // name is "" for one that the head gives
	partFile  *backup.PartFile
}

func (f *fileDestination) open() (out io.Writer, err error) {
	name := f.name
	if name == "" {
		name = "rollcall"
	}
	f.partFile, err = backup.CreatePart(f.dir, name)
	return f.partFile, err
}

func (f *fileDestination) commit(h backup.Head) (string, error) {
	if f.name == "" {
		f.name = backup.FileName(h)
	}
	return filepath.Join(f.dir, f.name), f.partFile.Commit(f.name)
}

func (f *fileDestination) abort() error { return f.partFile.Abort() }
