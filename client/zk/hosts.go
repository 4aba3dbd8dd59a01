package zk

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// HostProvider has the servers that a Conn connects to.
type HostProvider interface {
	// Init is called first, with the servers of Connect.
	Init(servers []string) error
	// Len returns the number of servers.
	Len() int
	// Next returns the server to connect to next. retryStart says that all of them have been tried since Connected.
	Next() (server string, retryStart bool)
	// Connected is called when there is a session on a connection.
	Connected()
}

// DNSHostProvider passes servers in a random order, drawn once. It does not resolve their names: the dial does.
type DNSHostProvider struct {
	mu      sync.Mutex
	servers []string
	next    int
	last    int // the server of the last session, or the first one
}

// DNSHostProviderOption is an option for the DNSHostProvider. None has an effect.
type DNSHostProviderOption interface{ apply() }

type lookupTimeoutOption struct{}

func (lookupTimeoutOption) apply() {}

// WithLookupTimeout returns an option without an effect: names are resolved within the timeout of a dial.
func WithLookupTimeout(time.Duration) DNSHostProviderOption { return lookupTimeoutOption{} }

// NewDNSHostProvider returns a DNSHostProvider.
func NewDNSHostProvider(...DNSHostProviderOption) *DNSHostProvider { return &DNSHostProvider{} }

// Init implements HostProvider.
func (p *DNSHostProvider) Init(servers []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.servers = slices.Clone(servers)
	rand.Shuffle(len(p.servers), func(i, j int) { p.servers[i], p.servers[j] = p.servers[j], p.servers[i] })
	p.next, p.last = 0, -1
	return nil
}

// Len implements HostProvider.
func (p *DNSHostProvider) Len() int { return len(p.servers) } // only Init sets them

// Next implements HostProvider.
func (p *DNSHostProvider) Next() (server string, retryStart bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.next
	p.next = (i + 1) % len(p.servers)
	retryStart = i == p.last
	p.last = max(p.last, 0)
	return p.servers[i], retryStart
}

// Connected implements HostProvider.
func (p *DNSHostProvider) Connected() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = (p.next + len(p.servers) - 1) % len(p.servers)
}
