package archive

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
	"rollcall/quorum/history"
)

// A run is compressed with zstd. In it are runMagic, the length of the object's name (2 bytes, big-endian), the name, a checksum
// (CRC32C) of all that, and the entries as history.AppendEntry writes them.
const runMagic = "RCARCH1\n"

const (
	// maxRunEntries limits the entries of a run. So a list of the names that may have an entry begins at most so many before it.
	maxRunEntries = 1 << 18
	maxRunName    = 512 // bytes
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// idOf returns the id of an entry, which b has as history.AppendEntry writes it.
func idOf(e *raft.Log, b []byte) EntryID {
	return EntryID{Index: e.Index, Term: e.Term, Sum: binary.BigEndian.Uint32(b[len(b)-4:])}
}

// IDOf returns the id of an entry.
func IDOf(e *raft.Log) EntryID { return idOf(e, history.AppendEntry(nil, e)) }

// encodeRun returns the run with entries, of which there is at least one, and its content.
func encodeRun(log string, member uint32, before EntryID, entries []*raft.Log) (r run, content []byte, err error) {
	r = run{log: log, before: before, last: IDOf(entries[len(entries)-1]), member: member}
	content, err = r.encode(entries)
	r.bytes = int64(len(content))
	return r, content, err
}

// encode returns the content of an object with the name of the run.
func (r run) encode(entries []*raft.Log) ([]byte, error) {
	var out bytes.Buffer
	z, err := history.NewCompressor(&out)
	if err != nil {
		return nil, err
	}
	name := r.name()
	b := binary.BigEndian.AppendUint16([]byte(runMagic), uint16(len(name)))
	b = append(b, name...)
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	_, err = z.Write(b)
	for _, e := range entries {
		if err == nil {
			b = history.AppendEntry(b[:0], e)
			_, err = z.Write(b)
		}
	}
	if err = errors.Join(err, z.Close()); err != nil {
		return nil, fmt.Errorf("archive: compress entries: %w", err)
	}
	return out.Bytes(), nil
}

// readRun yields the entries of a run, each with its id. After the last one it has checked that the content is that of the name. An
// error is the last that it yields. It wraps disk.ErrDamaged if bytes have changed or are missing.
func readRun(ctx context.Context, store Store, r run) iter.Seq2[*raft.Log, error] {
	return func(yield func(*raft.Log, error) bool) {
		f, err := store.Open(ctx, r.name())
		if err != nil {
			yield(nil, err)
			return
		}
		in, err := history.Decompress(f)
		if err != nil {
			yield(nil, r.errorIn(store, err))
			return
		}
		defer func() { _ = in.Close() }() // it was read
		buffered := bufio.NewReaderSize(in, 64<<10)
		if err := r.checkHeader(buffered); err != nil {
			yield(nil, r.errorIn(store, err))
			return
		}
		for next := r.first(); ; next++ {
			e, err := history.ReadEntry(buffered)
			switch {
			case errors.Is(err, io.EOF) && next == r.last.Index+1:
				return
			case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
				err = fmt.Errorf("%w: it ends before entry %d", disk.ErrDamaged, next)
			case err != nil:
				err = fmt.Errorf("at entry %d: %w", next, err)
			case next > r.last.Index, e.Index != next, next == r.last.Index && IDOf(e) != r.last:
				err = fmt.Errorf("%w: it has entry %d of term %d in the place of entry %d", disk.ErrDamaged, e.Index, e.Term, next)
			default:
				err = ctx.Err()
			}
			if err != nil {
				yield(nil, r.errorIn(store, err))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (r run) errorIn(store Store, err error) error {
	return fmt.Errorf("archive: %s: %w", store.Location(r.name()), err)
}

// checkHeader reads what is before the entries.
func (r run) checkHeader(in io.Reader) error {
	head := make([]byte, len(runMagic)+2, len(runMagic)+2+maxRunName+4)
	if _, err := io.ReadFull(in, head); err != nil {
		return shortAsDamage(err)
	}
	length := int(binary.BigEndian.Uint16(head[len(runMagic):]))
	if string(head[:len(runMagic)]) != runMagic || length > maxRunName {
		return fmt.Errorf("%w: it does not begin as an object with entries", disk.ErrDamaged)
	}
	whole := head[:len(head)+length+4]
	if _, err := io.ReadFull(in, whole[len(head):]); err != nil {
		return shortAsDamage(err)
	}
	at := len(whole) - 4
	if binary.BigEndian.Uint32(whole[at:]) != crc32.Checksum(whole[:at], castagnoli) {
		return fmt.Errorf("%w: the checksum of its header is wrong", disk.ErrDamaged)
	}
	if name := string(whole[len(head):at]); name != r.name() {
		return fmt.Errorf("%w: it is the object %s under another name", disk.ErrDamaged, name)
	}
	return nil
}

// shortAsDamage makes an unexpected end damage.
func shortAsDamage(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends in its header", disk.ErrDamaged)
	}
	return err
}
