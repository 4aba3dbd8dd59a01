package model

// diskRole is the role of a process and its disk.
type diskRole uint8

const (
	follower diskRole = iota
	candidate
	leader
	gone              // the disk is lost
	awaitingAdmission // only with KeepsIdentity: an emptied disk that has not yet been let in
	admitted          // only with KeepsIdentity: an emptied disk that was let in, and copies the log
)

// diskState is a disk, and the process that runs with it.
type diskState struct {
	log    logID
	acks   acknowledgements // of a leader: those of each disk that has left the term since
	term   uint8
	role   diskRole
	voted  bool    // in its term. For whom does not matter: a vote that is given twice is in grants already
	queued uint8   // how many of its last entries are not on the disk yet
	grants diskSet // of a candidate: who votes for it. Of a disk that was let in: for whom it may vote before it has the log
}

// acknowledgements has the last index that each disk has acknowledged in a term, three bits each.
type acknowledgements uint32

func (a acknowledgements) of(disk int) uint8 { return uint8(a>>(3*disk)) & 7 }

func (a *acknowledgements) set(disk int, index uint8) {
	*a = *a&^(7<<(3*disk)) | acknowledgements(index)<<(3*disk)
}

// durable returns how many entries of a disk's log are on it.
func (m *Model) durable(d *diskState) uint8 { return m.logs.all[d.log].length - d.queued }

// takesPart reports whether the disk is there, and belongs to a server that takes part.
func (d *diskState) takesPart() bool { return d.role != gone && d.role != awaitingAdmission }

const maxTerms = 6

// modelState is a state of the model. The messages that are on their way are part of it in this form:
//
//   - Votes are in grants of the candidate from the moment they are given. A vote counts although the disk that gave it
//     was lost since. A candidate with enough of them leads at once: until it does, and while it does nothing, it is
//     the same to all others.
//   - A leader's entries can be delivered at any time, because what it sends is a piece of its log, which only grows in
//     its term. After it is gone, sent has its log.
//   - Acknowledgements need no message while the disk is in the leader's term: what its log has in common with the leader's
//     can be acknowledged at once. acks has them when it is no more.
type modelState struct {
	disks       [maxDisks]diskState
	sentLogs    [maxTerms]logID       // by term: what its leader has sent, if it leads no more
	toldDurable [maxTerms]durableWord // by term: the word on its disk that it may have sent to others
	shown       logID                 // what was shown as committed to anybody
	shownTerms  uint32                // by index, three bits each: the term of the leader that has shown it first
	termsLed    uint8                 // the terms that had a leader
	wipeCount   uint8                 // how many disks were lost
	broken      loss                  // what this state has lost

	restarted bool // while looking for progress: all processes have been restarted, so none knows what is committed
}

// shownInTerm returns the term in which the entry at an index was shown.
func (s *modelState) shownInTerm(index uint8) uint8 { return uint8(s.shownTerms>>(3*(index-1))) & 7 }

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

// encodeState appends a state to b: nine bytes for each disk, and what else there is.
func (m *Model) encodeState(s *modelState, b []byte) []byte {
	three := func(n uint32) { b = append(b, byte(n), byte(n>>8), byte(n>>16)) }
	for i := range m.Disks {
		d := &s.disks[i]
		three(uint32(d.log))
		three(uint32(d.acks))
		flags := byte(d.role) << 4
		if d.voted {
			flags |= 0x80
		}
		b = append(b, flags|d.term, d.queued, byte(d.grants))
	}
	three(uint32(s.shown))
	three(s.shownTerms)
	b = append(b, s.termsLed, s.wipeCount)
	if m.Late {
		for t := 2; t <= int(m.Terms); t++ {
			three(uint32(s.sentLogs[t]))
			b = append(b, byte(s.toldDurable[t].leader), s.toldDurable[t].durable)
			three(uint32(s.toldDurable[t].acks))
		}
	}
	return b
}

// encodedSize returns the length of an encoded state.
func (m *Model) encodedSize() int { return len(m.encodeState(new(modelState), nil)) }

// decodeState is the inverse of encode.
func (m *Model) decodeState(b []byte) (s modelState) {
	three := func() (n uint32) {
		n = uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
		b = b[3:]
		return n
	}
	for i := range m.Disks {
		d := &s.disks[i]
		d.log, d.acks = logID(three()), acknowledgements(three())
		d.role, d.voted, d.term = diskRole(b[0]>>4&7), b[0]&0x80 != 0, b[0]&15
		d.queued, d.grants = b[1], diskSet(b[2])
		b = b[3:]
	}
	s.shown, s.shownTerms = logID(three()), three()
	s.termsLed, s.wipeCount = b[0], b[1]
	b = b[2:]
	if m.Late {
		for t := 2; t <= int(m.Terms); t++ {
			s.sentLogs[t], s.toldDurable[t] = logID(three()), durableWord{leader: diskSet(b[0]), durable: b[1]}
			b = b[2:]
			s.toldDurable[t].acks = acknowledgements(three())
		}
	}
	return s
}
