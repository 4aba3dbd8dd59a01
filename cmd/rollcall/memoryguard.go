package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/metrics"
)

const (
	// guardShare is the part of the free memory, in percent, that a state may take while a command reads it.
	// Writing it needs some of the rest, and so does the collector.
	guardShare = 60
	// The heap may grow by one guardRegrowth-th of the limit before garbage is collected again to measure the
	// heap.
	guardRegrowth = 16
	// guardStep is the number of bytes read between two checks of the heap.
	guardStep = 1 << 20
)

// memoryGuard limits the memory of a command that reads a whole state. Without it the kernel would kill the
// command or another process.
type memoryGuard struct {
	limit   uint64 // bytes; 0: no limit
	checkAt uint64 // the heap size, with garbage, of the next measurement
}

// newMemoryGuard returns a guard for so many free bytes. If they are unknown, free is 0, and there is no
// limit.
func newMemoryGuard(free int64) *memoryGuard {
	limit := uint64(free) / 100 * guardShare
	return &memoryGuard{limit: limit, checkAt: limit}
}

// checkHeap returns an error if the heap exceeds the limit. It takes some microseconds, or a run of the
// collector if the heap has grown.
func (r *memoryGuard) checkHeap() error {
	if r.limit == 0 || heapObjects() < r.checkAt {
		return nil
	}
	runtime.GC()
	used := heapObjects()
	if r.checkAt = used + r.limit/guardRegrowth; used < r.limit {
		return nil
	}
	return fmt.Errorf("there is too little memory for this state: the part that was read takes %d MB, and %d MB are "+
		"allowed, which are %d %% of what is free; run this on a machine with more memory; if the state should be small, "+
		"do not trust the file",
		used>>20, r.limit>>20, guardShare)
}

// heapObjects returns the bytes of the heap, with garbage.
func heapObjects() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// wrapReader returns a reader that fails when the heap exceeds the limit.
func (r *memoryGuard) wrapReader(from io.Reader) io.Reader {
	return &guardedReader{Reader: from, guard: r}
}

type guardedReader struct {
	io.Reader
	guard      *memoryGuard
	sinceCheck int64 // bytes
}

func (r *guardedReader) Read(p []byte) (int, error) {
	if r.sinceCheck >= guardStep {
		r.sinceCheck = 0
		if err := r.guard.checkHeap(); err != nil {
			return 0, err
		}
	}
	n, err := r.Reader.Read(p)
	r.sinceCheck += int64(n)
	return n, err
}
