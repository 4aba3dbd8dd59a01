package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/operator/logs/logtest"
	"rollcall/proto"
)

// Every moment of a log, from its first entry on, can be built from the archive, in a directory, with and without snapshots.
func TestEveryMoment(t *testing.T) {
	e := newEnsemble(t)
	e.write(30, 1)
	m := newMember(t, e, 1)
	m.snapshot(0)
	store := NewDirectory(t.TempDir())
	s := m.sender(store)
	m.must(sendAll(s))
	m.writeAndFollow(20, 2)
	m.must(sendAll(s))
	m.snapshot(uint64(len(e.Log)) - 5)
	m.writeAndFollow(20, 3)
	m.must(sendAll(s))
	e.checkArchive(t, store, 1)
	l := onlyLog(t, store)
	if len(l.states) != 1 || len(l.runs) < 10 {
		t.Errorf("%d snapshots and %d objects with entries", len(l.states), len(l.runs))
	}
	if st := s.Stats(); st.Failures > 0 || st.ArchivedIndex != m.has || st.LostEntries > 0 {
		t.Errorf("%+v", st)
	}
}

// A member sends what its log does not have any more from its history, and begins with its oldest snapshot.
func TestFromHistory(t *testing.T) {
	e, m := newMemberWith(t, 60)
	m.snapshot(uint64(len(e.Log)) - 10)
	m.writeAndFollow(60, 2)
	m.snapshot(uint64(len(e.Log)) - 10)
	m.writeAndFollow(5, 3)
	store := newMemory()
	m.must(sendAll(m.sender(store)))
	e.checkArchive(t, store, 1)
	if l := onlyLog(t, store); l.Spans[0].First != 1 {
		t.Errorf("the archive begins with entry %d", l.Spans[0].First)
	}
}

// The next leader continues at the end of the archive, and sends nothing that is there.
func TestTakeOver(t *testing.T) {
	e := newEnsemble(t)
	store := newMemory()
	members := []*member{newMember(t, e, 1), newMember(t, e, 2), newMember(t, e, 3)}
	sent := uint64(0)
	for round := range 9 {
		e.write(7, uint64(round))
		m := members[round%3]
		m.follow(0)
		s := m.sender(store)
		m.must(sendAll(s))
		if n := s.Stats().ArchivedIndex; n != m.has {
			t.Fatalf("round %d ends at entry %d, want %d", round, n, m.has)
		}
	}
	e.checkArchive(t, store, 1)
	for _, r := range onlyLog(t, store).runs {
		if sent+1 != r.first() {
			t.Fatalf("entry %d is in two objects, or in none", r.first())
		}
		sent = r.last.Index
	}
}

// Two members that both believe that they lead send at the same time, with old lists of the archive. Nothing is replaced, and every moment
// can be built.
func TestTwoSenders(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 1))
		e := newEnsemble(t)
		store := newMemory()
		members := []*member{newMember(t, e, 1), newMember(t, e, 2)}
		senders := []*Sender{members[0].sender(store), members[1].sender(store)}
		contents := map[string][]byte{}
		for range 12 {
			e.write(r.IntN(6), r.Uint64())
			i := r.IntN(2)
			members[i].follow(members[i].has + r.Uint64N(uint64(len(e.Log))-members[i].has+1))
			senders[i].batchBytes = 200 + r.IntN(2000)
			if r.IntN(3) == 0 {
				senders[i].position = nil // a new leader
			}
			before := uint64(len(e.Log)) / 2
			store.hide = func(name string) bool {
				n, ok := parseRun(name)
				return ok && r.IntN(3) == 0 && n.first() > before
			}
			if members[i].has > 0 {
				if err := sendAll(senders[i]); err != nil && !errors.Is(err, ErrExists) {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			for name, b := range contents {
				if !bytes.Equal(store.objects[name], b) {
					t.Fatalf("seed %d: %s was replaced", seed, name)
				}
			}
			contents = maps.Clone(store.objects)
		}
		store.hide = nil
		members[0].follow(0)
		senders[0].position = nil
		members[0].must(sendAll(senders[0]))
		e.checkArchive(t, store, 1)
	}
}

// Two ensembles with the same prefix do not meet, because their logs have other names.
func TestTwoEnsembles(t *testing.T) {
	store := newMemory()
	for i := range 2 {
		e := newEnsemble(t)
		e.write(10, uint64(i))
		m := newMember(t, e, 1)
		m.logName = EnsembleLog([]byte{byte(i)})
		m.follow(0)
		m.must(sendAll(m.sender(store)))
	}
	found, err := List(t.Context(), store)
	if err != nil || len(found) != 2 {
		t.Fatalf("%d logs, %v", len(found), err)
	}
	for _, l := range found {
		if v, err := Verify(t.Context(), store, &l, l.Spans[0]); err != nil || len(v.Damage) > 0 || len(l.Spans) != 1 {
			t.Errorf("%s: %v %q", l.Name, err, v.Damage)
		}
	}
}

