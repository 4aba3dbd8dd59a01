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

// backupSilence is for how long a member may send nothing of a backup: longer than its writes take on a disk
// that is slow, and than a pause of its process that its ensemble survives.
const backupSilence = 30 * time.Second

// newBackupSave returns the command that makes a backup.
func newBackupSave(w World) *cobra.Command {
	link, out, rate, unconfirmed := NewLink(w), NewOutput(w), backupRate(0), false
	cmd := &cobra.Command{
		Use: "save [flags] FILE|DIRECTORY|-", Short: "save the whole state of an ensemble to a file", Args: Takes(1, 1, "a file, a directory, or - for standard output"),
		Long: "Asks the member of this machine for a backup: the state of the whole ensemble at one index of the log, with all nodes and sessions. It checks the backup while it arrives. " +
			"The name of a file must be new. The file gets it only when it is whole and on the disk. In a directory, which must exist, the name has the time and the index. Of the files in a directory, rollcall backup verify reads those that end in " + backup.Suffix + ". " +
			"The backup has all data, and the passwords of sessions: keep it as secret as the ensemble. " +
			"If no leader confirms that the member has the last writes, the command saves nothing, unless --unconfirmed is given. It needs the credentials of an administrator.",
		Example: "  rollcall backup save --token-file /etc/rollcall/token /var/backups/\n  rollcall backup save --token-file /etc/rollcall/token - | zstd >rollcall.backup.zst",
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "-" && w.OutTerminal {
				return With(WrongUse, errors.New("backup save: a backup is no text for a terminal; give a file or a directory, or redirect the output"))
			}
			if w.Behind != nil {
				w.Behind() // the backup is checked while it arrives, which takes more processor time than the member needs for it
			}
			s := &saving{w: w, query: url.Values{}, unconfirmed: unconfirmed}
			if rate != 0 {
				s.query.Set("rate", rate.String())
			}
			row, err := s.save(cmd.Context(), link, args[0])
			if err != nil {
				return fmt.Errorf("backup save: %w", err)
			}
			if !row.Confirmed {
				warn(w, "backup save: saved, but no leader has confirmed this backup: it is as of %s, and the last writes may be missing", moment(row.AsOf))
			}
			if args[0] == "-" {
				return nil // the output has the backup
			}
			return printOne(out, backupColumns, row)
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

// saving is a backup that is being saved.
type saving struct {
	w           World
	query       url.Values
	unconfirmed bool  // a backup that no leader has confirmed is saved, too
	removed     bool  // likewise one of a member that was removed from the ensemble
	wrote       error // the error of the file
}

// save asks for a backup and saves it to target. It passes over members that were removed from the ensemble. If no other member answers
// and --unconfirmed is given, it saves the backup of a removed one.
func (s *saving) save(ctx context.Context, link *Link, target string) (row backupRow, err error) {
	to, err := destinationOf(s.w, target)
	if err != nil {
		return row, err
	}
	by := func(admin *api.Client) error {
		row, err = s.by(ctx, admin, to)
		return err
	}
	if err = link.inEnsemble(ctx, by); errors.Is(err, errOldState) && s.unconfirmed {
		s.removed = true
		err = link.inEnsemble(ctx, by)
	}
	return row, err
}

// by asks one member for a backup and saves it.
func (s *saving) by(ctx context.Context, admin *api.Client, to destination) (row backupRow, err error) {
	ctx, quiet := context.WithCancelCause(ctx)
	defer quiet(nil)
	err = admin.GetStream(ctx, "backup", s.query, func(body io.Reader) error {
		row, err = s.receive(&lively{from: body, quiet: quiet}, to, func() error { return s.checkUnconfirmed(ctx, admin) })
		return err
	})
	var refused *api.Error
	var nobody *unreached
	switch {
	case err == nil:
		return row, nil
	case s.wrote != nil:
		return row, s.wrote
	case context.Cause(ctx) != nil:
		return row, fmt.Errorf("%s: nothing was saved: %w", admin.BaseURL, context.Cause(ctx))
	case errors.Is(err, errUnconfirmed), errors.Is(err, errOldState):
		return row, With(NoMember, fmt.Errorf("%s: nothing was saved: %w", admin.BaseURL, err))
	case errors.As(err, &refused), errors.As(err, &nobody):
		return row, explainedAt(admin.BaseURL, err)
	}
	return row, fmt.Errorf("%s: nothing was saved: %w; if the member has stopped, ask another one", admin.BaseURL, Explained(err))
}

// checkUnconfirmed returns nil if a backup of a member is saved that no leader has confirmed, or why it is not.
func (s *saving) checkUnconfirmed(ctx context.Context, admin *api.Client) error {
	if !s.removed {
		if m, err := api.Get[api.Members](ctx, admin, "members", nil); err == nil && m.Removed {
			return errOldState
		}
	}
	if !s.unconfirmed {
		return errUnconfirmed
	}
	return nil
}

// receive saves a backup that arrives. If no leader has confirmed it, unconfirmed returns an error unless it is to be saved.
func (s *saving) receive(body io.Reader, to destination, unconfirmed func() error) (row backupRow, err error) {
	out, err := to.open()
	if err != nil {
		s.wrote = err
		return row, err
	}
	progress := NewProgress(s.w, "MiB of the backup", 0)
	defer progress.Done()
	var first bytes.Buffer // what is read with the head; the output gets it if the head is accepted
	c := &counter{s, &first, progress, 0}
	in, err := backup.NewReader(io.TeeReader(body, c))
	if err == nil && !in.Head.Confirmed {
		err = unconfirmed()
	}
	if err == nil {
		c.out = out
		_, err = first.WriteTo(out)
		s.wrote = err
	}
	if err == nil {
		row.Head = in.Head
		row.Size, err = in.Verify(znode.ImageVisitor{})
	}
	if err != nil {
		return row, errors.Join(err, to.abort())
	}
	row.File, s.wrote = to.commit(row.Head)
	return row, s.wrote
}

// counter writes what arrives, counts it, and keeps the error.
type counter struct {
	saving   *saving
	out      io.Writer
	progress *Progress
	part     int // bytes that are not counted yet
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.out.Write(p)
	if err != nil {
		c.saving.wrote = err
	}
	c.part += n
	c.progress.Add(c.part >> 20)
	c.part &= 1<<20 - 1
	return n, err
}

// lively reads from another reader, and ends the request if nothing arrives for backupSilence.
type lively struct {
	from  io.Reader
	quiet context.CancelCauseFunc
}

func (l *lively) Read(p []byte) (int, error) {
	over := time.AfterFunc(backupSilence, func() { l.quiet(fmt.Errorf("the member has sent nothing for %v", backupSilence)) })
	defer over.Stop()
	return l.from.Read(p)
}

// destination is where a backup is saved.
type destination interface {
	open() (io.Writer, error)
	commit(backup.Head) (name string, err error)
	abort() error
}

// destinationOf returns the destination that an argument means.
func destinationOf(w World, target string) (destination, error) {
	if target == "-" {
		return toOutput{w.Out}, nil
	}
	info, err := os.Stat(target)
	switch {
	case err == nil && info.IsDir():
		return &toFile{dir: target}, nil
	case err == nil:
		return nil, fmt.Errorf("%s: %w", target, backup.ErrExists)
	case errors.Is(err, os.ErrNotExist) && strings.HasSuffix(target, string(filepath.Separator)):
		return nil, With(WrongUse, fmt.Errorf("%s: there is no such directory; make it, or leave out the slash at the end for a new file", target))
	case errors.Is(err, os.ErrNotExist):
		return &toFile{dir: filepath.Dir(target), name: filepath.Base(target)}, nil
	}
	return nil, err
}

// toOutput is standard output.
type toOutput struct{ out io.Writer }

func (o toOutput) open() (io.Writer, error)           { return o.out, nil }
func (o toOutput) commit(backup.Head) (string, error) { return "-", nil }
func (o toOutput) abort() error                       { return nil }

// toFile is a file, or a new one in a directory.
type toFile struct {
	dir, name string // name is "" for one that the head gives
	part      *backup.PartFile
}

func (f *toFile) open() (out io.Writer, err error) {
	name := f.name
	if name == "" {
		name = "rollcall"
	}
	f.part, err = backup.CreatePart(f.dir, name)
	return f.part, err
}

func (f *toFile) commit(h backup.Head) (string, error) {
	if f.name == "" {
		f.name = backup.FileName(h)
	}
	return filepath.Join(f.dir, f.name), f.part.Commit(f.name)
}

func (f *toFile) abort() error { return f.part.Abort() }
