package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// turns plays work on a FairTurn in a bubble: a step takes a microsecond.
type turns struct {
	*FairTurn
	t    *testing.T
	ends []string // the names of the work, in the order of their ends
}

const (
	stepsOfSlice = 100
	mostShort    = 5 * stepsOfSlice
)

func (w *turns) begin(name, address string, cost int) {
	go func() {
		if err := w.work(w.t.Context(), name, address, cost); err != nil {
			w.t.Error(err)
		}
	}()
	synctest.Wait()
}

// work does one piece of work, and returns the error of ctx if that ends first.
func (w *turns) work(ctx context.Context, name, address string, cost int) error {
	turn, err := w.Take(ctx, address, cost)
	if err != nil {
		return err
	}
	defer turn.End()
	for left := cost; left > 0; left -= stepsOfSlice {
		time.Sleep(time.Duration(min(left, stepsOfSlice)) * time.Microsecond)
		if err := turn.GiveWay(ctx, left-stepsOfSlice); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock() // before turn.End
	w.ends = append(w.ends, name)
	return nil
}

// elapse lets d pass. What the goroutines did in that time may be read after it.
func (w *turns) elapse(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// namesInOrder returns the names of the work that has ended, in the order of the ends.
func (w *turns) namesInOrder() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.ends)
}

// countInterrupted returns the number of turns that are interrupted.
func (w *turns) countInterrupted() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.interrupted)
}

func inTurns(t *testing.T, play func(w *turns)) {
	synctest.Test(t, func(t *testing.T) {
		w := &turns{FairTurn: NewFairTurn(mostShort), t: t}
		play(w)
		w.elapse(time.Minute)
		if w.running != nil || w.short.Len()+w.long.Len()+len(w.interrupted)+len(w.byAddress) != 0 {
			t.Errorf("left at the end: %+v", w.FairTurn)
		}
	})
}

// Cheap work waits for a step of work that costs much, and not for its end, wherever it comes from.
func TestCheapWorkGoesFirst(t *testing.T) {
	for _, from := range []string{"attacker", "honest"} {
		inTurns(t, func(w *turns) {
			for i := range 20 {
				w.begin(fmt.Sprint("much", i), "attacker", 100_000)
			}
			began := time.Now()
			turn, err := w.Take(w.t.Context(), from, stepsOfSlice)
			if err != nil {
				w.t.Fatal(err)
			}
			if took := time.Since(began); took > stepsOfSlice*time.Microsecond {
				w.t.Errorf("from %s: waited %v", from, took)
			}
			turn.End()
		})
	}
}

// Short work waits for one step of long work, however many addresses have such work and however long they have had it. Of the
// addresses with long work none waits for all the others either.
func TestShortWorkOfOneAmongManyAddresses(t *testing.T) {
	inTurns(t, func(w *turns) {
		const attackers, much = 200, 1000 * stepsOfSlice
		ctx, cancel := context.WithCancel(w.t.Context())
		defer cancel()
		served := make([]int, attackers)
		for i := range attackers {
			go func() { // each begins at another time, and again when its work has ended
				time.Sleep(time.Duration(i) * 7 * stepsOfSlice * time.Microsecond)
				for w.work(ctx, "much", fmt.Sprint("attacker", i), much) == nil {
					served[i]++
				}
			}()
		}
		w.elapse(10 * time.Second)
		for i := range 1000 {
			began := time.Now()
			if err := w.work(ctx, "little", "honest", mostShort); err != nil {
				w.t.Fatal(err)
			}
			if took := time.Since(began); took > (stepsOfSlice+mostShort)*time.Microsecond {
				w.t.Errorf("piece %d of short work took %v", i, took)
				break
			}
			w.elapse(13 * stepsOfSlice * time.Microsecond)
		}
		w.elapse(40 * time.Second)
		cancel()
		w.elapse(time.Second)
		if least, most := slices.Min(served), slices.Max(served); least == 0 || most > least+2 {
			w.t.Errorf("attackers were served from %d to %d times", least, most)
		}
	})
}

// While short work always waits, from so many addresses that each piece is short, long work has a step after at most 2*mostShort of others.
func TestLongWorkHasAShare(t *testing.T) {
	for _, cost := range []int{stepsOfSlice / 10, stepsOfSlice, mostShort - stepsOfSlice, mostShort} {
		inTurns(t, func(w *turns) {
			ctx, cancel := context.WithCancel(w.t.Context())
			defer cancel()
			for i := range 300 {
				go func() {
					for w.work(ctx, "short", fmt.Sprint("short", i), cost) == nil {
					}
				}()
			}
			w.elapse(time.Millisecond)
			const much = 20 * mostShort
			most := time.Duration(much/stepsOfSlice*2*mostShort+much) * time.Microsecond
			soon, end := context.WithTimeout(ctx, most)
			defer end()
			if err := w.work(soon, "long", "long", much); err != nil {
				w.t.Errorf("beside pieces of %d: %v after %v", cost, err, most)
			}
			cancel()
		})
	}
}

