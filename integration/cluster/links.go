package cluster

import (
	"math/rand/v2"
	"time"
)

// maxLinkDelays are the longest delays of the links of an ensemble, each way: within a room, between zones, and between continents.
var maxLinkDelays = []time.Duration{0, 5 * time.Millisecond, 50 * time.Millisecond}

// maxLinkPause is the longest time after which a link gets another delay.
const maxLinkPause = 400 * time.Millisecond

// delays are those of the links between members, each way.
type delays struct {
	rng     *rand.Rand // nil: no link has a delay
	longest time.Duration
	next    time.Time                   // when a link gets another delay
	drawn   map[[2]uint32]time.Duration // from, to
	slowed  map[[2]uint32]time.Duration // by faults, in addition
	changes int                         // of the delay of a link, while plans were played
}

// DrawLinks draws a delay for each link between members in each direction, and while plans are played, another one for a link from time
// to time. In one of three ensembles no link has a delay.
func (e *Ensemble) DrawLinks(rng *rand.Rand) {
	if e.delays.longest = maxLinkDelays[rng.IntN(len(maxLinkDelays))]; e.delays.longest == 0 {
		return
	}
	e.delays.rng = rng
	for _, from := range e.IDs() {
		for _, to := range e.IDs() {
			e.drawLink(from, to)
		}
	}
}

// LinkDelay returns the longest delay of a link that may be drawn, or 0 if links have none.
func (e *Ensemble) LinkDelay() time.Duration { return e.delays.longest }

// LinkChanges returns the number of changes of links' delays while plans were played.
func (e *Ensemble) LinkChanges() int { return e.delays.changes }

// drawLink draws the delay from one member to another. If both are the same, it does nothing.
func (e *Ensemble) drawLink(from, to uint32) {
	if from != to {
		e.delays.drawn[[2]uint32{from, to}] = time.Duration(e.delays.rng.Int64N(int64(e.delays.longest) + 1))
		e.delayLink(from, to)
	}
}

// changeLinks draws another delay for a link if it is time.
func (e *Ensemble) changeLinks() {
	now := time.Now()
	if e.delays.rng == nil || now.Before(e.delays.next) {
		return
	}
	e.delays.next = now.Add(time.Duration(e.delays.rng.Int64N(int64(maxLinkPause))))
	e.delays.changes++
	ids := e.IDs()
	e.drawLink(ids[e.delays.rng.IntN(len(ids))], ids[e.delays.rng.IntN(len(ids))])
}

// slowLink makes the link between two members slower by a time, or faster again if it is negative, in both directions.
func (e *Ensemble) slowLink(a, b uint32, by time.Duration) {
	e.delays.slowed[[2]uint32{a, b}] += by
	e.delays.slowed[[2]uint32{b, a}] += by
	e.delayLink(a, b)
	e.delayLink(b, a)
}

func (e *Ensemble) delayLink(from, to uint32) {
	way := [2]uint32{from, to}
	e.Network.DelayBy(from, to, e.delays.drawn[way]+e.delays.slowed[way])
}
