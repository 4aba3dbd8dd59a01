package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/metrics"
)

const (
	// readShare is the part of the free memory, in percent, that a state may take while a command reads it. Writing
	// it needs some of the rest, and so does the collector.
	readShare = 60
	// roomRegrowth is how much the heap grows, as one part in so many of the limit, before garbage is
	// collected again to see what is in use.
	roomRegrowth = 16
	// roomStep is how many bytes are read of a file between two looks at the heap.
	roomStep = 1 << 20
)

// room bounds the memory of a command that reads a whole state. Without it the kernel would end the command, or
// another process of the machine.
type room struct {
	limit uint64 // bytes; 0: none
	due   uint64 // the size of the heap, with garbage, at which to look
}

// newRoom returns the room that is left where so many bytes of memory are free. 0 is not known, and no limit.
func newRoom(free int64) *room {
	limit := uint64(free) / 100 * readShare
	return &room{limit: limit, due: limit}
}

// check returns an error if the heap takes more than the limit. It costs some microseconds unless the heap is
// about as large.
func (r *room) check() error {
	if r.limit == 0 || heapObjects() < r.due {
		return nil
	}
	runtime.GC()
	used := heapObjects()
	if r.due = used + r.limit/roomRegrowth; used < r.limit {
		return nil
	}
	return fmt.Errorf("there is too little memory for this state: the part that was read takes %d MB, and %d MB are allowed, which are %d %% of what is free; run this on a machine with more memory; if the state should be small, do not trust the file",
		used>>20, r.limit>>20, readShare)
}

// heapObjects returns the bytes of the heap that are in use, or garbage.
func heapObjects() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// reader returns a reader of r that ends when there is no room.
func (r *room) reader(from io.Reader) io.Reader { return &roomReader{Reader: from, room: r} }

type roomReader struct {
	io.Reader
	room *room
	read int64 // bytes since the last look
}

func (r *roomReader) Read(p []byte) (int, error) {
	if r.read >= roomStep {
		r.read = 0
		if err := r.room.check(); err != nil {
			return 0, err
		}
	}
	n, err := r.Reader.Read(p)
	r.read += int64(n)
	return n, err
}
