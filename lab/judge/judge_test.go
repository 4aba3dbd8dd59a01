package judge

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rollcall/lab/result"
)

// T and tick are the timeout and the tick of the sessions in these tests. The slack of sessionEnded is 1,500 ms, and the
// slack of sessionStayed is 4,500 ms.
const (
	T    = result.Millis(5000)
	tick = result.Millis(1000)
)

// verdictOf returns the verdict of one rule.
func verdictOf(t *testing.T, e *Evidence, l Limits, r judgeRule) result.Verdict {
	t.Helper()
	for _, v := range Judge(e, l) {
		if v.Rule == r.name {
			return v
		}
	}
	t.Fatalf("no verdict of %s", r.name)
	return result.Verdict{}
}

// history is an invented history, which one rule checks.
type history struct {
	name   string
	e      Evidence
	limits Limits
	want   result.Outcome
	text   string // part of the first violation and its history, or of the reason
}

func (h history) check(t *testing.T, r judgeRule) {
	t.Run(h.name, func(t *testing.T) {
		h.e.Tick = cmp.Or(h.e.Tick, tick)
		if h.e.End == 0 {
			h.e.End = 100_000
		}
		v := verdictOf(t, &h.e, h.limits, r)
		text := v.Reason
		if len(v.Violations) > 0 {
			text += v.Violations[0].Text + "\n" + strings.Join(v.Violations[0].History, "\n")
		}
		if v.Outcome != h.want || !strings.Contains(text, h.text) {
			t.Errorf("%s, want %s with %q:\n%s", v.Outcome, h.want, h.text, text)
		}
		if v.Outcome == result.Fail && len(v.Violations[0].History) < 2 {
			t.Errorf("the history has %d lines, want at least 2", len(v.Violations[0].History))
		}
	})
}

// session returns the evidence of one session that expired at a time and whose node was seen to go at another one.
func session(expired, gone result.Millis, answers ...Answer) Evidence {
	s := Session{ID: "0x1", Client: "holder-1", Timeout: T, Answers: answers, Ended: Expired, EndedAt: expired}
	s.Node = &Ephemeral{Path: "/eph/0x1", Created: 1, Existed: 2, Gone: gone}
	return Evidence{Sessions: []Session{s}}
}

func withFaults(e Evidence, faults ...Fault) Evidence {
	e.Faults = faults
	return e
}

func answerTo(kind Ask, sent result.Millis, member string) Answer {
	return Answer{Sent: sent, At: sent + 5, Ask: kind, Member: member}
}

func TestSessionEnded(t *testing.T) {
	cut := Fault{Members: []string{"2"}, From: 9000, To: 40_000, Text: "cut 2"}
	lives := session(0, 0, answerTo(Ping, 99_000, "1"))
	lives.Sessions[0].Ended = Lives
	for _, h := range []history{
		{name: "none", e: Evidence{}, want: result.NotRun, text: "no session"},
		{name: "lives", e: lives, want: result.Pass},
		{name: "silent", e: session(20_000, 15_000, answerTo(Ping, 9000, "1")), want: result.Pass},
		{name: "too early", e: session(20_000, 12_000, answerTo(Ping, 9000, "1")), want: result.Fail, text: "3000 ms after a request"},
		{name: "too early, told", e: session(12_000, 0, answerTo(Ping, 9000, "1")), want: result.Fail, text: "12.000 s the client is told"},
		{name: "at the edge of the slack", e: session(20_000, 12_500, answerTo(Ping, 9000, "1")), want: result.Pass},
		{name: "below the edge", e: session(20_000, 12_499, answerTo(Ping, 9000, "1")), want: result.Fail},
		{name: "the member was cut off", e: withFaults(session(20_000, 12_000, answerTo(Ping, 9500, "2")), cut), want: result.Pass},
		{name: "an operator rotated its secret", e: withFaults(session(20_000, 12_000, answerTo(Ping, 9500, "2")), Fault{Members: []string{"2"}, From: 9000, To: 40_000, Harmless: true}), want: result.Fail},
		{name: "another one was", e: withFaults(session(20_000, 12_000, answerTo(Ping, 9500, "1")), cut), want: result.Fail, text: "fault: cut 2"},
		{
			name: "just before the fault", want: result.Pass,
			e: withFaults(session(20_000, 11_000, answerTo(Ping, 8000, "2")), cut),
		},
		{
			name: "before the fault", want: result.Fail,
			e: withFaults(session(20_000, 11_000, answerTo(Ping, 7999, "2")), cut),
		},
		{name: "a handshake counts", e: withFaults(session(20_000, 12_000, answerTo(Connect, 9500, "2")), cut), want: result.Fail, text: "connect answered"},
		{name: "an unknown member", e: withFaults(session(20_000, 12_000, answerTo(Ping, 9500, "")), cut), want: result.Pass},
		{name: "asked after the end", e: session(20_000, 15_000, answerTo(Ping, 9000, "1"), answerTo(Ping, 16_000, "1")), want: result.Pass},
	} {
		h.check(t, sessionEnded)
	}
}

