package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"

	"rollcall/zk/jute"
)

// Rule is the letter of a promise; see the package comment.
type Rule string

// fault names a way to break a promise.
type fault string

// These are the faults, by rule.
const (
	liveExpired     fault = "live session expired"                 // a
	toldExpired     fault = "client told of an expiry before it"   // a
	noTerm          fault = "expired in a term that nobody led"    // a
	silentKept      fault = "silent session kept"                  // b
	deadEphemeral   fault = "ephemeral without a live session"     // c
	lostEphemeral   fault = "ephemeral of a live session missing"  // c
	strayEphemeral  fault = "ephemeral that nobody has created"    // c
	ephemeralsApart fault = "ephemerals differ between members"    // c
	livesApart      fault = "members disagree on a session's life" // c
	writeMissing    fault = "acknowledged write missing"           // d
	writeTwice      fault = "write applied twice"                  // d
	writeDisordered fault = "writes out of session order"          // d
	sharedZxid      fault = "two writes with one zxid"             // d
	unjudged        fault = "no whole snapshot to find writes in"  // d
	wentBack        fault = "session went back in time"            // e
	staleRead       fault = "stale read"                           // e
	lateEvent       fault = "event after the data"                 // e
	vouchedDead     fault = "vouched after expiry"                 // f
	notLinear       fault = "not linearizable"                     // g
	undecided       fault = "linearizability not decided in time"  // g
	twoLeaders      fault = "two leaders in one term"              // h
)

// maxPerRule limits how many violations of one rule are reported, because one fault often causes
// many violations after it.
const maxPerRule = 20

// Violation is one broken promise.
type Violation struct {
	Rule    Rule
	Fault   fault
	Session jute.SessionID // 0: of no particular session
	At      time.Duration
	Index   uint64 // 0: none
	Zxid    int64  // 0: none
	Detail  string
}

// String returns the violation as one line.
func (v Violation) String() string {
	s := fmt.Sprintf("(%s) %s: at %v", v.Rule, v.Fault, v.At)
	if v.Session != 0 {
		s += fmt.Sprintf(", session %s", v.Session)
	}
	if v.Index != 0 {
		s += fmt.Sprintf(", index %d", v.Index)
	}
	if v.Zxid != 0 {
		s += fmt.Sprintf(", zxid %#x", v.Zxid)
	}
	return s + ": " + v.Detail
}

// Check judges a history by all rules and returns the violations, at most maxPerRule of each rule,
// ordered by rule and time. It takes up to linearizeLimit of real time for each path of (g). Call
// it outside of a synctest bubble, where the time would never pass.
func Check(h History) []Violation {
	b := indexHistory(&h)
	rules := []struct {
		rule  Rule
		judge func(*indexedHistory, func(Violation))
	}{
		{"a", checkLive},
		{"b", checkSilent},
		{"c", checkEphemerals},
		{"d", checkWrites},
		{"e", checkImage},
		{"f", checkVouches},
		{"g", checkLinear},
		{"h", checkLeaders},
	}
	var all []Violation
	for _, r := range rules {
		var found []Violation
		r.judge(b, func(v Violation) {
			v.Rule = r.rule
			found = append(found, v)
		})
		slices.SortStableFunc(found, func(x, y Violation) int { return cmp.Compare(x.At, y.At) })
		all = append(all, found[:min(len(found), maxPerRule)]...)
	}
	return all
}

// These are the intervals that a leader keeps to.
func (h *History) checkInterval() time.Duration  { return h.Tick / 2 }     // from one check to the next, and from one PING to the next
func (h *History) pauseThreshold() time.Duration { return h.Tick / 4 }     // a check that is later than this counts as a pause
func (h *History) silenceGrace() time.Duration   { return h.Tick * 3 / 2 } // a silent session is gone this long after its timeout

// These are the slowest and the fastest clock that a member may have. Two clocks may differ by a tenth,
// and one of them may be right.
const (
	minRate = 0.9
	maxRate = 1.1
)

// clockRate returns the rate of a member's clock, as it is judged.
func (h *History) clockRate(member uint32) float64 {
	if r, known := h.Rates[member]; known {
		return min(max(r, minRate), maxRate)
	}
	return 1
}

// elapsedOnClock returns the time that a clock of this rate counts while d passes.
func elapsedOnClock(rate float64, d time.Duration) time.Duration {
	if rate == 1 {
		return d // exactly
	}
	return time.Duration(rate * float64(d))
}

// clockRounding returns the rounding error of elapsedOnClock.
func clockRounding(rate float64) time.Duration {
	if rate == 1 {
		return 0
	}
	return time.Microsecond
}

// indexedHistory is a history, sorted for the rules.
type indexedHistory struct {
	*History
	sessions             map[jute.SessionID]*sessionLife
	sessionsByID         []*sessionLife // by id
	disagreements        []Violation    // where members recorded different lives for one session
	writesByPath         map[string]*pathWrites
	unansweredSequential map[string][]*Call // unanswered creates of sequential nodes, by the requested path
}

