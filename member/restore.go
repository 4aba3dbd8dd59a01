package member

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/zk/jute"
	"rollcall/znode"

	pb "google.golang.org/protobuf/proto"
)

const (
	// restoredTermGap is added to the term of a restored state. The former ensemble cannot have held as many
	// elections after that state, so no client has seen a later zxid.
	restoredTermGap = 1 << 16
	// killsPerEntry and sweepsPerEntry are a leader's limits for an entry.
	killsPerEntry, sweepsPerEntry = 64, 500
)

// ImageReader reads an image, such as a backup, from its beginning, and passes its parts to v.
type ImageReader func(v znode.ImageVisitor) error

// RestoredState is the state of a new ensemble that is made from an image.
type RestoredState struct {
	head      znode.ImageHead
	readImage ImageReader
}

// ReadForRestore reads an image, and returns the state of a new ensemble. It drops the former ensemble's
// members and server list, and the owners of sessions. It keeps the greatest session id of each member, so no
// id is used twice. WriteImage calls read again.
func ReadForRestore(read ImageReader) (*RestoredState, error) {
	var h znode.ImageHead
	err := read(znode.ImageVisitor{
		Head:       func(has znode.ImageHead) error { h = has; return nil },
		Unswept:    func(jute.SessionID) error { h.UnsweptCount++; return nil },
		SessionEnd: func(e znode.SessionEnd) error { h.EndCount++; h.EndsTotal = e.Number; return nil },
		Node:       func(znode.ImageNode) error { h.NodeCount++; return nil },
	})
	if err != nil {
		return nil, err
	}
	h.Index = max(h.Index, disk.BootstrapIndex+1)
	members := h.Members
	h.Members, h.ServerList = nil, znode.ServerList{}
	for _, m := range members {
		if m.HighestSession != 0 {
			h.Members = append(h.Members, znode.MemberProgress{ID: m.ID, HighestSession: m.HighestSession})
		}
	}
	return &RestoredState{h, read}, nil
}

// ImageHead returns the head of the image for the new ensemble.
func (r *RestoredState) ImageHead() znode.ImageHead { return r.head }

// RaftTerm returns the raft term of the state. The first leader has a later one.
func (r *RestoredState) RaftTerm() uint64 {
	return max(r.head.Term.Term, uint64(r.head.Zxid)>>32) + restoredTermGap
}

// WriteImage writes the image for the new ensemble, and returns its digest.
func (r *RestoredState) WriteImage(w io.Writer) (digest uint64, err error) {
	iw, err := znode.NewImageWriter(w, r.head)
	if err != nil {
		return 0, err
	}
	err = r.readImage(znode.ImageVisitor{
		Session: func(s znode.Session) error {
			s.Owner = znode.SessionOwner{}
			return iw.WriteSession(s)
		},
		Unswept: iw.WriteUnswept, SessionEnd: iw.WriteSessionEnd,
		Node: func(n znode.ImageNode) error {
			if n.Path == znode.ConfigPath && n.Version < 0 { // the text of the former list
				n.Data, n.Mzxid, n.Mtime, n.Version = nil, 0, 0, 0
			}
			return iw.WriteNode(n)
		},
	})
	if err != nil {
		return 0, err
	}
	return iw.Close()
}

// EndImageSessions returns the state of an image after the operator by has ended all of its sessions, and their
// number. Their ephemeral nodes are gone, and quotas do not count them. It needs memory for the whole state.
func EndImageSessions(read ImageReader, by string) (closed int, without ImageReader, err error) {
	s := znode.New(znode.Config{})
	if err := readIntoState(s, read); err != nil {
		return 0, nil, err
	}
	s.Lock()
	defer s.Unlock()
	term := s.Term()
	apply := func(txns ...*proto.Txn) error {
		return s.ApplyEntry(s.Index()+1, term.Term,
			&proto.Entry{Format: znode.FormatLevel, Term: term.Term, Nonce: term.Nonce, TimeMs: s.TimeMs(), Txns: txns})
	}
	sessions := slices.Collect(s.Sessions(0))
	for some := range slices.Chunk(sessions, killsPerEntry) {
		var txns []*proto.Txn
		for _, session := range some {
			body, err := pb.Marshal(&proto.Kill{Session: int64(session.ID), OwnerIndex: session.OwnerIndex, Operator: by})
			if err != nil {
				return 0, nil, err
			}
			txns = append(txns, &proto.Txn{Op: int32(jute.OpKill), Body: body})
		}
		if err := apply(txns...); err != nil {
			return 0, nil, err
		}
	}
	for s.HasUnswept() {
		body, err := pb.Marshal(&proto.Sweep{Nodes: sweepsPerEntry})
		if err == nil {
			err = apply(&proto.Txn{Op: int32(jute.OpSweep), Body: body})
		}
		if err != nil {
			return 0, nil, err
		}
	}
	if s.SessionCount() > 0 {
		return 0, nil, fmt.Errorf("member: %d sessions have not ended", s.SessionCount())
	}
	sn := s.Snapshot()
	return len(sessions), func(v znode.ImageVisitor) error {
		return pipeThrough(func(w io.Writer) error {
			_, err := sn.WriteTo(w)
			return err
		}, func(r io.Reader) error {
			_, _, err := znode.ReadImage(r, v)
			return err
		})
	}, nil
}

// readIntoState reads an image into a state.
func readIntoState(s *znode.State, read ImageReader) error {
	r, err := ReadForRestore(read)
	if err != nil {
		return err
	}
	return pipeThrough(func(w io.Writer) error {
		_, err := r.WriteImage(w)
		return err
	}, s.RestoreSnapshot)
}

// pipeThrough connects write to read with a pipe. Its goroutine ends before it returns.
func pipeThrough(write func(io.Writer) error, read func(io.Reader) error) error {
	r, w := io.Pipe()
	wrote := make(chan error, 1)
	go func() {
		err := write(w)
		_ = w.CloseWithError(err) // never fails
		wrote <- err
	}()
	err := read(r)
	_ = r.CloseWithError(err) // never fails
	if why := <-wrote; why != nil && !errors.Is(why, io.ErrClosedPipe) {
		return why // the reader has got the same error, or a consequence of it
	}
	return err
}
