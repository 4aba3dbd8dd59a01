package main

// The times of the picture of a read are in ways: the time from one member to another.
const (
	lastWay     = 5
	entryComes  = 1.0 // the follower has stored the entry in memory, and holds it
	wordOfAll   = 2.0 // the leader knows that a majority has it on disk, and that the follower holds it
	noticeComes = 3.0 // the follower knows, too
	replyTakes  = 0.12
)

const (
	perWay          = 163.0
	writerY         = 56.0
	readLeaderY     = 126.0
	readFollowerY   = 226.0
	readerY         = 316.0
	readLeaseTop    = 362.0
	readAxisY       = 414.0
	readExplanation = readAxisY + 54
)

var readLanes = []struct {
	y           float64
	name, below string
}{
	{writerY, "client that writes", "beside the leader"},
	{readLeaderY, "leader", ""},
	{readFollowerY, "follower", "has a lease for reads"},
	{readerY, "client that reads", "beside the follower"},
	{readLeaseTop + 14, "follower's lease", ""},
}

// reads are the reads in the picture: when they are sent and answered, by the number of their explanation.
var reads = []struct {
	number         string
	sent, answered float64
}{
	{"1", 0.5, 0.5 + replyTakes},
	{"2", 1.5, 1.5 + replyTakes},
	{"3", 2.3, noticeComes + replyTakes},
}

var readSteps = []step{
	{"1", []string{"A read before the entry arrives: the follower holds nothing and answers at once. No client knows of the write yet."}},
	{"2", []string{"A read of another node: the entry that the follower holds does not concern it. The answer comes at once."}},
	{"3", []string{
		"A read of the node that is written: the writer may have its reply, so the follower first applies what it holds.",
		"If the follower were cut off, the leader would show the write to no client before this lease had ended.",
	}},
}

func way(ways float64) float64 { return firstTick + perWay*ways }

// read draws a write at the leader, and three reads at a follower with a lease.
func read() string {
	d := &drawing{width: 1000, height: 590}
	for i := range lastWay + 1 {
		d.line("grid", way(float64(i)), 30, way(float64(i)), readAxisY)
		d.text("small middle", way(float64(i)), readAxisY+18, string(rune('0'+i)))
	}
	d.text("small right", labelRight, readAxisY+18, "time, in ways")
	for _, lane := range readLanes {
		d.text("title right", labelRight, lane.y+5, lane.name)
		d.text("small right", labelRight, lane.y+22, lane.below)
	}
	for _, y := range []float64{writerY, readLeaderY, readFollowerY, readerY, readAxisY} {
		d.line("plain", way(0), y, way(lastWay), y)
	}
	d.writeAtLeader()
	for _, r := range reads {
		d.arrow("ping", way(r.sent), readerY, way(r.sent), readFollowerY+11)
		d.arrow("ping", way(r.answered), readFollowerY+11, way(r.answered), readerY)
		d.step("ping", r.number, way(r.sent), readerY)
	}
	d.box("live", way(0), readLeaseTop, way(lastWay)-way(0), 28)
	d.text("middle", way(lastWay/2.0), readLeaseTop+19, "Until the lease ends, the leader shows no write that the follower lacks. Reads renew it.")
	d.list("ping", "Three reads", readSteps, edge, readExplanation)
	return d.svg("A write at the leader, and three reads at a follower that has a lease for reads")
}

func (d *drawing) writeAtLeader() {
	d.arrow("write", way(0), writerY, way(0), readLeaderY)
	d.arrow("write", way(0), readLeaderY, way(entryComes), readFollowerY-11)
	d.text("small", way(entryComes)-74, (readLeaderY+readFollowerY)/2-8, "entry")
	d.box("kept", way(entryComes), readFollowerY-11, way(noticeComes)-way(entryComes), 22)
	d.text("small middle", way((entryComes+noticeComes)/2), readFollowerY+4, "held, not applied")
	d.arrow("ack", way(entryComes), readFollowerY-11, way(wordOfAll), readLeaderY)
	d.text("small", way(wordOfAll)-52, (readLeaderY+readFollowerY)/2+22, "held and stored")
	d.arrow("ack", way(wordOfAll), readLeaderY, way(wordOfAll), writerY)
	d.text("small", way(wordOfAll)+10, (writerY+readLeaderY)/2+4, "The write is done: on a majority's disks, and held by all with a lease.")
	d.arrow("write", way(wordOfAll), readLeaderY, way(noticeComes), readFollowerY-11)
	d.text("small", way(noticeComes)+8, readFollowerY-20, "committed: applied here, too")
}
