package member

import (
	"net"
	"slices"
	"sync"

	"google.golang.org/grpc/credentials"
)

// maxConnsPerPeer limits the gRPC connections of another member to this one. It needs two, and may dial each a few
// times at once (wire.Hello.Dial). Connections of its earlier runs, or ones that the network has lost, may not have ended.
// Each may have maxConcurrentCalls calls.
const maxConnsPerPeer = 16

// peerConnLimiter limits the gRPC connections of each member by closing the oldest. It is the credentials of a
// server. It is safe for concurrent use.
type peerConnLimiter struct {
	peerCredentials

	mu        sync.Mutex
	openConns map[uint32][]*limitedPeerConn // by member, oldest first
}

func newPeerConnLimiter() *peerConnLimiter {
	return &peerConnLimiter{openConns: map[uint32][]*limitedPeerConn{}}
}

// limitedPeerConn is a connection that a member has opened.
type limitedPeerConn struct {
	net.Conn
	limiter *peerConnLimiter
	member  uint32
}

// ServerHandshake implements credentials.TransportCredentials.
func (c *peerConnLimiter) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.peerCredentials.ServerHandshake(conn)
	if err != nil {
		return nil, nil, err
	}
	in := &limitedPeerConn{conn, c, info.(peerInfo).member}
	if oldest := c.addConn(in); oldest != nil {
		_ = oldest.Close() // gRPC sees its end
	}
	return in, info, nil
}

// Clone implements credentials.TransportCredentials. The clone counts the same connections.
func (c *peerConnLimiter) Clone() credentials.TransportCredentials { return c }

// addConn adds a connection, and returns the one that must be closed for it, or nil.
func (c *peerConnLimiter) addConn(in *limitedPeerConn) (surplus *limitedPeerConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := append(c.openConns[in.member], in)
	if len(all) > maxConnsPerPeer {
		surplus, all = all[0], all[1:]
	}
	c.openConns[in.member] = all
	return surplus
}

// Close implements net.Conn.
func (in *limitedPeerConn) Close() error {
	in.limiter.removeConn(in)
	return in.Conn.Close()
}

func (c *peerConnLimiter) removeConn(in *limitedPeerConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.openConns[in.member] = slices.DeleteFunc(c.openConns[in.member],
		func(other *limitedPeerConn) bool { return other == in })
}
