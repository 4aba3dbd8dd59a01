package schedules

import "sync"

const (
	partitions  = 4 // that clients share
	doubleCount = 2 // the clients of a double barrier; schedules have at least as many
)

// claims waits until each of some things has happened. It is safe for concurrent use.
type claims struct {
	wanted int
	all    chan struct{} // closed when all have happened

	mu   sync.Mutex
	seen map[int]bool
}

func newClaims(wanted int) *claims {
	return &claims{wanted: wanted, seen: map[int]bool{}, all: make(chan struct{})}
}

// add notes that one has happened.
func (s *claims) add(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[n] {
		return
	}
	s.seen[n] = true
	if len(s.seen) == s.wanted {
		close(s.all)
	}
}

// isFull reports whether all have happened.
func (s *claims) isFull() bool {
	select {
	case <-s.all:
		return true
	default:
		return false
	}
}