// Of work that costs the same, that of an address which wants less goes first.
func TestAddressesAreServedByTurns(t *testing.T) {
	inTurns(t, func(w *turns) {
		for i := range 5 {
			w.begin(fmt.Sprint("attacker", i), "attacker", 1000)
		}
		w.begin("honest", "honest", 1000)
		w.elapse(time.Minute)
		if ends := w.namesInOrder(); slices.Index(ends, "honest") != 1 {
			w.t.Errorf("%q", ends)
		}
	})
}

// Work that costs much is served although cheaper work comes again and again, of its own address or another one.
func TestNoWorkWaitsForEver(t *testing.T) {
	for _, from := range []string{"a", "b"} {
		inTurns(t, func(w *turns) {
			w.begin("cheap", from, stepsOfSlice)
			w.begin("much", "a", 100*stepsOfSlice)
			for i := range 1000 {
				w.begin(fmt.Sprint("cheap", i), from, stepsOfSlice)
				w.elapse(stepsOfSlice * time.Microsecond)
			}
			ends := w.namesInOrder()
			if at := slices.Index(ends, "much"); at < 0 || at > 500 {
				w.t.Errorf("from %s: it was the %dth of %d", from, at, len(ends))
			}
		})
	}
}

// Few turns are interrupted at a time: work gives way only to work that costs at most half of its rest.
func TestFewTurnsAreInterrupted(t *testing.T) {
	inTurns(t, func(w *turns) {
		for i := range 100 {
			w.begin(fmt.Sprint(i), fmt.Sprint(i), 100_000-400*i)
			w.elapse(stepsOfSlice * time.Microsecond)
			if n := w.countInterrupted(); n > 1 {
				w.t.Fatalf("%d are interrupted", n)
			}
		}
	})
	inTurns(t, func(w *turns) {
		most := 0
		for cost := 1 << 24; cost > stepsOfSlice; cost /= 3 {
			w.begin(fmt.Sprint(cost), fmt.Sprint(cost), cost)
			w.elapse(2 * stepsOfSlice * time.Microsecond)
			most = max(most, w.countInterrupted())
		}
		if most != maxInterrupted {
			w.t.Errorf("%d were interrupted, want %d", most, maxInterrupted)
		}
	})
}

// Work whose connection ends leaves, whether it runs, waits or is interrupted, and the next one runs.
func TestEndedWorkLeaves(t *testing.T) {
	inTurns(t, func(w *turns) {
		gone, cancel := context.WithCancel(w.t.Context())
		first, err := w.Take(w.t.Context(), "a", 1000)
		if err != nil {
			w.t.Fatal(err)
		}
		errs := make(chan error, 2)
		go func() {
			_, err := w.Take(gone, "b", 1000)
			errs <- err
		}()
		synctest.Wait()
		other, cancelOther := context.WithCancel(w.t.Context())
		go func() {
			_, err := w.Take(w.t.Context(), "c", 1)
			if err != nil {
				w.t.Error(err)
			}
			cancelOther() // it keeps its turn until then
		}()
		synctest.Wait()
		cancel()
		if err := first.GiveWay(other, 1000); !errors.Is(err, context.Canceled) {
			w.t.Error(err)
		}
		if err := <-errs; !errors.Is(err, context.Canceled) {
			w.t.Error(err)
		}
		first.End() // it has ended
		if w.short.Len()+w.long.Len()+len(w.interrupted) != 0 || len(w.byAddress) != 1 || w.running == nil {
			w.t.Errorf("%+v", w.FairTurn)
		}
		w.running.End()
	})
}

// Work that ended while it was interrupted does not give way again: nobody else loses the turn, and its address has no turn fewer than
// none, which would put all its later work first.
func TestEndedWorkDoesNotGiveWay(t *testing.T) {
	f := NewFairTurn(mostShort)
	ctx, cancel := context.WithCancel(t.Context())
	big, err := f.Take(ctx, "attacker", 200_000)
	if err != nil {
		t.Fatal(err)
	}
	small := f.enqueue("honest", 2000)
	if !big.tryInterrupt(190_000) {
		t.Fatal("it does not give way")
	}
	cancel()
	if err := big.await(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	second := f.enqueue("other", 1500)
	if err := big.GiveWay(ctx, 180_000); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the reason of the end", err)
	}
	if big.tryInterrupt(180_000) || f.running != small {
		t.Error("it takes the turn of another address")
	}
	small.End()
	small.End()
	if f.running != second {
		t.Error("the next one does not run")
	}
	second.End()
	if f.running != nil || len(f.byAddress) != 0 {
		t.Errorf("at the end: %+v", f)
	}
}

// Work whose connection has ended leaves at its next step, also if nobody waits.
func TestRunningWorkEndsWithItsConnection(t *testing.T) {
	f := NewFairTurn(mostShort)
	ctx, cancel := context.WithCancel(t.Context())
	turn, err := f.Take(ctx, "a", 1000)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := turn.GiveWay(ctx, 500); !errors.Is(err, context.Canceled) || f.IsTaken() || len(f.byAddress) != 0 {
		t.Errorf("%v; %+v", err, f)
	}
}
