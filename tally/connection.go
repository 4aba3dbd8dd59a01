package tally

import (
	"time"

	"rollcall/jute"
)

// Connection is what operators see of one client connection. The server fills it in.
type Connection struct {
	Addr                                            string         // host:port
	Reading                                         bool           // the server waits for requests
	Writing                                         bool           // the client has not read everything sent to it
	Queued                                          int            // requests not answered yet
	Received, Sent                                  uint64         // packets
	Session                                         jute.SessionID // 0: none yet. The fields below are about this connection
	Timeout                                         time.Duration
	Established                                     time.Time
	Replies                                         uint64        // 0: the fields below have no meaning
	Op                                              jute.Op       // of the last reply
	Xid                                             int32         // of the last reply; -1: none that the client counts
	Zxid                                            int64         // of the last reply
	Replied                                         time.Duration // when the last reply was sent, from the server's start
	LastLatency, MinLatency, AvgLatency, MaxLatency time.Duration
	Expires                                         time.Time // when the session ends if nothing is heard
}
