package leader

import (
	"sync"
	"sync/atomic"
	"time"

	pb "google.golang.org/protobuf/proto"

	"rollcall/proto"
	"rollcall/sessiontracker"
)

// lostMembers knows for how long members have not been heard. If a leader is lost, the sessions of a member that is lost, too,
// have nobody who knows when they were heard. So every ping carries what is known here (appendTo), and a member passes on the
// newest that it got to the next leader (proto.LostMembers).
//
// # Why no session ends too early
//
// A member's touches are acknowledged after a proof round that began when they had come. The pings of that round were written
// after that too, so a majority of the voters has heard that the member lived then. The next leader uses what others have
// heard only when it has it from a majority of the voters. Of these it takes the reports of the newest term, and of each
// member the least silence. Some voter is in both majorities. A voter that has started anew counts once it has had a ping. A leader
// that is lost before it has had a majority has told others that every member lived: the silences begin again. That some voter is in
// both holds while at most one voter changes in between: more are not argued.
//
// An attach is in the log whether or not anybody has heard a pong of its member. So a member's silence counts only for
// sessions that it owned when it was last heard, by the log that the leader had applied.
//
// It is safe for concurrent use.
type lostMembers struct {
	self  uint32
	tick  time.Duration
	begun lifeSign // of the term, before which nothing was heard
	// runs converts a time to table time, which does not run while the process of this leader is paused: it hears nobody then.
	runs  func(time.Time) time.Duration
	order *atomic.Uint64 // of the newest message of this process

	mu      sync.Mutex
	members map[uint32]*memberLife        // of members that have been heard of
	reports map[uint32]*proto.LostMembers // by the member that has sent it; nil once they are counted
}

// memberLife is when the processes of a member were last known to live.
type memberLife struct {
	boot    uint64 // the random number of its present process; 0 if it is unknown
	present lifeSign
	ended   lifeSign // of the process before that; zero if there is nothing to say
}

// lifeSign is when a process was last known to live.
type lifeSign struct {
	at      time.Time // the term's start, or later, or earlier by what was reported
	through uint64    // it says nothing of sessions whose owners were set after this index
}

func newLostMembers(cfg *Config, order *atomic.Uint64, begun time.Time) *lostMembers {
	l := &lostMembers{
		self: cfg.Self, tick: cfg.Tick, begun: lifeSign{begun, cfg.AppliedIndex()}, runs: cfg.Sessions.TableTime, order: order,
		members: make(map[uint32]*memberLife), reports: make(map[uint32]*proto.LostMembers),
	}
	for member, boot := range cfg.Boots {
		l.life(member).boot = boot
	}
	return l
}

// life returns the life of a member. l.mu must be held.
func (l *lostMembers) life(member uint32) *memberLife {
	m := l.members[member]
	if m == nil {
		m = &memberLife{present: l.begun}
		l.members[member] = m
	}
	return m
}

// heard records that a process of a member has sent something, when the log was applied here up to an index. It reports whether pings may
// have named the member as silent until now.
func (l *lostMembers) heard(member uint32, boot uint64, now time.Time, applied uint64) (wasSilent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now = l.withoutPauses(now)
	m := l.life(member)
	if m.boot != 0 && m.boot != boot {
		m.ended = m.present
	}
	wasSilent = now.Sub(m.present.at) > l.tick
	m.boot, m.present = boot, lifeSign{now, applied}
	return wasSilent
}

// withoutPauses returns a time as it would be if this process had not been paused in the term.
func (l *lostMembers) withoutPauses(now time.Time) time.Time { return l.begun.at.Add(l.runs(now)) }

// appendTo adds to a ping what is known now. It must be called after the ping's proof round was read.
func (l *lostMembers) appendTo(ping *proto.Ping, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ping.Lost = &proto.LostMembers{Term: ping.Term, Order: l.order.Add(1), Members: l.silences(now)}
}

// silences returns the members that have sent nothing for a tick, the time of two pings, and those with earlier runs.
func (l *lostMembers) silences(now time.Time) (all []*proto.LostMember) {
	now = l.withoutPauses(now)
	for id, m := range l.members {
		of := &proto.LostMember{Member: id}
		if silent := now.Sub(m.present.at); id != l.self && silent > l.tick {
			of.SilentMs, of.Through = clampMillis(silent), m.present.through
		}
		if m.ended.through != 0 {
			of.EndedSilentMs, of.EndedThrough = clampMillis(now.Sub(m.ended.at)), m.ended.through
		}
		if of.Through != 0 || of.EndedThrough != 0 {
			all = append(all, of)
		}
	}
	return all
}

// recordReport records what a member knows from earlier leaders. If that makes a majority of the voters, it returns the
// silences of all members at now, once.
func (l *lostMembers) recordReport(from uint32, report *proto.LostMembers, voters []uint32, now time.Time) (lost []sessiontracker.LostMember) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reports == nil || report.GetTerm() == 0 {
		return nil
	}
	l.reports[from] = report
	var newest []*proto.LostMembers
	known := 0
	for _, id := range voters {
		r := l.reports[id]
		switch {
		case r == nil:
			continue
		case len(newest) == 0 || r.Term > newest[0].Term:
			newest = []*proto.LostMembers{r}
		case r.Term == newest[0].Term:
			newest = append(newest, r)
		}
		known++
	}
	if known <= len(voters)/2 {
		return nil
	}
	l.reports = nil
	l.count(newest)
	for _, m := range l.silences(now) {
		lost = append(lost, sessiontracker.LostMember{
			Member: m.Member, Silent: millis(m.SilentMs), Through: m.Through,
			EndedSilent: millis(m.EndedSilentMs), EndedThrough: m.EndedThrough,
		})
	}
	return lost
}

// count makes members seem silent for as long as all reports of a term say at least, and for the sessions that all of them mean.
func (l *lostMembers) count(reports []*proto.LostMembers) {
	for _, first := range reports[0].Members {
		least := pb.CloneOf(first)
		for _, other := range reports[1:] {
			m := memberOf(other, first.Member)
			least.SilentMs, least.Through = min(least.SilentMs, m.GetSilentMs()), min(least.Through, m.GetThrough())
			least.EndedSilentMs, least.EndedThrough = min(least.EndedSilentMs, m.GetEndedSilentMs()), min(least.EndedThrough, m.GetEndedThrough())
		}
		m := l.life(first.Member)
		present := &m.present
		if m.ended.at.Equal(l.begun.at) { // a new process was heard in this term: the report is about the one before
			present = &m.ended
		}
		if present.at.Equal(l.begun.at) && least.Through != 0 { // not heard in this term
			*present = lifeSign{l.begun.at.Add(-millis(least.SilentMs)), least.Through}
		}
		if m.ended.through == 0 && least.EndedThrough != 0 {
			m.ended = lifeSign{l.begun.at.Add(-millis(least.EndedSilentMs)), least.EndedThrough}
		}
	}
}

func memberOf(report *proto.LostMembers, id uint32) *proto.LostMember {
	for _, m := range report.Members {
		if m.Member == id {
			return m
		}
	}
	return nil
}

func millis(ms uint32) time.Duration { return time.Duration(ms) * time.Millisecond }

// clampMillis returns d in milliseconds, rounded down, from 0 to a day. Sessions that were silent for longer may live longer.
func clampMillis(d time.Duration) uint32 {
	return uint32(min(max(0, d), 24*time.Hour).Milliseconds())
}
