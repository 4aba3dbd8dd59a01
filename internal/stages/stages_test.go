package stages

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

const ms = Time(time.Millisecond)

// entryAt are the times of entry 9 on the leader 1 and the followers 2 and 3, in ms of one clock.
func peersOf(ahead Time) map[uint32]Peer {
	leader := Entry{Index: 9, Sealed: 30 * ms, Received: 32 * ms, Durable: 90 * ms, Applied: 100 * ms}
	addDelay(&leader.Arrivals, MemberDelay{2, 10_000})
	addDelay(&leader.Acks, MemberDelay{3, 70_000})
	addDelay(&leader.Acks, MemberDelay{2, 28_000})
	leader.Sealed, leader.Received, leader.Durable = leader.Sealed+ahead, leader.Received+ahead, leader.Durable+ahead
	own := Entry{Index: 9, Received: 50 * ms, Durable: 60 * ms, Committed: 95 * ms, ApplyBegun: 120 * ms, Locked: 150 * ms, Applied: 170 * ms}
	earlier := Entry{Index: 8, ApplyBegun: 80 * ms, Applied: 118 * ms}
	return map[uint32]Peer{
		1: {Records: Records{Entries: []Entry{leader}}, Ahead: ahead, Error: ms},
		2: {Records: Records{Entries: []Entry{own, earlier}}},
		3: {Records: Records{Entries: []Entry{{Index: 9, Received: 41 * ms, Durable: 45 * ms}}}},
	}
}

func ownRequest() *Request {
	return &Request{
		Index: 9, Received: 1 * ms, Room: 3 * ms, Sent: 5 * ms, Result: 160 * ms, Queued: 165 * ms, Taken: 200 * ms,
	}
}

func checkStages(t *testing.T, got, want []Stage) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("the stages are %+v; want %+v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("stage %d is %+v; want %+v", i, got[i], want[i])
		}
	}
}

func stage(k Kind, member, to uint32, took Time) Stage {
	return Stage{Kind: k, Member: member, To: to, Took: time.Duration(took)}
}

// A write of a follower's client passes all stages. The leader's clock is another one.
func TestJoinFollower(t *testing.T) {
	got, clockError := Join(ownRequest(), Ensemble{2, []uint32{1, 2, 3}}, peersOf(7*3_600_000*ms))
	before := stage(StageBefore, 2, 0, 25*ms)
	before.Entry, before.Of = 8, time.Duration(23*ms)
	checkStages(t, got, []Stage{
		stage(StageRoom, 2, 0, 2*ms), stage(StageForward, 2, 0, 2*ms), stage(StageLink, 2, 1, 15*ms), stage(StageEntry, 1, 0, 10*ms),
		stage(StageLeader, 1, 0, 2*ms), stage(StageDisk, 1, 0, 58*ms), stage(StageNotice, 1, 2, 5*ms), before,
		stage(StageLock, 2, 0, 30*ms), stage(StageApply, 2, 0, 10*ms), stage(StageReply, 2, 0, 5*ms), stage(StageTaken, 2, 0, 35*ms),
	})
	if clockError != time.Millisecond {
		t.Errorf("the error is %v", clockError)
	}
}

// With five voters, a follower's client waits for the confirmation that made a majority.
func TestJoinByMajority(t *testing.T) {
	peers := peersOf(0)
	leader := &peers[1].Entries[0]
	leader.Durable = 33 * ms
	leader.Acks = [MaxMembers]MemberDelay{{3, 20_000}, {2, 28_000}}
	got, _ := Join(ownRequest(), Ensemble{2, []uint32{1, 2, 3, 4, 5}}, peers)
	checkStages(t, got[5:8], []Stage{stage(StageReplicate, 1, 2, 18*ms), stage(StageDisk, 2, 0, 10*ms), stage(StageNotice, 1, 2, 35*ms)})
	leader.Acks = [MaxMembers]MemberDelay{{3, 20_000}, {4, 58_000}}
	peers[4] = Peer{Records: Records{Entries: []Entry{{Index: 9, Received: 40 * ms, Durable: 85 * ms}}}}
	got, _ = Join(ownRequest(), Ensemble{2, []uint32{1, 2, 3, 4, 5}}, peers)
	checkStages(t, got[5:9], []Stage{
		stage(StageReplicate, 1, 4, 8*ms), stage(StageDisk, 4, 0, 45*ms), stage(StageAck, 4, 1, 5*ms), stage(StageNotice, 1, 2, 5*ms),
	})
}

