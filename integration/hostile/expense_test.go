package hostile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rollcall/integration/wire"
	"rollcall/lab/process"
	"rollcall/zk/jute"
)

const (
	expenseLimit = 192 << 20 // the members' memoryLimit
	expenseQuota = 48 << 20  // their dataQuota, if they have one
	// expenseCollect is their GOMEMLIMIT: between memoryLimit and the most memory that they may have.
	expenseCollect = "224MiB"
	// expenseResident is the most memory that a member may have had: the limit and 30 %.
	expenseResident = expenseLimit + expenseLimit*3/10
	// expenseData is the most memory that a member can get. With more it ends, and the test fails, before the machine suffers.
	expenseData = 2 << 30
	expenseFrom = "127.66.66.80"
	// expensePause is the time that an attacker rests between two batches. Without a rest the attackers would take a
	// share of the processors, as any clients do. This test is about the cost of a few requests.
	expensePause = time.Second
	// expenseTime is the time in which others are measured during an attack, and expenseCalm the time before it.
	expenseTime, expenseCalm = 3 * time.Second, 2 * time.Second
	// mostExpenseRatio and freeExpenseTime limit how long others may wait at p99: so many times as long as before the attack, or
	// freeExpenseTime if that is longer.
	mostExpenseRatio = 3
	freeExpenseTime  = 50 * time.Millisecond
	// freeEventsTime is freeExpenseTime beside multis of 10,000 changes that 200 watchers hear of. Each takes up to 100 ms of apply
	// (znode.maxFireSteps) on each of three members, which share two processors here with the test. Others wait for up to 115 ms at p99
	// if nothing else runs.
	freeEventsTime = 400 * time.Millisecond
	// freeMultisTime is freeExpenseTime beside other multis of as many changes as one may have. Three members on two processors apply
	// each of them at the same time, so others wait for two applies: 20 to 155 ms at p99.
	freeMultisTime = 250 * time.Millisecond
	// freeBytesTime is freeExpenseTime beside requests of 32 MB in each second.
	freeBytesTime = 250 * time.Millisecond
	// worstAttempt bounds their wait in an attempt that does not count, as a multiple of that. Another process may keep
	// the machine busy for a moment, but a member that hangs does so in any attempt.
	worstAttempt = 5
)

// besieged are three members with limits, and the others, during one attack.
type besieged struct {
	*process.Ensemble
	others *others
	done   atomic.Int64 // requests of the attackers that were answered, or connections that they have used up
}

// expense is an attack by requests that cost as much as the bounds allow.
type expense struct {
	name  string
	fills bool // memory up to memoryLimit: there is no dataQuota
	begin func(t *testing.T, b *besieged)
	run   func(ctx context.Context, b *besieged) // until ctx ends
	least int64                                  // of besieged.done, in an attempt; with less there was no attack
	free  time.Duration                          // how long others may wait at p99 in any case; 0: freeExpenseTime
	again bool                                   // it is played a second time after the restart, because it leaves nothing in the log
}

// besiege runs an attack. The others continue to write and read, and no member has more memory than its limit allows.
// Then all members are killed, and serve again from the logs that the attack has left.
func besiege(t *testing.T, a expense) {
	lines := fmt.Sprintf("memoryLimit=%dM\nmaxClientCnxns=0\n%s", expenseLimit>>20, process.AnyHTTP)
	if !a.fills {
		lines += fmt.Sprintf("dataQuota=%dM\n", expenseQuota>>20)
	}
	e, o := startMembers(t, expenseCollect, lines)
	b := &besieged{Ensemble: e, others: o}
	b.confine(t)
	if a.begin != nil {
		a.begin(t, b)
	}
	b.judge(t, a)
	for _, m := range e.Members {
		if peak := peakMemory(t, m); peak > expenseResident {
			t.Errorf("member %d had %d MiB in memory, want at most %d", m.ID, peak>>20, expenseResident>>20)
		}
	}
	e.KillAll()
	for _, m := range e.Members {
		e.Start(m)
	}
	b.confine(t)
	began := time.Now()
	e.Settle()
	t.Logf("after all members were killed, they serve after %v", time.Since(began))
	for _, m := range e.Members {
		checkProbe(t, m)
	}
	o.comeBack(t)
	if a.again {
		a.begin(t, b)
		b.judge(t, a)
	}
}

