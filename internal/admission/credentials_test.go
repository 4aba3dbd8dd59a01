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
	a := table.NewAttempt(host)
	if err := a.AwaitTurn(t.Context(), MaxAttemptWait); err != nil {
		return time.Since(begun), err
	}
	a.RecordFailure(AdminToken)
	return time.Since(begun), nil
}

// An address may fail some times at once, and once in each pause after that. Others are not slowed.
func TestSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := NewCredentialLimiter(nil)
		for i := range 3 * freeFailures {
			waited, err := guess(t, table, "10.0.0.1")
			if want := time.Duration(min(max(i-freeFailures+1, 0), 1)) * attemptInterval; waited.Round(time.Millisecond) != want || err != nil {
				t.Errorf("attempt %d waited %v, want %v: %v", i, waited, want, err)
			}
		}
		if a := table.NewAttempt("10.0.0.2"); a.IsSlowed() {
			t.Error("another address is slowed")
		}
		if n := table.FailureCounts()["token"]; n != 3*freeFailures {
			t.Errorf("%d failures were counted", n)
		}
		time.Sleep(attemptInterval)
		if a := table.NewAttempt("10.0.0.1"); a.IsSlowed() {
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
	if a := table.NewAttempt(host); !a.IsSlowed() {
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
			a := table.NewAttempt("10.0.0.1")
			if err := a.AwaitTurn(t.Context(), MaxAttemptWait); err != nil || time.Since(begun).Round(time.Millisecond) != attemptInterval {
				t.Errorf("%v after %v", err, time.Since(begun))
			}
		}
	})
}

// Of many attempts at the same time a few wait, one pause after the other, and all others are rejected at once.
func TestWaitsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := NewCredentialLimiter(nil)
		const hosts, each = 2 * maxWaitingAttempts, 10
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
		waiting := table.numWaiting
		table.mu.Unlock()
		if waiting != maxWaitingAttempts {
			t.Errorf("%d attempts wait, want %d", waiting, maxWaitingAttempts)
		}
		all.Wait()
		if waited, rejected := table.SlowedCounts(); waited != maxWaitingAttempts || waited+rejected != hosts*each {
			t.Errorf("%d waited, and %d were rejected", waited, rejected)
		}
		if a := table.NewAttempt("10.0.1.1"); a.IsSlowed() {
			if err := a.AwaitTurn(t.Context(), attemptInterval/2); !errors.Is(err, ErrSlowed) {
				t.Errorf("an attempt that must be short: %v", err)
			}
		}
		if table.numWaiting != 0 {
			t.Errorf("%d attempts still wait", table.numWaiting)
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
		if waited, rejected := table.SlowedCounts(); waited != uint64(MaxAttemptWait/attemptInterval) || rejected != 100-waited {
			t.Errorf("%d waited, and %d were rejected", waited, rejected)
		}
		if waited, err := guess(t, table, "10.0.0.1"); err != nil || waited.Round(time.Millisecond) != attemptInterval {
			t.Errorf("after those that were rejected, one waits for %v: %v", waited, err)
		}
		for range MaxAttemptWait / attemptInterval {
			all.Go(func() { _, _ = guess(t, table, "10.0.0.1") })
		}
		synctest.Wait()
		a := table.NewAttempt("10.0.0.1")
		if err := a.AwaitTurn(t.Context(), time.Hour); !errors.Is(err, ErrSlowed) {
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
		a := table.NewAttempt("10.0.0.1")
		if err := a.AwaitTurn(ctx, MaxAttemptWait); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if table.numWaiting != 0 {
			t.Errorf("%d attempts wait", table.numWaiting)
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
			table.RecordWithoutSlowing(fmt.Sprint("host", i), SASLLogin)
		}
		table.RecordWithoutSlowing("first", SASLLogin)
		table.RecordWithoutSlowing("one more", SASLLogin)
		if len(table.addresses) != maxAddresses || table.byLastFailure.Len() != maxAddresses {
			t.Errorf("%d addresses", len(table.addresses))
		}
		if a := table.NewAttempt("first"); !a.IsSlowed() {
			t.Error("an address that failed lately is forgotten")
		}
		if a := table.NewAttempt("second"); a.IsSlowed() {
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
		if all := lines(); len(all) != 1 ||
			!strings.Contains(all[0], `level=WARN msg="credentials failed" address=10.0.0.1 kind=token failures=1 slowed=false unlogged=0`) {
			t.Errorf("lines %q", all)
		}
		time.Sleep(addressLineInterval)
		fail(t, table, "10.0.0.1")
		if all := lines(); len(all) != 1 || !strings.Contains(all[0], `failures=10 slowed=false`) {
			t.Errorf("a minute later %q", all)
		}
		for i := range 10 * lineBurst {
			table.RecordWithoutSlowing(fmt.Sprint("10.0.2.", i), ClientCertificate)
		}
		if all := lines(); len(all) != lineBurst-1 {
			t.Errorf("%d lines about many addresses", len(all))
		}
		time.Sleep(addressLineInterval)
		table.RecordWithoutSlowing("10.0.3.1", SuperPassword)
		if all := lines(); len(all) != 1 || !strings.Contains(all[0], "kind=super failures=1 slowed=false unlogged=181") {
			t.Errorf("after many addresses %q", all)
		}
		table.RecordWithoutSlowing("10.0.3.2", SuperPassword)
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
		for i := range lineBurst + 1 {
			table.RecordWithoutSlowing(fmt.Sprint("10.0.2.", i), ClientCertificate)
		}
		out.Reset()
		for i := range 3 {
			time.Sleep(lineInterval)
			table.RecordWithoutSlowing(fmt.Sprint("10.0.3.", i), ClientCertificate)
			table.RecordWithoutSlowing(fmt.Sprint("10.0.4.", i), ClientCertificate)
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
			table.RecordWithoutSlowing("10.0.0.1", SASLLogin)
		}
		if a := table.NewAttempt("10.0.0.1"); a.IsSlowed() {
			t.Error("the address is slowed")
		}
	})
}

