package judge

import (
	"testing"

	"rollcall/lab/result"
)

// testified returns the evidence of two sessions, one of which expired and one of which was closed, as three members
// know it.
func testified() Evidence {
	e := session(20_000, 15_000, answerTo(Ping, 9000, "1"))
	e.Sessions = append(e.Sessions, Session{ID: "0x2", Client: "reader-1", Timeout: T, Ended: Closed, EndedAt: 90_000})
	e.Reads = []Read{
		{Session: "0x1", At: 8000, Member: "1", Path: "/k", Zxid: 0x200000004},
		{Session: "0x2", At: 89_000, Member: "3", Path: "/k", Zxid: 0x300000007},
	}
	for _, member := range []string{"1", "2", "3"} {
		e.Testimonies = append(e.Testimonies, Testimony{
			Member: member, Digest: "agrees", DigestAt: 90, Live: []string{"0x7"},
			Leads: []Lead{{2, 1}, {3, 3}},
			Ends: []End{
				{Number: 11, Session: "0x1", Reason: "expired", Lead: Lead{2, 1}, Zxid: 0x200000005, Silent: T, Timeout: T, Ephemerals: 1},
				{Number: 12, Session: "0x2", Reason: "closed", Lead: Lead{3, 3}, Zxid: 0x300000008, Timeout: T},
			},
		})
	}
	return e
}

// A history in which one thing is wrong breaks one rule, and no other of those that use what members know.
func TestTestimonies(t *testing.T) {
	member := func(e *Evidence, name int) *Testimony { return &e.Testimonies[name-1] }
	everywhere := func(change func(*Testimony)) func(*Evidence) {
		return func(e *Evidence) {
			for i := range e.Testimonies {
				change(&e.Testimonies[i])
			}
		}
	}
	all := []judgeRule{oneLeader, statesEqual, endsInLog, endsKept, afterEnd}
	for _, tt := range []struct {
		name   string
		change func(e *Evidence)
		broken judgeRule // without a name: none
		text   string
	}{
		{name: "nothing is wrong", change: func(*Evidence) {}},
		{
			name: "two members opened one term", broken: oneLeader, text: "members 1 and 2 both led in term 2",
			change: func(e *Evidence) { member(e, 2).Leads[0].Leader = 2 },
		},
		{
			name: "a session ended under another leader of the term", broken: oneLeader, text: "members 2 and 3 both led in term 3",
			change: everywhere(func(m *Testimony) { m.Ends[1].Leader = 2 }),
		},
		{
			name: "a digest differs", broken: statesEqual, text: "state of member 3",
			change: func(e *Evidence) { member(e, 3).Digest = "differs" },
		},
		{
			name: "an end differs", broken: statesEqual, text: "members 1 and 2 have different ends of sessions at number 11",
			change: func(e *Evidence) { member(e, 2).Ends[0].Ephemerals = 2 },
		},
		{name: "a member lags", change: func(e *Evidence) { member(e, 2).Ends = member(e, 2).Ends[:1] }},
		{
			name: "an expired session has no end", broken: endsInLog, text: "no member has the end of session 0x1 of holder-1",
			change: everywhere(func(m *Testimony) { m.Ends = m.Ends[1:] }),
		},
		{
			name: "a closed session has no end", broken: endsInLog, text: "no member has the end of session 0x2 of reader-1",
			change: everywhere(func(m *Testimony) { m.Ends = m.Ends[:1] }),
		},
		{name: "ends are forgotten", change: everywhere(func(m *Testimony) { m.Ends, m.Forgotten = m.Ends[1:], 1 })},
		{
			name: "an expiry before the timeout", broken: endsInLog, text: "expired 4998 ms after",
			change: everywhere(func(m *Testimony) { m.Ends[0].Silent = T - 2 }),
		},
		{name: "within the rounding", change: everywhere(func(m *Testimony) { m.Ends[0].Silent = T - 1 })},
		{name: "a kill needs no silence", change: everywhere(func(m *Testimony) { m.Ends[0].Reason, m.Ends[0].Silent = "killed", 0 })},
		{
			name: "a member still has an expired session", broken: endsKept, text: "member 2 still has session 0x1",
			change: func(e *Evidence) { member(e, 2).Live = []string{"0x1", "0x7"} },
		},
		{
			name: "a member still has a session that ended in the log", broken: endsKept, text: "member 1 still has session 0x9",
			change: func(e *Evidence) {
				everywhere(func(m *Testimony) {
					m.Ends = append(m.Ends, End{Number: 13, Session: "0x9", Reason: "closed", Lead: Lead{3, 3}})
				})(e)
				member(e, 1).Live = []string{"0x9"}
			},
		},
		{
			name: "a read shows the end of its session", broken: afterEnd, text: "a read of it shows zxid 0x200000005",
			change: func(e *Evidence) { e.Reads[0].Zxid++ },
		},
		{
			name: "a read shows what came after the end", broken: afterEnd, text: "a read of it shows zxid 0x300000009",
			change: func(e *Evidence) { e.Reads[1].Zxid += 2 },
		},
	} {
		for _, r := range all {
			h := history{name: tt.name + "/" + r.name, e: testified(), want: result.Pass}
			if tt.change(&h.e); r.name == tt.broken.name {
				h.want, h.text = result.Fail, tt.text
			}
			h.check(t, r)
		}
	}
}

// Members without testimony are named, and without any testimony nothing is checked.
func TestSilentMembers(t *testing.T) {
	for _, r := range []judgeRule{oneLeader, statesEqual, endsInLog, endsKept, afterEnd} {
		e := testified()
		e.Testimonies[1] = Testimony{Member: "2", Silent: "no route"}
		history{name: "one is silent", e: e, want: result.Pass, text: "member 2 was not asked: no route"}.check(t, r)
		e.Testimonies = nil
		history{name: "none is known", e: e, want: result.NotRun, text: "no member's HTTP"}.check(t, r)
	}
}