// abandoned returns the evidence of a session whose client was silent from 10 s on, and whose node existed at a time.
func abandoned(existed, gone result.Millis) Evidence {
	e := session(10_000, gone, answerTo(Ping, 9000, "1"))
	e.Sessions[0].Ended, e.Sessions[0].Node.Existed = Abandoned, existed
	return e
}

func TestSessionStayed(t *testing.T) {
	pause := abandoned(38_000, 40_000)
	pause.Gaps = []result.Gap{{Kind: "write", Pauses: []result.Interval{{From: 11_000, To: 30_000}}}}
	other := abandoned(38_000, 40_000)
	other.Gaps = []result.Gap{{Kind: "write", Member: "1", Pauses: []result.Interval{{From: 11_000, To: 30_000}}}}
	short := abandoned(15_000, 0)
	short.End = 19_000
	// epochs adds replies that show in which epoch a leader is, from the times on, and later ones.
	epochs := func(e Evidence, begins ...result.Millis) Evidence {
		for i, begin := range begins {
			for at := begin; at < begin+200; at += 100 {
				e.Reads = append(e.Reads, Read{At: at, Zxid: int64(i+7) << 32})
			}
		}
		return e
	}
	fault := Fault{Members: []string{"1"}, From: 12_000, To: 15_000, Text: "kill"}
	dropped := withFaults(epochs(abandoned(21_000, 22_000), 1000), fault)
	dropped.Dropped = map[string]int{KindReads: 1}
	known := epochs(abandoned(29_500, 30_000), 1000)
	known.Gaps = []result.Gap{{Kind: "write", Pauses: []result.Interval{{From: 9000, To: 15_000}, {From: 15_000, To: 20_000}}}}
	tooLate := epochs(abandoned(19_501, 22_000), 1000)
	tooLate.Reads = append(tooLate.Reads, Read{At: 19_501, Zxid: 7 << 32}, Read{At: 19_600, Zxid: 8 << 32})
	late := epochs(abandoned(29_501, 30_000), 1000)
	late.Gaps = known.Gaps
	for _, h := range []history{
		{name: "the same leader", e: withFaults(epochs(abandoned(19_501, 22_000), 1000), fault), want: result.Fail, text: "fault: kill"},
		{name: "the next leader", e: withFaults(epochs(abandoned(21_700, 22_000), 1000, 12_200), fault), want: result.Pass},
		{name: "after the next leader's time", e: withFaults(epochs(abandoned(21_701, 22_000), 1000, 12_200), fault), want: result.Fail},
		{name: "a leader too late", e: tooLate, want: result.Fail},
		{name: "not all replies", e: dropped, want: result.Pass},
		{name: "pauses are added", e: known, want: result.Pass},
		{name: "and no more", e: late, want: result.Fail},
		{name: "none", e: session(20_000, 15_000), want: result.NotRun, text: "no client"},
		{name: "in time", e: abandoned(15_000, 16_000), want: result.Pass},
		{name: "at the edge of the slack", e: abandoned(19_500, 20_000), want: result.Pass},
		{name: "above the edge", e: abandoned(19_501, 20_000), want: result.Fail, text: "lived 9501 ms"},
		{name: "for ever", e: abandoned(99_000, 0), want: result.Fail, text: "still shows /eph/0x1"},
		{name: "the recording ended", e: short, want: result.NotRun},
		{name: "another leader", e: withFaults(abandoned(21_000, 22_000), Fault{Members: []string{"1"}, From: 12_000, To: 15_000}), want: result.Pass},
		{name: "too long after the fault", e: withFaults(abandoned(24_501, 25_000), Fault{From: 12_000, To: 15_000, Text: "kill"}), want: result.Fail, text: "fault: kill"},
		{name: "a fault later", e: withFaults(abandoned(21_000, 22_000), Fault{From: 20_500, To: 20_600}), want: result.Fail},
		{name: "no leader", e: pause, want: result.Pass},
		{name: "one member served nobody", e: other, want: result.Fail},
	} {
		h.check(t, sessionStayed)
	}
}

