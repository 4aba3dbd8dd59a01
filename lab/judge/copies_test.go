package judge

import (
	"testing"

	"rollcall/lab/result"
)

// copied returns the evidence of a key with three writes, which were acknowledged at 10 s, 20 s and 30 s, of a node that was created
// at 10 s and one at 30 s, and of a copy made from 15 s to 25 s that has a value and names.
func copied(kind CopyKind, value int64, missing bool, names ...string) Evidence {
	k := Key{Path: "/k", Acked: 3}
	var creates []Create
	for i := range 3 {
		at := result.Millis(10_000 * (i + 1))
		k.Puts = append(k.Puts, Put{Sent: at - 10, At: at, Session: "0x1", Value: int64(i + 1), Outcome: Acked, Version: int32(i + 1)})
		if i != 1 {
			creates = append(creates, Create{ID: []string{"a-", "", "b-"}[i], Sent: at - 10, At: at, Session: "0x1", Outcome: Acked, Name: []string{"a-0000000001", "", "b-0000000002"}[i]})
		}
	}
	c := Copy{
		Kind: kind, From: 15_000, To: 25_000, Listing: Listing{Member: "4", At: 40_000, Names: names},
		Keys: []CopiedKey{{"/k", Final{Member: "4", At: 40_000, Value: value, Version: int32(value), Missing: missing}}},
	}
	return Evidence{Keys: []Key{k}, Creates: creates, Copies: []Copy{c}}
}

func TestCopies(t *testing.T) {
	const first, last = "a-0000000001", "b-0000000002"
	twice := func(value int64, names ...string) Evidence {
		e := copied(Restored, 1, false, first)
		other := copied(Restored, value, false, names...).Copies[0]
		other.Listing.Member = "5"
		e.Copies = append(e.Copies, other)
		return e
	}
	dropped := copied(Restored, 3, false, first)
	dropped.Dropped = map[string]int{KindWrites: 1}
	for _, h := range []history{
		{name: "what was acknowledged before", e: copied(Restored, 1, false, first), want: result.Pass},
		{name: "what was under way, too", e: copied(Restored, 2, false, first), want: result.Pass},
		{name: "a write is missing", e: copied(Restored, 0, false, first), want: result.Fail, text: "the write of 1 was acknowledged before, and member 4 shows 0"},
		{name: "the node is missing", e: copied(Restored, 0, true, first), want: result.Fail, text: "shows no node"},
		{name: "a later write", e: copied(Restored, 3, false, first), want: result.Fail, text: "the write of 2 was the last one"},
		{name: "a later write that may not have been kept", e: dropped, want: result.Pass, text: "were not kept"},
		{name: "a created node is missing", e: copied(Restored, 1, false), want: result.Fail, text: "a-0000000001 was created before, and member 4 does not have it"},
		{name: "a node that was created later", e: copied(Restored, 1, false, first, last), want: result.Fail, text: "was sent after the end"},
		{name: "two equal ones", e: twice(1, first), want: result.Pass},
		{name: "two that differ in a value", e: twice(2, first), want: result.Fail, text: "members 4 and 5 got the same copy, and differ in /k"},
		{name: "two that differ in names", e: twice(1, first, "c-0000000003"), want: result.Fail, text: "differ in the created nodes"},
	} {
		h.check(t, backupComplete)
	}
	history{name: "joined", e: copied(Joined, 0, false, first), want: result.Fail, text: "the write of 1"}.check(t, joinedComplete)
	if e := copied(Joined, 1, false, first); backupComplete.applies(&e) || !joinedComplete.applies(&e) {
		t.Error("a member that came in is judged as a backup")
	}
}

// windowed returns the evidence of a session that is open from 5 s on and has a state at 15 s, with a window from 10 s to 20 s.
func windowed(kind WindowKind, state string, ended How, endedAt result.Millis) Evidence {
	s := Session{ID: "0x1", Client: "holder-1", Timeout: T, Opened: 5000, Ended: ended, EndedAt: endedAt, States: []State{{At: 15_000, Name: state}}}
	return Evidence{Sessions: []Session{s}, Windows: []Window{{Kind: kind, From: 10_000, To: 20_000, Text: "it is rotated"}}}
}

func TestStaysConnected(t *testing.T) {
	moves := windowed(Calm, suspended, Lives, 0)
	moves.Sessions[0].Moves = true
	later := windowed(Calm, suspended, Lives, 0)
	later.Sessions[0].States[0].At = 20_001
	for _, h := range []history{
		{name: "connected", e: windowed(Calm, "connected", Lives, 0), want: result.Pass},
		{name: "cut off", e: windowed(Calm, suspended, Lives, 0), want: result.Fail, text: "lost its connection"},
		{name: "the window is told", e: windowed(Calm, suspended, Lives, 0), want: result.Fail, text: "it is rotated, until "},
		{name: "the state is told", e: windowed(Calm, suspended, Lives, 0), want: result.Fail, text: "the client shows suspended"},
		{name: "later", e: later, want: result.Pass},
		{name: "a client that moves", e: moves, want: result.NotRun, text: "no client was connected"},
		{name: "closed by its client", e: windowed(Calm, "closed", Closed, 15_000), want: result.Pass},
		{name: "ended before", e: windowed(Calm, suspended, Closed, 9000), want: result.NotRun},
	} {
		h.check(t, staysConnected)
	}
}

func TestSessionsMoved(t *testing.T) {
	for _, h := range []history{
		{name: "lives", e: windowed(Moved, suspended, Lives, 0), want: result.Pass},
		{name: "ended in the move", e: windowed(Moved, suspended, Expired, 19_000), want: result.Fail, text: "ended in the move"},
		{name: "ended too early", e: windowed(Moved, suspended, Expired, 23_499), want: result.Fail},
		{name: "its client came too late", e: windowed(Moved, suspended, Expired, 23_500), want: result.Pass},
		{name: "abandoned", e: windowed(Moved, suspended, Abandoned, 15_000), want: result.NotRun, text: "no session"},
	} {
		h.check(t, sessionsMoved)
	}
}
