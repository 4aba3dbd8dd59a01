package follower

import (
	"fmt"
	"slices"

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

// handleVerdict calls Damaged if the leader says that this member's state differs from that of the
// others. v is nil if the leader does not say so. A verdict counts only if it is about the present
// state. It does not count if it is about an earlier process of this member, or about a state that
// a snapshot has replaced since. The leader repeats the verdict for as long as it holds.
func (f *Follower) handleVerdict(v *proto.Verdict) {
	if v == nil || v.Own == v.Theirs ||
		!slices.Contains(f.cfg.State.Marks(), znode.Mark{Index: v.Index, Digest: v.Own}) {
		return
	}
	f.cfg.Damaged(fmt.Sprintf("after log entry %d this member's state has the digest %016x, that of %d of %d members has %016x",
		v.Index, v.Own, v.Agree, v.Members, v.Theirs))
}