// The session with the longest timeout sets the slack of a verdict, whichever comes first.
func TestSlackOfSessions(t *testing.T) {
	for _, timeouts := range [][]result.Millis{{T, 2 * T}, {2 * T, T}} {
		e := abandoned(15_000, 16_000)
		e.Tick, e.End = tick, 100_000
		e.Sessions = append(e.Sessions, e.Sessions[0])
		for i, timeout := range timeouts {
			e.Sessions[i].Timeout = timeout
		}
		if v := verdictOf(t, &e, Limits{}, sessionStayed); v.Judged != 2 || v.Slack != e.stayedSlack(2*T) {
			t.Errorf("timeouts %v: slack %v of %d sessions, want %v", timeouts, v.Slack, v.Judged, e.stayedSlack(2*T))
		}
	}
}

func TestConnectedAfterExpiry(t *testing.T) {
	shown := session(20_000, 15_000, answerTo(Ping, 9000, "1"))
	shown.Sessions[0].States = []State{{At: 5, On: true}, {At: 17_000}, {At: 18_000, On: true}, {At: 18_500}}
	paused := session(20_000, 15_000, answerTo(Ping, 9000, "1"))
	paused.Sessions[0].States = []State{{At: 5, On: true}}
	paused.Sessions[0].Paused = []result.Interval{{From: 10_000, To: 19_000}}
	for _, h := range []history{
		{name: "none", e: session(20_000, 0), want: result.NotRun, text: "no session ended"},
		{name: "silent", e: session(20_000, 15_000, answerTo(Ping, 9000, "1")), want: result.Pass},
		{name: "sent before, answered after", e: session(20_000, 15_000, answerTo(Ping, 15_000, "1")), want: result.Pass},
		{name: "sent after", e: session(20_000, 15_000, answerTo(Ping, 15_001, "1")), want: result.Fail, text: "answered for 0.001 s"},
		{name: "reads", e: session(20_000, 15_000, answerTo(Query, 15_100, "3"), answerTo(Query, 18_000, "3")), want: result.Fail, text: "answered for 3.000 s"},
		{name: "the node vanished", e: session(20_000, 15_000, answerTo(Query, 15_100, "3"), answerTo(Write, 18_000, "3")), want: result.NotRun},
		{name: "shown", e: shown, want: result.Pass, text: "up to 2.500 s"},
		{name: "paused", e: paused, want: result.Pass, text: "up to 1.000 s"},
	} {
		h.check(t, connectedAfterExpiry)
	}
}

