package stream

import (
	"context"
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxLoops is the most loops of a group. There are never more than can run at once, because loops do not
	// wait.
	maxLoops = 16
	// maxLoopEvents is the number of sockets that a loop polls at once.
	maxLoopEvents = 64
	// maxLoopTurn is the time after which a busy loop lets other goroutines run. Go's scheduler would let it
	// run longer. It is long enough to cost nothing.
	maxLoopTurn = time.Millisecond
	// LoopBuffer is the size of one read, and of the longest frame that a loop serves.
	LoopBuffer = 64 << 10
)

// Group is the streams of one listener, and the loops that serve the calm ones. The loops start with the
// first calm stream. A Group is safe for concurrent use.
type Group struct {
	*Config
	numAccepted atomic.Uint32 // streams so far
	startOnce   sync.Once
	loops       []*loop
	stopSweep   context.CancelFunc // ends sweepSilent
	goroutines  sync.WaitGroup
}

// loopOf returns a stream's loop, or nil if there are none.
func (g *Group) loopOf(s *Stream) *loop {
	g.startOnce.Do(g.startLoops)
	if len(g.loops) == 0 {
		return nil
	}
	return g.loops[int(s.groupIndex%uint32(len(g.loops)))]
}

func (g *Group) startLoops() {
	for range min(maxLoops, runtime.GOMAXPROCS(0)) {
		p, err := newPoller()
		if err != nil {
			g.Logger.Info("connections are served without loops", "loops", len(g.loops), "err", err)
			break
		}
		l := &loop{poller: p, streams: make(map[int]*Stream)}
		g.loops = append(g.loops, l)
		g.goroutines.Go(l.run)
	}
	ctx, stop := context.WithCancel(context.Background())
	g.stopSweep = stop
	g.goroutines.Go(func() { g.sweepSilent(ctx) })
}

// sweepSilent drops the streams whose clients are silent. It runs once a tick, and takes the lock of each
// stream.
func (g *Group) sweepSilent(ctx context.Context) {
	ticker := time.NewTicker(g.Tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			for _, l := range g.loops {
				l.dropSilentStreams(now)
			}
		}
	}
}

// Close ends the loops and waits for them. All streams of the group have ended before the call.
func (g *Group) Close() {
	if g.stopSweep == nil {
		return // there were no loops
	}
	g.stopSweep()
	for _, l := range g.loops {
		l.poller.close()
	}
	g.goroutines.Wait()
}

// loop is a goroutine that serves many streams. A stream that would make it wait is demoted. The loop waits
// only for events and, in ServeFrame, for the locks that the owner takes there.
type loop struct {
	poller         *poller
	readBuffer     [LoopBuffer]byte
	batchStartedAt atomic.Int64 // in ns since the Unix epoch; 0 while the loop waits for events

	mu      sync.Mutex
	streams map[int]*Stream // by descriptor
}

func (l *loop) run() {
	var begun time.Time // since the loop last let others run
	for {
		l.batchStartedAt.Store(0)
		n, waited := l.poller.waitEvents()
		if n == 0 {
			return
		}
		now := time.Now()
		l.batchStartedAt.Store(now.UnixNano())
		switch {
		case waited:
			begun = now
		case now.Sub(begun) > maxLoopTurn:
			runtime.Gosched()
			begun = now
		}
		for i := range n {
			l.serveSocket(l.poller.socketAt(i), now)
		}
	}
}

// isStuck reports whether the loop has served the same events for stuckAfter at now.
func (l *loop) isStuck(now time.Time) bool {
	begun := l.batchStartedAt.Load()
	return begun != 0 && now.UnixNano()-begun > int64(stuckAfter)
}

// serveSocket reads once from a socket, and has the whole frames served. It sends all of their output in one
// write.
func (l *loop) serveSocket(fd int, now time.Time) {
	s := l.streamOf(fd)
	if s == nil {
		return
	}
	visit := loopVisit{s}
	rest := visit.readInput(l, fd, now)
	if rest == nil {
		return
	}
	more := true
	for more && s.readerTask == nil {
		n := wholeFrameSize(rest, s.reader.maxNextFrame(s.group.Config))
		if n == 0 || !visit.mayServe() {
			break
		}
		s.registration.awaitsFirstFrame, s.reader.gotFirstFrame = false, true
		s.group.BytesIn.Add(uint64(n))
		more = s.owner.ServeFrame(rest[LengthSize:n])
		rest = rest[n:]
	}
	visit.finishVisit(rest, more)
}

// wholeFrameSize returns the size of the frame at the head of b, including its length. It returns 0 if b has only
// a part of it, or if it has more than most bytes.
func wholeFrameSize(b []byte, most int) int {
	if n, ok := frameSize(b, most); ok && n <= len(b) {
		return n
	}
	return 0
}

// frameSize returns the size of the frame at the head of b, including its length. ok is false if the size is
// not known yet, or if it is more than most without the length.
func frameSize(b []byte, most int) (n int, ok bool) {
	if len(b) < LengthSize {
		return 0, false
	}
	size := binary.BigEndian.Uint32(b)
	return int(size) + LengthSize, uint64(size) <= uint64(most)
}

func (l *loop) streamOf(fd int) *Stream {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.streams[fd]
}

func (l *loop) addStream(s *Stream, fd int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.poller.add(fd); err != nil {
		return err
	}
	l.streams[fd] = s
	return nil
}

func (l *loop) removeStream(fd int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.poller.remove(fd)
	delete(l.streams, fd)
}

// forgetSocket is removeStream for a socket that is about to be closed.
func (l *loop) forgetSocket(fd int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.streams, fd)
}

func (l *loop) dropSilentStreams(now time.Time) {
	l.mu.Lock()
	streams := make([]*Stream, 0, len(l.streams))
	for _, s := range l.streams {
		streams = append(streams, s)
	}
	l.mu.Unlock()
	for _, s := range streams {
		loopVisit{s}.dropIfSilent(l, now)
	}
}
