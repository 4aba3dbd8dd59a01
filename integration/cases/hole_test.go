package cases

import (
	"fmt"
	"net"
	"slices"
	"sync"

	"rollcall/member"
)

// blackHole swallows the replies of members to the pings of their leader.
type blackHole struct {
	mu    sync.Mutex
	open  map[uint32]bool // the members whose answers it swallows
	conns map[uint32][]net.Conn
	lost  int // writes since it was opened
}

// install puts the hole in front of the port on which a member is pinged.
func (h *blackHole) install(cfg *member.Config) {
	id, listen := cfg.ID, cfg.Network.Listen
	pinged := fmt.Sprintf("m%d:2888", id)
	cfg.Network.Listen = func(addr string) (net.Listener, error) {
		l, err := listen(addr)
		if err != nil || addr != pinged {
			return l, err
		}
		return holedListener{l, h, id}, nil
	}
}

// swallow opens or closes the hole of a member. When it is closed, the connections that lost bytes break. It returns the
// number of lost writes.
func (h *blackHole) swallow(id uint32, open bool) int {
	h.mu.Lock()
	if h.open == nil {
		h.open = map[uint32]bool{}
	}
	h.open[id] = open
	lost, conns := h.lost, slices.Clone(h.conns[id])
	h.lost = 0
	h.mu.Unlock()
	if !open {
		for _, c := range conns {
			_ = c.Close()
		}
	}
	return lost
}

type holedListener struct {
	net.Listener
	hole *blackHole
	id   uint32
}

func (l holedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.hole.mu.Lock()
	defer l.hole.mu.Unlock()
	if l.hole.conns == nil {
		l.hole.conns = map[uint32][]net.Conn{}
	}
	l.hole.conns[l.id] = append(l.hole.conns[l.id], c)
	return holedConn{c, l.hole, l.id}, nil
}

type holedConn struct {
	net.Conn
	hole *blackHole
	id   uint32
}

func (c holedConn) Write(b []byte) (int, error) {
	c.hole.mu.Lock()
	open := c.hole.open[c.id]
	if open {
		c.hole.lost++
	}
	c.hole.mu.Unlock()
	if open {
		return len(b), nil
	}
	return c.Conn.Write(b)
}