// If both followers confirm an entry before it is on the leader's disk, the later confirmation makes a majority.
func TestJoinWithoutTheLeadersDisk(t *testing.T) {
	peers := peersOf(0)
	peers[1].Entries[0].Acks = [MaxMembers]MemberDelay{{3, 43_000}, {2, 28_000}}
	peers[3].Entries[0].Durable = 70 * ms
	for _, home := range []uint32{1, 2} {
		got, _ := Join(ownRequest(), Ensemble{home, []uint32{1, 2, 3}}, peers)
		if i := slices.IndexFunc(got, func(s Stage) bool { return s.Kind == StageReplicate }); i < 0 {
			t.Errorf("member %d: %+v", home, got)
		} else {
			checkStages(t, got[i:i+3], []Stage{stage(StageReplicate, 1, 3, 9*ms), stage(StageDisk, 3, 0, 29*ms), stage(StageAck, 3, 1, 5*ms)})
		}
	}
}

// Without the leader's records, the time is unknown, and the sum is still the total.
func TestJoinWithoutLeader(t *testing.T) {
	peers := peersOf(0)
	delete(peers, 1)
	got, _ := Join(ownRequest(), Ensemble{2, []uint32{1, 2, 3}}, peers)
	checkStages(t, got[2:5], []Stage{stage(StageUnknown, 0, 0, 45*ms), stage(StageDisk, 2, 0, 10*ms), stage(StageUnknown, 0, 0, 35*ms)})
	sum := time.Duration(0)
	for _, s := range got {
		sum += s.Took
	}
	if want := time.Duration(ownRequest().Taken - ownRequest().Received); sum != want {
		t.Errorf("the sum is %v; want %v", sum, want)
	}
}

// A pause of a member is cut out of its stages only.
func TestJoinPause(t *testing.T) {
	peers := peersOf(0)
	leader := peers[1]
	leader.Causes = []Cause{{Paused, 40 * ms, 70 * ms}, {NoLeader, 1 * ms, 20 * ms}}
	peers[1] = leader
	got, _ := Join(ownRequest(), Ensemble{2, []uint32{1, 2, 3}}, peers)
	checkStages(t, got[2:9], []Stage{
		stage(StageLink, 2, 1, 15*ms), stage(StageEntry, 1, 0, 10*ms), stage(StageLeader, 1, 0, 2*ms), stage(StageDisk, 1, 0, 8*ms),
		stage(StagePaused, 1, 0, 30*ms), stage(StageDisk, 1, 0, 20*ms), stage(StageNotice, 1, 2, 5*ms),
	})
}

// A request whose connection ended before it had a result waited for it, and without a leader that could not come. One that had
// its result waited for earlier replies.
func TestJoinLost(t *testing.T) {
	peers := map[uint32]Peer{2: {Records: Records{Causes: []Cause{{NoLeader, 30 * ms, 0}}}}}
	q := &Request{Received: 10 * ms, Queued: 90 * ms, Lost: true}
	got, _ := Join(q, Ensemble{2, []uint32{1, 2, 3}}, peers)
	checkStages(t, got, []Stage{stage(StageNoReply, 2, 0, 20*ms), stage(StageNoLeader, 2, 0, 60*ms)})
	q.Result = 20 * ms
	got, _ = Join(q, Ensemble{2, []uint32{1, 2, 3}}, map[uint32]Peer{2: {}})
	checkStages(t, got, []Stage{stage(StageProof, 2, 0, 10*ms), stage(StageReply, 2, 0, 70*ms)})
}

