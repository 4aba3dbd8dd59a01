package member

import (
	"net"
	"slices"
	"sync"

	"google.golang.org/grpc/credentials"
)

// maxCallerConns limits the gRPC connections of another member to this one. It needs one; those of an
// earlier run of it, or of a network that has forgotten them, may not have ended. Each may have maxStreams
// calls under way.
const maxCallerConns = 16

// callers limits the gRPC connections of each member. A member that has too many loses the oldest. It is
// the identity of a server. It is safe for concurrent use.
type callers struct {
	identity

	mu   sync.Mutex
	open map[uint32][]*called // by member, in the order they came
}

func newCallers() *callers { return &callers{open: map[uint32][]*called{}} }

// called is a connection that a member has opened.
type called struct {
	net.Conn
	owner  *callers
	member uint32
}

// ServerHandshake implements credentials.TransportCredentials.
func (c *callers) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.identity.ServerHandshake(conn)
	if err != nil {
		return nil, nil, err
	}
	in := &called{conn, c, info.(known).member}
	if oldest := c.add(in); oldest != nil {
		_ = oldest.Close() // gRPC sees its end
	}
	return in, info, nil
}

// Clone implements credentials.TransportCredentials. The clone counts the same connections.
func (c *callers) Clone() credentials.TransportCredentials { return c }

// add adds a connection, and returns the one that has to be closed for it, or nil.
func (c *callers) add(in *called) (surplus *called) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := append(c.open[in.member], in)
	if len(all) > maxCallerConns {
		surplus, all = all[0], all[1:]
	}
	c.open[in.member] = all
	return surplus
}

// Close implements net.Conn.
func (in *called) Close() error {
	in.owner.remove(in)
	return in.Conn.Close()
}

func (c *callers) remove(in *called) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[in.member] = slices.DeleteFunc(c.open[in.member], func(other *called) bool { return other == in })
}
