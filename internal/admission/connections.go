package admission

// ConnectionLimiter limits connections, in all and of one address. It has no lock: its owner must hold one.
type ConnectionLimiter struct {
	max        int // 0 and negative: no limit
	maxPerAddr int // 0 and negative: no limit
	all        int
	byAddr     map[string]int
}

// NewConnectionLimiter returns a limiter. A number that is not positive sets no limit.
func NewConnectionLimiter(most, mostPerAddr int) *ConnectionLimiter {
	return &ConnectionLimiter{max: most, maxPerAddr: mostPerAddr, byAddr: make(map[string]int)}
}

// Verdict is the decision about a new connection.
type Verdict int

// The verdicts.
const (
	Admitted Verdict = iota
	TooMany
	TooManyOfAddress
)

// Admit counts a connection of an address, or returns the verdict that rejects it.
func (l *ConnectionLimiter) Admit(addr string) Verdict {
	switch {
	case l.max > 0 && l.all >= l.max:
		return TooMany
	case l.maxPerAddr > 0 && l.byAddr[addr] >= l.maxPerAddr:
		return TooManyOfAddress
	}
	l.all++
	l.byAddr[addr]++
	return Admitted
}

// Release uncounts a connection that was admitted.
func (l *ConnectionLimiter) Release(addr string) {
	l.all--
	if l.byAddr[addr]--; l.byAddr[addr] == 0 {
		delete(l.byAddr, addr)
	}
}
