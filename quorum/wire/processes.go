package wire

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"rollcall/quorum/disk"
)

// A disk may have only one process: two with the same votes and log would both act for one server of raft's. A start
// locks its directory, but not a copy of the directory on another machine. So the hello carries a random number of
// each process, and a member that gets hellos of two processes with one disk closes the connections of both.
//
// An ended process never replies again. So if a second process has come, and the first one replies to what it was sent after
// that, both are running. A plain restart never does that. A hello is no such reply: it may have been under way since
// before the first process ended. So a listener rejects it, and counts it once the dialer has confirmed the rejection.

const (
	// twinGrace is the minimum time from the second process's hello to one of the first process that proves
	// that both run. The first one's last reply may have waited that long to be read.
	twinGrace = time.Second
	// twinTimeout is the time after its last hello, or after the end of its last connection, for which a
	// process counts as running. A rejected process dials several times in that time.
	twinTimeout = 10 * time.Second
	// maxProcessesPerMember bounds the processes remembered per member, whatever their disks. A member that
	// is wiped often draws many disks, and a lying one may claim any number of disks and runs. Because it
	// speaks only for itself, it displaces only records of itself. All members that are not known have one
	// share of this size, because such a process may claim any number. 255 members with 16 processes each
	// take less than a megabyte.
	maxProcessesPerMember = 16
	// unknownMembers is the key of the share of all members that are not known. It is no member's number.
	unknownMembers = 0
)

// Process is one run of one member.
type Process struct {
	ID     uint32
	DiskID disk.ID
	RunID  uint64 // drawn at random when the process starts
	Addr   string // remote host:port of the last connection
}

func (p Process) String() string { return fmt.Sprintf("start %016x at %s", p.RunID, p.Addr) }

// ErrTwins is wrapped by the error of a connection to or from a disk that has two processes.
var ErrTwins = errors.New("quorum: a disk has two processes")

type twinsError struct{ one, other Process }

func (t twinsError) Unwrap() error { return ErrTwins }

func (t twinsError) Error() string {
	return fmt.Sprintf("member %d runs twice with the disk %v: %v, and %v. The way out: stop one of them, and empty "+
		"its directory if it is a copy",
		t.one.ID, t.one.DiskID, t.one, t.other)
}

// errSuperseded is the error of a connection from a process after the first hello of a later one with the same disk, and of a
// connection to it right after that hello. It has usually ended by then. If not, it confirms that it runs, and then has a twin.
var errSuperseded = errors.New("a later process of the same disk has just come")

// processTable has the processes that have recently sent a hello or replied to one. It is safe for concurrent use.
type processTable struct {
	isKnown func(member uint32) bool // called without mu

	mu sync.Mutex
	// byMember has the processes of each known member, and those of all others under unknownMembers, in the order of
	// their first hellos; at most maxProcessesPerMember each.
	byMember map[uint32][]*seenProcess
}

// seenProcess is guarded by processTable.mu.
type seenProcess struct {
	Process
	firstSeen time.Time // first hello
	lastSeen  time.Time // last hello, or end of the last connection
	openConns map[net.Conn]bool
}

func newProcessTable(isKnown func(member uint32) bool) *processTable {
	return &processTable{isKnown: isKnown, byMember: map[uint32][]*seenProcess{}}
}

// lockShare takes mu, and returns the key of the share that a member's processes are in. A member that has become known takes
// its processes out of the share of the unknown ones.
func (p *processTable) lockShare(member uint32) uint32 {
	isKnown := p.isKnown(member)
	p.mu.Lock()
	if !isKnown {
		return unknownMembers
	}
	others := p.byMember[unknownMembers]
	for _, s := range others {
		if s.ID == member {
			p.byMember[member] = append(p.byMember[member], s)
		}
	}
	p.byMember[unknownMembers] = slices.DeleteFunc(others, func(s *seenProcess) bool { return s.ID == member })
	return member
}

// recordDialer records a hello of a process on conn. If a later process of the disk is known, it returns errSuperseded and
// records nothing: an ended process may have sent this hello. Otherwise it is recordClosingTwins.
func (p *processTable) recordDialer(of Process, conn net.Conn) error {
	if p.maySupersede(of) {
		return errSuperseded
	}
	return p.recordClosingTwins(of, conn)
}