func TestEphemerals(t *testing.T) {
	missing := session(0, 0)
	missing.Sessions[0].Ended, missing.Sessions[0].Node.Missing = Lives, 30_000
	stayed := func(existed result.Millis, how How) Evidence {
		e := session(20_000, 0)
		e.Sessions[0].Ended, e.Sessions[0].Node.Existed = how, existed
		return e
	}
	for _, h := range []history{
		{name: "none", e: Evidence{Sessions: []Session{{ID: "0x1"}}}, want: result.NotRun, text: "no session had"},
		{name: "went with its session", e: session(20_000, 15_000, answerTo(Write, 14_000, "1")), want: result.Pass},
		{name: "a write before", e: session(20_000, 15_000, answerTo(Write, 15_000, "1")), want: result.Pass},
		{name: "a write after", e: session(20_000, 15_000, answerTo(Write, 15_001, "1")), want: result.Fail, text: "write answered by member 1"},
		{name: "resumed after", e: session(20_000, 15_000, answerTo(Connect, 16_000, "1")), want: result.Fail, text: "lived on"},
		{name: "a ping after", e: session(20_000, 15_000, answerTo(Ping, 16_000, "1")), want: result.Pass},
		{name: "missing", e: missing, want: result.Fail, text: "no node"},
	} {
		h.check(t, ephemeralVanished)
	}
	for _, h := range []history{
		{name: "lives", e: stayed(90_000, Lives), want: result.NotRun, text: "no session"},
		{name: "closed", e: stayed(19_000, Closed), want: result.Pass},
		{name: "closed, at the edge of the slack", e: stayed(22_000, Closed), want: result.Pass},
		{name: "closed, above the edge", e: stayed(22_001, Closed), want: result.Fail, text: "is closed"},
		{name: "expired, above the edge", e: stayed(22_001, Expired), want: result.Fail, text: "exists 2001 ms"},
	} {
		h.check(t, ephemeralStayed)
	}
}

func TestTwoHolders(t *testing.T) {
	hold := func(client string, token int64, from, to result.Millis) Hold {
		return Hold{Lock: "/lock", Client: client, Session: "0x" + client, Token: token, From: from, To: to, Checks: 3}
	}
	holds := func(h ...Hold) Evidence { return Evidence{Holds: h} }
	elsewhere := hold("b", 3, 150, 250)
	elsewhere.Lock = "/other"
	for _, h := range []history{
		{name: "none", want: result.NotRun, text: "no client held"},
		{name: "in turn", e: holds(hold("a", 5, 100, 200), hold("b", 7, 201, 300)), want: result.Pass},
		{name: "at the edge", e: holds(hold("a", 5, 100, 200), hold("b", 7, 200, 300)), want: result.Pass},
		{name: "overlap", e: holds(hold("a", 5, 100, 200), hold("b", 7, 199, 300)), want: result.Fail, text: "a and b both held /lock for 1 ms"},
		{name: "within", e: holds(hold("a", 5, 100, 900), hold("b", 7, 150, 160), hold("c", 9, 170, 180)), want: result.Fail},
		{name: "the first of three", e: holds(hold("c", 9, 950, 980), hold("a", 5, 100, 960), hold("b", 7, 150, 150)), want: result.Fail, text: "a and c both held"},
		{name: "token falls", e: holds(hold("a", 7, 100, 200), hold("b", 5, 201, 300)), want: result.Fail, text: "token 5 after a holder with token 7"},
		{name: "token repeats", e: holds(hold("a", 7, 100, 200), hold("b", 7, 201, 300)), want: result.Fail},
		{name: "held once", e: holds(hold("a", 5, 100, 99), hold("b", 7, 100, 300)), want: result.Pass},
		{name: "another lock", e: holds(hold("a", 5, 100, 200), elsewhere), want: result.Pass},
	} {
		h.check(t, twoHolders)
	}
}

// key returns the evidence of a key: the versions of its acknowledged writes, 0 for one without a reply, and what two
// members show at the end.
func key(versions []int32, finals ...int32) Evidence {
	k := Key{Path: "/k"}
	for i, v := range versions {
		p := Put{
			Sent: result.Millis(100 * i), At: result.Millis(100*i + 50), Session: "0x1", Value: int64(i + 1),
			Outcome: Acked, Version: v,
		}
		if v == 0 {
			p.Outcome = Unknown
			k.Unknown++
		} else {
			k.Last = p
			k.Acked++
		}
		k.Puts = append(k.Puts, p)
	}
	for i, v := range finals {
		k.Finals = append(k.Finals, Final{Member: fmt.Sprint(i + 1), At: 9000, Value: int64(v), Version: v})
	}
	return Evidence{Keys: []Key{k}}
}

