package member

import (
	"sync"

	"rollcall/proto"
)

// hashing warns of members that hash passwords in the scheme digest with another algorithm than this one. Their
// clients have other identities for the same passwords, so ACLs do not give them what they should. It is safe for
// concurrent use.
type hashing struct {
	mu   sync.Mutex
	told map[uint32]string // by member: the algorithm that was warned of
}

// maxHashName is longer than the name of any algorithm, in bytes. A longer name is cut, so that a log line is short.
const maxHashName = 32

// hashAlg returns the name of the algorithm of this member, or "" if the scheme is off.
func (m *Member) hashAlg() string {
	if m.cfg.NoDigest {
		return ""
	}
	return m.cfg.Digest.String()
}

// compareHash compares what another member says of itself with this member, and logs a difference once. A member
// that names no algorithm has the scheme off.
func (m *Member) compareHash(other uint32, reply *proto.HelloReply) {
	mine, theirs := m.hashAlg(), reply.GetDigestAlg()
	theirs = theirs[:min(len(theirs), maxHashName)]
	m.hashing.mu.Lock()
	defer m.hashing.mu.Unlock()
	if mine == "" || theirs == "" || mine == theirs {
		delete(m.hashing.told, other)
		return
	}
	if m.hashing.told[other] == theirs {
		return
	}
	if m.hashing.told == nil {
		m.hashing.told = map[uint32]string{}
	}
	m.hashing.told[other] = theirs
	m.log.Warn("another member hashes passwords with another algorithm, so the same password has another identity there; set DigestAuthenticationProvider.digestAlg alike on all members",
		"peer", other, "here", mine, "there", theirs)
}
