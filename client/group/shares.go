package group

import "hash/fnv"

// Shares returns the owner of each partition. The numbers of partitions of two members differ by at most one. A member
// that joins or leaves moves few partitions between the others. The result depends only on the arguments. members must
// be sorted. Without members, the result is nil.
func Shares(members []string, partitions int) []string {
	if len(members) == 0 {
		return nil
	}
	capacity := make([]int, len(members)) // number of partitions that each member may still get
	hashes := make([]uint64, len(members))
	larger := partitions % len(members) // number of members that get one more than the others
	for i, id := range members {
		capacity[i] = partitions / len(members)
		if larger > 0 {
			capacity[i]++
		}
		h := fnv.New64a()
		_, _ = h.Write([]byte(id)) // never fails
		hashes[i] = h.Sum64()
	}
	owners := make([]string, partitions)
	for p := range owners {
		best, bestWeight := -1, uint64(0)
		for i, hash := range hashes {
			if weight := mixBits(hash ^ mixBits(uint64(p))); capacity[i] > 0 && (best < 0 || weight > bestWeight) {
				best, bestWeight = i, weight
			}
		}
		owners[p] = members[best]
		if capacity[best]--; capacity[best] == 0 {
			if larger--; larger == 0 { // once at most: it only falls
				withdrawExtra(capacity)
			}
		}
	}
	return owners
}

// withdrawExtra takes the additional partition from the members that have not got it: enough others have.
func withdrawExtra(capacity []int) {
	for i, left := range capacity {
		if left > 0 {
			capacity[i] = left - 1
		}
	}
}

// mixBits spreads a number over all bits (the finaliser of splitmix64).
func mixBits(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
