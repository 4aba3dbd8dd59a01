package main

import "strconv"

// The session in the picture has a timeout of four ticks. Times are in ticks.
const (
	timeout   = 4.0
	lastTick  = 8
	halfTick  = 0.5 // from one ping of the leader to the next
	roundTrip = 0.2 // from a flush to its acknowledgement
)

// flush is an answer to a ping of the leader, and the requests that it reports.
type flush struct {
	name     string
	requests []float64
	at       float64
}

var flushes = []flush{
	{"1", []float64{0.2}, 0.5},
	{"2", []float64{1.1, 1.35}, 1.5},
	{"3", []float64{2.2}, 2.5},
}

// Heights of the lanes, and places on the axis of time.
const (
	clientY      = 62.0
	serverY      = 142.0
	leaderY      = 222.0
	bucketTop    = 290.0
	bucketHeight = 40.0
	leaseTop     = 364.0
	leaseHeight  = 30.0
	axisY        = 424.0
	firstTick    = 150.0
	perTick      = 102.0
	labelRight   = 136.0
	explanationX = 20.0
	explanationY = axisY + 54
	conclusionY  = axisY + 160
)

var lanes = []struct {
	y           float64
	name, below string
}{
	{clientY, "client", "timeout T = 4 ticks"},
	{serverY, "its member", ""},
	{leaderY, "leader", "pings each half tick"},
	{bucketTop + 14, "leader's buckets", "half a tick wide"},
	{leaseTop + 14, "lease at the member", ""},
}

// heard returns the time of the last request that the flush reports.
func (f flush) heard() float64 { return f.requests[len(f.requests)-1] }

// life is the drawing of one session.
type life struct {
	drawing
	last        flush
	silent, due float64 // times of the last request and of the expiry
}

// at returns the x position of a time.
func at(ticks float64) float64 { return firstTick + perTick*ticks }

// session draws the life of a session on an axis of time.
func session() string {
	last := flushes[len(flushes)-1]
	l := &life{
		drawing: drawing{width: 1000, height: 604},
		last:    last, silent: last.heard(), due: float64(int((last.heard()+timeout)/halfTick)+1) * halfTick,
	}
	l.axis()
	l.client()
	l.heard()
	l.buckets()
	l.lease()
	l.explanation()
	return l.svg("The life of a session: requests, flushes, buckets, the lease and the expiry")
}

func (l *life) axis() {
	for tick := 0; tick <= lastTick; tick++ {
		x := at(float64(tick))
		l.line("grid", x, 30, x, axisY)
		l.text("small middle", x, axisY+18, strconv.Itoa(tick))
	}
	l.line("plain", at(0), axisY, at(lastTick), axisY)
	l.text("small right", labelRight, axisY+18, "time, in ticks")
	for _, lane := range lanes {
		l.text("title right", labelRight, lane.y+5, lane.name)
		l.text("small right", labelRight, lane.y+22, lane.below)
	}
}

// client draws the client until it falls silent, and the timeout after that.
func (l *life) client() {
	over := l.silent + timeout
	l.line("plain", at(0), clientY, at(l.silent), clientY)
	l.line("over dashed", at(l.silent), clientY, at(over), clientY)
	l.line("over", at(over), clientY-8, at(over), clientY+8)
	l.text("middle", at(l.silent+timeout/2), clientY-8, "silent for T: not closed before this is over")
	l.text("small middle", at(l.silent), clientY-12, "last request")
}

// heard draws the requests and the flushes that report them. The member remembers a session from the
// first request until the leader has acknowledged it.
func (l *life) heard() {
	l.line("plain", at(0), serverY, at(l.due), serverY)
	l.line("plain", at(0), leaderY, at(l.due), leaderY)
	for half := halfTick; half <= l.due; half += halfTick {
		l.arrow("plain", at(half)-4, leaderY, at(half)-4, serverY+9)
	}
	for _, f := range flushes {
		l.box("kept", at(f.requests[0]), serverY-9, at(f.at+roundTrip)-at(f.requests[0]), 18)
		for _, r := range f.requests {
			l.arrow("ping", at(r), clientY, at(r), serverY-9)
			l.dot("ping", at(r), clientY, 4)
		}
		l.arrow("ping", at(f.at)+4, serverY+9, at(f.at)+4, leaderY)
		l.step("ping", f.name, at(f.at)+4, (serverY+leaderY)/2)
		l.arrow("ack", at(f.at+roundTrip), leaderY, at(f.at+roundTrip), serverY+9)
	}
	l.text("small", at(l.last.at+roundTrip)+24, serverY-14, "The member keeps a session in its list until the leader has acknowledged it.")
	l.text("small", at(l.last.at+roundTrip)+24, leaderY+16, "Nothing was heard any more: the answers to these pings are empty.")
}

// buckets draws the deadlines that the flushes set, in their buckets.
func (l *life) buckets() {
	for begin := 0.0; begin < lastTick; begin += halfTick {
		class := "part"
		if begin+halfTick == l.due {
			class = "part over"
		}
		l.box(class, at(begin)+1, bucketTop, perTick*halfTick-2, bucketHeight)
	}
	for i, f := range flushes {
		l.step("ping", f.name, at(f.heard()+timeout), bucketTop+bucketHeight/2)
		if i > 0 {
			l.arc("ping", at(flushes[i-1].heard()+timeout)+4, at(f.heard()+timeout)-4, bucketTop+9, 16)
		}
	}
	l.text("small middle", at(flushes[1].heard()+timeout), bucketTop-18, "each flush moves the session to a later bucket")
}

// lease draws the lease with its end, and the expiry.
func (l *life) lease() {
	end := l.silent + 0.9*timeout
	l.box("live", at(0), leaseTop, at(end)-at(0), leaseHeight)
	l.text("middle", at(end/2), leaseTop+20, "the member may speak for the session, until 0.9 T after the last request in flush 3")
	l.text("small", at(end)+8, leaseTop+19, "then silence")
	l.line("over", at(l.due), 92, at(l.due), axisY)
	l.text("title middle", at(l.due), 86, "expired")
}

func (l *life) explanation() {
	l.text("", explanationX, explanationY,
		"Grey arrows are the leader's pings, numbered ones flushes, green ones acknowledgements. A flush lists the sessions that the member has heard and",
		"the leader has not acknowledged. If an answer is lost, the member sends it again with its age. The deadline of a session is T after its last",
		"request. It lies in a bucket, and the bucket is due at its end.",
		"When a bucket falls due, the leader asks every member once more. If none of them has heard the client, the leader puts the expiry into the log.",
		"Every member removes the session and its ephemeral nodes at that place of the log.",
	)
	l.text("small", explanationX, conclusionY, "So a client that falls silent is expired no sooner than T, and no later than T + half a tick and the times of a ping and a commit, as long as all members answer.")
}
