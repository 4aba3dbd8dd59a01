package follower

import "math/bits"

// Weights are in units of a 4096th of an entry. An entry holds 4096 operations, or 1 MiB.
const (
	bytesPerUnit = 256
	// lightWeight is the weight of the heaviest light write, in units: a multi of 64 operations,
	// or 16 KiB.
	lightWeight = 64
	// maxHeavy limits the total weight, in units, of the heavy writes in flight to two entries. The last
	// one may exceed it. A light write sent after them waits for no more than that.
	maxHeavy = 8192
	// numClasses is the number of weight classes. The last one begins at 2^20 units: 256 MiB or a
	// million operations.
	numClasses = 16
)

// weightOf returns the weight, in units, of a transaction of ops operations and size bytes.
func weightOf(ops, size int) int { return max((size+bytesPerUnit-1)/bytesPerUnit, ops) }

// classOf returns the class of a weight: 0 for light writes, then one class for each doubling.
func classOf(weight int) int {
	return min(bits.Len(uint(max(weight-1, 0)/lightWeight)), numClasses-1)
}

// fairQueue is a weighted fair queue of lanes, in classes by the weight of their first write. The classes
// that are not empty get equal shares by weight, whatever a single write weighs. So heavy writes do not
// delay light ones, and light writes do not delay heavy ones for long. Call initRings before use.
type fairQueue struct {
	byWeight    [numClasses]weightClass
	virtualTime uint64 // virtual start time, in units, of the write that was sent last
}

// weightClass is one class. Its next write starts at a virtual time and takes as long as its weight.
type weightClass struct {
	laneRing
	virtualStart uint64
}

func (c *fairQueue) initRings() {
	for i := range c.byWeight {
		c.byWeight[i].initRing()
	}
}

// addLane puts a lane that is in no ring at the end of the ring of its first write. A class that had
// nothing to send gets no more than its share later.
func (c *fairQueue) addLane(l *lane) {
	class := &c.byWeight[classOf(l.queue.At(0).weight)]
	if class.firstLane() == nil {
		class.virtualStart = max(class.virtualStart, c.virtualTime)
	}
	class.laneRing.addLane(l)
}

// nextLane returns the lane to be served, or nil if there is none. Of the first lanes of the n lightest
// classes, it is the one whose write would be done first.
func (c *fairQueue) nextLane(n int) *lane {
	var next *lane
	var done uint64
	for i := range c.byWeight[:n] {
		l := c.byWeight[i].firstLane()
		if l == nil {
			continue
		}
		if end := c.byWeight[i].virtualStart + uint64(l.queue.At(0).weight); next == nil || end < done {
			next, done = l, end
		}
	}
	return next
}

// chargeWeight charges a write that is sent to its class.
func (c *fairQueue) chargeWeight(weight int) {
	class := &c.byWeight[classOf(weight)]
	c.virtualTime = max(c.virtualTime, class.virtualStart)
	class.virtualStart += uint64(weight)
}
