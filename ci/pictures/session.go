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

// session draws the life of a session on an axis of time: what its client sends, what the
// member flushes and clears, the bucket of the session, the lease, and the expiry.
func session() string {
	const (
		clientY, serverY, leaderY  = 62.0, 142.0, 222.0
		bucketTop, bucketHeight    = 290.0, 40.0
		leaseTop, leaseHeight      = 364.0, 30.0
		axisY                      = 424.0
		first, perTick, labelRight = 150.0, 102.0, 136.0
	)
	d := &drawing{width: 1000, height: 604}
	at := func(ticks float64) float64 { return first + perTick*ticks }
	last := flushes[len(flushes)-1]
	silent := last.requests[len(last.requests)-1]
	due := float64(int(last.at+timeout) + 1)

	for tick := 0; tick <= lastTick; tick++ {
		x := at(float64(tick))
		d.line("grid", x, 30, x, axisY)
		d.text("small middle", x, axisY+18, strconv.Itoa(tick))
	}
	d.line("plain", at(0), axisY, at(lastTick), axisY)
	d.text("small right", labelRight, axisY+18, "time, in ticks")

	for _, lane := range []struct {
		y           float64
		name, below string
	}{
		{clientY, "client", "timeout T = 4 ticks"},
		{serverY, "its member", ""},
		{leaderY, "leader", "pings each half tick"},
		{bucketTop + 14, "leader's buckets", "one tick wide"},
		{leaseTop + 14, "lease at the member", ""},
	} {
		d.text("title right", labelRight, lane.y+5, lane.name)
		d.text("small right", labelRight, lane.y+22, lane.below)
	}

	// This line is the client until it falls silent, and the timeout after that.
	d.line("plain", at(0), clientY, at(silent), clientY)
	d.line("over dashed", at(silent), clientY, at(silent+timeout), clientY)
	d.line("over", at(silent+timeout), clientY-8, at(silent+timeout), clientY+8)
	d.text("middle", at(silent+timeout/2), clientY-8, "silent for T: not closed before this is over")
	d.text("small middle", at(silent), clientY-12, "last request")

	// The member remembers a session from the first request until the leader has acknowledged it.
	d.line("plain", at(0), serverY, at(due), serverY)
	d.line("plain", at(0), leaderY, at(due), leaderY)
	for half := halfTick; half <= due; half += halfTick {
		d.arrow("plain", at(half)-4, leaderY, at(half)-4, serverY+9)
	}
	for _, f := range flushes {
		d.box("kept", at(f.requests[0]), serverY-9, at(f.at+roundTrip)-at(f.requests[0]), 18)
		for _, r := range f.requests {
			d.arrow("ping", at(r), clientY, at(r), serverY-9)
			d.dot("ping", at(r), clientY, 4)
		}
		d.arrow("ping", at(f.at)+4, serverY+9, at(f.at)+4, leaderY)
		d.step("ping", f.name, at(f.at)+4, (serverY+leaderY)/2)
		d.arrow("ack", at(f.at+roundTrip), leaderY, at(f.at+roundTrip), serverY+9)
	}
	d.text("small", at(last.at+roundTrip)+24, serverY-14, "The member keeps a session in its list until the leader has acknowledged it.")
	d.text("small", at(last.at+roundTrip)+24, leaderY+16, "Nothing was heard any more: the answers to these pings are empty.")

	// These are the deadlines that the flushes set, in their buckets.
	for tick := 0; tick < lastTick; tick++ {
		class := "part"
		if float64(tick+1) == due {
			class = "part over"
		}
		d.box(class, at(float64(tick))+1, bucketTop, perTick-2, bucketHeight)
	}
	for i, f := range flushes {
		d.step("ping", f.name, at(f.at+timeout), bucketTop+bucketHeight/2)
		if i > 0 {
			d.arc("ping", at(flushes[i-1].at+timeout)+4, at(f.at+timeout)-4, bucketTop+9, 16)
		}
	}
	d.text("small middle", at(flushes[1].at+timeout), bucketTop-18, "each flush moves the session to a later bucket")

	// This is the lease, and its end.
	leaseEnd := last.at + 0.9*timeout
	d.box("live", at(0), leaseTop, at(leaseEnd)-at(0), leaseHeight)
	d.text("middle", at(leaseEnd/2), leaseTop+20, "the member may speak for the session, until 0.9 T after flush 3 was sent")
	d.text("small", at(leaseEnd)+8, leaseTop+19, "then silence")
	d.line("over", at(due), 92, at(due), axisY)
	d.text("title middle", at(due), 86, "expired")

	d.text("", 20, axisY+54,
		"Grey arrows are the leader's pings, numbered ones flushes, green ones acknowledgements. A flush lists the sessions that the member has heard and",
		"the leader has not acknowledged. If an answer is lost, the member sends it again with its age. The deadline of a session is T after the flush was",
		"first sent. It lies in a bucket, and the bucket is due at its end.",
		"When a bucket falls due, the leader asks every member once more. If none of them has heard the client, the leader puts the expiry into the log.",
		"Every member removes the session and its ephemeral nodes at that place of the log.",
	)
	d.text("small", 20, axisY+160, "So a client that falls silent is expired no sooner than T, and no later than T + 1.5 ticks and the time of a commit, as long as all members answer.")
	return d.svg("The life of a session: requests, flushes, buckets, the lease and the expiry")
}