// A member that was put back from a copy, and has lived on with other entries, sends nothing to an archive that has the first ones.
func TestOtherPast(t *testing.T) {
	store := newMemory()
	for i, want := range []error{nil, ErrOtherPast} {
		e := newEnsemble(t)
		e.write(10, 1)
		e.write(10, uint64(2+i)) // other data, in entries of the same index and term
		m := newMember(t, e, 1)
		m.follow(0)
		before := len(store.objects)
		if err := sendAll(m.sender(store)); !errors.Is(err, want) || want != nil && len(store.objects) != before {
			t.Errorf("member %d: %v, and %d objects more", i, err, len(store.objects)-before)
		}
		if want == nil {
			continue
		}
		m.has -= 3
		if err := sendAll(m.sender(store)); !errors.Is(err, ErrOtherPast) || len(store.objects) != before {
			t.Errorf("a member that has less: %v", err)
		}
	}
}

// Entries that the member removed before they were sent are counted and logged. The archive continues with a snapshot after them.
func TestGap(t *testing.T) {
	e, m := newMemberWith(t, 20)
	store := newMemory()
	m.must(sendAll(m.sender(store)))
	archived := m.has
	e.write(20, 2)
	late := newLateMember(t, e, 2)
	begins := late.has
	late.writeAndFollow(20, 3)
	s, lines := late.loggingSender(store)
	late.must(sendAll(s))
	if n := s.Stats().LostEntries; n != begins-archived {
		t.Errorf("%d entries are lost, want %d", n, begins-archived)
	}
	if text := lines.String(); !strings.Contains(text, "are not on this member any more") {
		t.Errorf("no line of it: %s", text)
	}
	e.checkArchive(t, store, 2)
}

// A store that fails is tried again, with a wait that grows to a minute and a line in the log once a minute. When it is well again,
// nothing is missing. An object whose reply was lost is not sent twice.
func TestFailures(t *testing.T) {
	e := newEnsemble(t)
	e.write(20, 1)
	m := newMember(t, e, 1)
	m.snapshot(0)
	synctest.Test(t, func(t *testing.T) {
		store := newMemory()
		s := m.sender(store)
		lines := new(logtest.Buffer)
		s.cfg.Logger = slog.New(slog.NewTextHandler(lines, nil))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		var tries []time.Time
		store.put = func(string) error {
			tries = append(tries, time.Now())
			return errors.New("403 AccessDenied")
		}
		go func() { defer close(done); s.Run(ctx) }()
		time.Sleep(10*time.Minute + time.Second/2)
		synctest.Wait()
		for i := range tries[1:] {
			wait := tries[i+1].Sub(tries[i])
			if want := min(time.Second<<min(i, 10), time.Minute); wait != want {
				t.Errorf("try %d comes after %v, want %v", i+1, wait, want)
			}
		}
		if n := strings.Count(lines.String(), "could not be sent"); n < 8 || n > 11 {
			t.Errorf("%d lines in ten minutes:\n%s", n, lines)
		}
		if st := s.Stats(); st.Failures != uint64(len(tries)) || st.Age < 9*time.Minute || !st.IsSending {
			t.Errorf("%+v after %d tries", st, len(tries))
		}
		store.setFaults(nil, func(string) error { return errors.New("connection reset") }) // every reply is lost
		time.Sleep(time.Hour)
		synctest.Wait()
		if st := s.Stats(); st.Age != 0 || st.ArchivedIndex != m.has {
			t.Errorf("%+v; want all %d entries", st, m.has)
		}
		if !strings.Contains(lines.String(), "sending again") {
			t.Error("no line that it sends again")
		}
		if strings.Count(lines.String(), "a snapshot was sent") != 1 {
			t.Error("no line that a snapshot was sent, or several")
		}
		m.leads.Store(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if st := s.Stats(); st.IsSending {
			t.Errorf("a member that does not lead: %+v", st)
		}
		stop()
		<-done
		e.checkArchive(t, store, 1)
		names := slices.Collect(maps.Keys(store.objects))
		if l := onlyLog(t, store); len(l.runs)+l.states[0].parts != len(names) {
			t.Errorf("objects that are not needed: %q", names)
		}
	})
}

// The age is counted from the first entry that is not in the archive: it does not begin anew with a new leader, and
// falls with each object.
func TestAgeOutlivesLeader(t *testing.T) {
	e := newEnsemble(t)
	store := newMemory()
	first, second := newMember(t, e, 1), newMember(t, e, 2)
	first.follow(0)
	first.must(sendAll(first.sender(store)))
	waiting := time.UnixMilli(e.NowMs + 1000) // the stamp of the next entry
	e.StartTerm()
	e.write(30, 1)
	second.follow(0)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(waiting.Add(time.Hour)))
		s := second.sender(store)
		var storable atomic.Int64 // objects, before the store fails
		failAfter := func(string) error {
			if storable.Add(-1) < 0 {
				return errors.New("503 SlowDown")
			}
			return nil
		}
		store.setFaults(failAfter, nil)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx) }()
		time.Sleep(pollInterval + time.Millisecond)
		synctest.Wait()
		if age, want := s.Stats().Age, time.Since(waiting); age < want || age > want+2*time.Second {
			t.Errorf("after the election the age is %v, want %v", age, want)
		}
		storable.Store(3)
		time.Sleep(maxBackoff + pollInterval)
		synctest.Wait()
		archived := s.Stats().ArchivedIndex
		content, err := proto.UnmarshalEntry(slices.Clone(e.Log[archived-1].Data))
		if err != nil || archived == second.has {
			t.Fatalf("%d entries are in the archive, %v", archived, err)
		}
		if age, want := s.Stats().Age, time.Since(time.UnixMilli(content.GetTimeMs())); age != want {
			t.Errorf("after some objects the age is %v, want %v", age, want)
		}
		store.setFaults(nil, nil)
		time.Sleep(maxBackoff + pollInterval)
		synctest.Wait()
		if age := s.Stats().Age; age != 0 {
			t.Errorf("with all entries in the archive the age is %v", age)
		}
		stop()
		<-done
	})
}

