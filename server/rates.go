package server

import (
	"math"
	"time"

	"rollcall/operator/clients"
)

const (
	// rateSlots slots of rateSlotLength make the minute that operators read rates over.
	rateSlots      = 6
	rateSlotLength = 10 * time.Second
	// frameOverhead is the length of a frame and the header of a request, in bytes.
	frameOverhead = lengthSize + 8
)

// rateWindow counts what one connection did in the last minute: its requests, and the bytes of requests, replies and
// events. The handshake's bytes are left out, and TLS adds nothing.
//
// The present slot is only partly over, so the window covers the last 50 to 60 seconds. The counts in it are exact,
// except that bytes are counted when the connection gets its next reply or the window is read, whichever is first. A
// slot holds at most 4 GiB, so above 429 MB/s a rate is too low.
//
// Times are since the server's start. The connection's lock guards it. It takes 56 bytes per connection, idle or not.
// That fits into what Go's allocator rounds a connection up to, so a million connections take no byte more: see
// TestConnSize.
type rateWindow struct {
	slot          uint32            // the present one, counted from the server's start
	uncountedSize uint32            // bytes that are in no slot yet
	requests      [rateSlots]uint32 // of slot n at n % rateSlots
	bytes         [rateSlots]uint32
}

// addBytes adds bytes without reading a clock. The next call with a time puts them into a slot.
func (w *rateWindow) addBytes(n int) { w.uncountedSize = addSaturated(w.uncountedSize, n) }

// addRequest counts a request that got its reply at a time.
func (w *rateWindow) addRequest(at time.Duration) {
	w.moveTo(at)
	w.requests[w.slot%rateSlots]++ // 429 million a second would be needed to overflow it
}

// moveTo makes the slot of a time the present one, and puts the bytes that are in no slot into it. A time before the
// present slot counts as in it.
func (w *rateWindow) moveTo(at time.Duration) {
	if slot := uint32(at / rateSlotLength); slot > w.slot {
		for n := max(w.slot+1, max(slot, rateSlots)-rateSlots+1); n <= slot; n++ {
			w.requests[n%rateSlots], w.bytes[n%rateSlots] = 0, 0
		}
		w.slot = slot
	}
	sum := &w.bytes[w.slot%rateSlots]
	*sum = addSaturated(*sum, int(w.uncountedSize))
	w.uncountedSize = 0
}

// recent returns the counts of the window at a time. began is when the connection began: of a younger one than the
// window, the span is its age.
func (w *rateWindow) recent(at, began time.Duration) clients.Recent {
	w.moveTo(at)
	first := time.Duration(max(w.slot+1, rateSlots)-rateSlots) * rateSlotLength
	r := clients.Recent{Span: at - max(first, began)}
	for i := range rateSlots {
		r.Requests += uint64(w.requests[i])
		r.Bytes += uint64(w.bytes[i])
	}
	return r
}

func addSaturated(sum uint32, n int) uint32 {
	return uint32(min(uint64(sum)+uint64(max(0, n)), math.MaxUint32))
}
