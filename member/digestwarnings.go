package member

import (
	"log/slog"
	"sync"
)

// digestWarnings warns of members that hash passwords of the scheme digest with another algorithm. The same
// passwords give other identities there, so ACLs do not match. It is safe for concurrent use.
type digestWarnings struct {
	ownAlgorithm string // the algorithm of this member; "": the scheme is off
	log          *slog.Logger

	mu               sync.Mutex
	warnedAlgorithms map[uint32]string // by member: the algorithm of the last warning
}

// maxDigestName limits the name of an algorithm in a log line, in bytes.
const maxDigestName = 32

// digestAlgorithm returns the algorithm of the scheme digest, or "" if the scheme is off.
func (c *Config) digestAlgorithm() string {
	if c.NoDigest {
		return ""
	}
	return c.Digest.String()
}

// warnIfDifferent warns once if another member has another algorithm. "" means that the scheme is off there.
func (w *digestWarnings) warnIfDifferent(other uint32, algorithm string) {
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
	w.log.Warn("another member hashes passwords with another algorithm, so the same password has another identity "+
		"there; set DigestAuthenticationProvider.digestAlg alike on all members",
		"peer", other, "here", w.ownAlgorithm, "there", algorithm)
}
