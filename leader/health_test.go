package leader

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/proto"
)

// fakeEnsemble has the other members as raft knows them.
type fakeEnsemble struct {
	mu      sync.Mutex
	reached []uint32
	heir    uint32
	asked   []uint32 // that an heir was last picked from
	fail    error
	handed  []time.Duration // when leadership was handed over, since start
	wrong   []uint32        // members other than heir that it was handed to
	start   time.Time
}

func (f *fakeEnsemble) ReachedVoters(time.Duration) []uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reached
}

func (f *fakeEnsemble) TransferTarget(reached []uint32) uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = slices.Clone(reached)
	return f.heir
}

func (f *fakeEnsemble) HandOver(_ context.Context, to uint32) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if to != f.heir {
		f.wrong = append(f.wrong, to)
	}
	f.handed = append(f.handed, time.Since(f.start))
	return f.fail
}

func (f *fakeEnsemble) when() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.handed)
}

// A leader hands over in two cases: if most of the members that raft reaches have heard no ping or could not forward for
// the sync limit, or if no proof round completes and some member is in that state. It does not hand over if the cause
// may lie elsewhere, or if no other member could do better.
func TestHandsOverWhenItCannotLead(t *testing.T) {
	unlinked := func(m *fakeMember) {
		m.set(func() { m.change = func(p *proto.Pong) bool { p.Unlinked = true; return true } })
	}
	silent := func(m *fakeMember) { m.set(func() { m.silent = true }) }
	proofless := func(m *fakeMember) { m.set(func() { m.joining = true }) }
	for name, c := range map[string]struct {
		reached []uint32
		heir    uint32
		do      func(e *ensemble)
		want    bool
	}{
		"nothing happens":                  {[]uint32{2, 3}, 2, func(*ensemble) {}, false},
		"both cannot forward":              {[]uint32{2, 3}, 2, func(e *ensemble) { unlinked(e.members[2]); unlinked(e.members[3]) }, true},
		"both hear no pings":               {[]uint32{2, 3}, 2, func(e *ensemble) { silent(e.members[2]); silent(e.members[3]) }, true},
		"one of each":                      {[]uint32{2, 3}, 2, func(e *ensemble) { silent(e.members[2]); unlinked(e.members[3]) }, true},
		"nobody could lead":                {[]uint32{2, 3}, 0, func(e *ensemble) { silent(e.members[2]); silent(e.members[3]) }, false},
		"one cannot forward":               {[]uint32{2, 3}, 2, func(e *ensemble) { unlinked(e.members[3]) }, false},
		"one hears no pings":               {[]uint32{2, 3}, 2, func(e *ensemble) { silent(e.members[3]) }, false},
		"one down, the other cannot write": {[]uint32{2}, 2, func(e *ensemble) { silent(e.members[3]); unlinked(e.members[2]) }, false},
		"one down, the other hears nothing, no proof": {[]uint32{2}, 2, func(e *ensemble) {
			silent(e.members[3])
			silent(e.members[2])
			e.pinger.requestProofRound()
		}, true},
		"no proof, as one is down and one joins": {[]uint32{2}, 2, func(e *ensemble) {
			silent(e.members[3])
			proofless(e.members[2])
			e.pinger.requestProofRound()
		}, false},
		"nobody is reached": {nil, 2, func(e *ensemble) { silent(e.members[2]); silent(e.members[3]) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnsemble(t)
				f := &fakeEnsemble{reached: c.reached, heir: c.heir, start: e.start, fail: errLost}
				e.cfg.Ensemble = f
				e.run()
				defer e.end()
				e.at(10 * tick)
				c.do(e)
				e.at(14*tick + tick/2)
				if got := f.when(); len(got) > 0 {
					t.Errorf("handed over at %v, half a tick before the sync limit", got)
				}
				e.at(16 * tick)
				if got := f.when(); (len(got) > 0) != c.want {
					t.Errorf("handed over at %v, want %t", got, c.want)
				}
				f.mu.Lock()
				defer f.mu.Unlock()
				if len(f.wrong) > 0 || c.want && !slices.Equal(f.asked, c.reached) {
					t.Errorf("handed over to %d, with an heir %d picked from %d; want the heir, picked from %d", f.wrong, f.heir, f.asked, c.reached)
				}
			})
		})
	}
}

// If members recover in time, or the leader's own process was paused, the sync limit begins again.
func TestHandOverIsPutOff(t *testing.T) {
	for name, do := range map[string]func(e *ensemble, change func(bool)){
		"members recover": func(e *ensemble, unlink func(bool)) {
			unlink(true)
			e.at(14 * tick)
			unlink(false)
			e.at(15 * tick)
			unlink(true)
		},
		"a pause": func(e *ensemble, unlink func(bool)) {
			unlink(true)
			e.at(14 * tick)
			now := time.Now()
			e.health.handOverIfUnable(now, true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnsemble(t)
				f := &fakeEnsemble{reached: []uint32{2, 3}, heir: 2, start: e.start}
				e.cfg.Ensemble = f
				e.run()
				defer e.end()
				e.at(10 * tick)
				do(e, func(to bool) {
					for _, m := range e.members[2:] {
						m.set(func() { m.change = func(p *proto.Pong) bool { p.Unlinked = to; return true } })
					}
				})
				e.at(18 * tick)
				if got := f.when(); len(got) > 0 {
					t.Errorf("handed over at %v, want not before %v", got, 19*tick)
				}
				e.at(21 * tick)
				if got := f.when(); len(got) == 0 {
					t.Error("not handed over at all")
				}
			})
		})
	}
}

// The connection to a member that sends nothing is closed after a tick, and then after twice as
// long each time, up to the sync limit. A connection to a member that sends something is never
// closed.
func TestRedial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		redials := map[uint32][]time.Duration{}
		e.cfg.CloseConnection = func(id uint32, _ int) { redials[id] = append(redials[id], time.Since(e.start)/(tick/2)) } // one goroutine
		e.run()
		e.at(10*tick + tick/4)
		silent := e.members[3]
		silent.set(func() { silent.silent = true })
		e.at(33 * tick)
		silent.set(func() { silent.silent = false })
		e.at(50*tick + tick/4)
		silent.set(func() { silent.silent = true })
		e.at(54 * tick)
		e.end()
		// The times are in half ticks from the last reply: 20 and 100.
		want := []time.Duration{22, 26, 34, 44, 54, 64, 102, 106}
		if got := redials[3]; !slices.Equal(got, want) {
			t.Errorf("given up at half ticks %d, want %d", got, want)
		}
		if len(redials) != 1 {
			t.Errorf("connections given up: %v, want those of member 3 alone", redials)
		}
	})
}