func indexHistory(h *History) *indexedHistory {
	b := &indexedHistory{History: h}
	b.gatherSessions()
	b.gatherWrites()
	return b
}

// sessionLife is a session's life in the log. Each change is as the first member that applied it recorded
// it.
type sessionLife struct {
	id      jute.SessionID
	grants  []Life  // opened, attached, …, by index
	closed  *Life   // nil: the session lives
	closes  []Life  // the same change, as each member first recorded it
	touches []Touch // by time
}

// gatherSessions merges what the members recorded about each session.
func (b *indexedHistory) gatherSessions() {
	b.sessions = make(map[jute.SessionID]*sessionLife)
	said := slices.Clone(b.Lives)
	slices.SortStableFunc(said, func(x, y Life) int {
		return cmp.Or(cmp.Compare(x.Session, y.Session), cmp.Compare(x.Index, y.Index), cmp.Compare(x.Seq, y.Seq))
	})
	for len(said) > 0 {
		n := 1 // the number of records of one session at one index
		for n < len(said) && said[n].Session == said[0].Session && said[n].Index == said[0].Index {
			n++
		}
		l := b.sessions[said[0].Session]
		if l == nil {
			l = &sessionLife{id: said[0].Session}
			b.sessions[l.id] = l
			b.sessionsByID = append(b.sessionsByID, l)
		}
		b.mergeChanges(l, said[:n])
		said = said[n:]
	}
	for _, t := range b.Touches {
		if l := b.sessions[t.Session]; l != nil {
			l.touches = append(l.touches, t)
		}
	}
	for _, l := range b.sessionsByID {
		slices.SortStableFunc(l.touches, func(x, y Touch) int { return cmp.Compare(x.At, y.At) })
	}
}

// mergeChanges adds to l what members recorded at one index. An entry of the log may change a session
// more than once. The order of the changes is that of the member that got furthest; the others must
// have recorded the same changes as far as they got.
func (b *indexedHistory) mergeChanges(l *sessionLife, said []Life) {
	byMember := map[uint32][]Life{}
	var longest []Life
	for _, s := range said {
		mine := byMember[s.Member]
		if slices.ContainsFunc(mine, s.sameChange) {
			continue // a member that has replayed its log
		}
		byMember[s.Member] = append(mine, s)
		if len(mine)+1 > len(longest) {
			longest = byMember[s.Member]
		}
		if s.Kind == lifeClosed && !slices.ContainsFunc(l.closes, func(c Life) bool { return c.Member == s.Member }) {
			l.closes = append(l.closes, s)
		}
	}
	longest = slices.Clone(longest)
	for _, m := range slices.Sorted(maps.Keys(byMember)) {
		for i, s := range byMember[m] {
			if !longest[i].sameChange(s) {
				b.reportDisagreement(s, longest[i])
			}
			longest[i].At = min(longest[i].At, s.At)
		}
	}
	for _, s := range longest {
		switch {
		case l.closed != nil:
			b.reportDisagreement(s, *l.closed)
		case s.Kind == lifeClosed:
			l.closed = &s
		default:
			l.grants = append(l.grants, s)
		}
	}
}

// sameChange reports whether two members recorded the same.
func (l Life) sameChange(m Life) bool {
	return l.Kind == m.Kind && l.Owner == m.Owner && l.Timeout == m.Timeout && l.Expired == m.Expired && l.Zxid == m.Zxid
}

func (b *indexedHistory) reportDisagreement(x, y Life) {
	b.disagreements = append(b.disagreements, Violation{
		Fault: livesApart, Session: x.Session, At: x.At, Index: x.Index,
		Detail: fmt.Sprintf("%s on member %d; member %d has it %s at index %d", x.Kind, x.Member, y.Member, y.Kind, y.Index),
	})
}

// grantAt returns the grant that is in force at a time, or nil before the first.
func (l *sessionLife) grantAt(at time.Duration) *Life {
	i := sort.Search(len(l.grants), func(i int) bool { return l.grants[i].At > at })
	if i == 0 {
		return nil
	}
	return &l.grants[i-1]
}

// existsAt reports whether the session exists at an index.
func (l *sessionLife) existsAt(index uint64) bool {
	return l != nil && len(l.grants) > 0 && l.grants[0].Index <= index && (l.closed == nil || l.closed.Index > index)
}

// findTerm returns the part of a term of the history in which an entry was applied: the newest one with a TermStart before it. It
// returns nil if no member led the term.
func (b *indexedHistory) findTerm(term, index uint64) (found *Term) {
	for i := range b.Terms {
		if t := &b.Terms[i]; t.Term == term && (found == nil || t.Index <= index) {
			found = t
		}
	}
	return found
}
