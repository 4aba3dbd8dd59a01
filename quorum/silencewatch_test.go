package quorum

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/internal/monotonic"
)

// watchWithoutRaft returns a silenceWatch of which only the steps are used.
func watchWithoutRaft() *silenceWatch {
	const heartbeat = 300 * time.Millisecond
	w := &silenceWatch{heartbeat: heartbeat, clock: monotonic.System{}, tolerance: newPauseTolerance(heartbeat)}
	w.begin()
	return w
}

// takeSteps takes steps of the watch until n have been taken, each after d.
func takeSteps(w *silenceWatch, n int, d time.Duration) (ran time.Duration) {
	for range n {
		time.Sleep(d)
		ran += w.takeStep(w.clock.Now())
	}
	return ran
}

// Time in which the process did not run is no silence of another member, and widens the tolerance.
func TestPausesAreNotCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := watchWithoutRaft()
		if ran := takeSteps(w, 10, w.step()); ran != 10*w.step() {
			t.Errorf("%v of ten steps count", ran)
		}
		if ran := takeSteps(w, 1, lateSteps*w.step()-1); ran != lateSteps*w.step()-1 {
			t.Errorf("%v of a step count that is just on time", ran)
		}
		if ran := takeSteps(w, 1, 500*time.Millisecond); ran != w.step() {
			t.Errorf("%v of a pause count, want one step", ran)
		}
		if got := w.tolerance.at(w.clock.Now()); got != 600*time.Millisecond {
			t.Errorf("tolerates %v after a pause of 480 ms", got)
		}
	})
}

// After a pause, awaitBacklog waits until two steps have come on time. It does so also if the pause begins before the
// first step. Without a pause it does not wait, and it never waits for more than four steps.
func TestAwaitBacklog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := watchWithoutRaft()
		takeSteps(w, 3, w.step())
		if w.awaitBacklog() {
			t.Error("waited without a pause")
		}
		const pause = 300 * time.Millisecond
		late := func(steps []time.Duration) (taken int) {
			var over atomic.Bool
			go func() {
				if !w.awaitBacklog() {
					t.Error("no pause was noticed")
				}
				over.Store(true)
			}()
			for _, d := range steps {
				if synctest.Wait(); over.Load() {
					break
				}
				takeSteps(w, 1, d)
				taken++
			}
			if synctest.Wait(); !over.Load() {
				t.Errorf("still waits after %d steps", taken)
			}
			return taken
		}
		time.Sleep(pause)
		if n := late([]time.Duration{1, w.step(), w.step(), w.step()}); n != 3 {
			t.Errorf("waited for %d steps, want the late one and two on time", n)
		}
		time.Sleep(pause)
		if n := late([]time.Duration{1, pause, pause, pause, pause}); n != maxSettlingSteps {
			t.Errorf("waited for %d steps while every step was late, want %d", n, maxSettlingSteps)
		}
		done := make(chan bool)
		time.Sleep(pause)
		go func() { done <- w.awaitBacklog() }()
		synctest.Wait()
		w.end()
		<-done // nothing would take steps any more
		if w.awaitBacklog() {
			t.Error("waited after the end")
		}
	})
}
