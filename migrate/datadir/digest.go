package datadir

import (
	"encoding/binary"
	"hash/crc32"
	"strings"
	"unicode/utf8"
)

// digestVersion is the supported version of ZooKeeper's digest.
const digestVersion = 2

// treeDigest is ZooKeeper's digest of a tree: the sum of the CRC32 of all nodes. It covers paths, data and
// stats, but no ACL, and nothing below /zookeeper.
//
// Java before 18 computes a CRC32 of a path in the locale's character set. In the locale C, every character beyond
// ASCII becomes "?". treeDigest keeps the digests of both encodings.
type treeDigest struct {
	enabled    bool
	sum        uint64
	asciiDelta uint64 // the difference from sum in the locale C
}

// equalsValue reports whether the digest is value.
func (d *treeDigest) equalsValue(value int64) bool {
	return d.sum == uint64(value) || d.sum+d.asciiDelta == uint64(value)
}

// computeFor computes the digest of s. From then on, changes of s update it.
func (d *treeDigest) computeFor(s *State) {
	*d = treeDigest{enabled: true}
	s.eachNode(d.addNode)
}

// addNode adds n, which is new or has changed.
func (d *treeDigest) addNode(n *Node) {
	if d.enabled && digestCovers(n.Path) {
		n.digestCRC = n.digestPart(n.Path)
		d.sum += uint64(n.digestCRC)
		d.asciiDelta += n.asciiDelta()
	}
}

// removeNode removes n, before it changes or is deleted.
func (d *treeDigest) removeNode(n *Node) {
	if d.enabled && digestCovers(n.Path) {
		d.sum -= uint64(n.digestCRC)
		d.asciiDelta -= n.asciiDelta()
	}
}

// digestCovers reports whether the digest covers the node at path.
func digestCovers(path string) bool { return !strings.HasPrefix(path, "/zookeeper/") }

// asciiDelta returns the difference of n's part of the digest in the locale C.
func (n *Node) asciiDelta() uint64 {
	for i := range len(n.Path) {
		if n.Path[i] >= utf8.RuneSelf {
			return uint64(n.digestPart(asciiPath(n.Path))) - uint64(n.digestCRC)
		}
	}
	return 0
}

// asciiPath returns path with "?" for each character beyond ASCII.
func asciiPath(path string) string {
	return strings.Map(func(r rune) rune {
		if r >= utf8.RuneSelf {
			return '?'
		}
		return r
	}, path)
}

// digestPart returns n's part of the digest, with path in place of its path.
func (n *Node) digestPart(path string) uint32 {
	if path == "/" {
		path = ""
	}
	var room [256]byte
	b := append(room[:0], path...)
	sum := crc32.Update(0, crc32.IEEETable, b)
	sum = crc32.Update(sum, crc32.IEEETable, n.Data)
	b = room[:0]
	for _, v := range [...]int64{n.Czxid, n.Mzxid, n.Pzxid, n.Ctime, n.Mtime} {
		b = binary.BigEndian.AppendUint64(b, uint64(v))
	}
	for _, v := range [...]int32{n.Version, n.Creates, n.Aversion} {
		b = binary.BigEndian.AppendUint32(b, uint32(v))
	}
	b = binary.BigEndian.AppendUint64(b, uint64(n.Owner))
	return crc32.Update(sum, crc32.IEEETable, b)
}
