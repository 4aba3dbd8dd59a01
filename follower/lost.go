package follower

import (
	"cmp"
	"slices"
	"time"

	pb "google.golang.org/protobuf/proto"

	"rollcall/proto"
)

// lostReports are what the last leaders have said about members that they did not hear: each ping replaces what the one before has
// said. The next leader gets it, because it counts the silence of the sessions of members that are lost. It is not safe for
// concurrent use.
type lostReports struct{ newest, previous lostReport }

// lostReport is a leader's report in a term.
type lostReport struct {
	nonce  uint64
	report *proto.LostMembers // nil: none
	at     time.Time          // when it came
}

// endTerm brings the report of a leader that has been replaced up to the last time at which that led: it would have told a majority of the
// voters of a member that it heard after the report, before it acknowledged anything of it.
func (l *lostReports) endTerm(former formerLeader) {
	if l.newest.nonce == former.nonce {
		l.newest.report = longerReport(l.newest.report, former.led.Sub(l.newest.at))
	}
}

// record records the report of a ping that comes now. Pings come on several streams, and a later one may come first.
func (l *lostReports) record(ping *proto.Ping, now time.Time) {
	r := ping.GetLost()
	known := l.newest.report
	switch {
	case r == nil || known.GetTerm() > r.Term || known.GetTerm() == r.Term && known.GetOrder() >= r.Order:
		return
	case ping.Nonce != l.newest.nonce:
		l.previous = l.newest
	}
	l.newest = lostReport{ping.Nonce, r, now}
}

// longerReport returns a report with silences that are longer by d.
func longerReport(report *proto.LostMembers, d time.Duration) *proto.LostMembers {
	more := clampMillis(d)
	if report == nil || more == 0 {
		return report
	}
	report = pb.CloneOf(report)
	for _, m := range report.Members {
		if m.Through != 0 {
			m.SilentMs += min(more, ^m.SilentMs)
		}
		if m.EndedThrough != 0 {
			m.EndedSilentMs += min(more, ^m.EndedSilentMs)
		}
	}
	return report
}

// before returns the newest report of a term before that with a nonce, or nil.
func (l *lostReports) before(nonce uint64) *proto.LostMembers {
	if l.newest.nonce == nonce {
		return l.previous.report
	}
	return l.newest.report
}

// SilentMember is another member that the leader of this term does not hear.
type SilentMember struct {
	ID     uint32
	Silent time.Duration // since it was last heard, or since the term began; a day at most
}

// maxReportTicks limits the age of a report in ticks. The leader sends two pings in a tick, each with a report.
const maxReportTicks = 2

// silentMembers returns the members that were silent for least or longer when the last report was written, by id. It returns none if that
// report is older than maxAge.
func (l *lostReports) silentMembers(now time.Time, least, maxAge time.Duration) (all []SilentMember) {
	if l.newest.report == nil || now.Sub(l.newest.at) > maxAge {
		return nil
	}
	for _, m := range l.newest.report.GetMembers() {
		if silent := time.Duration(m.GetSilentMs()) * time.Millisecond; m.GetThrough() != 0 && silent >= least {
			all = append(all, SilentMember{m.GetMember(), silent})
		}
	}
	slices.SortFunc(all, func(a, b SilentMember) int { return cmp.Compare(a.ID, b.ID) })
	return all
}
