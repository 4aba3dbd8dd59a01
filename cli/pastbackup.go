package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"rollcall/operator/backup"
	"rollcall/znode"
)

// BackupSource is a state to restore: a backup, or a moment of the past.
type BackupSource struct {
	Name string // for users
	// Read reads and checks the whole state, and calls v with its parts. It may be called more than once.
	Read func(v znode.ImageVisitor) (backup.Head, error)
}

// BackupFile returns the state in a backup.
func BackupFile(w IOStreams, file string) BackupSource {
	return BackupSource{Name: file, Read: func(v znode.ImageVisitor) (backup.Head, error) {
		row, err := readBackup(w, file, v)
		return row.Head, err
	}}
}

// PastBackup is the part of rollcall backup restore that restores a moment of the past. Its flags are --at, --dir and --archive.
type PastBackup struct {
	streams  IOStreams
	ensemble *EnsembleFlags
	flags    pastFlags
}

// NewPastBackup returns a PastBackup.
func NewPastBackup(w IOStreams) *PastBackup {
	return &PastBackup{streams: w, ensemble: NewEnsembleFlags(w)}
}

// Register adds the flags to cmd.
func (p *PastBackup) Register(cmd *cobra.Command) {
	p.flags.registerMoment(cmd, "restore the state as it was at this `moment`, from --archive or --dir, instead of a backup: ")
}

// Requested reports whether a moment of the past is restored. The error is one of the flags.
func (p *PastBackup) Requested() (bool, error) {
	if p.flags.at != "" && p.flags.KeptLogPlace == (KeptLogPlace{}) {
		return false, UsageError.Errorf("backup restore: --at needs --archive or --dir; rollcall backup save --at reads what a member keeps")
	}
	return p.flags.isSet(), nil
}

// Open builds the state.
func (p *PastBackup) Open(ctx context.Context) (BackupSource, error) {
	copied, err := p.flags.copyState(ctx, p.ensemble)
	if err != nil {
		return BackupSource{}, err
	}
	head := headOfState(copied)
	return BackupSource{
		Name: fmt.Sprintf("the state after zxid 0x%x", uint64(head.Zxid)),
		Read: func(v znode.ImageVisitor) (backup.Head, error) {
			r, w := io.Pipe()
			go func() {
				_, err := copied.WriteTo(w)
				_ = w.CloseWithError(err) // it never fails
			}()
			_, _, err := znode.ReadImage(r, v)
			_ = r.Close() // likewise; it ends the goroutine
			return head, err
		},
	}, nil
}

// copyState builds the state that the flags select.
func (p *pastFlags) copyState(ctx context.Context, ensemble *EnsembleFlags) (*znode.Snapshot, error) {
	l, _, err := p.open(ctx, ensemble, false)
	if err != nil {
		return nil, err
	}
	l.State().RLock()
	defer l.State().RUnlock()
	return l.State().Snapshot(), nil
}

// headOfState returns the head of a backup of a state of the past. Its time is that of the state, and no member has made it.
func headOfState(s *znode.Snapshot) backup.Head {
	h, tree := s.Head(), s.TreeView()
	return backup.Head{
		Servers: backup.ServersOf(h.ServerList.Servers), Time: time.UnixMilli(h.TimeMs).UTC(), AsOf: time.UnixMilli(h.TimeMs).UTC(), Index: h.Index, Term: h.Term.Term, Zxid: h.Zxid,
		Nodes: tree.NodeCount(), Sessions: int(h.SessionCount), DataBytes: tree.DataSize(), Digest: backup.FormatDigest(s.Digest()),
	}
}

// savePast saves a backup of the state that the flags select.
func savePast(ctx context.Context, a *adminCommand, flags *pastFlags, target string) (row backupRow, err error) {
	to, err := parseDestination(a.streams, target)
	if err != nil {
		return row, err
	}
	copied, err := flags.copyState(ctx, a.ensemble)
	if err != nil {
		return row, err
	}
	out, err := to.open()
	if err != nil {
		return row, err
	}
	row.Head = headOfState(copied)
	row.Size, err = writePast(out, row.Head, copied)
	if err != nil {
		return row, errors.Join(err, to.abort())
	}
	row.File, err = to.commit(row.Head)
	return row, err
}

func writePast(out io.Writer, head backup.Head, state *znode.Snapshot) (size int64, err error) {
	c := &sizeWriter{Writer: out}
	w, err := backup.NewWriter(c, head)
	if err != nil {
		return 0, err
	}
	_, err = state.WriteTo(w)
	return c.size, errors.Join(err, w.Close())
}

// sizeWriter counts the bytes that are written.
type sizeWriter struct {
	io.Writer
	size int64
}

// Write implements io.Writer.
func (s *sizeWriter) Write(b []byte) (int, error) {
	n, err := s.Writer.Write(b)
	s.size += int64(n)
	return n, err
}