// creates returns the evidence of creates with these outcomes, a, b and so on, and of the names that a member lists.
func creates(outcomes []Outcome, names ...string) Evidence {
	e := Evidence{Listings: []Listing{{Member: "1", At: 9000, Names: names}}}
	for i, o := range outcomes {
		id := string(rune('a' + i))
		e.Creates = append(e.Creates, Create{ID: id, Sent: 10, At: 20, Outcome: o, Name: id + "0000000001"})
	}
	return e
}

func TestLostWrites(t *testing.T) {
	unread := key([]int32{1, 2}, 2)
	unread.Unread = []string{"member 1: no route"}
	partly := unread
	partly.Listings = []Listing{{Member: "2"}}
	missing := key([]int32{1, 2}, 2)
	missing.Keys[0].Finals[0].Missing = true
	for _, h := range []history{
		{name: "none", want: result.NotRun, text: "no write"},
		{name: "all there", e: key([]int32{1, 2, 3}, 3, 3), want: result.Pass},
		{name: "one member lags", e: key([]int32{1, 2, 3}, 3, 2), want: result.Fail, text: "member 2 shows 2, version 2"},
		{name: "no node", e: missing, want: result.Fail, text: "no node"},
		{name: "without a reply", e: key([]int32{1, 2, 0}, 2, 2), want: result.Pass},
		{name: "without a reply, carried out", e: key([]int32{1, 2, 0}, 3, 3), want: result.Pass},
		{name: "version repeats", e: key([]int32{1, 2, 2}, 3, 3), want: result.Fail, text: "version 2 after version 2"},
		{name: "not read", e: unread, want: result.NotRun, text: "member 1: no route"},
		{name: "partly read", e: partly, want: result.Pass, text: "not read at the end: member 1"},
		{name: "created", e: creates([]Outcome{Acked, Acked}, "a0000000001", "b0000000002"), want: result.Pass},
		{name: "a create is lost", e: creates([]Outcome{Acked, Acked}, "b0000000002"), want: result.Fail, text: "a0000000001 was created"},
		{name: "a create without a reply", e: creates([]Outcome{Acked, Unknown}, "a0000000001"), want: result.Pass},
	} {
		h.check(t, lostWrites)
	}
}

func TestDoubledWrites(t *testing.T) {
	for _, h := range []history{
		{name: "none", want: result.NotRun, text: "no write"},
		{name: "once", e: key([]int32{1, 2, 3}, 3), want: result.Pass},
		{name: "without a reply, carried out", e: key([]int32{1, 0, 3}, 3), want: result.Pass},
		{name: "without a reply, twice", e: key([]int32{1, 0, 4}, 4), want: result.Fail, text: "got version 4, and at most 3"},
		{name: "twice", e: key([]int32{1, 3}, 3), want: result.Fail, text: "0 writes between have no reply"},
		{name: "twice at the end", e: key([]int32{1, 2}, 3), want: result.Fail, text: "version 3 on member 1 after 2 writes"},
		{name: "created once", e: creates([]Outcome{Acked, Unknown}, "a0000000001", "b0000000002"), want: result.Pass},
		{name: "created twice", e: creates([]Outcome{Acked}, "a0000000001", "a0000000002"), want: result.Fail, text: "2 nodes of the create of a"},
		{name: "created twice without a reply", e: creates([]Outcome{Unknown}, "a0000000001", "a0000000002"), want: result.Fail},
		{name: "created although it failed", e: creates([]Outcome{Failed}, "a0000000001"), want: result.Fail, text: "its outcome: failed"},
		{name: "failed", e: creates([]Outcome{Failed}), want: result.Pass},
	} {
		h.check(t, doubledWrites)
	}
}

