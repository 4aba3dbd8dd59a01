package client

// MaxWatchEvents is the number of events that wait for the reader of a Watch. Above it, events are joined to Gaps. A
// reader that reads a node at each event is seldom so far behind, and the events take less than 200 kB.
const MaxWatchEvents = 1024

// MaxStatelessEvents is that number for TreeWithoutState. There a Gap means that the caller reads the whole tree, and a server
// can send many missed events at once. They take about 5 MB.
const MaxStatelessEvents = 32 << 10

// eventQueue has the events that wait for the reader of a Watch. The zero value is empty.
type eventQueue struct {
	events []Event
	first  int // events before it have been popped
}

// push adds an event. If most events wait, it joins the event to those; root is the path of the Watch.
func (q *eventQueue) push(e Event, root string, most int) {
	if len(q.events)-q.first < most {
		if q.first > 0 && len(q.events) == cap(q.events) {
			n := copy(q.events, q.events[q.first:])
			clear(q.events[n:])
			q.events, q.first = q.events[:n], 0
		}
		q.events = append(q.events, e)
		return
	}
	waiting := q.events[q.first:]
	for i := len(waiting) - 1; i >= 0; i-- {
		if waiting[i].Path == e.Path {
			waiting[i] = gapOver(waiting[i], e, e.Path, waiting[i].Below || e.Below)
			return
		}
	}
	all := waiting[0]
	for _, next := range append(waiting[1:], e) {
		all = gapOver(all, next, root, true)
	}
	q.events, q.first = append([]Event(nil), all), 0
}

// gapOver returns the Gap that stands for two events, of which second is the later one.
func gapOver(first, second Event, path string, below bool) Event {
	return Event{
		Type: Gap, Path: path, Below: below,
		From: min(zxidBefore(first), zxidBefore(second)), Zxid: max(first.Zxid, second.Zxid),
	}
}

// zxidBefore returns a transaction before all changes of an event, or NoZxid, which is less than all others.
func zxidBefore(e Event) Zxid {
	if e.Type == Gap || e.Zxid == NoZxid {
		return e.From
	}
	return e.Zxid - 1
}

func (q *eventQueue) isEmpty() bool { return q.first == len(q.events) }

// pop removes the oldest event. ok is false if there is none.
func (q *eventQueue) pop() (e Event, ok bool) {
	if q.isEmpty() {
		return Event{}, false
	}
	e = q.events[q.first]
	q.events[q.first] = Event{}
	if q.first++; q.first == len(q.events) {
		q.events, q.first = q.events[:0], 0
	}
	return e, true
}
