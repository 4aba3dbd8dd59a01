package recipes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/client/shared"
	"rollcall/rollcalltest"
)

// Adders in each other's way take turns: none waits for luck, whether they have one session or one each.
func TestCounterTurns(t *testing.T) {
	for _, sessions := range []int{1, 32} {
		t.Run(fmt.Sprint(sessions), func(t *testing.T) {
			inScene(t, func(s *scene) {
				const adders, adds = 32, 5
				var slowest atomic.Int64
				var all sync.WaitGroup
				counters := make([]*shared.Counter, sessions)
				for i := range counters {
					counters[i] = shared.NewCounter(s.client(), "/counter", shared.CounterConfig{})
				}
				s.check(errorOf(counters[0].Add(s.ctx, 1)))
				var deletes atomic.Int32
				s.srv.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
					if r.Op == "delete" {
						deletes.Add(1)
					}
					return rollcalltest.Verdict{Delay: 2 * time.Millisecond}
				})
				begun := time.Now()
				for i := range adders {
					all.Go(func() {
						for range adds {
							begun := time.Now()
							s.check(errorOf(counters[i%sessions].Add(s.ctx, 1)))
							slowest.Store(max(slowest.Load(), int64(time.Since(begun))))
						}
					})
				}
				all.Wait()
				n, err := counters[0].Get(s.ctx)
				if err != nil || n != 1+adders*adds {
					t.Errorf("the counter is %d, %v; want %d", n, err, 1+adders*adds)
				}
				t.Logf("all took %v, and the slowest add %v", time.Since(begun), time.Duration(slowest.Load()))
				if limit := 400 * time.Millisecond; time.Duration(slowest.Load()) > limit {
					t.Errorf("the slowest add took %v, want up to %v", time.Duration(slowest.Load()), limit)
				}
				s.awaitSettled()
				if names := s.children("/counter-writers"); len(names) != 0 || deletes.Load() != 0 { // the writes delete them
					t.Errorf("places %q are left, and %d were deleted alone", names, deletes.Load())
				}
			})
		})
	}
}

// crowdedUpdate updates a value that other sets twice meanwhile, so that the update has a place in the line at its third attempt,
// before which it calls third.
func crowdedUpdate(ctx context.Context, value, other *shared.Value, third func()) error {
	attempts := 0
	_, err := value.Update(ctx, func(r shared.Revision) ([]byte, error) {
		if attempts++; attempts <= 2 {
			if err := errorOf(other.Set(ctx, fmt.Append(nil, "other", attempts))); err != nil {
				return nil, err
			}
		}
		if attempts == 3 {
			third()
		}
		return append(r.Data, "+"...), nil
	})
	return err
}

// A connection that breaks at any request of a writer in line leaves no place, and the write is carried out once.
func TestLineBrokenConnection(t *testing.T) {
	atEachRequest(t, func(s *scene, c *client.Client) {
		value, other := shared.NewValue(c, "/value", shared.Config{}), shared.NewValue(s.client(), "/value", shared.Config{})
		hasPlace := false
		s.check(crowdedUpdate(s.ctx, value, other, func() { hasPlace = len(s.children("/value-writers")) == 1 }))
		r, err := other.Get(s.ctx)
		s.check(err)
		if string(r.Data) != "other2+" && string(r.Data) != "other1+" || !hasPlace && string(r.Data) == "other2+" {
			t.Errorf("the value is %q; the writer had a place: %t", r.Data, hasPlace)
		}
		s.awaitSettled()
		if names := s.children("/value-writers"); len(names) != 0 {
			t.Errorf("places %q are left", names)
		}
	})
}

// A writer whose place is deleted, or that may not have one, writes without.
func TestLineWithoutPlace(t *testing.T) {
	for name, disturb := range map[string]func(s *scene, operator *client.Client){
		"deleted": func(s *scene, operator *client.Client) {
			for _, name := range s.children("/value-writers") {
				s.check(operator.Delete(s.ctx, "/value-writers/"+name, client.AnyVersion))
			}
		},
		"foreign": func(*scene, *client.Client) {},
	} {
		t.Run(name, func(t *testing.T) {
			inScene(t, func(s *scene) {
				operator := s.client()
				if name == "foreign" {
					s.check(operator.CreateAll(s.ctx, "/value-writers/foreign", client.Persistent))
				}
				value := shared.NewValue(s.client(), "/value", shared.Config{})
				other := shared.NewValue(operator, "/value", shared.Config{})
				var places atomic.Int32
				s.srv.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
					if r.Op == "create2" && strings.HasPrefix(r.Path, "/value-writers/_c_") {
						places.Add(1)
					}
					return rollcalltest.Verdict{}
				})
				third := func() {
					disturb(s, operator)
					s.check(errorOf(other.Set(s.ctx, []byte("other3")))) // there is a fourth attempt
				}
				s.check(crowdedUpdate(s.ctx, value, other, third))
				r, err := other.Get(s.ctx)
				if err != nil || string(r.Data) != "other3+" {
					t.Errorf("the value is %q, %v", r.Data, err)
				}
				if n := places.Load(); name == "foreign" && n != 1 {
					t.Errorf("it asked for a place %d times, want 1", n)
				}
			})
		})
	}
}