func TestReadsBack(t *testing.T) {
	read := func(session, path string, version int32, zxid int64) Read {
		return Read{
			Session: session, Path: path, Value: int64(version), Version: version, Mzxid: 100 + int64(version),
			Zxid: zxid, At: 7, Member: "1",
		}
	}
	reads := func(r ...Read) Evidence { return Evidence{Reads: r, Keys: key([]int32{1, 2, 3}).Keys} }
	below := read("1", "/k", 2, 0)
	below.Floor = 3
	stale := below
	stale.Synced = true
	enough := below
	enough.Floor = 2
	enoughSynced := enough
	enoughSynced.Synced = true
	unanswered := Evidence{Reads: []Read{below}, Keys: key([]int32{1, 2, 0}).Keys}
	for _, h := range []history{
		{name: "none", want: result.NotRun, text: "no read"},
		{name: "forward", e: reads(read("1", "/k", 1, 200), read("1", "/k", 1, 200), read("1", "/k", 2, 201)), want: result.Pass},
		{name: "back", e: reads(read("1", "/k", 2, 200), read("1", "/k", 1, 201)), want: result.Fail, text: "read version 1 of /k after version 2"},
		{name: "two sessions", e: reads(read("1", "/k", 2, 200), read("2", "/k", 1, 199)), want: result.Pass},
		{name: "two nodes", e: reads(read("1", "/k", 2, 200), read("1", "/l", 1, 200)), want: result.Pass},
		{name: "the reply's transaction", e: reads(read("1", "/k", 2, 200), read("1", "/l", 1, 199)), want: result.Fail, text: "reply of transaction 0xc7 after one of 0xc8"},
		{name: "unknown transactions", e: reads(read("1", "/k", 2, 200), read("1", "/l", 1, 0), read("1", "/l", 1, 200)), want: result.Pass},
		{name: "own write", e: reads(below), want: result.Fail, text: "had written 3"},
		{name: "the line of a write", e: reads(below), want: result.Fail, text: "write of 3, sent at 0.200 s, is acknowledged"},
		{name: "after a sync", e: reads(stale), want: result.Fail, text: "read 2 of /k after a sync; 3 was acknowledged before"},
		{name: "at the edge", e: reads(enough), want: result.Pass},
		{name: "at the edge after a sync", e: reads(enoughSynced), want: result.Pass},
		{name: "a write without a reply", e: unanswered, want: result.Fail, text: "write of 3, sent at 0.200 s: unknown"},
	} {
		h.check(t, readsBack)
	}
}

