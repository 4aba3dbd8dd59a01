package simulated

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"
)

const (
	// retransmitAfter is the first retransmission timeout of a connection, as Linux has it for links of a room.
	retransmitAfter = 200 * time.Millisecond
	// connectAgainAfter is the first timeout of an attempt to connect (RFC 6298, 2.1).
	connectAgainAfter = time.Second
)

// Loss is a network that loses packets.
type Loss struct {
	Share  float64 // of all packets, each for itself
	Port   string  // ":2888": only on connections to this port; "": on all
	Seed   uint64  // decides which ones
	Steady int     // so many retransmission timeouts of a connection are equally long, as of Linux's thin streams; then they double
}

// Lose makes the network lose what one host sends to the other, and the acknowledgements of it. A Share of 0 ends it: what
// waits for a retransmission still waits, as with TCP.
func (n *Network) Lose(from, to uint32, l Loss) {
	n.mu.Lock()
	n.losses[[2]uint32{from, to}] = l
	n.mu.Unlock()
	for _, c := range n.findEnds(func(c *conn) bool { return c.from == to && c.to == from }) {
		c.in.setLoss(newLossy(l, from, to, c))
	}
}

// awaitConnected waits as long as the connection's first packets take.
func (n *Network) awaitConnected(ctx context.Context, from, to uint32, addr string) error {
	n.mu.Lock()
	l := n.losses[[2]uint32{from, to}]
	n.ports++
	rng := rand.New(rand.NewPCG(l.Seed^connecting, uint64(n.ports)<<16|uint64(from)<<8|uint64(to)))
	n.mu.Unlock()
	if l.Share == 0 || !strings.HasSuffix(addr, l.Port) {
		return nil
	}
	wait, timeout := time.Duration(0), connectAgainAfter
	lossOfEither := 1 - (1-l.Share)*(1-l.Share) // of a packet and its reply
	for rng.Float64() < lossOfEither {
		wait += timeout
		timeout *= 2
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// connecting makes the packets of connecting other ones than those of connections.
const connecting = 0x53594e

// lossyLink is one direction of a TCP connection over a network that loses packets. What is written while
// a retransmission is under way waits until the other side has acknowledged it.
type lossyLink struct {
	loss Loss
	rng  *rand.Rand

	start time.Time // of the newest flight
	due   time.Time // when it arrives
	acked time.Time // when the sender may send the next
}

// newLossy returns nil if nothing is lost on the way between two hosts on the connection of an end.
func newLossy(l Loss, from, to uint32, c *conn) *lossyLink {
	if l.Share == 0 || !strings.HasSuffix(c.listens, l.Port) {
		return nil
	}
	return &lossyLink{loss: l, rng: rand.New(rand.NewPCG(l.Seed, uint64(c.number)<<16|uint64(from)<<8|uint64(to)))}
}

// arrivalOf returns when what is written at now arrives.
func (l *lossyLink) arrivalOf(now time.Time) time.Time {
	switch {
	case l == nil:
		return now
	case now.Before(l.start): // it goes with what waits
		return l.due
	case now.Before(l.acked):
		l.scheduleFlight(l.acked)
	default:
		l.scheduleFlight(now)
	}
	return l.due
}

// scheduleFlight decides when a flight arrives, and when its acknowledgement does.
func (l *lossyLink) scheduleFlight(at time.Time) {
	l.start = at
	timeout := retransmitAfter
	for try, arrived := 1, false; ; try++ {
		if l.rng.Float64() >= l.loss.Share {
			if !arrived {
				l.due, arrived = at, true
			}
			if l.rng.Float64() >= l.loss.Share {
				l.acked = at
				return
			}
		}
		at = at.Add(timeout)
		if try >= l.loss.Steady {
			timeout *= 2
		}
	}
}