// The commit of an entry cannot be reported while the member knows no leader. The disks of the members go on.
func TestJoinLeaderLostAfterTheEntry(t *testing.T) {
	peers := peersOf(0)
	own := peers[2]
	own.Causes = []Cause{{NoLeader, 50 * ms, 94 * ms}}
	peers[2] = own
	got, _ := Join(ownRequest(), Ensemble{2, []uint32{1, 2, 3}}, peers)
	checkStages(t, got[5:8], []Stage{stage(StageDisk, 1, 0, 58*ms), stage(StageNoLeader, 2, 0, 4*ms), stage(StageNotice, 1, 2, 1*ms)})
}

// A leader that loses its leadership after the confirmations applies the entry only when the next term has committed it. That is
// not taken for earlier entries, unless one of these took the time.
func TestJoinDeposedLeader(t *testing.T) {
	for _, tt := range []struct {
		name    string
		applied Time // the end of the earlier entry
		want    []Stage
	}{
		{"an earlier entry took nothing", 55*ms + ms/2, []Stage{
			stage(StageBefore, 1, 0, 8*ms), stage(StageNoLeader, 1, 0, 55*ms), stage(StageBefore, 1, 0, 5*ms),
		}},
		{"an earlier entry took the time", 118 * ms, []Stage{
			{Kind: StageBefore, Member: 1, Took: time.Duration(68 * ms), Entry: 8, Of: time.Duration(63 * ms)},
		}},
	} {
		peers := peersOf(0)
		peers[1].Entries[0].Acks = [MaxMembers]MemberDelay{{3, 20_000}, {2, 28_000}}
		leader := peers[1]
		leader.Causes = []Cause{{NoLeader, 60 * ms, 115 * ms}}
		leader.Entries[0].Durable, leader.Entries[0].ApplyBegun, leader.Entries[0].Locked = 35*ms, 120*ms, 150*ms
		leader.Entries = append(leader.Entries, Entry{Index: 8, ApplyBegun: 55 * ms, Applied: tt.applied})
		peers[1] = leader
		got, _ := Join(ownRequest(), Ensemble{1, []uint32{1, 2, 3}}, peers)
		from := slices.IndexFunc(got, func(s Stage) bool { return s.Kind == StageReplicate })
		want := append([]Stage{stage(StageReplicate, 1, 3, 9*ms), stage(StageDisk, 3, 0, 4*ms), stage(StageAck, 3, 1, 7*ms)}, tt.want...)
		t.Run(tt.name, func(t *testing.T) { checkStages(t, got[from:from+len(want)], want) })
	}
}

// allAt is the same threshold for all classes.
func allAt(threshold time.Duration) Thresholds { return Thresholds{threshold, threshold, threshold} }

// A request is kept if it took the threshold of its own class.
func TestKeepByClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		thresholds := Thresholds{Reads: 200 * time.Millisecond, Writes: 300 * time.Millisecond, Sessions: 400 * time.Millisecond}
		r := New(thresholds, time.Now)
		time.Sleep(time.Second)
		for class, threshold := range thresholds {
			now := r.Now()
			r.Keep(&Request{Class: Class(class), Received: now - Time(threshold) + 1, Queued: now})
			r.Keep(&Request{Class: Class(class), Received: now - Time(threshold), Queued: now})
		}
		slow, _ := r.Kept()
		var got []time.Duration
		for _, s := range slices.Backward(slow) {
			got = append(got, s.Total)
		}
		if !slices.Equal(got, thresholds[:]) {
			t.Errorf("the kept requests took %v; want %v", got, thresholds)
		}
	})
}

