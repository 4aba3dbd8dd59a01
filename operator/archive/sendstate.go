package archive

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"rollcall/operator/backup"
	"rollcall/quorum/disk"
	"rollcall/quorum/history"
	"rollcall/znode"
)

// sendStateIfDue starts to send the newest snapshot of the member, if the last one in the archive is far behind it. A member whose
// newest snapshot is too old stores one first.
func (s *Sender) sendStateIfDue(ctx context.Context) {
	now := time.Now()
	if now.Before(s.nextStates) || !s.sending.CompareAndSwap(false, true) {
		return
	}
	s.nextStates = now.Add(stateCheckInterval)
	log, archived := s.logName, s.position.Index
	s.stateWork.Go(func() {
		defer s.sending.Store(false)
		err := s.sendDueState(ctx, log, archived)
		if err != nil && ctx.Err() == nil {
			s.stats.failures.Add(1)
			s.cfg.Logger.Warn("archive: a snapshot could not be sent; this member tries again", "archive", s.cfg.Store.Location(""),
				"after", stateCheckInterval, "err", err)
		}
	})
}

// sendDueState sends a snapshot of a log, of the entries up to the index archived, if one is due.
func (s *Sender) sendDueState(ctx context.Context, log string, archived uint64) error {
	own, err := s.newestSpan()
	if err != nil {
		return err
	}
	last := s.lastState.Load()
	if last == nil {
		last = &state{}
	}
	isOld := time.Since(last.at) > stateInterval && archived > last.index
	for _, n := range slices.Backward(own.Snapshots) {
		if n.Index > archived {
			continue // it may be removed before the entries up to it are sent
		}
		isFar := own.BytesBetween(last.index, n.Index) >= max(history.SnapshotDistance, 2*n.Bytes)
		if n.Index > last.index && (isFar || isOld && time.Since(n.At) < stateInterval) {
			err := s.sendState(ctx, log, n)
			if errors.Is(err, errUnreadable) && ctx.Err() == nil { // the next check finds a new one
				return errors.Join(err, s.cfg.Member.TakeSnapshot(ctx))
			}
			return err
		}
		break // the others are older
	}
	if isOld {
		return s.cfg.Member.TakeSnapshot(ctx) // the next check finds it
	}
	return nil
}

// errUnreadable means that a snapshot of the member is damaged, or was removed. Nothing of it was sent.
var errUnreadable = errors.New("it cannot be read")

// sendState sends a snapshot of the member, after it has checked all of it. The error wraps errUnreadable if the check fails.
func (s *Sender) sendState(ctx context.Context, log string, n history.Snapshot) error {
	source, err := s.cfg.Log.Source()
	if err != nil {
		return err
	}
	chain := history.NewChain(history.Span{}, source)
	withImage := func(use func(io.Reader) error) error {
		image, err := chain.OpenSnapshot(ctx, n)
		if err != nil {
			return err
		}
		defer func() { _ = image.Close() }() // it was read
		return use(io.TeeReader(image, newPace(ctx)))
	}
	var head backup.Head
	sent := state{log: log, index: n.Index, term: n.Term, at: n.At, member: s.cfg.MemberID, attempt: randomAttempt()}
	err = withImage(func(r io.Reader) (err error) {
		head, sent.digest, err = s.describeSnapshot(r, n)
		return err
	})
	if err != nil {
		return fmt.Errorf("%w: snapshot %s: %w", errUnreadable, n.Name, err)
	}
	w := &partWriter{put: func(number int, last bool, content []byte) error {
		sent.parts, sent.bytes = number, sent.bytes+int64(len(content))
		return s.putPart(ctx, sent.partName(number, last), content)
	}}
	err = writeState(w, head, func(out io.Writer) error {
		return withImage(func(r io.Reader) error {
			_, err := io.Copy(out, r)
			return err
		})
	})
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return fmt.Errorf("snapshot %s: %w", n.Name, err)
	}
	s.lastState.Store(&sent)
	s.cfg.Logger.Info("archive: a snapshot was sent", "object", s.cfg.Store.Location(sent.dir()), "index", n.Index, "bytes", sent.bytes)
	return nil
}

// putPart stores a part of a snapshot, and tries again after a failure as long as the member leads: an attempt that is given up leaves its
// parts behind. No other attempt has the name, so a part that exists was stored by a request whose reply was lost.
func (s *Sender) putPart(ctx context.Context, name string, content []byte) error {
	for wait := minBackoff; ; wait = min(2*wait, maxBackoff) {
		err := s.putObject(ctx, name, content)
		if err == nil || errors.Is(err, ErrExists) {
			return nil
		}
		s.stats.failures.Add(1)
		if !s.cfg.Member.IsLeader() || ctx.Err() != nil {
			return err
		}
		s.cfg.Logger.Warn("archive: a part of a snapshot could not be sent; this member tries again", "object", s.cfg.Store.Location(name),
			"after", wait, "err", err)
		over := time.NewTimer(wait)
		select {
		case <-over.C:
		case <-ctx.Done():
			over.Stop()
			return err
		}
	}
}

// describeSnapshot reads the image of a snapshot, and returns the head of a backup of it.
func (s *Sender) describeSnapshot(image io.Reader, n history.Snapshot) (head backup.Head, digest uint64, err error) {
	head, digest, err = describeImage(image)
	if err == nil && head.Index != n.Index {
		err = fmt.Errorf("it is of index %d, and not of %d: %w", head.Index, n.Index, disk.ErrDamaged)
	}
	head.Program, head.Member, head.Time = s.cfg.Version, s.cfg.MemberID, n.At.UTC()
	return head, digest, err
}

// describeImage reads an image of package znode to its end, and returns the head of a backup of its state.
func describeImage(image io.Reader) (head backup.Head, digest uint64, err error) {
	var size int64
	h, digest, err := znode.ReadImage(image, znode.ImageVisitor{Node: func(n znode.ImageNode) error {
		size += int64(len(n.Path) + len(n.Data))
		return nil
	}})
	head = backup.Head{
		Servers: backup.ServersOf(h.ServerList.Servers), AsOf: time.UnixMilli(h.TimeMs).UTC(), Index: h.Index, Term: h.Term.Term, Zxid: h.Zxid, Nodes: int(h.NodeCount),
		Sessions: int(h.SessionCount), DataBytes: size, Digest: backup.FormatDigest(digest),
	}
	return head, digest, err
}

func randomAttempt() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.BigEndian.Uint64(b[:])
}
