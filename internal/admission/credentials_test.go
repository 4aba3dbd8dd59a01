package admission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// guess lets an address try a wrong token, and returns how long its attempt waited, and the error of the wait.
func guess(t *testing.T, table *CredentialLimiter, host string) (time.Duration, error) {
	t.Helper()
	begun := time.Now()
	a := table.Begin(host)
	if err := a.Wait(t.Context(), MaxAttemptWait); err != nil {
		return time.Since(begun), err
	}
	a.Failed(Token)
	return time.Since(begun), nil
}

// An address may fail some times at once, and once in each pause after that. Others are not slowed.
func TestSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := NewCredentialLimiter(nil)
		for i := range 3 * freeFailures {
			waited, err := guess(t, table, "10.0.0.1")
			if want := time.Duration(min(max(i-freeFailures+1, 0), 1)) * pause; waited.Round(time.Millisecond) != want || err != nil {
				t.Errorf("attempt %d waited %v, want %v: %v", i, waited, want, err)
			}
		}
		if a := table.Begin("10.0.0.2"); a.Slowed() {
			t.Error("another address is slowed")
		}
		if n := table.Counts()["token"]; n != 3*freeFailures {
			t.Errorf("%d failures were counted", n)
		}
		time.Sleep(pause)
		if a := table.Begin("10.0.0.1"); a.Slowed() {
			t.Error("the address is slowed although nothing failed for a while")
		}
	})
}

// fail lets an address fail until it is slowed.
func fail(t *testing.T, table *CredentialLimiter, host string) {
	t.Helper()
	for range freeFailures {
		if _, err := guess(t, table, host); err != nil {
			t.Fatal(err)
		}
	}
	if a := table.Begin(host); !a.Slowed() {
		t.Fatalf("%s is not slowed", host)
	}
}

// A right credential from a slowed address waits as well, and gives nothing back.
func TestRightCredentialWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := NewCredentialLimiter(nil)
		fail(t, table, "10.0.0.1")
		for range 2 {
			begun := time.Now()
			a := table.Begin("10.0.0.1")
			if err := a.Wait(t.Context(), MaxAttemptWait); err != nil || time.Since(begun).Round(time.Millisecond) != pause {
				t.Errorf("%v after %v", err, time.Since(begun))
			}
		}
	})
}

// Of many attempts at the same time a few wait, one pause after the other, and all others are rejected at once.
func TestWaitsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := NewCredentialLimiter(nil)
		const hosts, each = 2 * maxWaiting, 10
		for i := range hosts {
			fail(t, table, fmt.Sprint("10.0.1.", i))
		}
		var all sync.WaitGroup
		for i := range hosts * each {
			all.Go(func() {
				waited, err := guess(t, table, fmt.Sprint("10.0.1.", i%hosts))
				if err != nil && (!errors.Is(err, ErrSlowed) || waited != 0) || waited > MaxAttemptWait {
					t.Errorf("%v after %v", err, waited)
				}
			})
		}
		synctest.Wait()
		table.mu.Lock()
		waiting := table.waiting
		table.mu.Unlock()
		if waiting != maxWaiting {
			t.Errorf("%d attempts wait, want %d", waiting, maxWaiting)
		}
		all.Wait()
		if waited, rejected := table.Slowed(); waited != maxWaiting || waited+rejected != hosts*each {
			t.Errorf("%d waited, and %d were rejected", waited, rejected)
		}
		if a := table.Begin("10.0.1.1"); a.Slowed() {
			if err := a.Wait(t.Context(), pause/2); !errors.Is(err, ErrSlowed) {
				t.Errorf("an attempt that must be short: %v", err)
			}
		}
		if table.waiting != 0 {
			t.Errorf("%d attempts still wait", table.waiting)
		}
	})
}

// An attempt of one address finds three before it at most.
func TestTurnsOfOneAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := NewCredentialLimiter(nil)
		fail(t, table, "10.0.0.1")
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { _, _ = guess(t, table, "10.0.0.1") })
		}
		all.Wait()
		if waited, rejected := table.Slowed(); waited != uint64(MaxAttemptWait/pause) || rejected != 100-waited {
			t.Errorf("%d waited, and %d were rejected", waited, rejected)
		}
		if waited, err := guess(t, table, "10.0.0.1"); err != nil || waited.Round(time.Millisecond) != pause {
			t.Errorf("after those that were rejected, one waits for %v: %v", waited, err)
		}
		for range MaxAttemptWait / pause {
			all.Go(func() { _, _ = guess(t, table, "10.0.0.1") })
		}
		synctest.Wait()
		a := table.Begin("10.0.0.1")
		if err := a.Wait(t.Context(), time.Hour); !errors.Is(err, ErrSlowed) {
			t.Errorf("an attempt that may wait for an hour: %v", err)
		}
		all.Wait()
	})
}

// The end of a connection ends the wait of its attempt.
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := NewCredentialLimiter(nil)
		fail(t, table, "10.0.0.1")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		a := table.Begin("10.0.0.1")
		if err := a.Wait(ctx, MaxAttemptWait); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if table.waiting != 0 {
			t.Errorf("%d attempts wait", table.waiting)
		}
	})
}

