package sessiontracker

import (
	"math"
	"testing"

	"rollcall/zk/jute"
)

func TestIDGenerator(t *testing.T) {
	wall := int64(1_700_000_000_123)
	base := func(member uint64) uint64 { return member<<56 | uint64(wall)<<24>>8 }
	tests := []struct {
		name        string
		member      uint32
		nowMs       int64
		highest     jute.SessionID
		first, then uint64
	}{
		{"from the clock", 1, wall, 0, base(1), base(1) + 1},
		{"as ZooKeeper does", 3, 0xdf5a7, 0, 0x0300000df5a70000, 0x0300000df5a70001},
		{"the clock is behind", 1, wall, jute.SessionID(base(1)) + 70_000, base(1) + 70_001, base(1) + 70_002},
		{"the clock is ahead", 1, wall, jute.SessionID(base(1)) - 5, base(1), base(1) + 1},
		{"highest is another member's", 1, wall, jute.SessionID(base(2)) + 5, base(1), base(1) + 1},
		{"sign bit", 200, wall, jute.SessionID(base(200)) + 9, base(200) + 10, base(200) + 11},
		{"the mark of containers", 128, 0, 0, 0x8000000000000001, 0x8000000000000002},
		{"never into the next member", 6, 0, 0x06ffffffffffffff - 1, 0x06ffffffffffffff, 0x0600000000000000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := NewIDGenerator(tt.member, tt.nowMs, tt.highest)
			if first, then := uint64(g.Next()), uint64(g.Next()); first != tt.first || then != tt.then {
				t.Errorf("Next = %#x, %#x; want %#x, %#x", first, then, tt.first, tt.then)
			}
		})
	}
	g := NewIDGenerator(128, 0, 0)
	for range 10 {
		if g.Next() == math.MinInt64 {
			t.Fatal("the mark of containers was drawn")
		}
	}
}