// The slowest requests of a second are kept, and of the fullest minute the fastest goes first. An hour later all are gone.
func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(allAt(100*time.Millisecond), time.Now)
		keep := func(took time.Duration) {
			now := r.Now()
			r.Keep(&Request{Received: now - Time(took), Queued: now})
		}
		keep(99 * time.Millisecond)
		if slow, _ := r.Kept(); len(slow) > 0 {
			t.Fatalf("kept %+v, which is not slow", slow)
		}
		time.Sleep(10 * time.Minute)
		for i := range 20 {
			keep(time.Duration(100+(i*7)%20) * time.Millisecond)
		}
		slow, notKept := r.Kept()
		if len(slow) != maxPerSecond || notKept != 12 {
			t.Fatalf("%d are kept and %d are not", len(slow), notKept)
		}
		for i, s := range slow {
			if s.Total < 112*time.Millisecond || i > 0 && s.Number >= slow[i-1].Number {
				t.Errorf("request %d, number %d, took %v", i, s.Number, s.Total)
			}
		}
		time.Sleep(time.Minute)
		for range 90 * 10 { // 720 that may be kept
			time.Sleep(100 * time.Millisecond)
			keep(time.Second)
		}
		if slow, _ = r.Kept(); len(slow) != maxKept {
			t.Errorf("%d are kept", len(slow))
		}
		if oldest := slow[len(slow)-1]; oldest.Total > 200*time.Millisecond {
			t.Errorf("a bad minute made the member forget the one before: the oldest took %v", oldest.Total)
		}
		time.Sleep(keepFor + time.Second)
		if slow, _ = r.Kept(); len(slow) > 0 {
			t.Errorf("after an hour %d are kept", len(slow))
		}
	})
}

// When a full second holds the most requests that are kept, a slower one replaces the fastest, and a faster one changes
// nothing.
func TestKeepSlowestOfSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(allAt(100*time.Millisecond), time.Now)
		time.Sleep(10 * time.Second)
		keep := func(milliseconds Time) {
			now := r.Now()
			r.Keep(&Request{Received: now - milliseconds*ms, Queued: now})
		}
		want := []Time{200, 207, 203, 205, 201, 206, 202, 204}
		for _, took := range want {
			keep(took)
		}
		check := func(want []Time, wantNotKept uint64) {
			t.Helper()
			slow, notKept := r.Kept()
			var got []Time
			for _, s := range slices.Backward(slow) {
				got = append(got, Time(s.Total)/ms)
			}
			if !slices.Equal(got, want) || notKept != wantNotKept {
				t.Errorf("kept those of %v ms, and %d not; want %v and %d", got, notKept, want, wantNotKept)
			}
		}
		check(want, 0)
		keep(150)
		keep(200) // as fast as the fastest that is kept
		check(want, 2)
		keep(300)
		check([]Time{207, 203, 205, 201, 206, 202, 204, 300}, 3)
		time.Sleep(time.Second)
		keep(150)
		check([]Time{207, 203, 205, 201, 206, 202, 204, 300, 150}, 3)
	})
}

// Many slow syncs leave room for the other causes.
func TestSlowSyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(allAt(time.Second), time.Now)
		r.BeginCause(Snapshot)
		for range MaxCauses {
			begun := time.Now()
			time.Sleep(10 * time.Millisecond)
			r.SlowSync(begun)
		}
		causes := r.Records(nil).Causes
		if len(causes) != 1+maxSlowSyncs || causes[0].Kind != Snapshot {
			t.Fatalf("%d causes, and the first one is %+v", len(causes), causes[0])
		}
		if newest := causes[maxSlowSyncs]; newest.Kind != SlowSync || newest.To != r.Now() || newest.To-newest.From != 10*ms {
			t.Errorf("at %d, the newest sync is %+v", r.Now(), newest)
		}
	})
}

