package follower

import "container/list"

// capacity limits the writes that wait in lanes, and lists the Submits that wait for room, light and heavy
// writes apart. The outbox's lock guards it.
type capacity struct {
	maxWrites, maxBytes int

	writes, bytes int
	heavyBytes    int          // bytes of heavy writes, among bytes
	blocked       [2]list.List // lists of *place, in order of arrival: for light writes, for heavy ones
}

// place is a place in the list of Submits that wait for room.
type place struct {
	lane  *lane
	cost  cost          // of the write to be submitted
	free  chan struct{} // closed when its turn has come
	freed bool
}

// full reports whether there is no room for a light or a heavy write. Heavy writes may take only
// half of the bytes, so that light ones find room beside them.
func (c *capacity) full(heavy bool) bool {
	return c.writes >= c.maxWrites || c.bytes >= c.maxBytes || heavy && c.heavyBytes >= c.maxBytes/2
}

func (c *capacity) add(cost cost) {
	c.writes++
	c.bytes += cost.size
	if cost.heavy() {
		c.heavyBytes += cost.size
	}
}

func (c *capacity) remove(cost cost) {
	c.writes--
	c.bytes -= cost.size
	if cost.heavy() {
		c.heavyBytes -= cost.size
	}
}

// block adds a place for a write at the end of its list. The place is freed when there is room, or by the lane l,
// which may be nil.
func (c *capacity) block(cost cost, l *lane) *list.Element {
	p := &place{cost: cost, lane: l, free: make(chan struct{})}
	e := c.list(cost).PushBack(p)
	if l != nil {
		l.place = e
	}
	return e
}

// list returns the list in which a Submit of such a write waits.
func (c *capacity) list(cost cost) *list.List {
	if cost.heavy() {
		return &c.blocked[1]
	}
	return &c.blocked[0]
}

// admit lets in the writes that have waited longest, light ones first, as far as there is room.
func (c *capacity) admit() {
	for i := range c.blocked {
		b := &c.blocked[i]
		for e := b.Front(); e != nil && !c.full(i == 1); e = b.Front() {
			c.free(e)
		}
	}
}

// free removes a place from its list and lets its Submit continue, with its write counted.
func (c *capacity) free(e *list.Element) {
	p := e.Value.(*place)
	c.list(p.cost).Remove(e)
	if p.lane != nil && p.lane.place == e {
		p.lane.place = nil
	}
	c.add(p.cost)
	p.freed = true
	close(p.free)
}