// maySupersede reports whether a later process of the disk counts as running, and is not known to be a twin.
func (p *processTable) maySupersede(of Process) bool {
	all := p.byMember[p.lockShare(of.ID)]
	defer p.mu.Unlock()
	first := slices.IndexFunc(all, func(s *seenProcess) bool { return s.hasDisk(of) && s.RunID == of.RunID })
	if first < 0 {
		return false
	}
	now := time.Now()
	return slices.ContainsFunc(all[first+1:], func(later *seenProcess) bool {
		return later.hasDisk(of) && now.Sub(later.lastRunning()) <= twinTimeout &&
			all[first].lastRunning().Sub(later.firstSeen) <= twinGrace
	})
}

// recordClosingTwins records that a process runs, and its connection conn, which is nil for a request. If another process runs
// with the disk, it closes the connections of both and returns an error that wraps ErrTwins. It returns
// errSuperseded if a later process of that disk has just come. Earlier processes of the disk lose their
// connections: one that still runs dials again.
func (p *processTable) recordClosingTwins(of Process, conn net.Conn) error {
	share := p.lockShare(of.ID)
	self, closing := p.findOrAdd(share, of)
	self.Process, self.lastSeen = of, time.Now()
	other, err := findTwin(p.byMember[share], self)
	if errors.Is(err, ErrTwins) {
		closing = slices.Concat(closing, self.takeConns(), other.takeConns())
	} else if err == nil && conn != nil {
		self.openConns[conn] = true
	}
	p.mu.Unlock()
	for _, c := range closing {
		_ = c.Close() // it takes the lock
	}
	return err
}

// findOrAdd returns the record of a process in a share. If it is new, closing are the connections of the others with its
// disk, which the caller must close without mu. The caller holds mu.
func (p *processTable) findOrAdd(share uint32, of Process) (self *seenProcess, closing []net.Conn) {
	all := p.byMember[share]
	if i := slices.IndexFunc(all, func(s *seenProcess) bool { return s.hasDisk(of) && s.RunID == of.RunID }); i >= 0 {
		return all[i], nil
	}
	for _, s := range all {
		if s.hasDisk(of) {
			closing = append(closing, s.takeConns()...)
		}
	}
	for len(all) >= maxProcessesPerMember {
		i := longestSilent(all)
		all = slices.Delete(all, i, i+1)
	}
	self = &seenProcess{Process: of, firstSeen: time.Now(), openConns: map[net.Conn]bool{}}
	p.byMember[share] = append(all, self)
	return self, closing
}

// longestSilent returns the index of the process without a connection that was last heard from earliest. The
// caller holds processTable.mu.
func longestSilent(all []*seenProcess) (longest int) {
	for i, s := range all {
		if s.lastRunning().Before(all[longest].lastRunning()) {
			longest = i
		}
	}
	return longest
}

// findTwin returns another process of all with the disk of self, which is one of all, and an error if self may have no
// connection because of it. The caller holds processTable.mu.
func findTwin(all []*seenProcess, self *seenProcess) (other *seenProcess, err error) {
	now := time.Now()
	at := slices.Index(all, self)
	for i, s := range all {
		if s == self || !s.hasDisk(self.Process) || now.Sub(s.lastRunning()) > twinTimeout {
			continue
		}
		first, second := s, self
		if at < i {
			first, second = self, s
		}
		switch {
		case first.lastRunning().Sub(second.firstSeen) > twinGrace:
			return s, twinsError{self.Process, s.Process}
		case first == self:
			other, err = s, errSuperseded
		}
	}
	return other, err
}

// hasDisk reports whether this is a process of the same member with the same disk.
func (s *seenProcess) hasDisk(of Process) bool { return s.ID == of.ID && s.DiskID == of.DiskID }

// lastRunning returns the time when a process was last known to run: now if it has a connection. The caller
// holds processTable.mu.
func (s *seenProcess) lastRunning() time.Time {
	if len(s.openConns) > 0 {
		return time.Now()
	}
	return s.lastSeen
}

// takeConns removes and returns the connections of a process. The caller holds processTable.mu.
func (s *seenProcess) takeConns() (conns []net.Conn) {
	s.lastSeen = s.lastRunning()
	for c := range s.openConns {
		conns = append(conns, c)
	}
	clear(s.openConns)
	return conns
}

func (p *processTable) connClosed(of Process, conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, share := range []uint32{of.ID, unknownMembers} {
		for _, s := range p.byMember[share] {
			if s.openConns[conn] {
				s.lastSeen = time.Now()
				delete(s.openConns, conn)
			}
		}
	}
}
