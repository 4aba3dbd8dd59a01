package sessiontracker

import (
	"math/bits"

	"rollcall/zk/jute"
)

const minIndexPlaces = 64

// slotIndex finds slots by the hashes of their ids. It is a table with open addressing and linear probing: a
// lookup reads one place, sometimes a few neighbours, and only the slot that it finds. The zero value is
// empty. An index never shrinks, and takes 11 to 21 bytes for a session.
//
// A full index doubles at once, in some nanoseconds for each id, because it reads no slots.
type slotIndex struct {
	// A hash in the upper half and a slot in the lower, or 0. The length is a power of two, and at most 3/4 are used.
	entries    []uint64
	entryCount int
}

// hashID mixes the bits of an id. The ids of one member differ in their lowest bits, and ids of different
// members in the top byte.
func hashID(id jute.SessionID) uint32 {
	hi, lo := bits.Mul64(uint64(id)^uint64(id)>>32, 0x9e3779b97f4a7c15)
	x := (hi ^ lo) * 0xff51afd7ed558ccd
	return uint32(x >> 32)
}

// firstPlace returns the first possible place of hash h, and the entry there.
func (x *slotIndex) firstPlace(h uint32) (place uint32, entry uint64) {
	place = h & uint32(len(x.entries)-1)
	return place, x.entries[place]
}

// seekHash returns the first place from place on with hash h, and its slot, or 0.
func (x *slotIndex) seekHash(h, place uint32) (at, slot uint32) {
	mask := uint32(len(x.entries) - 1)
	for ; ; place++ {
		switch e := x.entries[place&mask]; {
		case e == 0:
			return 0, 0
		case uint32(e>>32) == h:
			return place & mask, uint32(e)
		}
	}
}

// addSlot adds a slot, which is not 0, with the hash of its id.
func (x *slotIndex) addSlot(h, slot uint32) {
	if x.entryCount >= len(x.entries)*3/4 {
		x.doubleSize()
	}
	x.placeEntry(uint64(h)<<32 | uint64(slot))
	x.entryCount++
}

func (x *slotIndex) placeEntry(entry uint64) {
	mask := uint32(len(x.entries) - 1)
	place := uint32(entry>>32) & mask
	for x.entries[place] != 0 {
		place = (place + 1) & mask
	}
	x.entries[place] = entry
}

func (x *slotIndex) doubleSize() {
	old := x.entries
	x.entries = make([]uint64, max(minIndexPlaces, 2*len(old)))
	for _, entry := range old {
		if entry != 0 {
			x.placeEntry(entry)
		}
	}
}

// prefetchSlots sets slots to the slot at the first place of each hash. It also reads the place where most
// probes end, because that may be in another cache line. It returns a sum of what it read, only so that the
// compiler keeps the reads.
//
//go:noinline
func (x *slotIndex) prefetchSlots(hashes []uint32, slots *[touchesPerPass]uint32) (read uint64) {
	for k, h := range hashes {
		_, entry := x.firstPlace(h)
		_, behind := x.firstPlace(h + 4)
		slots[k] = uint32(entry)
		read ^= behind
	}
	return read
}

// removeSlot deletes the entry of a slot, and closes the gap by moving later entries towards their first
// places. It reports whether there was such an entry.
func (x *slotIndex) removeSlot(h, slot uint32) bool {
	mask := uint32(len(x.entries) - 1)
	hole := h & mask
	for entry := uint64(h)<<32 | uint64(slot); x.entries[hole] != entry; hole = (hole + 1) & mask {
		if x.entries[hole] == 0 {
			return false
		}
	}
	for p := (hole + 1) & mask; x.entries[p] != 0; p = (p + 1) & mask {
		home := uint32(x.entries[p]>>32) & mask
		if (p-home)&mask >= (p-hole)&mask { // the entry's first place is not after the hole
			x.entries[hole] = x.entries[p]
			hole = p
		}
	}
	x.entries[hole] = 0
	x.entryCount--
	return true
}
