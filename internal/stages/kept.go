package stages

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxKept limits the requests that are kept. With their stages they take less than 1 MiB.
	maxKept = 512
	// maxPerSecond limits the requests of one second that are kept. The slowest are.
	maxPerSecond = 8
	// keepFor is the time for which a request is kept.
	keepFor = time.Hour
	// maxPauses limits the pauses that are kept.
	maxPauses = 128
	// MaxPath limits the bytes of a path that is kept.
	MaxPath = 256
)

// Class is a class of requests, which have a threshold of their own.
type Class uint8

// The classes of requests.
const (
	Reads    Class = iota // and watches, syncs, and all others that are in no other class
	Writes                // creates and multis, too
	Sessions              // pings and the ends of sessions
	NumClasses
)

// Thresholds are the least durations of the requests that are kept, by class.
type Thresholds [NumClasses]time.Duration

// Request is one slow request of a client, as the member that received it knows it. A time that does not apply is zero.
type Request struct {
	Class   Class
	Session int64
	Address string
	Op      string
	Path    string // the first one of a multi; cut after MaxPath bytes
	Xid     int32

	Received Time   // the member had read it
	Ready    Time   // a read that waits for an entry need not wait any more
	Room     Time   // there was room for the write
	Sent     Time   // the write was on its way to the leader
	Index    uint64 // of the write's entry
	Result   Time   // applied, or proved
	Queued   Time   // its reply was ready to be sent, or the connection ended before
	Lost     bool   // the connection ended before there was a reply
	Taken    Time   // the client's socket had taken the reply; only if the client was slow to take it
}

// endTime returns the time at which the request was over.
func (q *Request) endTime() Time { return max(q.Queued, q.Taken) }

// PauseOp is the name of a pause in place of an operation.
const PauseOp = "pause"

// Slow is a slow request with its stages, or a pause of this member's process: its Op is PauseOp, and it has one stage.
type Slow struct {
	Request

	Number  uint64    // unique in this member, also over its restarts: about milliseconds since 1970
	At      time.Time // when the member received it, by its wall clock
	Total   time.Duration
	Stages  []Stage
	Causes  []MemberCause // that overlap the request
	Missing []uint32      // members whose records of the entry are missing
	Error   time.Duration // by which stages on two members may be wrong, because their clocks differ
	Joined  bool          // the other members were asked
	tries   int

	Connections int // of a pause: the clients that were connected when the process ran again
}

// Largest returns the longest stage.
func (s *Slow) Largest() (largest Stage) {
	for _, stage := range s.Stages {
		if stage.Took > largest.Took {
			largest = stage
		}
	}
	return largest
}

// keptRequests holds slow requests and pauses, each oldest first.
type keptRequests struct {
	arrived chan struct{} // capacity 1: a request waits for its stages

	mu       sync.Mutex
	slow     []*Slow
	pauses   []*Slow // apart from the requests, which are slower during a pause and would displace it
	second   int64   // in which the newest ended
	inSecond []*Slow // those of slow that ended in that second, and some that were removed since
	notKept  uint64
	last     uint64 // Number of the newest
}

// Keep keeps a request that is over, if it was slow enough. It never waits. Under a load of slow requests it costs a few
// nanoseconds for most of them, because the slowest of the second are known.
func (r *Recorder) Keep(q *Request) {
	if r == nil {
		return
	}
	took := time.Duration(q.endTime() - q.Received)
	k := &r.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	if took < r.thresholds[q.Class] {
		return
	}
	if !k.makeRoom(q.endTime(), took) {
		k.notKept++
		return
	}
	// A client chooses the length. A part of a string keeps the memory of the whole one, so the part is copied.
	q.Path = strings.Clone(q.Path[:min(len(q.Path), MaxPath)])
	s := &Slow{Request: *q, At: r.wallTime(q.Received), Total: took, Stages: joinLocal(q)}
	s.Number = k.nextNumber(r.wallClock())
	k.slow = append(k.slow, s)
	k.inSecond = append(k.inSecond, s)
	select {
	case k.arrived <- struct{}{}:
	default:
	}
}

// nextNumber returns the number of a request or a pause that is kept now. The caller holds mu.
func (k *keptRequests) nextNumber(now time.Time) uint64 {
	k.last = max(k.last+1, uint64(max(0, now.UnixMilli())))
	return k.last
}

