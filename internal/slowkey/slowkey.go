// Package slowkey slowly derives keys from secrets that people may have chosen. A proof with such a key can
// reach a process that has taken over an address. That process must then spend as much for each secret that
// it tries.
package slowkey

import (
	"sync"

	"golang.org/x/crypto/argon2"
)

const (
	// argonPasses, argonMemory and argonThreads are the parameters of Argon2id. One derivation takes 32 MiB
	// for at most a tenth of a second, once in a member and a command. Both ends of a proof must use the
	// same, so they are part of the protocol.
	argonPasses  = 3
	argonMemory  = 32 << 10 // KiB
	argonThreads = 1
	// maxCachedKeys is enough for a member's secrets, before and after a rotation. The members that share a
	// process, and a file that is read again, need no second derivation.
	maxCachedKeys = 16
)

// Key is a key of HMAC-SHA256.
type Key [32]byte

// String keeps the key out of texts and logs.
func (Key) String() string { return "(a key)" }

// GoString does the same for the format %#v.
func (Key) GoString() string { return "(a key)" }

type keySource struct{ purpose, secret string }

// keyCache has the keys that were derived last.
var keyCache struct {
	sync.Mutex
	keys map[keySource]Key
}

// Derive returns the key of a secret for a purpose. It takes about a tenth of a second for a new one. Keys
// for different purposes are independent of each other.
func Derive(purpose, secret string) Key {
	keyCache.Lock()
	defer keyCache.Unlock()
	from := keySource{purpose, secret}
	if key, ok := keyCache.keys[from]; ok {
		return key
	}
	key := Key(argon2.IDKey([]byte(secret), []byte(purpose), argonPasses, argonMemory, argonThreads, uint32(len(Key{}))))
	if keyCache.keys == nil || len(keyCache.keys) == maxCachedKeys {
		keyCache.keys = map[keySource]Key{}
	}
	keyCache.keys[from] = key
	return key
}
