package group

import (
	"fmt"
	"slices"
	"testing"
)

// ids returns n ids, sorted.
func ids(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("member-%04d", i)
	}
	return list
}

// counts returns the number of partitions of each member.
func counts(owners []string) map[string]int {
	n := map[string]int{}
	for _, id := range owners {
		n[id]++
	}
	return n
}

// Shares are as equal as they can be, for each number of members and partitions.
func TestSharesAreEqual(t *testing.T) {
	for members := 1; members <= 20; members++ {
		for _, partitions := range []int{1, 2, 7, 19, 20, 64, 101} {
			owners := Shares(ids(members), partitions)
			for _, id := range ids(members) {
				if n := counts(owners)[id]; n < partitions/members || n > (partitions+members-1)/members {
					t.Errorf("%s of %d has %d of %d partitions", id, members, n, partitions)
				}
			}
		}
	}
	if Shares(nil, 3) != nil {
		t.Error("shares without members")
	}
}

// A member that joins takes its share, and few other partitions move: less than half of what a round robin moves.
func TestSharesMoveLittle(t *testing.T) {
	const partitions = 1000
	for members := 2; members <= 20; members++ {
		before, after := Shares(ids(members), partitions), Shares(ids(members+1), partitions)
		moved := 0
		for p := range before {
			if before[p] != after[p] {
				moved++
			}
		}
		share := partitions / (members + 1)
		if moved < share || moved > 3*share {
			t.Errorf("%d partitions moved with %d members; the share of a member is %d", moved, members+1, share)
		}
	}
}

// A group has 1 to MaxPartitions partitions.
func TestPartitionsConfig(t *testing.T) {
	for n, ok := range map[int]bool{0: false, 1: true, MaxPartitions: true, MaxPartitions + 1: false} {
		cfg := PartitionsConfig{Partitions: n}
		if err := cfg.applyDefaults(); (err == nil) != ok {
			t.Errorf("%d partitions: %v", n, err)
		} else if ok && (cfg.Settle != DefaultSettle || cfg.Shares == nil) {
			t.Errorf("the defaults are %+v", cfg)
		}
	}
}

// The shares never change: members of different versions of this package must agree on them.
func TestSharesAreFixed(t *testing.T) {
	for _, tt := range []struct {
		members, partitions int
		want                []int // by partition: the index of its member
	}{
		{1, 3, []int{0, 0, 0}},
		{3, 8, []int{1, 2, 1, 2, 0, 2, 1, 0}},
		{5, 17, []int{1, 2, 3, 3, 0, 2, 4, 0, 4, 1, 2, 2, 4, 0, 3, 3, 1}},
	} {
		var got []int
		for _, owner := range Shares(ids(tt.members), tt.partitions) {
			got = append(got, slices.Index(ids(tt.members), owner))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%d partitions of %d members belong to %v, want %v", tt.partitions, tt.members, got, tt.want)
		}
	}
}