// confine limits the memory that the members' processes can get.
func (b *besieged) confine(t *testing.T) {
	t.Helper()
	limit := unix.Rlimit{Cur: expenseData, Max: expenseData}
	for _, m := range b.Members {
		if err := unix.Prlimit(m.Process.Cmd.Process.Pid, unix.RLIMIT_DATA, &limit, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// checkProbe checks a member's probe.
func checkProbe(t *testing.T, m *process.Member) {
	t.Helper()
	addr, err := m.HTTP()
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Timeout: process.Patience}
	res, err := client.Get("http://" + addr + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("member %d: livez: %s, %s, %v", m.ID, res.Status, text, err)
	}
}

// judge measures the others before the attack and during it.
func (b *besieged) judge(t *testing.T, a expense) {
	t.Helper()
	retry(t, func() verdict {
		calm := max(b.others.write(t, expenseCalm).p99(t, "while calm"), leastP99)
		most := max(mostExpenseRatio*calm, cmp.Or(a.free, freeExpenseTime))
		b.done.Store(0)
		ctx, cancel := context.WithCancel(t.Context())
		var attacking sync.WaitGroup
		attacking.Go(func() { a.run(ctx, b) })
		beside := b.others.write(t, expenseTime)
		cancel()
		attacking.Wait()
		p99, longest := beside.p99(t, "beside "+a.name), beside.longest()
		t.Logf("%d requests of attackers; others wait %v at p99, at most %v allowed, and %v at most", b.done.Load(), p99, most, longest)
		if done := b.done.Load(); done < a.least {
			return verdict{wrong: fmt.Sprintf("the attackers got through %d times, want at least %d", done, a.least)}
		}
		if p99 <= most && longest <= mostWait {
			return verdict{}
		}
		return verdict{
			wrong: fmt.Sprintf("others wait %v at p99 beside %s, want at most %v; %v at most, want %v", p99, a.name, most, longest, mostWait),
			final: p99 > worstAttempt*most || longest > worstAttempt*mostWait,
		}
	})
}

// attackers runs as many attackers until ctx ends, each with a session on one of the members.
func (b *besieged) attackers(ctx context.Context, n int, attack func(ctx context.Context, i int, c *wire.Conn) error) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for ctx.Err() == nil {
				if c, ok := openAttacker(ctx, b.Members[i%len(b.Members)]); ok {
					_ = attack(ctx, i, c) // ends with the connection, at the latest when ctx ends
					_ = c.Close()
				}
				pause(ctx, expensePause)
			}
		})
	}
	all.Wait()
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// openAttacker opens a session on a connection that is closed when ctx ends.
func openAttacker(ctx context.Context, m *process.Member) (*wire.Conn, bool) {
	sock, err := dialFrom(ctx, m, expenseFrom)
	if err != nil {
		return nil, false
	}
	context.AfterFunc(ctx, func() { _ = sock.Close() })
	c := wire.New(sock)
	if _, err := c.Open(othersTimeout); err != nil {
		_ = sock.Close()
		return nil, false
	}
	return c, true
}

// request sends one request and returns the code of its reply. Events that come before it are dropped.
func request(c *wire.Conn, op jute.Op, rec wire.Record) (jute.Code, error) {
	reply, _, err := c.Call(1, op, rec)
	return reply.Err, err
}

// bursts sends so many frames at once, reads their replies, and rests, until ctx ends.
func (b *besieged) bursts(ctx context.Context, c *wire.Conn, n int, frame func(i int) []byte) error {
	for first := 0; ; first += n {
		var burst []byte
		for i := range n {
			burst = appendFrame(burst, frame(first+i))
		}
		sent := make(chan error, 1)
		go func() { // beside the replies, which the member would otherwise have to keep
			_, err := c.Write(burst)
			sent <- err
		}()
		for range n {
			if err := b.reply(c); err != nil {
				_ = c.Close()
				return errors.Join(err, <-sent)
			}
		}
		if err := <-sent; err != nil {
			return err
		}
		pause(ctx, expensePause)
	}
}

// reply reads frames up to the next reply.
func (b *besieged) reply(c *wire.Conn) error {
	for {
		switch r, err := c.Recv(); {
		case err != nil:
			return err
		case r.Xid != jute.XidNotification:
			b.done.Add(1)
			return nil
		}
	}
}
