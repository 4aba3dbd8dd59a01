package follower

import (
	"math/bits"

	"rollcall/jute"
	"rollcall/proto"
)

// Weights are parts of an entry, in 4096ths: an entry takes so many operations, or 1 MiB.
const (
	bytesPerUnit = 256
	// lightWeight is the weight of the heaviest light write, in units: a multi of 64 operations,
	// or 16 KiB.
	lightWeight = 64
	// maxHeavy is how much the heavy writes may weigh together that are sent and not applied,
	// in units: two entries. One more may exceed it. A light write that follows them waits for
	// no more than that.
	maxHeavy = 8192
	// numClasses is how many classes of weights there are: the last one begins at 2^20 units,
	// 256 MiB or a million operations.
	numClasses = 16
)

// weigh returns what a transaction of so many bytes weighs, in units.
func weigh(txn *proto.Txn, size int) int {
	units := (size + bytesPerUnit - 1) / bytesPerUnit
	if txn.Op == int32(jute.OpMulti) {
		units = max(units, jute.CountMulti(txn.Body))
	}
	return units
}

// classOf returns the class of a weight: 0 for light ones, then one for each doubling.
func classOf(weight int) int {
	return min(bits.Len(uint(max(weight-1, 0)/lightWeight)), numClasses-1)
}

// classes are circles of lanes by the weight of their heads. Those in which a lane waits share
// what is sent, by weight, whatever one write of them weighs: the light ones are not kept
// waiting by the heavy ones, nor the other way round for long. The zero value needs init.
type classes struct {
	of   [numClasses]class
	time uint64 // the start of what was sent last, in units of virtual time
}

// class is one circle. Its next write starts at a virtual time and takes as long as it weighs.
type class struct {
	turns
	start uint64
}

func (c *classes) init() {
	for i := range c.of {
		c.of[i].init()
	}
}

// add puts a lane that is in no circle behind those of its head's class. A class that had
// nothing to send gains nothing by that.
func (c *classes) add(l *lane) {
	class := &c.of[classOf(l.queue.At(0).weight)]
	if class.first() == nil {
		class.start = max(class.start, c.time)
	}
	class.turns.add(l)
}

// next returns the lane whose turn it is, without the heavy ones if light is set: of the first
// ones of all classes, that which would be done first. It returns nil if there is none.
func (c *classes) next(light bool) *lane {
	n := len(c.of)
	if light {
		n = 1
	}
	var next *lane
	var done uint64
	for i := range c.of[:n] {
		l := c.of[i].first()
		if l == nil {
			continue
		}
		if end := c.of[i].start + uint64(l.queue.At(0).weight); next == nil || end < done {
			next, done = l, end
		}
	}
	return next
}

// charge notes that a write is sent.
func (c *classes) charge(weight int) {
	class := &c.of[classOf(weight)]
	c.time = max(c.time, class.start)
	class.start += uint64(weight)
}