// KeepPause keeps a pause of this member's process, which has ended now. Requests that came meanwhile have waited in their
// sockets, where nobody measures them. It keeps maxPauses of the last hour. It returns a copy.
func (r *Recorder) KeepPause(member uint32, took time.Duration, connections int) *Slow {
	now := r.Now()
	from := now - Time(took)
	s := &Slow{
		Request: Request{Op: PauseOp, Received: from, Queued: now}, At: r.wallTime(from), Total: took,
		Stages: []Stage{{Kind: StagePaused, Member: member, Took: took}}, Joined: true, Connections: connections,
	}
	k := &r.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pauses = slices.DeleteFunc(k.pauses, func(old *Slow) bool { return now-old.endTime() > Time(keepFor) })
	if len(k.pauses) == maxPauses {
		k.pauses = dropFromFullestMinute(k.pauses)
		k.notKept++
	}
	s.Number = k.nextNumber(r.wallClock())
	k.pauses = append(k.pauses, s)
	kept := *s
	return &kept
}

// makeRoom reports whether a request that took so long and ended at end may be kept, and removes what may not be kept
// with it.
func (k *keptRequests) makeRoom(end Time, took time.Duration) bool {
	if second := int64(end / Time(time.Second)); second != k.second {
		k.second, k.inSecond = second, k.inSecond[:0]
		k.slow = slices.DeleteFunc(k.slow, func(old *Slow) bool { return end-old.endTime() > Time(keepFor) })
	}
	if len(k.inSecond) == maxPerSecond {
		fastest := 0
		for i, one := range k.inSecond {
			if one.Total < k.inSecond[fastest].Total {
				fastest = i
			}
		}
		if k.inSecond[fastest].Total >= took {
			return false
		}
		dropped := k.inSecond[fastest]
		k.inSecond = slices.Delete(k.inSecond, fastest, fastest+1)
		k.slow = slices.DeleteFunc(k.slow, func(one *Slow) bool { return one == dropped })
		k.notKept++
	}
	if len(k.slow) == maxKept {
		k.slow = dropFromFullestMinute(k.slow)
		k.notKept++
	}
	return true
}

// dropFromFullestMinute removes the fastest request of the minute with the most requests, so that one bad minute does
// not make the member forget the hour. It returns the others.
func dropFromFullestMinute(slow []*Slow) []*Slow {
	minute := func(one *Slow) int64 { return int64(one.endTime() / Time(time.Minute)) }
	counts, fullest := map[int64]int{}, int64(0)
	for _, one := range slow {
		if counts[minute(one)]++; counts[minute(one)] >= counts[fullest] {
			fullest = minute(one)
		}
	}
	drop := -1
	for i, one := range slow {
		if minute(one) == fullest && (drop < 0 || one.Total < slow[drop].Total) {
			drop = i
		}
	}
	return slices.Delete(slow, drop, drop+1)
}

// Kept returns copies of the kept requests and pauses, newest first, and the number of those that were not kept.
func (r *Recorder) Kept() (slow []Slow, notKept uint64) {
	k := &r.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	now := r.Now()
	for _, s := range slices.Concat(k.slow, k.pauses) {
		if now-s.endTime() <= Time(keepFor) {
			slow = append(slow, *s)
		}
	}
	slices.SortFunc(slow, func(a, b Slow) int { return cmp.Compare(b.Number, a.Number) })
	return slow, k.notKept
}

// Arrived is signalled when a request was kept. Its stages on other members are not known yet.
func (r *Recorder) Arrived() <-chan struct{} { return r.kept.arrived }

const (
	// maxTries limits the queries to the other members for the records of a request, because one of them may be
	// down.
	maxTries = 5
	// MaxIndexes limits the entries of one query for records.
	MaxIndexes = 64
)

// Unjoined returns the entries of the requests whose stages on other members are not known, at most MaxIndexes, and
// whether there are such requests.
func (r *Recorder) Unjoined() (indexes []uint64, any bool) {
	k := &r.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range slices.Backward(k.slow) {
		if s.Joined {
			continue
		}
		any = true
		if s.Index != 0 && len(indexes) < MaxIndexes && !slices.Contains(indexes, s.Index) {
			indexes = append(indexes, s.Index)
		}
	}
	return indexes, any
}

// Join divides the time of the requests that concern the entries of indexes, or no entry, and returns those that it has
// finished. peers are the records of all members, with this member's. A request of which a member's records are missing
// is finished after the last query to that member.
func (r *Recorder) Join(in Ensemble, indexes []uint64, peers map[uint32]Peer, missing []uint32) (finished []Slow) {
	k := &r.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.slow {
		if s.Joined || s.Index != 0 && !slices.Contains(indexes, s.Index) {
			continue
		}
		s.Stages, s.Error = Join(&s.Request, in, peers)
		s.Causes = causesOf(&s.Request, in.Self, peers)
		s.Missing = nil
		if s.Index != 0 {
			s.Missing = slices.Clone(missing)
		}
		s.tries++
		if s.Joined = len(s.Missing) == 0 || s.tries == maxTries; s.Joined {
			finished = append(finished, *s)
		}
	}
	return finished
}