// The table drops the address whose last failure is the longest ago.
func TestTableIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := NewCredentialLimiter(nil)
		fail(t, table, "first")
		fail(t, table, "second")
		for i := range maxAddresses - 2 {
			table.Count(fmt.Sprint("host", i), SASL)
		}
		table.Count("first", SASL)
		table.Count("one more", SASL)
		if len(table.addresses) != maxAddresses || table.recent.Len() != maxAddresses {
			t.Errorf("%d addresses", len(table.addresses))
		}
		if a := table.Begin("first"); !a.Slowed() {
			t.Error("an address that failed lately is forgotten")
		}
		if a := table.Begin("second"); a.Slowed() {
			t.Error("the address whose failures are the longest ago is still there")
		}
	})
}

// An address leaves a line in each minute at most, and all addresses together a bounded number.
func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		table := NewCredentialLimiter(slog.New(slog.NewTextHandler(&out, nil)))
		lines := func() []string {
			defer out.Reset()
			return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		}
		fail(t, table, "10.0.0.1")
		if all := lines(); len(all) != 1 || !strings.Contains(all[0], `level=WARN msg="credentials failed" address=10.0.0.1 kind=token failures=1 slowed=false unlogged=0`) {
			t.Errorf("lines %q", all)
		}
		time.Sleep(linePause)
		fail(t, table, "10.0.0.1")
		if all := lines(); len(all) != 1 || !strings.Contains(all[0], `failures=10 slowed=false`) {
			t.Errorf("a minute later %q", all)
		}
		for i := range 10 * maxLines {
			table.Count(fmt.Sprint("10.0.2.", i), Certificate)
		}
		if all := lines(); len(all) != maxLines-1 {
			t.Errorf("%d lines about many addresses", len(all))
		}
		time.Sleep(linePause)
		table.Count("10.0.3.1", Super)
		if all := lines(); len(all) != 1 || !strings.Contains(all[0], "kind=super failures=1 slowed=false unlogged=181") {
			t.Errorf("after many addresses %q", all)
		}
		table.Count("10.0.3.2", Super)
		if all := lines(); len(all) != 1 || !strings.Contains(all[0], "unlogged=0") {
			t.Errorf("after those that were not logged had been named %q", all)
		}
	})
}

// After the lines that there may be at once, each pause has room for one more.
func TestLinesComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		table := NewCredentialLimiter(slog.New(slog.NewTextHandler(&out, nil)))
		for i := range maxLines + 1 {
			table.Count(fmt.Sprint("10.0.2.", i), Certificate)
		}
		out.Reset()
		for i := range 3 {
			time.Sleep(linesPause)
			table.Count(fmt.Sprint("10.0.3.", i), Certificate)
			table.Count(fmt.Sprint("10.0.4.", i), Certificate)
		}
		if n := strings.Count(out.String(), "\n"); n != 3 {
			t.Errorf("%d lines in 3 pauses:\n%s", n, out.String())
		}
	})
}

// What is counted alone slows nobody.
func TestCountSlowsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := NewCredentialLimiter(nil)
		for range 3 * freeFailures {
			table.Count("10.0.0.1", SASL)
		}
		if a := table.Begin("10.0.0.1"); a.Slowed() {
			t.Error("the address is slowed")
		}
	})
}

// An attempt that has waited for its turn pays with it alone, also if its check takes long.
func TestTurnIsPaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := NewCredentialLimiter(nil)
		fail(t, table, "10.0.0.1")
		a := table.Begin("10.0.0.1")
		if err := a.Wait(t.Context(), MaxAttemptWait); err != nil {
			t.Fatal(err)
		}
		time.Sleep(pause)
		a.Failed(Token)
		if next := table.Begin("10.0.0.1"); next.Slowed() {
			t.Error("the failure has taken a second turn")
		}
	})
}

// The bounds are those of the documentation.
func TestBounds(t *testing.T) {
	if freeFailures != 10 || pause != time.Second || MaxAttemptWait != 3*time.Second || maxWaiting != 64 || maxAddresses != 4096 || linePause != time.Minute || maxLines != 20 || linesPause != 3*time.Second {
		t.Error("a bound has changed: change docs/security.md, docs/dev/limits.md and this test with it")
	}
}

// A network of IPv6 is one address, and so are all of this machine's own.
func TestNames(t *testing.T) {
	for host, want := range map[string]string{
		"10.0.0.1": "10.0.0.1", "::ffff:10.0.0.1": "::ffff:10.0.0.1", "2001:db8:1:2:3::4": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64",
		"127.0.0.1": "loopback", "::ffff:127.0.0.1": "loopback", "127.9.9.9": "loopback", "::1": "loopback", "pipe": "pipe", "": "",
	} {
		if got := nameOf(host); got != want {
			t.Errorf("%s counts as %s, want %s", host, got, want)
		}
	}
}

// Without a table nobody is slowed.
func TestNoTable(t *testing.T) {
	var table *CredentialLimiter
	a := table.Begin("10.0.0.1")
	if err := a.Wait(t.Context(), 0); err != nil || a.Slowed() {
		t.Error(err)
	}
	a.Failed(SASL)
	table.Count("10.0.0.1", SASL)
	if waited, rejected := table.Slowed(); waited+rejected+table.Counts()["sasl"] != 0 {
		t.Error("failures are counted")
	}
}
