package follower

import (
	"fmt"
	"slices"

	"rollcall/proto"
	"rollcall/znode"
)

// marks are the digests by which the leader compares this member with the others.
func (f *Follower) marks() *proto.Marks {
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

// judged takes the leader's word that this member's state is not that of the others; nil: it
// has not said so. That counts only if it speaks of the state which is here now: not if it
// was that of this member's process before, or has been replaced by a snapshot. The leader
// goes on saying so for as long as it is true.
func (f *Follower) judged(v *proto.Verdict) {
	if v == nil || v.Own == v.Theirs ||
		!slices.Contains(f.cfg.State.Marks(), znode.Mark{Index: v.Index, Digest: v.Own}) {
		return
	}
	f.cfg.Damaged(fmt.Sprintf("behind log entry %d this member's state has the digest %016x, that of %d of %d members has %016x",
		v.Index, v.Own, v.Agree, v.Members, v.Theirs))
}
