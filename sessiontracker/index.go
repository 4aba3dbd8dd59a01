package sessiontracker

import (
	"math/bits"

	"rollcall/jute"
)

const minPlaces = 64 // of an index

// index finds slots by the hashes of their ids. It is a table with open addressing and
// linear probing: who looks for an id reads one place, seldom a few neighbours, and no slot
// but the one it finds. The zero value is empty; it never shrinks. It takes 11 to 21
// bytes for a session.
//
// When it is full it becomes twice as large in one go: some nanoseconds for every id in
// it, whose slots are not looked at.
type index struct {
	places []uint64 // a hash and the slot below it; 0: free. A power of two, three quarters full at most
	held   int
}

// hash mixes an id: those of one member are counted up, and those of members differ in the
// top byte.
func hash(id jute.SessionID) uint32 {
	hi, lo := bits.Mul64(uint64(id)^uint64(id)>>32, 0x9e3779b97f4a7c15)
	x := (hi ^ lo) * 0xff51afd7ed558ccd
	return uint32(x >> 32)
}

// first returns the first place at which hash h may be, and what that holds.
func (x *index) first(h uint32) (place uint32, entry uint64) {
	place = h & uint32(len(x.places)-1)
	return place, x.places[place]
}

// seek returns the first place from place on that holds hash h, and the slot; 0: none does.
func (x *index) seek(h, place uint32) (at, slot uint32) {
	mask := uint32(len(x.places) - 1)
	for ; ; place++ {
		switch e := x.places[place&mask]; {
		case e == 0:
			return 0, 0
		case uint32(e>>32) == h:
			return place & mask, uint32(e)
		}
	}
}

// add notes that a slot, which is not 0, holds an id of hash h.
func (x *index) add(h, slot uint32) {
	if x.held >= len(x.places)*3/4 {
		x.grow()
	}
	x.set(uint64(h)<<32 | uint64(slot))
	x.held++
}

func (x *index) set(entry uint64) {
	mask := uint32(len(x.places) - 1)
	place := uint32(entry>>32) & mask
	for x.places[place] != 0 {
		place = (place + 1) & mask
	}
	x.places[place] = entry
}

func (x *index) grow() {
	old := x.places
	x.places = make([]uint64, max(minPlaces, 2*len(old)))
	for _, entry := range old {
		if entry != 0 {
			x.set(entry)
		}
	}
}

// fetch writes into slots what is at the first place of each hash, and reads the places
// behind them, up to where most runs end, which may be in another line of the cache. Nobody
// wants the sum of these: it keeps the compiler from leaving the reads out.
//
//go:noinline
func (x *index) fetch(hashes []uint32, slots *[touchesPerPass]uint32) (read uint64) {
	for k, h := range hashes {
		_, entry := x.first(h)
		_, behind := x.first(h + 4)
		slots[k] = uint32(entry)
		read ^= behind
	}
	return read
}

// remove forgets that a slot holds an id of hash h, and moves those behind its place up that
// could not be where they belong. It reports false if the index does not know that.
func (x *index) remove(h, slot uint32) bool {
	mask := uint32(len(x.places) - 1)
	hole := h & mask
	for entry := uint64(h)<<32 | uint64(slot); x.places[hole] != entry; hole = (hole + 1) & mask {
		if x.places[hole] == 0 {
			return false
		}
	}
	for p := (hole + 1) & mask; x.places[p] != 0; p = (p + 1) & mask {
		home := uint32(x.places[p]>>32) & mask
		if (p-home)&mask >= (p-hole)&mask { // home is not behind the hole
			x.places[hole] = x.places[p]
			hole = p
		}
	}
	x.places[hole] = 0
	x.held--
	return true
}
