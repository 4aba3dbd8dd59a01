package main

import (
	"bytes"
	"sync/atomic"
	"time"
)

// link carries packets in one direction. Each arrives after the delay, and in the order in which they were sent.
type link struct {
	delay  time.Duration
	limit  int64 // of queued
	queued atomic.Int64
	queue  chan delayedPacket
}

type delayedPacket struct {
	due  time.Time
	data []byte
}

// newLink returns a link with at most limit bytes and so many packets under way. It delivers nothing until deliver runs.
func newLink(delay time.Duration, limit int64, packets int) *link {
	return &link{delay: delay, limit: limit, queue: make(chan delayedPacket, packets)}
}

// send puts a copy of a packet on the link. It returns false if the link is full, which loses the packet. Only one goroutine may call it
// at a time.
func (l *link) send(packet []byte) bool {
	size := int64(len(packet))
	if l.queued.Add(size) <= l.limit {
		select {
		case l.queue <- delayedPacket{time.Now().Add(l.delay), bytes.Clone(packet)}:
			return true
		default:
		}
	}
	l.queued.Add(-size)
	return false
}

// deliver passes each packet to write when it is due, until the queue is closed. sleep may return early.
func (l *link) deliver(write func([]byte), sleep func(time.Duration)) {
	for p := range l.queue {
		for wait := time.Until(p.due); wait > 0; wait = time.Until(p.due) {
			sleep(wait)
		}
		write(p.data)
		l.queued.Add(-int64(len(p.data)))
	}
}
