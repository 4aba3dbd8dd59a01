package follower

import "container/list"

// capacity limits the writes that wait in lanes, and lists the Submits that wait for room. The outbox's lock
// guards it.
type capacity struct {
	maxWrites, maxBytes int

	queuedWrites, queuedBytes int
	heavyBytes                int          // of the heavy writes among them
	blockedSubmits            [2]list.List // of *blockedSubmit, in order of arrival: for light writes, for heavy ones
}

// blockedSubmit is a place in the list of Submits that wait for room.
type blockedSubmit struct {
	lane       *lane
	cost       cost
	admitted   chan struct{} // closed when isAdmitted is set
	isAdmitted bool
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

// enqueueBlocked adds a place at the end of its list. The place is freed when there is room, or when lane l,
// unless it is nil, has nothing unapplied.
func (c *capacity) enqueueBlocked(cost cost, l *lane) *list.Element {
	p := &blockedSubmit{cost: cost, lane: l, admitted: make(chan struct{})}
	e := c.blockedList(cost).PushBack(p)
	if l != nil {
		l.blockedSubmit = e
	}
	return e
}

func (c *capacity) blockedList(cost cost) *list.List {
	if cost.isHeavy() {
		return &c.blockedSubmits[1]
	}
	return &c.blockedSubmits[0]
}

// admitWhileRoom frees the oldest places while there is room, those of light writes first.
func (c *capacity) admitWhileRoom() {
	for i := range c.blockedSubmits {
		b := &c.blockedSubmits[i]
		for e := b.Front(); e != nil && !c.isFull(i == 1); e = b.Front() {
			c.admitSubmit(e)
		}
	}
}

// admitSubmit removes a place from its list and lets its Submit continue, with its write counted.
func (c *capacity) admitSubmit(e *list.Element) {
	p := e.Value.(*blockedSubmit)
	c.blockedList(p.cost).Remove(e)
	if p.lane != nil && p.lane.blockedSubmit == e {
		p.lane.blockedSubmit = nil
	}
	c.addWrite(p.cost)
	p.isAdmitted = true
	close(p.admitted)
}
