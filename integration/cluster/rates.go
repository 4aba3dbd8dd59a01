package cluster

import "math/rand/v2"

// SetRate makes the clock by which a member counts run at a rate from now on, through all its restarts:
// 2 is twice as fast as real time. A history has one rate for each member, so set it before sessions are opened.
func (e *Ensemble) SetRate(id uint32, rate float64) { e.members[id].monotonic.SetRate(rate) }

// farApart is by how much the clocks of two members may differ in speed.
const farApart = 1.1

// DrawRates draws rates for the clocks of the members that there are, and sets them. No clock is more than
// a tenth faster than another one, or than real time, by which the clients and later members count. Half of
// the clocks are as slow or as fast as that allows.
func (e *Ensemble) DrawRates(rng *rand.Rand) {
	slowest := 1 - rng.Float64()*(1-1/farApart)
	for _, id := range e.IDs() {
		rate := slowest
		switch rng.IntN(4) {
		case 0:
		case 1:
			rate *= farApart
		default:
			rate *= 1 + rng.Float64()*(farApart-1)
		}
		e.SetRate(id, rate)
	}
}