func TestWatches(t *testing.T) {
	now := result.Millis(0)
	step := func(kind StepKind, n int64) Step {
		now++
		s := Step{Session: "1", At: now, Path: "/k", Kind: kind}
		if kind == Event {
			s.Zxid = n
		} else {
			s.Version = int32(n)
		}
		return s
	}
	steps := func(s ...Step) Evidence { return Evidence{Watches: s} }
	other := func(s Step) Step {
		s.Path = "/l"
		return s
	}
	good := steps(step(Armed, 1), step(Seen, 1), step(Event, 50), step(Armed, 3), step(Ending, 3))
	for _, h := range []history{
		{name: "none", want: result.NotRun, text: "no watch"},
		{name: "good", e: good, want: result.Pass},
		{name: "lost", e: steps(step(Armed, 1), step(Ending, 2)), want: result.Fail, text: "no event of /k, which changed from version 1 to 2"},
		{name: "lost and read", e: steps(step(Armed, 1), step(Seen, 2), step(Ending, 2)), want: result.Fail},
		{name: "no watch at the end", e: steps(step(Armed, 1), step(Event, 50), step(Ending, 2)), want: result.Pass},
		{name: "the session ended", e: steps(step(Armed, 1)), want: result.NotRun},
		{name: "the line of a read", e: steps(step(Armed, 1), step(Seen, 2), step(Ending, 2)), want: result.Fail, text: "session 1 reads /k: version 2"},
		{name: "the line of a watch", e: steps(step(Armed, 1), step(Ending, 2)), want: result.Fail, text: "session 1 reads /k and sets a watch: version 1"},
	} {
		h.check(t, watchLost)
	}
	for _, h := range []history{
		{name: "none", e: steps(step(Armed, 1)), want: result.NotRun, text: "no event"},
		{name: "good", e: good, want: result.Pass},
		{name: "doubled", e: steps(step(Armed, 1), step(Event, 50), step(Event, 50), step(Armed, 2)), want: result.Fail, text: "an event of /k without a watch"},
		{name: "the line of an event", e: steps(step(Armed, 1), step(Event, 50), step(Event, 50), step(Armed, 2)), want: result.Fail, text: "session 1 gets the event of /k: , transaction 0x32"},
		{name: "of two nodes", e: steps(step(Armed, 1), other(step(Armed, 1)), step(Event, 50), other(step(Event, 50))), want: result.Pass},
	} {
		h.check(t, watchDoubled)
	}
	for _, h := range []history{
		{name: "none", e: steps(step(Armed, 1)), want: result.NotRun, text: "no event"},
		{name: "good", e: good, want: result.Pass},
		{name: "late", e: steps(step(Armed, 1), step(Seen, 2), step(Seen, 3), step(Event, 50)), want: result.Fail, text: "read version 2 of /k before the event"},
		{name: "not newer", e: steps(step(Armed, 2), step(Seen, 2), step(Event, 50)), want: result.Pass},
		{name: "at the end", e: steps(step(Armed, 1), step(Ending, 2)), want: result.Pass}, // the event is lost, which another rule judges
		{name: "read without a watch", e: steps(step(Armed, 1), step(Event, 50), step(Seen, 2)), want: result.Pass},
		{
			name: "transactions fall", want: result.Fail, text: "0x32 after that of 0x33",
			e: steps(step(Armed, 1), other(step(Armed, 1)), step(Event, 51), other(step(Event, 50))),
		},
		{
			name: "unknown transactions", want: result.Pass,
			e: steps(step(Armed, 1), other(step(Armed, 1)), step(Event, 51), other(step(Event, -1))),
		},
	} {
		h.check(t, watchOrder)
	}
}

func TestGaps(t *testing.T) {
	stalled := result.Interval{From: 9000, To: 21_250}
	count := func(times ...result.Millis) (counts []result.SessionCount) {
		for _, at := range times {
			counts = append(counts, result.SessionCount{At: at})
		}
		return counts
	}
	still := Evidence{
		Gaps:   []result.Gap{{Kind: "write", Answered: 2, Longest: stalled, Pauses: []result.Interval{stalled}}},
		Counts: count(9750, 10_000, 20_250, 20_500),
	}
	second := still
	second.Gaps = []result.Gap{{Kind: "write", Answered: 3, Longest: stalled, Pauses: []result.Interval{stalled, {From: 40_000, To: 43_000}}}}
	late := Evidence{
		Gaps:   []result.Gap{{Kind: "write", Answered: 2, Longest: result.Interval{From: 9000, To: 21_000}}},
		Counts: count(9250, 10_000, 10_750),
	}
	gap := Evidence{Gaps: []result.Gap{
		{Kind: "write", Answered: 10, Longest: result.Interval{From: 1000, To: 2000}},
		{Kind: "write", Member: "1", Answered: 10, Longest: result.Interval{From: 1000, To: 9000}},
	}}
	// usual has a pause of a length, in sessions of 4 s with a tick of 500 ms.
	usual := func(pause result.Millis) Evidence {
		return Evidence{
			Sessions: []Session{{ID: "0x1", Timeout: 4000}}, Tick: 500,
			Gaps: []result.Gap{{Kind: "write", Answered: 2, Longest: result.Interval{From: 10_000, To: 10_000 + pause}}},
		}
	}
	// stopped has a time within it in which a majority was stopped, and moved one of a move.
	stopped := func(pause, length result.Millis) Evidence {
		e := usual(pause)
		e.Windows = []Window{{Kind: Calm, To: 99_000}, {Kind: Stopped, From: 11_000, To: 11_000 + length, Text: "the drill stops a majority"}}
		return e
	}
	moved := func(pause, length result.Millis) Evidence {
		e := stopped(pause, length)
		e.Windows[1].Kind = Moved
		return e
	}
	for _, h := range []history{
		{name: "none", want: result.NotRun, text: "had an answer"},
		{name: "no outage", e: usual(4900), want: result.Pass, text: "at most 5.000 s, a session timeout and two ticks, are allowed"},
		{name: "an outage", e: usual(7400), want: result.Fail, text: "no write was answered for 7.400 s, and 5.000 s, a session timeout and two ticks, are allowed"},
		{name: "a majority is stopped", e: stopped(12_500, 7500), want: result.Pass, text: "7.500 s from 11.000 s on are not counted: the drill stops a majority"},
		{name: "in a move", e: moved(12_500, 7500), want: result.Pass},
		{name: "after a majority was stopped", e: stopped(12_500, 7499), want: result.Fail, text: "no write was answered for 5.001 s"},
		{name: "long after a majority was stopped", e: stopped(7400, 500), want: result.Fail, text: "no write was answered for 6.900 s"},
		{name: "none", limits: Limits{Gap: 1000}, want: result.NotRun, text: "had an answer"},
		{name: "at the edge", e: gap, limits: Limits{Gap: 1000}, want: result.Pass},
		{name: "above", e: gap, limits: Limits{Gap: 999}, want: result.Fail, text: "no write was answered for 1.000 s"},
		{name: "the drill stood still", e: still, limits: Limits{Gap: 2000}, want: result.Pass, text: "the drill itself stood still for 10.250 s"},
		{name: "for a part of it", e: still, limits: Limits{Gap: 1999}, want: result.Fail, text: "no write was answered for 2.000 s"},
		{name: "in another pause", e: second, limits: Limits{Gap: 2500}, want: result.Fail, text: "40.000 s the last write"},
		{name: "sampled late", e: late, limits: Limits{Gap: 11_999}, want: result.Fail, text: "no write was answered for 12.000 s"},
	} {
		h.check(t, gapsRule)
	}
}

