package follower

// laneRing serves lanes in turn. A lane is in at most one ring at a time. Call initRing before use.
type laneRing struct{ root lane }

func (t *laneRing) initRing() { t.root.prevInRing, t.root.nextInRing = &t.root, &t.root }

// firstLane returns the next lane to be served, or nil.
func (t *laneRing) firstLane() *lane {
	if t.root.nextInRing == &t.root {
		return nil
	}
	return t.root.nextInRing
}

// addLane puts a lane that is in no ring after all others.
func (t *laneRing) addLane(l *lane) {
	l.prevInRing, l.nextInRing = t.root.prevInRing, &t.root
	l.prevInRing.nextInRing, t.root.prevInRing = l, l
}

func (l *lane) isInRing() bool { return l.nextInRing != nil }

// leaveRing removes a lane from its ring, if it is in one.
func (l *lane) leaveRing() {
	if l.isInRing() {
		l.prevInRing.nextInRing, l.nextInRing.prevInRing = l.nextInRing, l.prevInRing
		l.prevInRing, l.nextInRing = nil, nil
	}
}
