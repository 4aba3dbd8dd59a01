package server

import (
	"cmp"
	"encoding/binary"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// accountStep is by how many bytes what a connection holds must change before it is counted
	// again. A connection below it costs no more than an idle one's buffers, and most requests
	// touch nothing that connections share.
	accountStep = 16 << 10
	// budgetLook is how often the budget is looked at while it is spent or a connection waits for it.
	budgetLook = 10 * time.Millisecond
	// budgetPatience is how long a connection may wait for room before one that takes nothing
	// loses its own, and for how long that one must have taken nothing.
	budgetPatience = 500 * time.Millisecond
	// budgetReport is the least time between two lines of log about closed connections.
	budgetReport = 10 * time.Second
)

// budget bounds what all connections of a server hold together: bytes of replies and events
// that their clients have not taken, and of requests that wait. What a connection has asked
// for waits while the budget has no room for it: see room. Replies to writes, events, and reads
// that must be answered between two writes cannot wait. If they overrun the budget, the
// connections that hold most are closed. Safe for concurrent use; nothing blocks.
type budget struct {
	srv  *Server
	most int64
	used atomic.Int64

	mu       sync.Mutex
	waiting  []place // see places
	keeping  bool    // keep runs
	keepers  sync.WaitGroup
	closed   int       // connections, since the last report
	reported time.Time // when the log was told
}

// place is where a connection waits for room.
type place struct {
	c     *conn
	n     int64 // bytes that it waits for
	since time.Time
}

// add counts n bytes more, or less.
func (b *budget) add(n int64) {
	if b.used.Add(n) > b.most && n > 0 {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.startKeeper()
	}
}

// room reports whether a connection that holds so many bytes may have n more: both must fit
// into what is free. So those that hold much stop long before those that hold little, and
// many that want all they can get share evenly. An eighth is left for what cannot wait.
func (b *budget) room(held, n int64) bool { return b.lacks(held, n) <= 0 }

// lacks returns how many bytes must be free before room reports true. What is larger than a
// quarter of the budget counts as one: alone, it is always served.
func (b *budget) lacks(held, n int64) int64 {
	return b.used.Load() + held + min(n, b.most/4) - b.most/8*7
}

// wait makes keep call c.grant once there is room for n bytes. It returns at once.
func (b *budget) wait(c *conn, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.ContainsFunc(b.waiting, func(p place) bool { return p.c == c }) {
		b.waiting = append(b.waiting, place{c, n, time.Now()})
	}
	b.startKeeper()
}

// startKeeper starts keep unless it runs. The caller holds mu.
func (b *budget) startKeeper() {
	if !b.keeping {
		b.keeping = true
		b.keepers.Go(b.keep)
	}
}

// keep looks after the budget for as long as it is spent or a connection waits.
func (b *budget) keep() {
	ticker := time.NewTicker(budgetLook)
	defer ticker.Stop()
	for b.relieve(time.Now()); !b.rest(); b.relieve(time.Now()) {
		<-ticker.C
	}
}

func (b *budget) rest() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keeping = len(b.waiting) > 0 || b.used.Load() > b.most
	return !b.keeping
}

// relieve closes connections if the budget is overrun, and lets those go on that there is room
// for. If the first of the others has waited for too long, the connections that hold most and
// take nothing make room for it.
func (b *budget) relieve(now time.Time) {
	if over := b.used.Load() - b.most; over > 0 {
		b.cut(over, 0, now, false)
	}
	granted, helped := int64(0), false // bytes that those let on have not taken yet
	for _, p := range b.places() {
		held := p.c.held.Load()
		if lacks := granted + b.lacks(held, p.n); lacks > 0 && !helped && now.Sub(p.since) > budgetPatience {
			b.cut(lacks, held, now, true)
			helped = true
		}
		if granted+b.lacks(held, p.n) <= 0 || !p.c.alive() {
			granted += p.n
			b.leave(p.c)
			p.c.grant()
		}
	}
	b.report(now)
}

// places returns the waiting connections: those that hold least first, and of two that hold the
// same the one that has waited longer.
func (b *budget) places() []place {
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.SortStableFunc(b.waiting, func(x, y place) int { return cmp.Compare(x.c.held.Load(), y.c.held.Load()) })
	return slices.Clone(b.waiting)
}

func (b *budget) leave(c *conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = slices.DeleteFunc(b.waiting, func(p place) bool { return p.c == c })
}

// cut closes connections that hold more than above bytes until need bytes are free: first those
// that hold more than an even share and have taken nothing for budgetPatience, then the others,
// without those that have taken something if stalled is set. In each group the one that holds most
// comes first. So one that takes a little now and then does not have those with little closed.
func (b *budget) cut(need, above int64, now time.Time, stalled bool) {
	type holder struct {
		c     *conn
		held  int64
		first bool
	}
	var holders []holder
	share := b.evenShare()
	for _, c := range b.srv.connections() {
		held, idle := c.held.Load(), now.Sub(c.begun)-time.Duration(c.took.Load()) > budgetPatience
		if held > above && (idle || !stalled) {
			holders = append(holders, holder{c, held, idle && held > share})
		}
	}
	slices.SortFunc(holders, func(x, y holder) int {
		if x.first != y.first {
			if x.first {
				return -1
			}
			return 1
		}
		return cmp.Compare(y.held, x.held)
	})
	for i := 0; i < len(holders) && need > 0; i++ {
		holders[i].c.cut(overBudget)
		need -= holders[i].held
		b.count()
	}
}

