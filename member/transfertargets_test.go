package member

import (
	"testing"
	"time"
)

// Leadership goes in turn to the member that has not led for longest, and to no member that led a
// short while ago.
func TestHeir(t *testing.T) {
	now := time.Now()
	const rest = time.Minute
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, c := range []struct {
		what    string
		self    uint32
		reached []uint32
		led     map[uint32]time.Time
		want    uint32
	}{
		{"nobody has led: the next by id", 2, []uint32{1, 3}, nil, 3},
		{"the last by id is followed by the first", 3, []uint32{1, 2}, nil, 1},
		{"who never led comes first", 1, []uint32{2, 3}, map[uint32]time.Time{2: ago(time.Hour)}, 3},
		{"then who has not for longest", 1, []uint32{2, 3}, map[uint32]time.Time{2: ago(time.Hour), 3: ago(2 * time.Hour)}, 3},
		{"who has led a while ago is passed over", 1, []uint32{2, 3}, map[uint32]time.Time{2: ago(2 * time.Hour), 3: ago(rest - 1)}, 2},
		{"everybody has", 1, []uint32{2, 3}, map[uint32]time.Time{2: ago(rest - 1), 3: ago(1)}, 0},
		{"it has been long enough", 1, []uint32{2, 3}, map[uint32]time.Time{2: ago(rest), 3: ago(1)}, 2},
		{"only whom the log reaches", 1, []uint32{3}, map[uint32]time.Time{3: ago(time.Hour)}, 3},
		{"nobody is reached", 1, nil, nil, 0},
		{"ids go up to 255", 255, []uint32{254, 1}, nil, 1},
	} {
		if got := pickTransferTarget(c.self, c.reached, c.led, now, rest); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}
