package member

import (
	"testing"
	"time"
)

// A round of autoRebalance is due at once if the excess is clearly another one: by a fifth and by ten clients at least, or by a little
// less if it falls. Otherwise the next round waits for its time.
func TestRoundsForAnotherExcess(t *testing.T) {
	const clients = 1000
	loads := []memberLoad{{member: 1, clients: clients}, {member: 2}}
	for _, tt := range []struct {
		was, above int
		due        bool
	}{
		{10, 10, false},
		{10, 19, false},
		{10, 20, true},
		{60, 60, false},
		{60, 71, false},
		{60, 72, true},
		{300, 359, false},
		{300, 360, true},
		{300, 295, false},
		{300, 294, true}, // progress
		{10, 9, false},
		{10, 8, true},
	} {
		var p rebalanceBackoff
		now := time.Unix(1000, 0)
		if !p.startRoundIfDue(now, loads, tt.was) {
			t.Errorf("the first round, with an excess of %d, is not due", tt.was)
		}
		if due := p.startRoundIfDue(now.Add(time.Second), loads, tt.above); due != tt.due {
			t.Errorf("an excess of %d after %d: due %t, want %t", tt.above, tt.was, due, tt.due)
		}
	}
}
