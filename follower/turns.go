package follower

// turns is a circle of lanes that wait to be served. Call init before use. A lane is in at most one
// circle at a time.
type turns struct{ root lane }

func (t *turns) init() { t.root.prev, t.root.next = &t.root, &t.root }

// first returns the lane whose turn it is, or nil.
func (t *turns) first() *lane {
	if t.root.next == &t.root {
		return nil
	}
	return t.root.next
}

// add puts a lane that is in no circle after all others.
func (t *turns) add(l *lane) {
	l.prev, l.next = t.root.prev, &t.root
	l.prev.next, t.root.prev = l, l
}

func (l *lane) listed() bool { return l.next != nil }

// unlist removes a lane from the circle it is in, if any.
func (l *lane) unlist() {
	if l.listed() {
		l.prev.next, l.next.prev = l.next, l.prev
		l.prev, l.next = nil, nil
	}
}
