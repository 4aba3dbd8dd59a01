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

// A disk may have only one process: two with the same votes and log would both act for one server of raft's. A start locks
// its directory, but a copy of the directory on another machine is not locked. So the hello carries the number that each
// process draws when it starts, and a member that hears two processes with one disk closes the connections of both.
//
// A process that ends never says hello again. So when a second process has come, and the first one says hello later, the
// two run side by side. No other sign is needed, and a plain restart never shows this one.

const (
	// twinGrace is how much later than the second process the first one must say or answer a hello to count as running. Its
	// last hello may have waited that long to be read.
	twinGrace = time.Second
	// twinTimeout is how long a process counts as running after its last hello, or after the end of its last connection. A
	// process that is refused dials several times in that time.
	twinTimeout = 10 * time.Second
	// maxProcessesPerMember is how many processes of one member are remembered, whatever their disks are. A member that is wiped
	// often draws many disks, and one that lies may say any number of disks and starts. It speaks for itself only, so it
	// pushes out what is known of itself, and nothing of another member. 255 members with 16 processes each take less
	// than a megabyte.
	maxProcessesPerMember = 16
)

// Process is one run of one member.
type Process struct {
	ID     uint32
	DiskID disk.ID
	RunID  uint64 // drawn when the process starts
	Addr   string // host:port of its end of the last connection
}

func (p Process) String() string { return fmt.Sprintf("start %016x at %s", p.RunID, p.Addr) }

// ErrTwins is wrapped by the error of a connection to or from a disk that has two processes.
var ErrTwins = errors.New("quorum: a disk has two processes")

// twinsError is the error for a disk that has two processes.
type twinsError struct{ one, other Process }

func (t twinsError) Unwrap() error { return ErrTwins }

func (t twinsError) Error() string {
	return fmt.Sprintf("member %d runs twice with the disk %v: %v, and %v. The way out: stop one of them, and empty its directory if it is a copy",
		t.one.ID, t.one.DiskID, t.one, t.other)
}

// errSuperseded is the error of a connection to or from a process right after a later one of the same disk has come. It has
// mostly ended by then. If it has not, it dials again, and then it has a twin.
var errSuperseded = errors.New("a later process of the same disk has just come")

// processTable has the processes that have lately said hello to this member, or answered its hello. It is safe for concurrent
// use.
type processTable struct {
	mu       sync.Mutex
	byMember map[uint32][]*seenProcess // by member, in the order in which they came; at most maxProcesses of each
}

// seenProcess is guarded by processes.mu.
type seenProcess struct {
	Process
	firstSeen time.Time // when its first hello came
	lastSeen  time.Time // when its last hello came, or when its last connection ended
	openConns map[net.Conn]bool
}

func newProcessTable() *processTable { return &processTable{byMember: map[uint32][]*seenProcess{}} }

// recordHello records a hello of a process on conn, which is nil if the process has said something else. It returns an error that
// wraps ErrTwins if the disk has another process that runs, and closes the connections of both. It returns errSuperseded if a
// later process of that disk has just come. A process that came before loses its connections: if it still runs, it dials again.
func (p *processTable) recordHello(of Process, conn net.Conn) error {
	p.mu.Lock()
	self, closing := p.findOrAdd(of)
	self.Process, self.lastSeen = of, time.Now()
	other, err := p.findTwin(self)
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

// findOrAdd returns what is known of a process. If it is new, find also returns the connections of the others with its disk. The
// caller holds mu, and closes these without it.
func (p *processTable) findOrAdd(of Process) (self *seenProcess, closing []net.Conn) {
	all := p.byMember[of.ID]
	if i := slices.IndexFunc(all, func(s *seenProcess) bool { return s.DiskID == of.DiskID && s.RunID == of.RunID }); i >= 0 {
		return all[i], nil
	}
	for _, s := range all {
		if s.DiskID == of.DiskID {
			closing = append(closing, s.takeConns()...)
		}
	}
	if len(all) == maxProcessesPerMember {
		i := longestSilent(all)
		all = slices.Delete(all, i, i+1)
	}
	self = &seenProcess{Process: of, firstSeen: time.Now(), openConns: map[net.Conn]bool{}}
	p.byMember[of.ID] = append(all, self)
	return self, closing
}

// longestSilent returns the index of the process that has been silent for longest. One with a connection is not silent. The caller
// holds processes.mu.
func longestSilent(all []*seenProcess) (longest int) {
	for i, s := range all {
		if s.lastRunning().Before(all[longest].lastRunning()) {
			longest = i
		}
	}
	return longest
}

// findTwin returns another process with the disk of self, and an error if self may have no connection because of it. The
// caller holds mu.
func (p *processTable) findTwin(self *seenProcess) (other *seenProcess, err error) {
	all, now := p.byMember[self.ID], time.Now()
	at := slices.Index(all, self)
	for i, s := range all {
		if s == self || s.DiskID != self.DiskID || now.Sub(s.lastRunning()) > twinTimeout {
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

// lastRunning returns when a process was last known to run: now if it has a connection. The caller holds processes.mu.
func (s *seenProcess) lastRunning() time.Time {
	if len(s.openConns) > 0 {
		return time.Now()
	}
	return s.lastSeen
}

// takeConns returns the connections of a process, which are not its any more. The caller holds processes.mu.
func (s *seenProcess) takeConns() (conns []net.Conn) {
	s.lastSeen = s.lastRunning()
	for c := range s.openConns {
		conns = append(conns, c)
	}
	clear(s.openConns)
	return conns
}

// connClosed forgets a connection.
func (p *processTable) connClosed(of Process, conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.byMember[of.ID] {
		if s.openConns[conn] {
			s.lastSeen = time.Now()
			delete(s.openConns, conn)
		}
	}
}
