package bench

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// If no server accepts a connection, a run says so for each of them. It does not wait for a server that
// is silent once another one has answered.
func TestNothingListens(t *testing.T) {
	p, err := ParseCase("get", Defaults())
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		_, err := Run(t.Context(), Config{Params: p, Target: Target{Servers: []string{"a:1", "b:2"}, Dial: func(ctx context.Context, addr string) (net.Conn, error) {
			if addr == "a:1" {
				return nil, errors.New("refused")
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}}})
		if err == nil || !strings.Contains(err.Error(), "a:1: refused") || !strings.Contains(err.Error(), "b:2: context deadline exceeded") {
			t.Errorf("%v, want what each server said", err)
		}
		if took := time.Since(begun); took != reachTimeout {
			t.Errorf("it took %v, want %v", took, reachTimeout)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := fakeServer{startedAt: time.Now()}
		r := &caseRun{ctx: t.Context(), target: Target{Servers: []string{"silent:1", "fake:2"}, Dial: func(ctx context.Context, addr string) (net.Conn, error) {
			if addr == "fake:2" {
				return f.dial(ctx, addr)
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}}}
		begun := time.Now()
		if err := r.checkReachable(); err != nil || time.Since(begun) != 0 {
			t.Errorf("%v after %v, want none at once", err, time.Since(begun))
		}
		f.serving.Wait()
	})
}
