package member

import (
	"log/slog"
	"sync"
)

// digestWarnings warns of members that hash passwords in the scheme digest with another algorithm than this one. Their
// clients have other identities for the same passwords, so ACLs do not give them what they should. It is safe for
// concurrent use.
type digestWarnings struct {
	ownAlgorithm string // the algorithm of this member; "": the scheme is off
	log          *slog.Logger

	mu               sync.Mutex
	warnedAlgorithms map[uint32]string // by member: the algorithm of the last warning
}

// maxDigestName is longer than the name of any algorithm, in bytes. A longer name is cut, so that a log line is short.
const maxDigestName = 32

// digestAlgorithm returns the name of the algorithm of the scheme digest, or "" if the scheme is off.
func (c *Config) digestAlgorithm() string {
	if c.NoDigest {
		return ""
	}
	return c.Digest.String()
}

// compareAlgorithm logs once that another member has another algorithm. A member that names none has the scheme off.
func (w *digestWarnings) compareAlgorithm(other uint32, algorithm string) {
	algorithm = algorithm[:min(len(algorithm), maxDigestName)]
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ownAlgorithm == "" || algorithm == "" || w.ownAlgorithm == algorithm {
		delete(w.warnedAlgorithms, other)
		return
	}
	if w.warnedAlgorithms[other] == algorithm {
		return
	}
	if w.warnedAlgorithms == nil {
		w.warnedAlgorithms = map[uint32]string{}
	}
	w.warnedAlgorithms[other] = algorithm
	w.log.Warn("another member hashes passwords with another algorithm, so the same password has another identity there; set DigestAuthenticationProvider.digestAlg alike on all members",
		"peer", other, "here", w.ownAlgorithm, "there", algorithm)
}