// evenShare is how much each connection that is counted would hold if all held the same.
func (b *budget) evenShare() int64 {
	n := int64(0)
	for _, c := range b.srv.connections() {
		if c.held.Load() > 0 {
			n++
		}
	}
	return b.used.Load() / max(n, 1)
}

func (b *budget) count() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed++
}

// report logs how many connections were closed, at most once per budgetReport.
func (b *budget) report(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed == 0 || now.Sub(b.reported) < budgetReport {
		return
	}
	b.srv.log.Warn("connections closed: clients left too much unread or sent too much at once", "closed", b.closed, "limit", b.most)
	b.closed, b.reported = 0, now
}

// account tells the budget what the connection holds. The caller holds mu.
func (c *conn) account() {
	n := int64(c.unsent() + c.queue.bytes + c.taking)
	if c.dead {
		n = 0
	}
	held := c.held.Load()
	d := n - held
	if d == 0 || d < accountStep && d > -accountStep && n != 0 {
		return
	}
	c.held.Store(n)
	if d < 0 || held == 0 {
		c.progress()
	}
	c.srv.budget.add(d)
}

// grant lets the connection go on with what it has waited for.
func (c *conn) grant() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.granted = true
	c.changed.Broadcast()
	c.answerLater()
}

// has reports whether the connection may have n bytes more; else it waits for them. The
// caller holds mu.
func (c *conn) has(n int64) bool {
	if b := &c.srv.budget; !c.granted && !b.room(c.held.Load(), n) {
		b.wait(c, n)
		return false
	}
	c.granted = false
	return true
}

// answerLater has the requests that wait answered by a goroutine of its own: the caller must
// not, for there may be much to copy, and it holds the tree's lock, or none. It holds mu.
func (c *conn) answerLater() {
	if c.dead || c.last || c.answering || c.queue.first == nil || !c.queue.first.due() {
		return
	}
	c.answering = true
	c.helpers++
	go c.answerAside()
}

func (c *conn) answerAside() {
	c.srv.cfg.State.RLock()
	defer c.srv.cfg.State.RUnlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answering = false
	c.answerReady(false)
	c.flushLocked()
	c.helpers--
	c.changed.Broadcast()
}

// affords reports whether the budget has room for the answer to r, a read; else the
// connection waits for it. The caller holds mu and the tree's lock.
func (c *conn) affords(r *request) bool {
	if c.srv.budget.room(c.held.Load(), int64(c.srv.cfg.Limits.MaxBuffer)) {
		return true // most likely; to look costs more
	}
	if r.how.weigh == nil {
		return true
	}
	n := r.how.weigh(c, r)
	return n < accountStep || c.has(n)
}

// takeIn counts the n bytes of a long request, of which its reader is about to read the rest. It
// waits until the budget has room for them, and returns false if the connection has ended.
func (c *conn) takeIn(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.has(int64(n)) {
		timer := time.AfterFunc(c.idleAfter(), func() { c.cut(idle) })
		defer timer.Stop()
		for !c.dead && !c.has(int64(n)) {
			c.flushLocked()
			c.changed.Wait()
		}
		if c.open && !c.dead { // the client was not read meanwhile
			c.armed = time.Now()
			c.expires = c.armed.Add(c.idleAfter())
			_ = c.sock.SetReadDeadline(c.expires) // if it fails, so will the read
		}
	}
	c.taking = n
	c.account()
	return !c.dead
}

// taken ends what takeIn began: the request's memory is free.
func (c *conn) taken() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taking = 0
	c.account()
}

// gate is what a frame is read through. Once as much of one has come as a loop would serve,
// all of it is counted. So a length alone costs nothing, and a request that has been let in does
// not wait in the middle. Of such a one each further gateStep bytes count as a sign of life.
type gate struct {
	c      *conn
	length [lengthSize]byte
	got    int  // bytes of this frame, with its length
	in     bool // it is counted
}

// gateStep is also what a request may have come to before it is counted.
const gateStep = loopBuffer

// begin makes the gate ready for the next frame.
func (g *gate) begin() { g.got, g.in = 0, false }

// Read implements io.Reader for jute.ReadFrame.
func (g *gate) Read(p []byte) (int, error) {
	if g.got >= gateStep && !g.in {
		if !g.c.takeIn(int(binary.BigEndian.Uint32(g.length[:]))) {
			return 0, net.ErrClosed
		}
		g.in = true
	}
	n, err := g.c.in.Read(p[:min(len(p), gateStep-g.got%gateStep)])
	if g.got < lengthSize {
		copy(g.length[g.got:], p[:n])
	}
	if g.got += n; g.in && g.got%gateStep == 0 {
		g.c.progress()
	}
	return n, err
}

// progress notes that the client has sent or taken something.
func (c *conn) progress() { c.took.Store(int64(time.Since(c.begun))) }
