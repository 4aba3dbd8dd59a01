package past

import (
	"fmt"
	"io"

	"rollcall/znode"
)

// What a node and a session take in a snapshot, in bytes, beside the path and the data of a node. They are those of nodes without a
// list of their own, and of sessions with an IPv4 address.
const (
	imageNodeBytes    = 68
	imageSessionBytes = 96
)

// imageBytes estimates the size of a snapshot of a state. The caller holds at least the read lock.
func imageBytes(s *znode.State) int64 {
	tree := s.TreeView()
	return tree.DataSize() + int64(tree.NodeCount())*imageNodeBytes + int64(s.SessionCount())*imageSessionBytes
}

// check returns ErrTooLarge for a state whose snapshot has this number of bytes.
func (b *Budget) check(bytes int64) error {
	if b.MaxBytes > 0 && bytes > b.MaxBytes {
		return fmt.Errorf("%w: its snapshot has %d MiB, and at most %d MiB are allowed", ErrTooLarge, bytes>>20, b.MaxBytes>>20)
	}
	return nil
}

// rest checks the size of the state, and gives way to other work.
func (b *Budget) rest(s *znode.State) error {
	if b.MaxBytes > 0 {
		if err := b.check(imageBytes(s)); err != nil {
			return err
		}
	}
	if b.Rest == nil {
		return nil
	}
	return b.Rest()
}

// restPart is the number of bytes of a snapshot between two rests: some tens of microseconds.
const restPart = 4 << 10

// restingReader reads in parts, before each of which it calls rest, unless that is nil.
type restingReader struct {
	r    io.Reader
	rest func() error
}

// Read implements io.Reader.
func (r restingReader) Read(p []byte) (int, error) {
	if r.rest == nil {
		return r.r.Read(p)
	}
	if err := r.rest(); err != nil {
		return 0, err
	}
	return r.r.Read(p[:min(len(p), restPart)])
}
