package target

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"strconv"
)

// Place is the network namespace and the address of a member.
type Place struct {
	Namespace string // must exist
	// Address is the member's address for clients. This process must be able to reach it. The next four ports belong to the
	// member, too.
	Address netip.AddrPort
}

// NewPlaced starts the members at places of the caller, one for each, and returns when all serve.
func NewPlaced(ctx context.Context, cfg ProcessConfig, places []Place) (*Processes, error) {
	t := &Processes{cfg: cfg}
	return t.startEnsemble(ctx, func(context.Context) error {
		if len(places) != len(t.members) {
			return fmt.Errorf("%d places for %d members: must be one for each", len(places), len(t.members))
		}
		for i, m := range t.members {
			m.space = places[i].Namespace
			first := int(places[i].Address.Port())
			m.setAddresses(places[i].Address.Addr().AsSlice(), ports{first, first + 1, first + 2, first + 3, first + 4})
		}
		return nil
	})
}

// ports are the ports of one member on its address.
type ports struct{ clients, secure, quorum, election, http int }

// The ports of members that have an address of their own. The kernel gives none of them to a client.
var fixedPorts = ports{clients: 2181, secure: 2281, quorum: 2888, election: 3888, http: 8080}

// useLoopback gives each member an address of loopback. On Linux each has one of its own, with fixed ports: members must
// find them free when they start again, and the kernel gives others of 127.0.0.1 to any program that connects.
func useLoopback(members []*member) error {
	if runtime.GOOS != "linux" {
		for _, m := range members {
			if err := m.atFreePorts(); err != nil {
				return err
			}
		}
		return nil
	}
	const networks = 1 << 14     // 127.64.x.y: each ensemble takes the members of one network of 256 addresses
	first := rand.IntN(networks) // another one each time: the kernel keeps closed connections of clients for a minute
	for try := range networks {
		n := (first + try) % networks
		free := true
		for _, m := range members {
			m.setAddresses(net.IPv4(127, byte(64+n>>8), byte(n), byte(m.id)), fixedPorts)
			free = free && m.portsFree()
		}
		if free {
			return nil
		}
	}
	return errors.New("no address of loopback has free ports for the members: end other ensembles")
}

// setAddresses sets a member's addresses.
func (m *member) setAddresses(ip net.IP, p ports) {
	m.ip, m.ports = ip, p
	m.Clients = net.JoinHostPort(ip.String(), strconv.Itoa(p.clients))
}

// atFreePorts gives a member ports of 127.0.0.1.
func (m *member) atFreePorts() error {
	p, err := freePorts()
	if err == nil {
		m.setAddresses(net.IPv4(127, 0, 0, 1), p)
	}
	return err
}

func (m *member) portsFree() bool {
	for _, port := range []int{m.ports.clients, m.ports.secure, m.ports.quorum, m.ports.election, m.ports.http} {
		l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: m.ip, Port: port})
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}

// freePorts returns five ports of 127.0.0.1 on which nothing listens now.
func freePorts() (ports, error) {
	var all []int
	for range 5 {
		l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			return ports{}, err
		}
		defer func() { _ = l.Close() }() // at the end, so that all differ
		all = append(all, l.Addr().(*net.TCPAddr).Port)
	}
	return ports{all[0], all[1], all[2], all[3], all[4]}, nil
}
