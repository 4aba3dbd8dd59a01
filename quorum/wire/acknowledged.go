package wire

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Acknowledged is when this member last sent something that the member which now sends heartbeats has received.
//
// A heartbeat proves that. Its sender has received the reply to its last request on that connection, or else the hello:
// dialer.call takes no connection before, and a pipeline, which does not wait, has one of its own and sends no
// heartbeats. Other requests arrive even if no reply gets through. The zero value is ready to use. It is
// safe for concurrent use.
type Acknowledged struct {
	mu     sync.Mutex
	server raft.ServerID
	sentAt time.Time
}

func (a *Acknowledged) note(server raft.ServerID, sentAt time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if server != a.server || sentAt.After(a.sentAt) {
		a.server, a.sentAt = server, sentAt
	}
}

// LastReceived returns when this member sent the last thing that a server is known to have received. It is zero if that
// server has sent no heartbeat, or another one has sent a later heartbeat.
func (a *Acknowledged) LastReceived(server raft.ServerID) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.server != server {
		return time.Time{}
	}
	return a.sentAt
}
