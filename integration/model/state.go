package model

// role is what a process does with its disk.
type role uint8

const (
	follower role = iota
	candidate
	leader
	gone   // the disk is lost
	asking // only with KeepsIdentity: an emptied disk that has not yet been let in
	let    // only with KeepsIdentity: an emptied disk that was let in, and copies the log
)

// disk is a disk, and the process that runs with it.
type disk struct {
	log     logID
	acks    uint32 // of a leader: by disk, three bits each, what a disk has acknowledged that has left the term since
	term    uint8
	role    role
	voted   bool  // in its term. For whom does not matter: a vote that is given twice is in grants already
	durable uint8 // of a leader: the entries that are on its disk. All entries of the others are
	grants  set   // of a candidate: who votes for it. Of a disk that was let in: for whom it may vote before it has the log
}

func (d *disk) ack(from int) uint8 { return uint8(d.acks>>(3*from)) & 7 }

func (d *disk) setAck(from int, index uint8) {
	d.acks = d.acks&^(7<<(3*from)) | uint32(index)<<(3*from)
}

// live reports whether the disk is there, and belongs to a server that takes part.
func (d *disk) live() bool { return d.role != gone && d.role != asking }

const maxTerms = 6

// state is a state of the model. The messages that are on their way are part of it in this form:
//
//   - Votes are in grants of the candidate from the moment they are given. A vote counts although the disk that gave it
//     was lost since. A candidate with enough of them leads at once: until it does, and while it does nothing, it is
//     the same to all others.
//   - A leader's entries can be delivered at any time, because what it sends is a piece of its log, which only grows in
//     its term. After it is gone, sent has its log.
//   - Acknowledgements need no message while the disk is in the leader's term: what its log has in common with the leader's
//     can be acknowledged at once. acks has them when it is no more.
type state struct {
	disks  [maxDisks]disk
	sent   [maxTerms]logID // by term: what its leader has sent, if it leads no more
	said   [maxTerms]word  // by term: what it may have told others of its disk
	shown  logID           // what was shown as committed to anybody
	by     uint32          // by index, three bits each: the term of the leader that has shown it first
	led    uint8           // the terms that had a leader
	wipes  uint8           // how many disks were lost
	broken loss            // what this state has lost

	restarted bool // while looking for progress: all processes have been restarted, so none knows what is committed
}

// shownIn returns the term in which the entry at an index was shown.
func (s *state) shownIn(index uint8) uint8 { return uint8(s.by>>(3*(index-1))) & 7 }

// loss is a broken promise.
type loss uint8

const (
	none loss = iota
	lacksShown
	twoLeaders
	twoHistories
	noProgress
)

func (l loss) String() string {
	return [...]string{
		"nothing is lost", "a leader lacks an entry that was shown as committed", "a term has two leaders",
		"two entries are shown as committed at one index", "a majority is there, and can elect no leader that commits",
	}[l]
}

// encode appends a state to b: nine bytes for each disk, and what else there is.
func (m *Model) encode(s *state, b []byte) []byte {
	three := func(n uint32) { b = append(b, byte(n), byte(n>>8), byte(n>>16)) }
	for i := range m.Disks {
		d := &s.disks[i]
		three(uint32(d.log))
		three(d.acks)
		flags := byte(d.role) << 4
		if d.voted {
			flags |= 0x80
		}
		b = append(b, flags|d.term, d.durable, byte(d.grants))
	}
	three(uint32(s.shown))
	three(s.by)
	b = append(b, s.led, s.wipes)
	if m.Late {
		for t := 2; t <= int(m.Terms); t++ {
			three(uint32(s.sent[t]))
			b = append(b, byte(s.said[t].leader), s.said[t].durable)
		}
	}
	return b
}

// size returns the length of an encoded state.
func (m *Model) size() int { return len(m.encode(new(state), nil)) }

// decode is the inverse of encode.
func (m *Model) decode(b []byte) (s state) {
	three := func() (n uint32) {
		n = uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
		b = b[3:]
		return n
	}
	for i := range m.Disks {
		d := &s.disks[i]
		d.log, d.acks = logID(three()), three()
		d.role, d.voted, d.term = role(b[0]>>4&7), b[0]&0x80 != 0, b[0]&15
		d.durable, d.grants = b[1], set(b[2])
		b = b[3:]
	}
	s.shown, s.by = logID(three()), three()
	s.led, s.wipes = b[0], b[1]
	b = b[2:]
	if m.Late {
		for t := 2; t <= int(m.Terms); t++ {
			s.sent[t], s.said[t] = logID(three()), word{set(b[0]), b[1]}
			b = b[2:]
		}
	}
	return s
}
