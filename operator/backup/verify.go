package backup

import (
	"errors"
	"fmt"
	"io"

	"rollcall/znode"
)

// Verify reads a whole backup and checks the file, the state as a member checks a snapshot, and that the head fits the
// state. It returns the head and the length of the backup in bytes. Its memory does not grow with the nodes.
func Verify(r io.Reader) (Head, int64, error) { return Read(r, znode.ImageVisitor{}) }

// Read is Verify, and also calls v with the parts of the state. After an error these parts may be wrong.
func Read(r io.Reader, v znode.ImageVisitor) (Head, int64, error) {
	b, err := NewReader(r)
	if err != nil {
		return Head{}, 0, err
	}
	size, err := b.VerifyRest(v)
	return b.Head, size, err
}

// VerifyRest reads the rest of a backup, as Read does, for a caller that has inspected the head. It returns the
// length of the backup in bytes.
func (b *Reader) VerifyRest(v znode.ImageVisitor) (int64, error) {
	found, digest, err := znode.ReadImage(b, v)
	if b.err != nil && !errors.Is(b.err, io.EOF) {
		err = b.err // it has the offset; ReadImage saw only the end
	}
	if err != nil {
		return b.BytesRead(), err
	}
	return b.BytesRead(), b.Head.compareState(found, digest)
}

// compareState returns an error if the head does not fit the state.
func (h *Head) compareState(found znode.ImageHead, digest uint64) error {
	for _, field := range []struct {
		name      string
		said, got any
	}{
		{"index", h.Index, found.Index},
		{"term", h.Term, found.Term.Term},
		{"zxid", h.Zxid, found.Zxid},
		{"nodes", uint64(h.Nodes), found.NodeCount},
		{"sessions", uint64(h.Sessions), found.SessionCount},
		{"digest", h.Digest, FormatDigest(digest)},
	} {
		if field.said != field.got {
			return fmt.Errorf("%w: its head says %s %v, and its state has %v", ErrCorrupt, field.name, field.said, field.got)
		}
	}
	return nil
}
