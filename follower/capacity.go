package follower

import "container/list"

// capacity limits the writes that wait in lanes, and lists the Submits that wait for room. The outbox's lock
// guards it.
type capacity struct {
	maxWrites, maxBytes int

	queuedWrites, queuedBytes int
	heavyBytes                int          // of the heavy writes among them
	blockedSubmits            [2]list.List // of *place, in order of arrival: for light writes, for heavy ones
}

// place is a place in the list of Submits that wait for room.
type place struct {
	lane     *lane
	cost     cost
	turnCome chan struct{} // closed when freed is set
	freed    bool
}

// isFull reports whether there is no room for a light or a heavy write. Heavy writes may take only
// half of the bytes, so that light ones find room beside them.
func (c *capacity) isFull(heavy bool) bool {
	return c.queuedWrites >= c.maxWrites || c.queuedBytes >= c.maxBytes || heavy && c.heavyBytes >= c.maxBytes/2
}

func (c *capacity) addWrite(cost cost) {
	c.queuedWrites++
	c.queuedBytes += cost.size
	if cost.isHeavy() {
		c.heavyBytes += cost.size
	}
}

func (c *capacity) removeWrite(cost cost) {
	c.queuedWrites--
	c.queuedBytes -= cost.size
	if cost.isHeavy() {
		c.heavyBytes -= cost.size
	}
}

// blockSubmit adds a place at the end of its list. The place is freed when there is room, or when lane l, unless it is
// nil, has nothing unapplied.
func (c *capacity) blockSubmit(cost cost, l *lane) *list.Element {
	p := &place{cost: cost, lane: l, turnCome: make(chan struct{})}
	e := c.blockedList(cost).PushBack(p)
	if l != nil {
		l.blockedPlace = e
	}
	return e
}

func (c *capacity) blockedList(cost cost) *list.List {
	if cost.isHeavy() {
		return &c.blockedSubmits[1]
	}
	return &c.blockedSubmits[0]
}

// admitBlocked frees the oldest places while there is room, those of light writes first.
func (c *capacity) admitBlocked() {
	for i := range c.blockedSubmits {
		b := &c.blockedSubmits[i]
		for e := b.Front(); e != nil && !c.isFull(i == 1); e = b.Front() {
			c.freePlace(e)
		}
	}
}

// freePlace removes a place from its list and lets its Submit continue, with its write counted.
func (c *capacity) freePlace(e *list.Element) {
	p := e.Value.(*place)
	c.blockedList(p.cost).Remove(e)
	if p.lane != nil && p.lane.blockedPlace == e {
		p.lane.blockedPlace = nil
	}
	c.addWrite(p.cost)
	p.freed = true
	close(p.turnCome)
}
