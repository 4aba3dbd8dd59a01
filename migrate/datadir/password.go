package datadir

import (
	"encoding/binary"

	"rollcall/zk/jute"
)

// passwordKey is combined with a session's id to the seed of its password.
const passwordKey = 0xB3415C00

// SessionPassword returns ZooKeeper's password of a session. Java's random number generator computes it from
// the id alone.
func SessionPassword(id jute.SessionID) [16]byte {
	const multiplier, mask = 0x5DEECE66D, 1<<48 - 1
	state := (uint64(id) ^ passwordKey ^ multiplier) & mask
	var b [16]byte
	for i := 0; i < len(b); i += 4 {
		state = (state*multiplier + 0xB) & mask
		binary.LittleEndian.PutUint32(b[i:], uint32(state>>16))
	}
	return b
}
