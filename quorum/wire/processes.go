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
	// twinHold is how long a process counts as running after its last hello, or after the end of its last connection. A
	// process that is refused dials several times in that time.
	twinHold = 10 * time.Second
	// maxProcesses is how many processes of one member are remembered, whatever their disks are. A member that is wiped
	// often draws many disks, and one that lies may say any number of disks and starts. It speaks for itself only, so it
	// pushes out what is known of itself, and nothing of another member. 255 members with 16 processes each take less
	// than a megabyte.
	maxProcesses = 16
)

// Process is one run of one member.
type Process struct {
	ID    uint32
	Disk  disk.ID
	Start uint64 // drawn when the process starts
	Addr  string // host:port of its end of the last connection
}

func (p Process) String() string { return fmt.Sprintf("start %016x at %s", p.Start, p.Addr) }

// ErrTwins is wrapped by the error of a connection to or from a disk that has two processes.
var ErrTwins = errors.New("quorum: a disk has two processes")

// twins is the error for a disk that has two processes.
type twins struct{ one, other Process }

func (t twins) Unwrap() error { return ErrTwins }

func (t twins) Error() string {
	return fmt.Sprintf("member %d runs twice with the disk %v: %v, and %v. The way out: stop one of them, and empty its directory if it is a copy",
		t.one.ID, t.one.Disk, t.one, t.other)
}

// errSuperseded is the error of a connection to or from a process right after a later one of the same disk has come. It has
// mostly ended by then. If it has not, it dials again, and then it has a twin.
var errSuperseded = errors.New("a later process of the same disk has just come")

// processes has the processes that have lately said hello to this member, or answered its hello. It is safe for concurrent
// use.
type processes struct {
	mu   sync.Mutex
	seen map[uint32][]*process // by member, in the order in which they came; at most maxProcesses of each
}

// process is guarded by processes.mu.
type process struct {
	Process
	came  time.Time // when its first hello came
	last  time.Time // when its last hello came, or when its last connection ended
	conns map[net.Conn]bool
}

func newProcesses() *processes { return &processes{seen: map[uint32][]*process{}} }

// met records a hello of a process on conn, which is nil if the process has said something else. It returns an error that
// wraps ErrTwins if the disk has another process that runs, and closes the connections of both. It returns errSuperseded if a
// later process of that disk has just come. A process that came before loses its connections: if it still runs, it dials again.
func (p *processes) met(of Process, conn net.Conn) error {
	p.mu.Lock()
	self, closing := p.find(of)
	self.Process, self.last = of, time.Now()
	other, err := p.beside(self)
	if errors.Is(err, ErrTwins) {
		closing = slices.Concat(closing, self.take(), other.take())
	} else if err == nil && conn != nil {
		self.conns[conn] = true
	}
	p.mu.Unlock()
	for _, c := range closing {
		_ = c.Close() // it takes the lock
	}
	return err
}

// find returns what is known of a process. If it is new, find also returns the connections of the others with its disk. The
// caller holds mu, and closes these without it.
func (p *processes) find(of Process) (self *process, closing []net.Conn) {
	all := p.seen[of.ID]
	if i := slices.IndexFunc(all, func(s *process) bool { return s.Disk == of.Disk && s.Start == of.Start }); i >= 0 {
		return all[i], nil
	}
	for _, s := range all {
		if s.Disk == of.Disk {
			closing = append(closing, s.take()...)
		}
	}
	if len(all) == maxProcesses {
		i := silent(all)
		all = slices.Delete(all, i, i+1)
	}
	self = &process{Process: of, came: time.Now(), conns: map[net.Conn]bool{}}
	p.seen[of.ID] = append(all, self)
	return self, closing
}

// silent returns the index of the process that has been silent for longest. One with a connection is not silent. The caller
// holds processes.mu.
func silent(all []*process) (longest int) {
	for i, s := range all {
		if s.heard().Before(all[longest].heard()) {
			longest = i
		}
	}
	return longest
}

// beside returns another process with the disk of self, and an error if self may have no connection because of it. The
// caller holds mu.
func (p *processes) beside(self *process) (other *process, err error) {
	all, now := p.seen[self.ID], time.Now()
	at := slices.Index(all, self)
	for i, s := range all {
		if s == self || s.Disk != self.Disk || now.Sub(s.heard()) > twinHold {
			continue
		}
		first, second := s, self
		if at < i {
			first, second = self, s
		}
		switch {
		case first.heard().Sub(second.came) > twinGrace:
			return s, twins{self.Process, s.Process}
		case first == self:
			other, err = s, errSuperseded
		}
	}
	return other, err
}

// heard returns when a process was last known to run: now if it has a connection. The caller holds processes.mu.
func (s *process) heard() time.Time {
	if len(s.conns) > 0 {
		return time.Now()
	}
	return s.last
}

// take returns the connections of a process, which are not its any more. The caller holds processes.mu.
func (s *process) take() (conns []net.Conn) {
	s.last = s.heard()
	for c := range s.conns {
		conns = append(conns, c)
	}
	clear(s.conns)
	return conns
}

// closed forgets a connection.
func (p *processes) closed(of Process, conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.seen[of.ID] {
		if s.conns[conn] {
			s.last = time.Now()
			delete(s.conns, conn)
		}
	}
}
