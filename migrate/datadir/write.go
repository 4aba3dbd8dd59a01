package datadir

import (
	"bufio"
	"errors"
	"fmt"
	"hash"
	"hash/adler32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"rollcall/internal/durable"
	"rollcall/internal/secretfile"
	"rollcall/zk/jute"
)

// Write writes a directory version-2 into dir, from which a ZooKeeper of 3.4 to 3.9 starts: one snapshot, the
// epochs, and a log without transactions, which shows that no dataLogDir was forgotten. dir must not have a
// directory version-2. Write is atomic: an error or a crash leaves at most a directory version-2.partial, which
// the next Write replaces. No other user may own dir, write in it or replace it, because that user could
// replace a file by a link.
//
// s must have the nodes that ZooKeeper itself makes, and the session of every ephemeral node. Otherwise ZooKeeper would
// not start or would remove the node.
func (s *State) Write(dir string) error {
	if err := s.checkWritable(); err != nil {
		return err
	}
	dir, err := secretfile.MakeTrustedDirectory(dir)
	if err != nil {
		return fmt.Errorf("datadir: %w", err)
	}
	to := filepath.Join(dir, versionDirName)
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = fmt.Errorf("datadir: %s is there already: move it away, or name another directory", to)
		}
		return err
	}
	partial := to + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	if err := os.Mkdir(partial, 0o700); err != nil { // fails if there is a link, for example
		return err
	}
	if err := writeSyncedFile(filepath.Join(partial, "snapshot."+strconv.FormatInt(s.Zxid, 16)),
		s.writeSnapshot); err != nil {
		return err
	}
	err = writeSyncedFile(filepath.Join(partial, "log."+strconv.FormatInt(s.Zxid+1, 16)), func(w io.Writer) error {
		_, err := w.Write(encodeHead(logMagic, 0))
		return err
	})
	if err != nil {
		return err
	}
	for _, name := range []string{"currentEpoch", "acceptedEpoch"} {
		err := writeSyncedFile(filepath.Join(partial, name), func(w io.Writer) error {
			_, err := fmt.Fprint(w, max(s.Epoch, Epoch(s.Zxid)))
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := durable.SyncDirectory(partial); err != nil {
		return err
	}
	if err := os.Rename(partial, to); err != nil {
		return err
	}
	return durable.SyncDirectory(dir)
}

// checkWritable checks that ZooKeeper can start from s.
func (s *State) checkWritable() error {
	if s.Zxid < 0 {
		return fmt.Errorf("datadir: the zxid %s is below zero", zxidText(s.Zxid))
	}
	if epoch := max(s.Epoch, Epoch(s.Zxid)); epoch > maxEpoch {
		return fmt.Errorf("datadir: the epoch %d is too high; it must be 0 to %d", epoch, int64(maxEpoch))
	}
	for _, path := range []string{"/", "/zookeeper", quotaPath} {
		if s.nodes[path] == nil {
			return fmt.Errorf("datadir: the node %s is missing, without which ZooKeeper does not start", path)
		}
	}
	var err error
	s.eachNode(func(n *Node) {
		if _, ok := s.Sessions[jute.SessionID(n.Owner)]; !ok && s.Kind(n) == Ephemeral {
			err = fmt.Errorf("datadir: the node %.100q belongs to the session %v, which is missing", n.Path,
				jute.SessionID(n.Owner))
		}
	})
	return err
}

// writeSyncedFile writes a file, and waits until it is on the disk.
func writeSyncedFile(path string, write func(w io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	b := bufio.NewWriterSize(f, windowSize)
	err = write(b)
	if err == nil {
		err = b.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// encodeHead returns the head that readHead reads. database is the number that ZooKeeper writes.
func encodeHead(magic string, database int64) []byte {
	return jute.AppendInt64(jute.AppendInt32([]byte(magic), formatVersion), database)
}

// snapshotWriter writes the parts of a snapshot, and keeps its first error.
type snapshotWriter struct {
	w        io.Writer
	checksum hash.Hash32
	err      error
}

func (w *snapshotWriter) writeBytes(b []byte) {
	if w.err == nil {
		w.checksum.Write(b)
		_, w.err = w.w.Write(b)
	}
}

// writeSeal writes the check value of everything before it.
func (w *snapshotWriter) writeSeal() {
	w.writeBytes(jute.AppendString(jute.AppendInt64(nil, int64(w.checksum.Sum32())), "/"))
}

// writeSnapshot writes the format that readSnapshot reads.
func (s *State) writeSnapshot(to io.Writer) error {
	w := &snapshotWriter{w: to, checksum: adler32.New()}
	b := encodeHead(snapshotMagic, -1)
	b = jute.AppendCount(b, len(s.Sessions))
	for _, id := range slices.Sorted(maps.Keys(s.Sessions)) {
		b = jute.AppendInt32(jute.AppendInt64(b, int64(id)), s.Sessions[id])
	}
	w.writeBytes(b)
	numbers := s.writeACLs(w)
	b = b[:0]
	err := s.Walk(func(n *Node) error {
		b = n.appendNode(b[:0], numbers[string(appendACL(b[:0], n.ACL))])
		w.writeBytes(b)
		return w.err
	})
	if err != nil {
		return err
	}
	w.writeBytes(jute.AppendString(nil, "/"))
	w.writeSeal()
	var sum treeDigest
	sum.computeFor(s)
	b = jute.AppendInt32(jute.AppendInt64(b[:0], s.Zxid), digestVersion)
	w.writeBytes(jute.AppendInt64(b, int64(sum.sum)))
	w.writeSeal()
	return w.err
}

// writeACLs writes the table of all ACLs, and returns the number of each by its bytes.
func (s *State) writeACLs(w *snapshotWriter) map[string]int64 {
	numbers := map[string]int64{}
	var table, b []byte
	_ = s.Walk(func(n *Node) error {
		b = appendACL(b[:0], n.ACL)
		if _, ok := numbers[string(b)]; !ok {
			numbers[string(b)] = int64(len(numbers) + 1)
			table = append(jute.AppendInt64(table, int64(len(numbers))), b...)
		}
		return nil
	})
	w.writeBytes(append(jute.AppendCount(nil, len(numbers)), table...))
	return numbers
}

// appendACL appends a list of entries.
func appendACL(b []byte, acl []jute.ACL) []byte {
	b = jute.AppendCount(b, len(acl))
	for i := range acl {
		b = acl[i].Append(b)
	}
	return b
}

// appendNode appends the node with the number of its ACL.
func (n *Node) appendNode(b []byte, acl int64) []byte {
	if n.Path == "/" {
		b = jute.AppendString(b, "")
	} else {
		b = jute.AppendString(b, n.Path)
	}
	b = jute.AppendInt64(jute.AppendBytes(b, n.Data), acl)
	for _, v := range [...]int64{n.Czxid, n.Mzxid, n.Ctime, n.Mtime} {
		b = jute.AppendInt64(b, v)
	}
	for _, v := range [...]int32{n.Version, n.Creates, n.Aversion} {
		b = jute.AppendInt32(b, v)
	}
	return jute.AppendInt64(jute.AppendInt64(b, n.Owner), n.Pzxid)
}
