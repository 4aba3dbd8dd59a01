package wire

// InOrder is a HostProvider for go-zookeeper that tries servers in the order of their list, from
// the first on. It is not safe for concurrent use.
type InOrder struct {
	hosts   []string
	current int
	last    int // the index of the last server that it was connected to
}

// NewInOrder returns an InOrder that has not tried a server yet.
func NewInOrder(hosts []string) *InOrder { return &InOrder{hosts: hosts, current: -1} }

// Init keeps the list, because the servers passed to it have been shuffled.
func (o *InOrder) Init([]string) error { return nil }

// Len returns the number of servers.
func (o *InOrder) Len() int { return len(o.hosts) }

// Next returns the server to try, and whether all have been tried since the last connection.
func (o *InOrder) Next() (server string, retryStart bool) {
	o.current++
	at := o.current % len(o.hosts)
	return o.hosts[at], o.current > 0 && at == o.last
}

// Connected records that the last server tried has answered.
func (o *InOrder) Connected() { o.last = o.current % len(o.hosts) }

// Silence is a Logger for go-zookeeper that logs nothing.
type Silence struct{}

// Printf does nothing.
func (Silence) Printf(string, ...any) {}
