package member

import (
	"errors"
	"net"
	"slices"
	"sync"

	"google.golang.org/grpc/credentials"
)

// maxConnsPerPeer limits the gRPC connections of another member to this one. It needs two, and may dial each a few
// times at once (wire.Hello.Dial). Connections of its earlier runs, or ones that the network has lost, may not have ended.
// Each may have maxConcurrentCalls calls.
const maxConnsPerPeer = 16

// maxUnlistedConns limits the gRPC connections of all processes together that are not in the server list. As many come by themselves
// at once as a list may have, each with a connection for each route.
const maxUnlistedConns = peerRoutes * maxSelfJoinedList

// maxUnlistedBytes limits the bytes that a process that is not in the server list sends on one connection. gRPC holds messages of
// maxMessageBytes and maxConcurrentCalls of them for whoever connects. A Hello has less than 2 KiB, and a process that asks to come in sends
// one in each joinInterval.
const maxUnlistedBytes = 1 << 20

var errUnlistedBytes = errors.New("member: a process that is not in the server list has sent too much; it may connect again")

// peerConnLimiter limits the gRPC connections of each member, and of all other processes together, by closing the oldest. It is the
// credentials of a server. It is safe for concurrent use.
type peerConnLimiter struct {
	peerCredentials
	isListed func(member uint32) bool

	mu        sync.Mutex
	openConns map[uint32][]*limitedPeerConn // by listed member, or unlisted; oldest first
}

func newPeerConnLimiter(isListed func(member uint32) bool) *peerConnLimiter {
	return &peerConnLimiter{isListed: isListed, openConns: map[uint32][]*limitedPeerConn{}}
}

// limitedPeerConn is a connection that a member, or another process, has opened.
type limitedPeerConn struct {
	net.Conn
	limiter    *peerConnLimiter
	member     uint32
	isNewcomer bool // see peerInfo

	isUnlisted    bool // was so when it was last checked; Read's
	unlistedBytes int  // read while isUnlisted; Read's
}

// Read implements net.Conn. Only one goroutine may call it. On the connection of a process that is not in the server list, it returns an
// error after maxUnlistedBytes.
func (in *limitedPeerConn) Read(p []byte) (int, error) {
	n, err := in.Conn.Read(p)
	if !in.isUnlisted {
		return n, err
	}
	if in.unlistedBytes += n; in.unlistedBytes > maxUnlistedBytes {
		if in.isUnlisted = in.limiter.shareOf(in) == unlisted; in.isUnlisted {
			return 0, errUnlistedBytes
		}
	}
	return n, err
}

// ServerHandshake implements credentials.TransportCredentials.
func (c *peerConnLimiter) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.peerCredentials.ServerHandshake(conn)
	if err != nil {
		return nil, nil, err
	}
	from := info.(peerInfo)
	in := &limitedPeerConn{Conn: conn, limiter: c, member: from.member, isNewcomer: from.isNewcomer}
	in.isUnlisted = c.shareOf(in) == unlisted
	for _, oldest := range c.addConn(in) {
		_ = oldest.Close() // gRPC sees its end
	}
	return in, info, nil
}

// Clone implements credentials.TransportCredentials. The clone counts the same connections.
func (c *peerConnLimiter) Clone() credentials.TransportCredentials { return c }

// addConn adds a connection, and returns those that must be closed for it.
func (c *peerConnLimiter) addConn(in *limitedPeerConn) (surplus []*limitedPeerConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moveListed()
	share, limit := c.shareOf(in), maxConnsPerPeer
	if share == unlisted {
		limit = maxUnlistedConns
	}
	all := append(c.openConns[share], in)
	tooMany := max(0, len(all)-limit)
	c.openConns[share] = all[tooMany:]
	return all[:tooMany]
}

// shareOf returns the key of the share that a connection counts for.
func (c *peerConnLimiter) shareOf(in *limitedPeerConn) uint32 {
	if in.isNewcomer || !c.isListed(in.member) {
		return unlisted
	}
	return in.member
}

// moveListed moves the connections of members that have come into the list to their own shares, so that later processes do not close
// them. The caller holds the lock.
func (c *peerConnLimiter) moveListed() {
	others := c.openConns[unlisted]
	c.openConns[unlisted] = nil
	for _, other := range others {
		share := c.shareOf(other)
		c.openConns[share] = append(c.openConns[share], other)
	}
}

// Close implements net.Conn.
func (in *limitedPeerConn) Close() error {
	in.limiter.removeConn(in)
	return in.Conn.Close()
}

func (c *peerConnLimiter) removeConn(in *limitedPeerConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, share := range []uint32{in.member, unlisted} {
		rest := slices.DeleteFunc(c.openConns[share], func(other *limitedPeerConn) bool { return other == in })
		if c.openConns[share] = rest; len(rest) == 0 {
			delete(c.openConns, share)
		}
	}
}
