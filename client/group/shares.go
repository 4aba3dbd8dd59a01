package group

import "hash/fnv"

// Shares returns the member that each partition shall belong to. Every member gets the same number of partitions, or
// one more than another. A member that joins or leaves moves few of the others' partitions. The result depends only on
// the arguments; members must be sorted. Without members it is nil.
func Shares(members []string, partitions int) []string {
	if len(members) == 0 {
		return nil
	}
	room := make([]int, len(members)) // how many partitions each may still get
	hashes := make([]uint64, len(members))
	larger := partitions % len(members) // so many members get one more than the others
	for i, id := range members {
		room[i] = partitions / len(members)
		if larger > 0 {
			room[i]++
		}
		h := fnv.New64a()
		_, _ = h.Write([]byte(id)) // never fails
		hashes[i] = h.Sum64()
	}
	owners := make([]string, partitions)
	for p := range owners {
		best, bestWeight := -1, uint64(0)
		for i, hash := range hashes {
			if weight := mixed(hash ^ mixed(uint64(p))); room[i] > 0 && (best < 0 || weight > bestWeight) {
				best, bestWeight = i, weight
			}
		}
		owners[p] = members[best]
		if room[best]--; room[best] == 0 {
			if larger--; larger == 0 { // once at most: it only falls
				shrink(room)
			}
		}
	}
	return owners
}

// shrink takes the additional partition from the members that have not got it: enough others have.
func shrink(room []int) {
	for i, left := range room {
		if left > 0 {
			room[i] = left - 1
		}
	}
}

// mixed spreads a number over all bits (the finaliser of splitmix64).
func mixed(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
