package wire

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// directIdle is the time after which a connection for direct messages closes that has carried none. Opening it takes a few round trips,
	// and the first write after that waits for the leader's notice.
	directIdle = 10 * time.Minute
	// directPause is the least time between two attempts to reach a server that was not reached.
	directPause = time.Second
)

// copyReport is a direct message: the sender has acknowledged the entries of a leader's term up to an index. The last one is of that term.
type copyReport struct{ term, index uint64 }

func (c copyReport) isAfter(other copyReport) bool {
	return c.term > other.term || c.term == other.term && c.index > other.index
}

// directCopies tells other members of this member's copies. Only the last message to each is kept until it is sent, and none has a reply.
// It is safe for concurrent use.
type directCopies struct {
	dialer *dialer
	closed <-chan struct{}

	mu      sync.Mutex
	senders map[raft.ServerID]*copySender // those in raft's configuration, and some that have left it
}

// copySender sends the messages to one server. Its goroutine has its connection.
type copySender struct {
	next copyReport // guarded by directCopies.mu
	wake chan struct{}
}

// send sends a message to servers. It never waits.
func (d *directCopies) send(to []raft.ServerID, report copyReport) {
	if len(to) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, server := range to {
		s := d.senders[server]
		if s == nil {
			s = d.begin(server)
		}
		if s != nil && report.isAfter(s.next) {
			s.next = report
			signal(s.wake)
		}
	}
}

// begin begins a sender to a server, or returns nil if the server is in no configuration here. The caller holds mu.
func (d *directCopies) begin(server raft.ServerID) *copySender {
	if _, known := d.dialer.addressOf(server); !known {
		return nil
	}
	if d.senders == nil {
		d.senders = map[raft.ServerID]*copySender{}
	}
	s := &copySender{wake: make(chan struct{}, 1)}
	d.senders[server] = s
	go d.run(server, s)
	return s
}

// run sends messages to a server until there has been none for directIdle.
func (d *directCopies) run(server raft.ServerID, s *copySender) {
	var conn *outConn
	idle := time.NewTimer(directIdle)
	defer idle.Stop()
	for {
		select {
		case <-s.wake:
		case <-idle.C:
			if d.remove(server, s) {
				closeCopies(conn)
				return
			}
			continue
		case <-d.closed:
			return // the dialer closes the connection
		}
		var err error
		if conn, err = d.write(conn, server, d.take(s)); err != nil {
			select {
			case <-time.After(directPause):
			case <-d.closed:
				return
			}
		}
		idle.Reset(directIdle)
	}
}

// take returns the message to send.
func (d *directCopies) take(s *copySender) copyReport {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-s.wake: // there is a later message than the one that has woken the sender
	default:
	}
	return s.next
}

// remove removes a sender unless it has a message to send.
func (d *directCopies) remove(server raft.ServerID, s *copySender) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(s.wake) > 0 {
		return false
	}
	delete(d.senders, server)
	return true
}

// write writes a message to a server, and returns the connection for the next one, or nil with an error.
func (d *directCopies) write(conn *outConn, server raft.ServerID, report copyReport) (*outConn, error) {
	address, known := d.dialer.addressOf(server)
	if !known {
		closeCopies(conn)
		return nil, errNotReached
	}
	if conn != nil && conn.serverAddress != address {
		closeCopies(conn)
		conn = nil
	}
	if conn == nil {
		var err error
		if conn, err = d.dialer.getConn(address); err != nil {
			return nil, err
		}
	}
	_ = conn.SetWriteDeadline(time.Now().Add(stallTimeout)) // Flush returns the error of a broken connection
	_, _ = conn.w.Write(appendCopy(conn.frameHeader[:0], report))
	if err := conn.w.Flush(); err != nil {
		closeCopies(conn)
		return nil, err
	}
	return conn, nil
}

func closeCopies(conn *outConn) {
	if conn != nil {
		_ = conn.Close()
	}
}

func appendCopy(b []byte, c copyReport) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(append(b, frameCopy), c.term), c.index)
}

func parseCopy(b []byte) *copyReport {
	return &copyReport{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}
}