// A request that meets many slow syncs, each longer than a pause, has the longest syncs and the pause.
func TestCausesOfWithManySyncs(t *testing.T) {
	peers := map[uint32]Peer{}
	for member := uint32(1); member <= 2; member++ {
		var peer Peer
		for i := range Time(2 * maxRequestCauses) {
			from := 1000 * i * ms
			peer.Causes = append(peer.Causes, Cause{SlowSync, from, from + (100+i)*ms})
		}
		peers[member] = peer
	}
	paused := peers[2]
	paused.Causes = append(paused.Causes, Cause{Paused, 500 * ms, 560 * ms})
	peers[2] = paused
	got := causesOf(&Request{Received: 1, Queued: 1000 * 1000 * ms}, 1, peers)
	longest := time.Duration(100+2*maxRequestCauses-1) * time.Millisecond
	want := []MemberCause{
		{SlowSync, 1, longest},
		{SlowSync, 2, longest},
		{SlowSync, 1, longest - time.Millisecond},
		{SlowSync, 2, longest - time.Millisecond},
		{Paused, 2, 60 * time.Millisecond},
	}
	if !slices.Equal(got, want) {
		t.Errorf("the causes are %v; want %v", got, want)
	}
}

// The clocks of the members differ. A cause counts for as long as it overlaps the request, by the clock of the request's member. One
// that goes on lasts until the request's end.
func TestCausesByAnotherClock(t *testing.T) {
	for _, ahead := range []Time{-2 * 3_600_000 * ms, 0, 7 * 3_600_000 * ms} {
		at := func(kind CauseKind, from, to Time) Cause {
			if to != 0 {
				to += ahead
			}
			return Cause{kind, from + ahead, to}
		}
		peers := map[uint32]Peer{2: {Ahead: ahead, Records: Records{Causes: []Cause{
			at(Paused, 50*ms, 90*ms), at(Snapshot, 150*ms, 230*ms), at(NoLeader, 230*ms, 0), at(SlowSync, 260*ms, 900*ms),
			at(Paused, 10*ms, 99*ms), at(Paused, 300*ms, 400*ms),
		}}}}
		got := causesOf(&Request{Received: 100 * ms, Queued: 300 * ms}, 1, peers)
		want := []MemberCause{
			{Snapshot, 2, 80 * time.Millisecond}, {NoLeader, 2, 70 * time.Millisecond}, {SlowSync, 2, 40 * time.Millisecond},
		}
		if !slices.Equal(got, want) {
			t.Errorf("a clock ahead by %v: the causes are %v; want %v", time.Duration(ahead), got, want)
		}
	}
}

// A request that its member reads just after a pause of its process may have waited in its socket: the whole pause is named. A
// pause of another member, an earlier one, or one that has not ended, is not.
func TestCausesOfWithPauseBefore(t *testing.T) {
	q := &Request{Received: 1000 * ms, Queued: 1300 * ms}
	for name, c := range map[string]struct {
		member uint32
		cause  Cause
		want   []MemberCause
	}{
		"just before":        {2, Cause{Paused, 50 * ms, 990 * ms}, []MemberCause{{PausedBefore, 2, 940 * time.Millisecond}}},
		"on another member":  {1, Cause{Paused, 50 * ms, 990 * ms}, nil},
		"long before":        {2, Cause{Paused, 50 * ms, 890 * ms}, nil},
		"no pause":           {2, Cause{Snapshot, 50 * ms, 990 * ms}, nil},
		"while it was there": {2, Cause{Paused, 900 * ms, 1100 * ms}, []MemberCause{{Paused, 2, 100 * time.Millisecond}}},
	} {
		peers := map[uint32]Peer{1: {}, 2: {}}
		peers[c.member] = Peer{Records: Records{Causes: []Cause{c.cause}}}
		if got := causesOf(q, 2, peers); !slices.Equal(got, c.want) {
			t.Errorf("%s: the causes are %v; want %v", name, got, c.want)
		}
	}
}

// The ring forgets the oldest entries, and a late time of one of them does not touch the entry that took its place.
func TestRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(allAt(time.Second), time.Now)
		for i := range uint64(ringSize + 10) {
			r.Stored(i+1, nil)
		}
		r.Durable(1, 5)
		if found := r.Records([]uint64{5, 0, ringSize + 5}); len(found.Entries) != 1 || found.Entries[0].Durable != 0 {
			t.Errorf("the ring has %+v", found.Entries)
		}
	})
}

