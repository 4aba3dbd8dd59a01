package rollcalltest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"rollcall/internal/serverlist"
	"rollcall/lab/simulated"
	"rollcall/member"
)

const (
	// startTimeout limits the wait until all servers serve. Without other load they need less than a second.
	startTimeout = 30 * time.Second
	// readyPoll is the time between two checks whether servers serve. In a bubble, where waiting takes no time, it is
	// readyPollInBubble: what the servers gather for a millisecond at the start is over by then, in every run.
	readyPoll, readyPollInBubble = time.Millisecond, 10 * time.Millisecond

	// These are the ports in the network of the servers.
	clientPort, quorumPort, electionPort = 2181, 2888, 3888
)

// Ensemble is some servers that form an ensemble. Its methods are safe for concurrent use.
type Ensemble struct {
	// Servers has the servers in the order of their numbers: Servers[0] is number 1. Do not change it.
	Servers []*Server

	Faults
	cfg     Config
	network *simulated.Network
	judge   *judge
	closing sync.Once
	closed  error // of Close
}

// New starts servers and waits until all of them serve. It is for programs that are no Go tests; a test calls Start or
// StartEnsemble. The caller must call Close. It returns an error if a setting is invalid, a port is in use, or the
// servers do not serve before ctx ends.
func New(ctx context.Context, servers int, cfg Config) (*Ensemble, error) {
	if err := cfg.checkSettings(servers); err != nil {
		return nil, err
	}
	j := &judge{inSession: map[int64]int{}, hooks: map[int]func(Request) Verdict{}}
	e := &Ensemble{cfg: cfg, network: simulated.NewNetwork(), judge: j}
	e.Faults = Faults{ensemble: e}
	e.OnRequest(cfg.OnRequest)
	err := e.addServers(servers)
	for _, s := range e.Servers {
		if err == nil {
			err = s.Restart()
		}
	}
	if err == nil {
		err = e.AwaitReady(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// addServers makes the servers and opens their ports. They are down.
func (e *Ensemble) addServers(n int) error {
	for i := range n {
		number := i + 1
		l, address, err := e.listenForClients(number)
		if err != nil {
			return fmt.Errorf("rollcalltest: server %d: %w", number, err)
		}
		e.Servers = append(e.Servers, &Server{
			Faults: Faults{ensemble: e, server: number}, number: number, address: address,
			proxy: newProxy(number, memberAddress(number, clientPort), l, e.network, e.judge),
			disk:  simulated.NewDisk(), monotonic: simulated.NewMonotonic(),
		})
	}
	return nil
}

// listenForClients opens the address of a server for clients. In memory it is one of an address range for examples (RFC 5737),
// so that a client which does not use Dial reaches no server at all.
func (e *Ensemble) listenForClients(number int) (l net.Listener, address string, err error) {
	if e.cfg.Pipes {
		address = fmt.Sprintf("192.0.2.%d:%d", number, clientPort)
		l, err = e.network.Listen(clientsHost, address)
		return l, address, err
	}
	port := 0
	if e.cfg.Port > 0 {
		port = e.cfg.Port + number - 1
	}
	if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err != nil {
		return nil, "", err
	}
	return l, l.Addr().String(), nil
}

// memberAddress returns the address of a server in the network of the servers.
func memberAddress(number, port int) string { return fmt.Sprintf("server%d:%d", number, port) }

// serverList returns the server list, and its text for /zookeeper/config. A server that is alone has no text.
func (e *Ensemble) serverList() (servers []member.Server, text []byte) {
	var lines serverlist.List
	for _, s := range e.Servers {
		servers = append(servers, member.Server{
			ID:       uint32(s.number),
			GrpcAddr: memberAddress(s.number, quorumPort), RaftAddr: memberAddress(s.number, electionPort),
		})
		host, port, _ := net.SplitHostPort(s.address)
		clients, _ := strconv.Atoi(port)
		lines = append(lines, serverlist.Server{
			ID: uint32(s.number), Host: "server" + strconv.Itoa(s.number), QuorumPort: quorumPort, ElectionPort: electionPort,
			ClientHost: host, ClientPort: clients,
		})
	}
	if len(e.Servers) == 1 {
		return servers, nil
	}
	return servers, []byte(lines.ConfigText(0))
}

// ConnectString returns the addresses of all servers, as host:port,host:port. With Config.Pipes, only Dial reaches
// them.
func (e *Ensemble) ConnectString() string {
	var addresses []string
	for _, s := range e.Servers {
		addresses = append(addresses, s.address)
	}
	return strings.Join(addresses, ",")
}

// Dial connects a client to the server with address addr, one of those in ConnectString. network is "tcp". It blocks
// until ctx ends at the latest. It is needed with Config.Pipes, and works without it, too. It fits client.Config.DialConn.
func (e *Ensemble) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if e.cfg.Pipes {
		return e.network.Dial(ctx, clientsHost, addr)
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, addr)
}

// Leader returns the server that leads, or nil if none does now. A server that is alone leads. Until other servers
// have replaced a leader which they cannot reach, it may be that leader.
func (e *Ensemble) Leader() *Server {
	for _, s := range e.Servers {
		if s.isLeader() {
			return s
		}
	}
	return nil
}

// AwaitReady waits until each server that is neither down nor paused serves and has its vote, and at least one does.
// It returns an error if ctx ends first.
func (e *Ensemble) AwaitReady(ctx context.Context) error {
	return e.awaitCondition(ctx, "the servers do not all serve", func() bool {
		ready := 0
		for _, s := range e.Servers {
			if s.runningMember() == nil {
				continue
			}
			if !s.isServing() || !s.hasVote() {
				return false
			}
			ready++
		}
		return ready > 0 && e.Leader() != nil
	})
}

// awaitCondition waits until ok returns true. If ctx ends first, it returns an error with failure.
func (e *Ensemble) awaitCondition(ctx context.Context, failure string, ok func() bool) error {
	poll := readyPoll
	if e.cfg.Pipes {
		poll = readyPollInBubble
	}
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("rollcalltest: %s: %w", failure, ctx.Err())
		case <-ticker.C:
		}
		if ok() {
			return nil
		}
	}
}

