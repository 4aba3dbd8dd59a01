package admission

// ConnectionLimiter limits connections, in all and by address. It has no lock: its owner must hold one.
type ConnectionLimiter struct {
	maxConns    int // 0 and negative: no limit
	maxPerAddr  int // 0 and negative: no limit
	numConns    int
	connsByAddr map[string]int
}

// NewConnectionLimiter returns a limiter. A number that is not positive sets no limit.
func NewConnectionLimiter(most, mostPerAddr int) *ConnectionLimiter {
	return &ConnectionLimiter{maxConns: most, maxPerAddr: mostPerAddr, connsByAddr: make(map[string]int)}
}

// Decision is the decision about a new connection.
type Decision int

const (
	Admitted           Decision = iota
	TooManyConnections          // the limit of all connections is reached
	TooManyOfAddress            // the limit of this address is reached
)

// Admit counts a connection of an address, unless a limit is reached.
func (l *ConnectionLimiter) Admit(addr string) Decision {
	switch {
	case l.maxConns > 0 && l.numConns >= l.maxConns:
		return TooManyConnections
	case l.maxPerAddr > 0 && l.connsByAddr[addr] >= l.maxPerAddr:
		return TooManyOfAddress
	}
	l.numConns++
	l.connsByAddr[addr]++
	return Admitted
}

func (l *ConnectionLimiter) Release(addr string) {
	l.numConns--
	if l.connsByAddr[addr]--; l.connsByAddr[addr] == 0 {
		delete(l.connsByAddr, addr)
	}
}