// The times of any indexes are recorded in a bounded number of steps, also of those at which a sum passes the greatest number.
func TestExtremeIndexes(t *testing.T) {
	r := New(allAt(time.Second), time.Now)
	extremes := []uint64{0, 1, ringSize, math.MaxUint64 - ringSize, math.MaxUint64 - 1, math.MaxUint64}
	for _, first := range extremes {
		for _, last := range extremes {
			r.Received(first, last, r.Now())
			r.Durable(first, last)
			r.Acked(2, first, last)
		}
		r.CommitKnown(first)
		r.Applied(first)
	}
	if found := r.Records([]uint64{math.MaxUint64}); len(found.Entries) == 0 {
		t.Error("the entry with the greatest index has no record")
	}
}

// What comes again, or after the log has stored it, does not change when an entry came.
func TestReceivedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(allAt(time.Second), time.Now)
		came := r.Now()
		time.Sleep(time.Millisecond)
		r.Stored(1, nil)
		r.Received(1, 1, came)
		time.Sleep(time.Millisecond)
		r.Received(1, 1, r.Now())
		if e := r.Records([]uint64{1}).Entries[0]; e.Received != came {
			t.Errorf("the entry came at %v; want %v", e.Received, came)
		}
	})
}

// A nil Recorder records nothing.
func TestNilRecorder(*testing.T) {
	var r *Recorder
	r.Sealed([]byte{1}, &Arrivals{})
	r.Stored(1, nil)
	r.Received(1, 2, r.Now())
	r.Durable(1, 2)
	r.Acked(2, 1, 2)
	r.CommitKnown(2)
	r.ApplyBegun(1)
	r.ApplyLocked(1)
	r.Applied(1)
	r.BeginCause(Snapshot)
	r.EndCause(Snapshot)
	r.SlowSync(time.Now())
	r.TermStarted()
	r.LeaderLost(time.Now(), time.Second)
	r.Keep(&Request{})
	_, _ = r.ApplyingIndex(), r.Now()
}

// BenchmarkEntry measures all that a leader of three members records of one entry.
func BenchmarkEntry(b *testing.B) {
	r, data := New(allAt(time.Second), time.Now), []byte{1}
	for i := uint64(1); b.Loop(); i++ {
		var a Arrivals
		a.Add(1, r.Now())
		a.Add(2, r.Now())
		r.Sealed(data, &a)
		r.Stored(i, data)
		r.Durable(i, i)
		r.Acked(2, i, i)
		r.Acked(3, i, i)
		r.ApplyBegun(i)
		r.ApplyLocked(i)
		r.Applied(i)
	}
}

// BenchmarkKeepNothing measures what a request costs that is slow in a second with slower ones.
func BenchmarkKeepNothing(b *testing.B) {
	r := New(allAt(time.Millisecond), time.Now)
	for range maxPerSecond {
		r.Keep(&Request{Received: 1, Queued: Time(900 * time.Millisecond)})
	}
	q := &Request{Received: 1, Queued: Time(500 * time.Millisecond)}
	for b.Loop() {
		r.Keep(q)
	}
}

// An ended cause is reported for causeAge, and one that has not ended for as long as it lasts.
func TestOldCauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(allAt(time.Second), time.Now)
		kinds := func() (kinds []CauseKind) {
			for _, c := range r.Records(nil).Causes {
				kinds = append(kinds, c.Kind)
			}
			return kinds
		}
		time.Sleep(time.Second)
		r.BeginCause(Snapshot)
		r.BeginCause(Backup)
		time.Sleep(time.Second)
		r.EndCause(Backup)
		time.Sleep(causeAge - 1)
		if got := kinds(); !slices.Equal(got, []CauseKind{Snapshot, Backup}) {
			t.Errorf("before it is too old: %v", got)
		}
		time.Sleep(time.Nanosecond)
		if got := kinds(); !slices.Equal(got, []CauseKind{Snapshot}) {
			t.Errorf("when it is too old: %v", got)
		}
	})
}