// A verdict lists MaxViolations, the earliest ones, counts the others, and names the records that were not kept.
func TestVerdictIsBounded(t *testing.T) {
	e := Evidence{Dropped: map[string]int{KindHolds: 7}}
	const n = 2 * maxKept
	for i := range n + 1 {
		e.Holds = append(e.Holds, Hold{
			Lock: "/lock", Client: "a", Token: int64(n - i), From: result.Millis(i),
			To: result.Millis(i),
		})
	}
	slices.Reverse(e.Holds)
	v := verdictOf(t, &e, Limits{}, twoHolders)
	if len(v.Violations) != result.MaxViolations || v.More != n-result.MaxViolations || v.Violations[0].At != 1 {
		t.Errorf("%d violations and %d more from %v on, want %d and %d from 1", len(v.Violations), v.More,
			v.Violations[0].At, result.MaxViolations, n-result.MaxViolations)
	}
	if !strings.Contains(v.Reason, "7 later holds were not kept") {
		t.Errorf("reason: %q", v.Reason)
	}
}

// The pages that promise what the rules judge exist, with their headings.
func TestPagesExist(t *testing.T) {
	names := map[string]bool{}
	for _, r := range allRules {
		if names[r.name] || r.promise == "" || !strings.HasSuffix(r.promise, ".") {
			t.Errorf("%s: its name is taken, or its promise is no sentence: %q", r.name, r.promise)
		}
		names[r.name] = true
		page, heading, _ := strings.Cut(r.page, "#")
		text, err := os.ReadFile(filepath.Join("../..", page))
		if err != nil {
			t.Error(err)
			continue
		}
		found := false
		for row := range strings.Lines(string(text)) {
			title := strings.TrimLeft(row, "#")
			anchor := strings.NewReplacer(" ", "-", "'", "").Replace(strings.ToLower(strings.TrimSpace(title))) // as links have it
			found = found || title != row && anchor == heading
		}
		if !found {
			t.Errorf("%s: %s has no heading %q", r.name, page, heading)
		}
	}
}
