package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"rollcall/operator/backup"
	"rollcall/quorum/disk"
	"rollcall/quorum/history"
)

// partWriter cuts what is written into parts, each of which put stores. Close stores the last one.
type partWriter struct {
	put    func(number int, last bool, content []byte) error
	buffer bytes.Buffer
	number int
}

// Write implements io.Writer.
func (p *partWriter) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		if p.buffer.Len() == maxObjectBytes {
			if err := p.flush(false); err != nil {
				return n, err
			}
		}
		part := b[:min(len(b), maxObjectBytes-p.buffer.Len())]
		p.buffer.Write(part)
		n, b = n+len(part), b[len(part):]
	}
	return n, nil
}

func (p *partWriter) flush(last bool) error {
	p.number++
	err := p.put(p.number, last, p.buffer.Bytes())
	p.buffer.Reset()
	return err
}

// Close implements io.Closer.
func (p *partWriter) Close() error { return p.flush(true) }

// writeState sends a snapshot as a backup with a head. copyImage writes its image.
func writeState(w io.Writer, head backup.Head, copyImage func(io.Writer) error) error {
	z, err := history.NewCompressor(w)
	if err != nil {
		return err
	}
	b, err := backup.NewWriter(z, head)
	if err != nil {
		return errors.Join(err, z.Close())
	}
	if err := copyImage(b); err != nil {
		return err // nothing more is sent, so the snapshot has no end
	}
	return errors.Join(b.Close(), z.Close())
}

// partReader reads the parts of a snapshot, one after the other.
type partReader struct {
	ctx    context.Context
	store  Store
	state  state
	number int // of the part that is open
	part   io.ReadCloser
}

// Read implements io.Reader.
func (p *partReader) Read(b []byte) (int, error) {
	for {
		if p.part == nil {
			if p.number == p.state.parts {
				return 0, io.EOF
			}
			p.number++
			var err error
			if p.part, err = p.store.Open(p.ctx, p.state.partName(p.number, p.number == p.state.parts)); err != nil {
				return 0, err
			}
		}
		n, err := p.part.Read(b)
		if errors.Is(err, io.EOF) {
			err = p.Close()
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// Close implements io.Closer.
func (p *partReader) Close() error {
	if p.part == nil {
		return nil
	}
	err := p.part.Close()
	p.part = nil
	return err
}

// location names the part that was read last, or the directory.
func (p *partReader) location() string {
	if p.number == 0 {
		return p.store.Location(p.state.dir())
	}
	return p.store.Location(p.state.partName(p.number, p.number == p.state.parts))
}

// stateReader reads the image of a snapshot. Its errors name the part, and wrap disk.ErrDamaged if bytes have changed.
type stateReader struct {
	parts *partReader
	plain io.ReadCloser
	*backup.Reader
}

// openState opens a snapshot. The reader returns an error instead of the last bytes if the content is not whole, or not that of the
// name.
func openState(ctx context.Context, store Store, s state) (*stateReader, error) {
	r := &stateReader{parts: &partReader{ctx: ctx, store: store, state: s}}
	var err error
	if r.plain, err = history.Decompress(r.parts); err != nil {
		return nil, r.wrap(err)
	}
	if r.Reader, err = backup.NewReader(r.plain); err == nil {
		err = s.checkHead(r.Head)
	}
	if err != nil {
		return nil, errors.Join(r.wrap(err), r.Close())
	}
	return r, nil
}

func (s state) checkHead(h backup.Head) error {
	if h.Index != s.index || h.Digest != backup.FormatDigest(s.digest) || h.Member != s.member {
		return fmt.Errorf("%w: it is of index %d and digest %s from member %d", disk.ErrDamaged, h.Index, h.Digest, h.Member)
	}
	return nil
}

// Read implements io.Reader.
func (r *stateReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.wrap(err)
	}
	return n, err
}

func (r *stateReader) wrap(err error) error {
	damaged := errors.Is(err, backup.ErrCorrupt) || errors.Is(err, backup.ErrNotBackup)
	if damaged && !errors.Is(err, disk.ErrDamaged) {
		err = fmt.Errorf("%w: %s", disk.ErrDamaged, strings.TrimPrefix(err.Error(), "read backup: "))
	}
	return fmt.Errorf("archive: %s: %w", r.parts.location(), err)
}

// Close implements io.Closer.
func (r *stateReader) Close() error { return r.plain.Close() } // and so the parts
