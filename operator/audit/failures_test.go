package audit

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// failure is a failed authentication of a client at an address.
func failure(address string) Event {
	return Event{Address: address + ":4711", Operation: Authenticate, Target: "digest", Result: Failure, Error: "authentication failed"}
}

// dropped returns the number in the field dropped of a line, or 0.
func dropped(line string) (n int) {
	if _, rest, ok := strings.Cut(line, `,"dropped":`); ok {
		_, _ = fmt.Sscanf(rest, "%d", &n)
	}
	return n
}

// summary reports whether a line is about suppressed failures alone.
func summary(line string) bool { return strings.Contains(line, suppressedText) }

// remembered returns the number of addresses that have a bucket.
func remembered(l *Log) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.failureLimits.bucketByNetwork)
}

// A stranger that fails for ever leaves some lines, then one in a minute, and the log has the number of failures without
// a line. Other addresses and other events are not delayed.
func TestFailuresAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d, _ := newLog(t, Settings{})
		l.Start()
		began := time.Now()
		for range 1000 {
			l.Add(failure("6.6.6.6"))
			time.Sleep(time.Second)
		}
		l.Add(failure("10.0.0.7"))
		l.Add(Event{Address: "6.6.6.6", Operation: "delete", Path: "/a", Result: Failure, Error: "not authorized"})
		l.AddRejected(5, []*proto.Identity{{Scheme: "ip", Id: "6.6.6.6"}}, jute.OpAttach, jute.AuthFailed)
		time.Sleep(2 * failureRefillTime)
		synctest.Wait()
		failed, summaries, told, others := 0, 0, 0, []string{}
		for _, line := range d.lines() {
			told += dropped(line)
			switch {
			case summary(line):
				summaries++
			case strings.Contains(line, `"address":"6.6.6.6","operation":"authenticate"`):
				failed++
			default:
				others = append(others, line)
			}
		}
		if most := failureBurst + int(time.Since(began)/failureRefillTime); failed+summaries < failureBurst ||
			failed+summaries > most || failed+told != 1000+1 {
			t.Errorf("%d lines of failures, and %d about others; told are %d; want %d lines at most, and 1001 failures in all",
				failed, summaries, told, most)
		}
		if text := strings.Join(others, "\n"); len(others) != 2 || !strings.Contains(text, `"address":"10.0.0.7"`) ||
			!strings.Contains(text, `"operation":"delete"`) {
			t.Errorf("other lines:\n%s", text)
		}
		before := len(d.lines())
		time.Sleep(time.Duration(failureBurst+2) * failureRefillTime)
		if n := remembered(l); n != 0 {
			t.Errorf("%d addresses are remembered", n)
		}
		if got := d.lines(); len(got) != before {
			t.Errorf("lines without a failure: %q", got[before:])
		}
		l.Close()
		synctest.Wait()
	})
}

// However many addresses a stranger has, the table and the lines are bounded, and nothing is lost from the count.
// Failures that no line has reported are reported at the end.
func TestFailuresOfManyAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d, _ := newLog(t, Settings{})
		l.Start()
		const addresses, rounds = 3000, 20
		for round := range rounds {
			for i := range addresses {
				l.Add(failure(fmt.Sprintf("[2001:db8:0:%x::%x]", i, round)))
			}
		}
		if got := remembered(l); got != maxFailureBuckets {
			t.Errorf("%d addresses have a bucket, want %d", got, maxFailureBuckets)
		}
		l.Close()
		synctest.Wait()
		lines, summaries, told := 0, 0, 0
		for _, line := range d.lines() {
			told += dropped(line)
			if summary(line) {
				summaries++
				continue
			}
			lines++
		}
		if lines != (maxFailureBuckets+1)*failureBurst || summaries != maxFailureBuckets+1 || lines+told != addresses*rounds {
			t.Errorf("%d lines, and %d about %d others, want %d, %d, and %d failures in all",
				lines, summaries, told, (maxFailureBuckets+1)*failureBurst, maxFailureBuckets+1, addresses*rounds)
		}
	})
}

// All addresses of an IPv6 network share one measure, and each IPv4 address has its own.
func TestMeasured(t *testing.T) {
	var fs failureLimits
	if fs.ensureBucket("2001:db8::1") != fs.ensureBucket("2001:db8::2") || fs.ensureBucket("10.0.0.1") == fs.ensureBucket("10.0.0.2") {
		t.Error("a network of IPv6 has two measures, or two addresses of IPv4 have one")
	}
}

// However long the scheme and the identities are that a stranger sends, the line of its failure is short.
func TestFailureIsShort(t *testing.T) {
	for _, zooKeeper := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l, d, _ := newLog(t, Settings{ZooKeeperFormat: zooKeeper})
			l.Start()
			e := failure("6.6.6.6")
			e.Target, e.Error = strings.Repeat("\x00", 1<<20), strings.Repeat("\x00", 1<<20)
			for i := range maxNames {
				e.Ids = append(e.Ids, &proto.Identity{Scheme: "digest", Id: strings.Repeat("\x00", maxName) + fmt.Sprint(i)})
			}
			l.Add(e)
			l.Close()
			synctest.Wait()
			for _, line := range d.lines() {
				if len(line) > 13<<10 {
					t.Errorf("ZooKeeper's format %t: %d bytes", zooKeeper, len(line))
				}
			}
			if len(e.Ids) != maxNames {
				t.Error("the client has lost identities")
			}
		})
	}
}

// Failed resumes of sessions are bounded in the same way, also if the log of the ensemble rejects them. Successful ones
// are not.
func TestResumedInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d, _ := newLog(t, Settings{})
		l.Start()
		txn := &proto.Txn{Op: int32(jute.OpAttach), Session: 5}
		ids := []*proto.Identity{{Scheme: "ip", Id: "6.6.6.6"}}
		for range 50 {
			l.AddApplied(1, txn, ids, &znode.Result{Code: jute.SessionExpired})
			l.AddApplied(1, txn, ids, &znode.Result{})
		}
		l.Close()
		synctest.Wait()
		failed, told, good := 0, 0, 0
		for _, line := range d.lines() {
			told += dropped(line)
			switch {
			case summary(line):
			case strings.Contains(line, "failure"):
				failed++
			default:
				good++
			}
		}
		if failed != failureBurst || told != 50-failureBurst || good != 50 {
			t.Errorf("%d lines of failures, %d without one, %d successes", failed, told, good)
		}
	})
}
