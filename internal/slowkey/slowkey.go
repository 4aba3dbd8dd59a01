// Package slowkey derives keys from secrets that people may have chosen, slowly. A proof with such a key can reach a process
// that has taken over an address. It then costs that process as much for each secret that it tries.
package slowkey

import (
	"sync"

	"golang.org/x/crypto/argon2"
)

const (
	// passes, memory and lanes are those of Argon2id. One derivation takes 32 MiB for a tenth of a second at most, which a
	// member and a command do once. Both ends of a proof must use the same, so a change of them is one of the protocol.
	passes = 3
	memory = 32 << 10 // KiB
	lanes  = 1
	// maxKept is how many keys are remembered: those of a member's secrets, before and after a rotation. The members
	// that share a process, and a file that is read again, need no second derivation.
	maxKept = 16
)

// Key is a key of HMAC-SHA256.
type Key [32]byte

// String keeps the key out of texts and logs.
func (Key) String() string { return "(a key)" }

// GoString does the same for the format %#v.
func (Key) GoString() string { return "(a key)" }

type source struct{ purpose, secret string }

// kept are the keys that were derived last.
var kept struct {
	sync.Mutex
	keys map[source]Key
}

// Of returns the key of a secret for a purpose. It takes about a tenth of a second for a new one. Keys for different
// purposes are independent of each other.
func Of(purpose, secret string) Key {
	kept.Lock()
	defer kept.Unlock()
	from := source{purpose, secret}
	if key, ok := kept.keys[from]; ok {
		return key
	}
	key := Key(argon2.IDKey([]byte(secret), []byte(purpose), passes, memory, lanes, uint32(len(Key{}))))
	if kept.keys == nil || len(kept.keys) == maxKept {
		kept.keys = map[source]Key{}
	}
	kept.keys[from] = key
	return key
}
