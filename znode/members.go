package znode

import (
	"rollcall/proto"
	"rollcall/zk/jute"

	pb "google.golang.org/protobuf/proto"
)

// maxMember is the greatest member id. It must fit into a session id's top byte.
const maxMember = 255

// memberTable has the progress of the members by id. No member has id 0.
type memberTable [maxMember + 1]member

type member struct {
	incarnation    uint64 // the current run of its process; 0 if it never announced one
	lastSeq        uint64 // seq of its last accepted transaction
	format         uint32 // highest Entry.format that it can apply
	highestSession uint64 // greatest session id with this member as its top byte; 0 if there is none
}

// announceIncarnation makes txn.Incarnation its member's current run if it replaces the present one, which it returns.
// Otherwise done is false. Members outside the server list have no runs.
func (m *memberTable) announceIncarnation(txn *proto.Txn, list *ServerList) (replaced uint64, done bool) {
	var req proto.Announce
	id := txn.GetMember()
	if pb.Unmarshal(txn.GetBody(), &req) != nil || id == 0 || id > maxMember || txn.GetIncarnation() == 0 ||
		!list.allowsMember(id) {
		return 0, false
	}
	r := &m[id]
	if r.incarnation == txn.GetIncarnation() || r.incarnation != req.GetReplaces() {
		return 0, false
	}
	replaced = r.incarnation
	r.incarnation, r.lastSeq, r.format = txn.GetIncarnation(), 0, req.GetFormat()
	return replaced, true
}

// advanceIfNext reports whether txn is the next one of its member's current run, and counts it. The leader's
// own transactions are never resent, so they are always next.
func (m *memberTable) advanceIfNext(txn *proto.Txn) bool {
	id := txn.GetMember()
	if id == 0 || id > maxMember {
		return id == 0 && mayLackMember(jute.Op(txn.GetOp()))
	}
	r := &m[id]
	if r.incarnation == 0 || txn.GetIncarnation() != r.incarnation || txn.GetSeq() != r.lastSeq+1 {
		return false
	}
	r.lastSeq++
	return true
}

// dropUnlisted drops the progress of members outside the list. The greatest ids of their sessions stay,
// because no id may be used again.
func (m *memberTable) dropUnlisted(list *ServerList) {
	for id := range m {
		if r := &m[id]; !list.allowsMember(uint32(id)) {
			*r = member{highestSession: r.highestSession}
		}
	}
}