// An attempt that has waited for its turn pays with it alone, also if its check takes long.
func TestTurnIsPaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := NewCredentialLimiter(nil)
		fail(t, table, "10.0.0.1")
		a := table.NewAttempt("10.0.0.1")
		if err := a.AwaitTurn(t.Context(), MaxAttemptWait); err != nil {
			t.Fatal(err)
		}
		time.Sleep(attemptInterval)
		a.RecordFailure(AdminToken)
		if next := table.NewAttempt("10.0.0.1"); next.IsSlowed() {
			t.Error("the failure has taken a second turn")
		}
	})
}

// A network of IPv6 is one address, and so are all of this machine's own.
func TestNames(t *testing.T) {
	for host, want := range map[string]string{
		"10.0.0.1": "10.0.0.1", "::ffff:10.0.0.1": "::ffff:10.0.0.1", "2001:db8:1:2:3::4": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64",
		"127.0.0.1": "loopback", "::ffff:127.0.0.1": "loopback", "127.9.9.9": "loopback", "::1": "loopback", "pipe": "pipe", "": "",
	} {
		if got := addressKey(host); got != want {
			t.Errorf("%s counts as %s, want %s", host, got, want)
		}
	}
}

// Without a table nobody is slowed.
func TestNoTable(t *testing.T) {
	var table *CredentialLimiter
	a := table.NewAttempt("10.0.0.1")
	if err := a.AwaitTurn(t.Context(), 0); err != nil || a.IsSlowed() {
		t.Error(err)
	}
	a.RecordFailure(SASLLogin)
	table.RecordWithoutSlowing("10.0.0.1", SASLLogin)
	if waited, rejected := table.SlowedCounts(); waited+rejected+table.FailureCounts()["sasl"] != 0 {
		t.Error("failures are counted")
	}
}
