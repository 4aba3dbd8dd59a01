package server

import "rollcall/zk/jute"

// requestKind says what a request waits for before its reply is made. It is known before the request enters the queue.
type requestKind uint8

const (
	local         requestKind = iota // nothing but its turn: it is first in the queue
	inParts                          // the same, for a setWatches that is long, or whose watches may have missed events; see startParts
	logged                           // a write: until it is applied
	reconfiguring                    // a reconfig: until it is applied, and the members have followed
	syncing                          // a sync: the leader's proof. It gets its reply as soon as that is there, as if applied
	provedRead                       // a linearizable read: the leader's proof, and then its turn
)

// kindInLog returns the kind of a write with this operation. awaitsMembers is whether a reconfig waits for the members.
func kindInLog(op jute.Op, awaitsMembers bool) requestKind {
	if op == jute.OpReconfig && awaitsMembers {
		return reconfiguring
	}
	return logged
}

// isLogged reports whether the reply is made by appendApplied, and not in the request's turn.
func (k requestKind) isLogged() bool { return k == logged || k == reconfiguring || k == syncing }

// needsProof reports whether the request waits for the leader's proof.
func (k requestKind) needsProof() bool { return k == syncing || k == provedRead }

// waitsForOthers reports whether the request waits for the log or for the leader.
func (k requestKind) waitsForOthers() bool { return k.isLogged() || k.needsProof() }

// requestProgress is how far a request has come. A request begins at waiting. One that is served outside of the connection's
// lock goes to running and, when it has to begin again later, back; every other step goes forward.
type requestProgress uint8

const (
	waiting      requestProgress = iota // for what its kind names
	running                             // its parts, or its longRead, are under way
	readyToReply                        // it is applied, proved, or served, and waits for its turn alone
)
