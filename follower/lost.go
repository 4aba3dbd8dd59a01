package follower

import (
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
