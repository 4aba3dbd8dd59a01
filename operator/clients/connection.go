// Package clients has the rows of client connections and watches that operators see.
package clients

import (
	"cmp"
	"strings"
	"time"

	"rollcall/zk/jute"
)

// Connection describes a client connection to operators. The server fills it in.
type Connection struct {
	Number                                          uint64 // counts the server's connections, from 1
	RemoteAddr                                      string // host:port
	TLS, Cipher                                     string // its version and cipher suite; "": the connection is plain
	AwaitsRead                                      bool   // the server waits for requests
	AwaitsWrite                                     bool   // output waits for the client
	QueuedRequests                                  int    // requests without a reply
	PacketsReceived, PacketsSent                    uint64
	Recent                                          Recent
	Session                                         jute.SessionID // 0: none yet; the fields below are of its connection
	Timeout                                         time.Duration
	EstablishedAt                                   time.Time
	ReplyCount                                      uint64 // 0: the fields below are not set
	LastOp                                          jute.Op
	LastXid                                         int32         // the last reply's; -1: no request had a number
	LastZxid                                        int64         // in the last reply
	LastReply                                       time.Duration // since the server's start
	LastLatency, MinLatency, AvgLatency, MaxLatency time.Duration
	ExpiresAt                                       time.Time // if the client stays silent
}

// Recent is what a connection did lately: in the last 50 to 60 seconds, or since it began.
type Recent struct {
	Requests uint64        // that got a reply, including pings and the handshake
	Bytes    uint64        // of requests, replies and events
	Span     time.Duration // that the counts are about
}

// InterestOps returns ZooKeeper's code for what the server waits for: 1 to read, 4 to write, 5 for both.
func (c *Connection) InterestOps() int {
	interest := 0
	if c.AwaitsRead {
		interest |= 1
	}
	if c.AwaitsWrite {
		interest |= 4
	}
	return interest
}

// Watch describes a path that a connection watches.
type Watch struct {
	ConnectionNumber uint64         // its Connection.Number
	Session          jute.SessionID // of the connection
	Path             string
	Data             bool // once, for the node: created, deleted, or its data changed
	Children         bool // once, for the node's children
	Persistent       bool // both, until the client removes the watch
	Recursive        bool // the node and everything below it, until the client removes the watch
}

// WatchPlace is a place in a list of watches that is sorted by connection and path. The zero value is before
// all.
type WatchPlace struct {
	Connection uint64
	Path       string
}

// Compare returns -1 if p is before q, 0 if they are equal, and 1 if p is after q.
func (p WatchPlace) Compare(q WatchPlace) int {
	return cmp.Or(cmp.Compare(p.Connection, q.Connection), strings.Compare(p.Path, q.Path))
}