// A writer that has the turn and stops holds the others up for a moment only, on its session and on others, and its write still counts.
func TestLineStoppedWriter(t *testing.T) {
	inScene(t, func(s *scene) {
		release, stopped := make(chan struct{}), make(chan struct{})
		c, operator := s.client(), s.client()
		value, other := shared.NewValue(c, "/value", shared.Config{}), shared.NewValue(operator, "/value", shared.Config{})
		done := async(func() error {
			return crowdedUpdate(s.ctx, value, other, func() { close(stopped); <-release })
		})
		<-stopped
		begun := time.Now()
		s.check(crowdedUpdate(s.ctx, shared.NewValue(s.client(), "/value", shared.Config{}), other, func() {}))
		s.check(crowdedUpdate(s.ctx, value, other, func() {})) // the session of the stopped one
		if took := time.Since(begun); took > 5*time.Second || took < time.Second {
			t.Errorf("the others took %v", took)
		}
		close(release)
		s.check(<-done)
		r, err := other.Get(s.ctx)
		if err != nil || string(r.Data) != "other2++" {
			t.Errorf("the value is %q, %v", r.Data, err)
		}
		s.awaitSettled()
		if names := s.children("/value-writers"); len(names) != 0 {
			t.Errorf("places %q are left", names)
		}
	})
}

// A function of Update that sets the same value does not wait for itself for long.
func TestLineNestedUpdate(t *testing.T) {
	inScene(t, func(s *scene) {
		value := shared.NewValue(s.client(), "/value", shared.Config{})
		s.check(crowdedUpdate(s.ctx, value, value, func() {}))
		begun := time.Now()
		s.check(crowdedUpdate(s.ctx, value, value, func() { s.check(errorOf(value.Set(s.ctx, []byte("inner")))) }))
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// A writer that gives up while it waits in line leaves it.
func TestLineGivesUp(t *testing.T) {
	inScene(t, func(s *scene) {
		release, stopped := make(chan struct{}), make(chan struct{})
		other := shared.NewValue(s.client(), "/value", shared.Config{})
		done := async(func() error {
			return crowdedUpdate(s.ctx, shared.NewValue(s.client(), "/value", shared.Config{}), other, func() { close(stopped); <-release })
		})
		<-stopped
		ctx, cancel := context.WithTimeout(s.ctx, 300*time.Millisecond)
		defer cancel()
		err := crowdedUpdate(ctx, shared.NewValue(s.client(), "/value", shared.Config{}), other, func() {})
		if !errors.Is(err, context.DeadlineExceeded) || client.MayHaveHappened(err) {
			t.Errorf("the error is %v", err)
		}
		synctest.Wait()
		if names := s.children("/value-writers"); len(names) != 1 {
			t.Errorf("the places are %q, want that of the writer that has stopped", names)
		}
		close(release)
		s.check(<-done)
	})
}

// A writer whose function fails while it has a place leaves it.
func TestLineFunctionFails(t *testing.T) {
	inScene(t, func(s *scene) {
		value, other := shared.NewValue(s.client(), "/value", shared.Config{}), shared.NewValue(s.client(), "/value", shared.Config{})
		ctx, cancel := context.WithCancel(s.ctx)
		err := crowdedUpdate(ctx, value, other, func() {
			if names := s.children("/value-writers"); len(names) != 1 {
				t.Errorf("the places are %q, want 1", names)
			}
			cancel()
		})
		s.want(err, context.Canceled)
		s.awaitSettled()
		if names := s.children("/value-writers"); len(names) != 0 {
			t.Errorf("places %q are left", names)
		}
	})
}

// A function of Update that takes long holds up no other writer, unless writers have just been in each other's way.
func TestLineSlowFunction(t *testing.T) {
	inScene(t, func(s *scene) {
		value, other := shared.NewValue(s.client(), "/value", shared.Config{}), shared.NewValue(s.client(), "/value", shared.Config{})
		s.check(crowdedUpdate(s.ctx, value, other, func() {}))
		for range 2 { // it finds nobody in line, and knows
			s.check(errorOf(value.Set(s.ctx, []byte("x"))))
		}
		release := make(chan struct{})
		done := async(func() error {
			return errorOf(value.Update(s.ctx, func(shared.Revision) ([]byte, error) { <-release; return []byte("slow"), nil }))
		})
		synctest.Wait()
		begun := time.Now()
		for range 3 {
			s.check(errorOf(value.Set(s.ctx, []byte("y"))))
		}
		if took := time.Since(begun); took > 100*time.Millisecond {
			t.Errorf("the others took %v", took)
		}
		close(release)
		s.check(<-done)
	})
}

// A lone writer has no place, and sends what it did without a line.
func TestLineLoneWriter(t *testing.T) {
	inScene(t, func(s *scene) {
		value := shared.NewValue(s.client(), "/value", shared.Config{})
		other := shared.NewValue(s.client(), "/value", shared.Config{})
		s.check(crowdedUpdate(s.ctx, value, other, func() {}))
		for range 2 { // it finds nobody in line, and knows
			s.check(errorOf(value.Set(s.ctx, []byte("x"))))
		}
		var requests []string
		s.srv.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
			if r.InSession > 0 {
				requests = append(requests, r.Op)
			}
			return rollcalltest.Verdict{}
		})
		s.check(errorOf(value.Set(s.ctx, []byte("y"))))
		if fmt.Sprint(requests) != "[getData multi]" {
			t.Errorf("the requests are %q", requests)
		}
	})
}
