// Command floor runs one member of the simplest ensemble that can answer the cases of `rollcall bench`. It shows what a row costs at
// least on a machine, so that the rows of other servers can be read as shares of it. It is only for measuring: do not keep
// data in it.
//
// Member 1 is the leader until it ends. It takes all clients, and speaks ZooKeeper's protocol with them. The leader commits one
// batch of writes at a time, and the writes that arrive during a commit are the next batch. It sends the batch to its followers,
// writes it to its own file, and waits until a majority has it on the disk. Then it applies the batch and replies. A follower
// writes each batch to its file, calls fdatasync, and acknowledges it. Reads are answered at once from the leader's memory, in
// the order of their connection.
//
// Everything else is left out. A restart loses all nodes, because no member reads its file. At its end a file is written again
// from its beginning. If a follower is lost, the leader ends. A lost leader is not replaced. A follower or a client that reads nothing
// blocks all clients. Sessions do not expire, and a client that reconnects with an id gets it without a check. There are no
// ephemeral or sequential nodes, watches, ACLs or quotas. A write does not check the version. A multi that fails is not undone.
// There is no authentication.
//
// A leader has a goroutine for each connection, which reads and decodes, one for each follower, which reads its
// acknowledgements, and one that commits. The lock of a connection is taken before that of the nodes, and neither together
// with that of the pending batch.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"rollcall/zk/jute"
)

// Limits. MaxMembers is ZooKeeper's usual most; an ensemble for measuring has three.
const (
	MaxMembers      = 9
	maxFrame        = jute.DefaultMaxBuffer // of a client, in bytes
	maxPendingBytes = 4 << 20               // of the batch that waits; above it, readers of connections wait
	maxConnections  = 100_000               // above it, further ones are closed
	fileBytes       = 32 << 20              // of a member's file, which is overwritten from the beginning when it is full
)

// Config configures one member.
type Config struct {
	Member int      // from 1; member 1 leads
	Peers  []string // host:port of each member, at which a follower listens for the leader; one: no followers
	Client string   // host:port at which the leader listens for clients
	Data   string   // directory of the member's file, which is made if it is missing
}

// Check returns an error that names the flag that is wrong.
func (c *Config) Check() error {
	if len(c.Peers) < 1 || len(c.Peers) > MaxMembers {
		return fmt.Errorf("--peers names %d members; must be 1 to %d addresses host:port with commas between them, the same "+
			"for each member", len(c.Peers), MaxMembers)
	}
	for _, addr := range c.Peers {
		if err := checkAddress("--peers", addr); err != nil {
			return err
		}
	}
	switch {
	case c.Member < 1 || c.Member > len(c.Peers):
		return fmt.Errorf("--member %d must be 1 to %d, the place of this member in --peers", c.Member, len(c.Peers))
	case c.Data == "":
		return errors.New("--data names the directory for this member's file; use another one for each member")
	case c.Member > 1 && c.Client != "":
		return fmt.Errorf("--client: member %d takes no clients; give it to member 1, which leads", c.Member)
	case c.Member > 1:
		return nil
	case c.Client == "":
		return errors.New("--client host:port is missing: member 1 leads and takes the clients")
	}
	return checkAddress("--client", c.Client)
}

func checkAddress(flag, addr string) error {
	if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" {
		return fmt.Errorf("%s: %.100q must be host:port", flag, addr)
	}
	return nil
}

// Run is one member. It returns when ctx ends, or with an error if the member cannot go on.
func Run(ctx context.Context, cfg Config) (err error) {
	if err := cfg.Check(); err != nil {
		return err
	}
	file, err := openFile(cfg.Data, fileBytes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	addr := cfg.Client
	if cfg.Member > 1 {
		addr = cfg.Peers[cfg.Member-1]
	}
	listener, err := listen(ctx, addr)
	if err != nil {
		return err
	}
	defer listener.Close()
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	if cfg.Member > 1 {
		return follow(ctx, listener, file)
	}
	conns, err := dialAll(ctx, cfg.Peers[1:])
	if err != nil {
		return orNil(ctx, err)
	}
	return newLeader(conns, file).run(ctx, listener)
}

// listen listens without what a member needs no system calls for: keep-alive and MPTCP.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	config := net.ListenConfig{KeepAlive: -1}
	config.SetMultipathTCP(false)
	listener, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%w; choose a free port of this machine", err)
	}
	return listener, nil
}
