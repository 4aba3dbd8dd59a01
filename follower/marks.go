package follower

import (
	"rollcall/proto"
	"rollcall/znode"
)

// Marks returns the digests by which this member is compared with the others. It takes no lock.
func (f *Follower) Marks() *proto.Marks {
	marks := f.cfg.State.Marks()
	m := &proto.Marks{
		Version: znode.DigestVersion,
		Indexes: make([]uint64, len(marks)), Digests: make([]uint64, len(marks)),
	}
	for i, mark := range marks {
		m.Indexes[i], m.Digests[i] = mark.Index, mark.Digest
	}
	return m
}
