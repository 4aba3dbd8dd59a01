package main

// step is one step on the way of a message: its number, and what happens.
type step struct {
	number string
	lines  []string
}

var pingSteps = []step{
	{"a", []string{"Client A sends a ping, or any other request, to its member."}},
	{"b", []string{"The member notes that it heard the session, and answers at once."}},
	{"c", []string{"Every half tick the leader asks each member which sessions it heard."}},
	{"d", []string{"The member answers with all that the leader has not acknowledged."}},
	{"e", []string{
		"The leader moves their deadlines, makes sure with a majority that it",
		"still leads, and acknowledges. Until 0.9 of the session's timeout",
		"after d, the member may now tell the client that its session lives.",
	}},
}

var writeSteps = []step{
	{"1", []string{"Client B sends a write to its member."}},
	{"2", []string{"The member numbers the write and forwards it to the leader."}},
	{"3", []string{"The leader puts it into an entry of the log and sends that to all."}},
	{"4", []string{"Each member stores the entry on its disk and confirms it."}},
	{"5", []string{
		"When a majority has stored the entry, it is committed. The leader",
		"tells all members, and each of them applies it to its tree.",
	}},
	{"6", []string{"The client's own member replies to it."}},
}

// ensemble draws three members and what goes between them.
func ensemble() string {
	const (
		serverWidth = 220.0
		serverTop   = 130.0
		clientWidth = 130.0
		clientTop   = 16.0
		clientEnd   = 52.0
		partMargin  = 12.0
		edge        = 20.0 // of the picture
		leader      = 390.0
		second      = 760.0 // the x position of the right follower
		column      = 510.0 // the x position of the right list of steps
	)
	d := &drawing{width: 1000, height: 660}
	ways := []float64{188, 213, 238, 294, 319, 344} // heights of the arrows between members

	for _, s := range []struct {
		x     float64
		name  string
		parts []string // next to each other
	}{
		{edge, "member 1, follower", []string{"sessions heard here"}},
		{leader, "member 2, leader", []string{"deadlines", "next entry"}},
		{second, "member 3, follower", []string{"writes under way"}},
	} {
		middle := s.x + serverWidth/2
		d.box("server", s.x, serverTop, serverWidth, 304)
		d.text("title middle", middle, serverTop+25, s.name)
		width := (serverWidth - partMargin*float64(len(s.parts)+1)) / float64(len(s.parts))
		for i, part := range s.parts {
			x := s.x + partMargin + (width+partMargin)*float64(i)
			d.box("part", x, 168, width, 90)
			d.text("middle", x+width/2, 218, part)
		}
		d.box("part", s.x+partMargin, 274, serverWidth-2*partMargin, 90)
		d.text("middle", middle, 324, "log, on disk")
		d.arrow("plain", middle, 364, middle, 386)
		d.box("part", s.x+partMargin, 386, serverWidth-2*partMargin, 36)
		d.text("middle", middle, 409, "tree, sessions, watches")
	}
	for _, c := range []struct {
		x                 float64
		name              string
		kind, call, reply string
	}{
		{edge + serverWidth/2, "client A", "ping", "a", "b"},
		{second + serverWidth/2, "client B", "write", "1", "6"},
	} {
		d.box("part", c.x-clientWidth/2, clientTop, clientWidth, clientEnd-clientTop)
		d.text("title middle", c.x, clientTop+23, c.name)
		d.arrow(c.kind, c.x-30, clientEnd, c.x-30, serverTop)
		d.step(c.kind, c.call, c.x-30, (clientEnd+serverTop)/2)
		d.arrow(c.kind, c.x+30, serverTop, c.x+30, clientEnd)
		d.step(c.kind, c.reply, c.x+30, (clientEnd+serverTop)/2)
	}

	// Parts begin a margin inside their members; an arrow goes from one part to the other.
	between := func(kind, number string, from, to, y float64) {
		d.arrow(kind, from, y, to, y)
		d.step(kind, number, (from+to)/2, y)
	}
	left, right := edge+serverWidth-partMargin, second+partMargin
	leaderLeft, leaderRight := leader+partMargin, leader+serverWidth-partMargin
	between("ping", "c", leaderLeft, left, ways[0])
	between("ping", "d", left, leaderLeft, ways[1])
	between("ping", "e", leaderLeft, left, ways[2])
	between("write", "2", right, leaderRight, ways[1])
	for _, f := range []struct{ leader, follower float64 }{{leaderLeft, left}, {leaderRight, right}} {
		between("write", "3", f.leader, f.follower, ways[3])
		between("write", "4", f.follower, f.leader, ways[4])
		between("write", "5", f.leader, f.follower, ways[5])
	}

	d.list("ping", "The way of a ping", pingSteps, edge, 468)
	d.list("write", "The way of a write", writeSteps, column, 468)
	return d.svg("An ensemble of three members: the way of a ping and the way of a write")
}

// list draws the steps of one way below its title.
func (d *drawing) list(kind, title string, steps []step, x, y float64) {
	d.text("title", x, y, title)
	y += 27
	for _, s := range steps {
		d.step(kind, s.number, x+9, y-5)
		d.text("", x+26, y, s.lines...)
		y += textLine*float64(len(s.lines)) + 5
	}
}