// errNoLeader is for what needs a leader.
var errNoLeader = errors.New("rollcalltest: no server leads")

// KillLeader kills the server that leads, and returns it, so that the caller can restart it. The others elect another
// leader, if they are a majority. It returns an error if no server leads.
func (e *Ensemble) KillLeader() (*Server, error) {
	leader := e.Leader()
	if leader == nil {
		return nil, errNoLeader
	}
	return leader, leader.Kill()
}

// Partition breaks the network between two servers until Heal. Both still serve clients, as far as the other servers
// let them. Partition two servers from all others to separate them. It returns an error if a and b are the same.
func (e *Ensemble) Partition(a, b *Server) error {
	if a == b {
		return fmt.Errorf("rollcalltest: partition server %d: name two servers", a.number)
	}
	e.network.Cut(uint32(a.number), uint32(b.number))
	return nil
}

// Heal ends Partition.
func (e *Ensemble) Heal(a, b *Server) { e.network.Heal(uint32(a.number), uint32(b.number)) }

// Close ends all servers and waits for their goroutines. It breaks the connections of clients. It returns an error if a
// server had ended by itself before. It may be called more than once.
func (e *Ensemble) Close() error {
	e.closing.Do(func() { e.closed = e.closeOnce() })
	return e.closed
}

func (e *Ensemble) closeOnce() error {
	for _, s := range e.Servers {
		s.closeForGood()
	}
	var errs []error
	for _, s := range e.Servers {
		errs = append(errs, s.awaitEnd())
		s.proxy.close()
	}
	e.network.Close()
	return errors.Join(errs...)
}
