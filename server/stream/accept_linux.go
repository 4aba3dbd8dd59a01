package stream

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"
)

// The keep-alive probes of a client's socket are those of Go's own listeners: the first comes after
// keepAliveIdle, the others keepAliveInterval apart, and the kernel closes the socket after keepAliveCount
// probes without a reply.
const (
	keepAliveIdle     = 15 // seconds
	keepAliveInterval = 15 // seconds
	keepAliveCount    = 9
)

// keepAliveOptions are best-effort: older kernels reject them for an MPTCP listener, which Go's listeners
// are. The probes are then the system's.
var keepAliveOptions = []struct{ option, value int }{
	{syscall.TCP_KEEPIDLE, keepAliveIdle}, {syscall.TCP_KEEPINTVL, keepAliveInterval}, {syscall.TCP_KEEPCNT, keepAliveCount},
}

// Acceptor accepts TCP connections for streams that begin in a loop. Go's poller watches the listener, but none of the
// sockets: a socket in a loop needs neither an entry there nor a goroutine.
type Acceptor struct {
	file  *os.File
	raw   syscall.RawConn
	zones zoneNames // only Accept uses it
}

// NewAcceptor returns an Acceptor of l, or nil if l is not a TCP listener. It fails if the system does not
// allow one. The caller closes both the Acceptor and l. Closing l alone does not end Accept, which has a
// descriptor of its own.
func NewAcceptor(l net.Listener) (*Acceptor, error) {
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return nil, nil
	}
	file, err := tcp.File()
	if err != nil {
		return nil, err
	}
	a := &Acceptor{file: file, zones: newZones()}
	if a.raw, err = file.SyscallConn(); err == nil {
		err = errors.Join(file.SetDeadline(time.Time{}), a.configure()) // the first fails unless Go's poller watches file
	}
	if err != nil {
		_ = file.Close() // nothing was accepted
		return nil, err
	}
	return a, nil
}

// configure sets on the listener what Go sets on each connection; the connections inherit it.
func (a *Acceptor) configure() (err error) {
	controlled := a.raw.Control(func(fd uintptr) {
		set := func(level, option, value int) {
			err = errors.Join(err, os.NewSyscallError("setsockopt", syscall.SetsockoptInt(int(fd), level, option, value)))
		}
		set(syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
		set(syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1)
		for _, o := range keepAliveOptions {
			_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, o.option, o.value)
		}
	})
	return errors.Join(controlled, err)
}

// Accept waits for the next connection. It fails with net.ErrClosed after Close. One goroutine calls it at a
// time.
func (a *Acceptor) Accept() (Accepted, error) {
	var fd int
	var from syscall.Sockaddr
	var failed error
	err := a.raw.Read(func(l uintptr) (done bool) {
		for {
			fd, from, failed = syscall.Accept4(int(l), syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
			if failed != syscall.EINTR && failed != syscall.ECONNABORTED {
				return failed != syscall.EAGAIN
			}
		}
	})
	switch {
	case err != nil:
		return Accepted{}, net.ErrClosed // Close is the only cause
	case failed != nil:
		return Accepted{}, os.NewSyscallError("accept4", failed)
	}
	return Accepted{fd: fd, Addr: net.TCPAddrFromAddrPort(a.addrPortOf(from))}, nil
}

// Close ends Accept.
func (a *Acceptor) Close() { _ = a.file.Close() }

// addrPortOf returns the address of a client. The zone of a link-local one is the name of the interface.
func (a *Acceptor) addrPortOf(from syscall.Sockaddr) netip.AddrPort {
	switch s := from.(type) {
	case *syscall.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(s.Addr), uint16(s.Port))
	case *syscall.SockaddrInet6:
		addr := netip.AddrFrom16(s.Addr)
		if s.ZoneId != 0 {
			addr = addr.WithZone(a.zones.nameOf(s.ZoneId, time.Now()))
		}
		return netip.AddrPortFrom(addr, uint16(s.Port))
	}
	return netip.AddrPort{}
}

// zoneCacheTime is as long as with Go's own listeners. Looking up an interface takes about 0.2 ms and a
// descriptor, more than the rest of a connection.
const zoneCacheTime = time.Minute

// zoneNames caches the names of interfaces. It is not safe for concurrent use.
type zoneNames struct {
	interfaceByIndex func(index int) (*net.Interface, error)
	cachedZones      map[uint32]cachedZone
}

type cachedZone struct {
	name       string
	lookedUpAt time.Time
}

func newZones() zoneNames {
	return zoneNames{interfaceByIndex: net.InterfaceByIndex, cachedZones: make(map[uint32]cachedZone)}
}

// nameOf returns an interface's name as Go writes it in addresses. Without a name, it is the number.
func (z *zoneNames) nameOf(id uint32, now time.Time) string {
	if known, ok := z.cachedZones[id]; ok && now.Sub(known.lookedUpAt) < zoneCacheTime {
		return known.name
	}
	name := strconv.Itoa(int(id))
	if i, err := z.interfaceByIndex(int(id)); err == nil {
		name = i.Name
	}
	z.cachedZones[id] = cachedZone{name, now}
	return name
}
