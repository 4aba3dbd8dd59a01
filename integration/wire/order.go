package wire

// InOrder is a HostProvider of go-zookeeper that tries servers in the order of their
// list, from the first on. Not safe for concurrent use, as its user makes it.
type InOrder struct {
	hosts   []string
	current int
	last    int // where it was connected
}

// NewInOrder returns one that has tried none yet.
func NewInOrder(hosts []string) *InOrder { return &InOrder{hosts: hosts, current: -1} }

// Init keeps the list; the servers it is passed have been shuffled.
func (o *InOrder) Init([]string) error { return nil }

// Len is the number of servers.
func (o *InOrder) Len() int { return len(o.hosts) }

// Next is the server to try, and whether all have been tried since the last connection.
func (o *InOrder) Next() (server string, retryStart bool) {
	o.current++
	at := o.current % len(o.hosts)
	return o.hosts[at], o.current > 0 && at == o.last
}

// Connected notes that the last one tried answered.
func (o *InOrder) Connected() { o.last = o.current % len(o.hosts) }

// Silence is a Logger of go-zookeeper that says nothing.
type Silence struct{}

// Printf drops what it is given.
func (Silence) Printf(string, ...any) {}