// A member whose snapshots are old stores one for the archive, and sends a newer one only when it is far or a day old.
func TestStatesAreDue(t *testing.T) {
	e, m := newMemberWith(t, 5)
	store := newMemory()
	s := m.sender(store)
	m.must(sendAll(s))
	if m.snapshotRequests != 1 || len(onlyLog(t, store).states) != 0 {
		t.Fatalf("%d snapshots were requested; %d sent", m.snapshotRequests, len(onlyLog(t, store).states))
	}
	m.snapshot(0)
	m.must(sendAll(s))
	e.write(5, 2)
	m.snapshot(0)
	m.must(sendAll(s))
	if l := onlyLog(t, store); m.snapshotRequests != 1 || len(l.states) != 1 || l.states[0].index != m.e.Kept[0].Index {
		t.Fatalf("%d snapshots were requested; snapshots %+v", m.snapshotRequests, l.states)
	}
	next := *s.lastState.Load()
	next.at = next.at.Add(-stateInterval)
	s.lastState.Store(&next)
	m.must(sendAll(s))
	if l := onlyLog(t, store); len(l.states) != 2 || l.states[1].index != m.e.Kept[1].Index {
		t.Errorf("a day later: %+v", l.states)
	}
	e.checkArchive(t, store, 1)
}

// If the last object is gone, because another file system is mounted there, the member finds the end of the archive again.
func TestArchiveGone(t *testing.T) {
	e, m := newMemberWith(t, 20)
	store := newMemory()
	s := m.sender(store)
	m.must(sendAll(s))
	store.objects = map[string][]byte{}
	m.writeAndFollow(5, 2)
	m.must(sendAll(s))
	e.checkArchive(t, store, 1)
}

// Entries and snapshots are sent at sendRate at most, and a pause ends with its context.
func TestPace(t *testing.T) {
	e := newEnsemble(t)
	const count, size = 40, 100 << 10
	for i := range count {
		e.client.Create(fmt.Sprintf("/n-%d", i), strings.Repeat("x", size), 0)
	}
	m := newMember(t, e, 1)
	m.snapshot(0)
	synctest.Test(t, func(t *testing.T) {
		const once = count * size * time.Second / sendRate
		const early = 10 * time.Millisecond // see backup.NewPacedWriter
		checkTime := func(what string, least time.Duration, send func() error) {
			t.Helper()
			begun := time.Now()
			err := send()
			if took := time.Since(begun); err != nil || took < least-early || took > least+least/10 {
				t.Errorf("%s took %v, want %v; %v", what, took, least, err)
			}
		}
		s := m.sender(newMemory())
		s.nextStates = time.Now().Add(time.Hour)
		s.batchBytes = 3 * size
		checkTime("entries", once, func() error { return s.sendRound(t.Context()) })
		own, err := s.newestSpan()
		if err != nil {
			t.Fatal(err)
		}
		checkTime("a snapshot", 2*once, func() error { return s.sendState(t.Context(), testLog, own.Snapshots[0]) }) // it is read twice
		ctx, stop := context.WithTimeout(t.Context(), once/2)
		defer stop()
		if err := m.sender(newMemory()).sendRound(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a context that ends: %v", err)
		}
	})
}
