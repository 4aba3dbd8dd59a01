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

// Places in the picture.
const (
	edge        = 20.0 // left and right of everything
	leader      = 390.0
	second      = 760.0 // the x position of the right follower
	column      = 510.0 // the x position of the right list of steps
	listTop     = 468.0
	serverWidth = 220.0
	serverTop   = 130.0
	clientWidth = 130.0
	clientTop   = 16.0
	clientEnd   = 52.0
	partMargin  = 12.0
)

var servers = []struct {
	x     float64
	name  string
	parts []string // next to each other
}{
	{edge, "member 1, follower", []string{"sessions heard here"}},
	{leader, "member 2, leader", []string{"deadlines", "next entry"}},
	{second, "member 3, follower", []string{"writes under way"}},
}

var clients = []struct {
	x                 float64
	name              string
	kind, call, reply string
}{
	{edge + serverWidth/2, "client A", "ping", "a", "b"},
	{second + serverWidth/2, "client B", "write", "1", "6"},
}

// Parts begin a margin inside their members. An arrow goes from one part to the other.
const (
	leftPart        = edge + serverWidth - partMargin
	leaderLeftPart  = leader + partMargin
	leaderRightPart = leader + serverWidth - partMargin
	rightPart       = second + partMargin
)

// ways are the arrows between members.
var ways = []struct {
	kind, number string
	from, to, y  float64
}{
	{"ping", "c", leaderLeftPart, leftPart, 188},
	{"ping", "d", leftPart, leaderLeftPart, 213},
	{"ping", "e", leaderLeftPart, leftPart, 238},
	{"write", "2", rightPart, leaderRightPart, 213},
	{"write", "3", leaderLeftPart, leftPart, 294},
	{"write", "4", leftPart, leaderLeftPart, 319},
	{"write", "5", leaderLeftPart, leftPart, 344},
	{"write", "3", leaderRightPart, rightPart, 294},
	{"write", "4", rightPart, leaderRightPart, 319},
	{"write", "5", leaderRightPart, rightPart, 344},
}

// ensemble draws three members and what goes between them.
func ensemble() string {
	d := &drawing{width: 1000, height: 660}
	for _, s := range servers {
		d.server(s.x, s.name, s.parts)
	}
	for _, c := range clients {
		d.box("part", c.x-clientWidth/2, clientTop, clientWidth, clientEnd-clientTop)
		d.text("title middle", c.x, clientTop+23, c.name)
		d.arrow(c.kind, c.x-30, clientEnd, c.x-30, serverTop)
		d.step(c.kind, c.call, c.x-30, (clientEnd+serverTop)/2)
		d.arrow(c.kind, c.x+30, serverTop, c.x+30, clientEnd)
		d.step(c.kind, c.reply, c.x+30, (clientEnd+serverTop)/2)
	}
	for _, w := range ways {
		d.arrow(w.kind, w.from, w.y, w.to, w.y)
		d.step(w.kind, w.number, (w.from+w.to)/2, w.y)
	}
	d.list("ping", "The way of a ping", pingSteps, edge, listTop)
	d.list("write", "The way of a write", writeSteps, column, listTop)
	return d.svg("An ensemble of three members: the way of a ping and the way of a write")
}

// server draws a member: parts next to each other, and below them its log and its tree.
func (d *drawing) server(x float64, name string, parts []string) {
	middle := x + serverWidth/2
	d.box("server", x, serverTop, serverWidth, 304)
	d.text("title middle", middle, serverTop+25, name)
	width := (serverWidth - partMargin*float64(len(parts)+1)) / float64(len(parts))
	for i, part := range parts {
		left := x + partMargin + (width+partMargin)*float64(i)
		d.box("part", left, 168, width, 90)
		d.text("middle", left+width/2, 218, part)
	}
	d.box("part", x+partMargin, 274, serverWidth-2*partMargin, 90)
	d.text("middle", middle, 324, "log, on disk")
	d.arrow("plain", middle, 364, middle, 386)
	d.box("part", x+partMargin, 386, serverWidth-2*partMargin, 36)
	d.text("middle", middle, 409, "tree, sessions, watches")
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
