package crowd

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"rollcall/sessiontracker"
	"rollcall/znode"
)

// sessionsByDefault are enough for each part of the measurement to have something to do.
const sessionsByDefault = 1500

// TestCrowd measures an ensemble with five voters, ten observers, a tick of 2 s, and many sessions with a timeout of 10 s, spread evenly.
// It checks with few sessions that the measurement works, and with many it is a benchmark: package testing has none in virtual
// time. The docs page sizing.md has the results.
//
//	ROLLCALL_SESSIONS=1000,10000    numbers of sessions; default: 1500; a million takes 7 GiB, with GOGC=50 and GOMEMLIMIT=7GiB
//	ROLLCALL_TABLE=FILE             writes the figures into a file, as rows of a table, with formulas
//	ROLLCALL_PROFILES=DIR           keeps the profiles of the processor time, whose label member tells the members apart
//
// These parts are real:
//
//   - Members with raft, gRPC and all of their goroutines. A profile shows the processor time of each member.
//   - The way of a session into the state: a member draws its id and submits the transaction. The leader makes entries of them, raft
//     replicates these, each member applies them, and the session's member gets its lease.
//   - The way of a renewal: a member notes that it has heard a session, as it does for each request (Follower.Touch), once in a third
//     of the timeout. The reply to a ping carries that to the leader, whose table it changes. The acknowledgement renews the lease.
//   - The expiry of a lost member's sessions, and the change of leader, with the table and the silences.
//
// These parts are left out:
//
//   - Connections of clients and their requests: a function calls the member as a connection would. So a session has no memory
//     of a connection here, and the processor time of the clients' pings is not counted.
//   - The clients of a lost member, which would resume their sessions at others. Here all of these sessions expire.
//   - Disks and links: both are in memory, take no time, and their work counts for the member that calls them.
//   - The effects of slow work. Work takes no virtual time, so a busy member causes no election.
//   - Processor time that no member's goroutine has spent: the garbage collector's and the test's own.
func TestCrowd(t *testing.T) {
	p, stop := newProfiler()
	defer stop()
	var all []figures
	for _, n := range sessionNumbers(t) {
		t.Run(fmt.Sprintf("sessions=%d", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { all = append(all, measure(t, p, n)) })
		})
		runtime.GC() // the members of the run before
	}
	printTable(t, all)
}

func sessionNumbers(t *testing.T) (numbers []int) {
	for text := range strings.SplitSeq(cmp.Or(os.Getenv("ROLLCALL_SESSIONS"), strconv.Itoa(sessionsByDefault)), ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < members {
			t.Fatalf("ROLLCALL_SESSIONS: %q is not a number from %d", text, members)
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// figures are the results for a number of sessions. Times are processor time, unless they are said to be virtual.
type figures struct {
	sessions int
	spent    time.Duration // of the leader, in all that was measured before it was lost

	idle          time.Duration // of the leader in half a tick, without sessions
	idleMember    time.Duration // of another member, on average
	idleBytes     int64         // that the leader gets in half a tick
	opening       time.Duration // of the leader, for all sessions
	openedBytes   int64         // of the log, to all others
	moved         int           // sessions that move to another member at once
	resuming      time.Duration // of the leader, for these
	resumingOther time.Duration // of another member, on average
	resumedBytes  int64         // of the log, to all others
	leaderPing    time.Duration // of the leader in half a tick
	memberPing    time.Duration // of another member in half a tick, on average
	restPing      time.Duration // of nobody in half a tick: collector and clients
	pongBytes     int64         // that the leader gets in half a tick
	pingBytes     int64         // that it sends
	tableBytes    int64
	tableTime     time.Duration // making the table of a new leader
	snapshotBytes int64
	snapshotCopy  time.Duration // under the tree's lock
	snapshotTime  time.Duration // writing it
	restoreTime   time.Duration
	lost          int           // sessions of the lost member
	expiry        time.Duration // of the leader, for these
	expiryOther   time.Duration // of another member, on average
	expiryEntries int64
	expiryBytes   int64         // of the log, to all others
	changeTime    time.Duration // of the new leader until a tick after it serves, more than without sessions
	changeOther   time.Duration // of another member, on average, likewise
	changeBytes   int64         // of the replies to the new leader's pings, likewise
}

// measure opens n sessions and takes the figures.
func measure(t *testing.T, p *profiler, n int) figures {
	f := figures{sessions: n}
	s := newScene(t, p)
	defer func() {
		close(s.stopped)
		s.clients.Wait()
	}()
	leader := s.e.Leader()
	leads := func() uint32 { return leader }

	idle := s.during("idle", leads, func() { time.Sleep(s.steadyTime(n)) })
	f.idle, f.idleMember = perHalfTick(idle, idle.costOf(leader)), perHalfTick(idle, idle.costOfOthers(leader))
	f.idleBytes = int64(float64(idle.received) / idle.halfTicks())

	opened := s.during("open", leads, func() { s.open(n) })
	f.opening, f.openedBytes = more(opened, opened.costOf(leader), f.idle), opened.logged
	s.checkAlive(n)

	time.Sleep(2 * tick) // a reply has come after every session was touched
	usual := s.during("pings", leads, func() { time.Sleep(s.steadyTime(n)) })
	f.leaderPing, f.memberPing = perHalfTick(usual, usual.costOf(leader)), perHalfTick(usual, usual.costOfOthers(leader))
	f.restPing = perHalfTick(usual, usual.costs[""])
	f.pongBytes, f.pingBytes = int64(float64(usual.received)/usual.halfTicks()), int64(float64(usual.sent)/usual.halfTicks())
	s.checkAlive(n)

	synctest.Wait()
	state := s.e.Member(leader).State()
	f.tableBytes, f.tableTime = measureTable(t, state, n)
	f.measureSnapshot(t, state)

	resumed := s.during("resume", leads, func() { f.moved = s.resume() })
	f.resuming, f.resumingOther = more(resumed, resumed.costOf(leader), f.idle), more(resumed, resumed.costOfOthers(leader), f.idleMember)
	f.resumedBytes = resumed.logged
	s.checkAlive(n)
	f.spent = idle.costOf(leader) + opened.costOf(leader) + usual.costOf(leader) + resumed.costOf(leader)

	s.measureExpiry(&f, leader)
	s.measureChange(&f, leader)
	f.check(t)
	return f
}

// check checks roughly the figures that do not depend on chance or on the machine.
func (f *figures) check(t *testing.T) {
	t.Helper()
	n := float64(f.sessions)
	others := n * (members - 1) / members // sessions that the leader's clients do not have
	for _, c := range []struct {
		what        string
		got         float64
		least, most float64
	}{
		{"bytes of a renewal", float64(f.pongBytes-f.idleBytes) / (others * float64(halfTick) / float64(touchEvery)), 10, 40},
		{"bytes of a session in the table", float64(f.tableBytes) / n, 30, 300},
		{"bytes of a session in a snapshot", float64(f.snapshotBytes) / n, 50, 150},
		{"bytes of an opened session in the log, for each member", float64(f.openedBytes) / n / (members - 1), 50, 150},
		{"bytes of a resumed session in the log, for each member", float64(f.resumedBytes) / float64(f.moved) / (members - 1), 50, 150},
		{"ends of sessions in an entry", float64(f.lost) / float64(f.expiryEntries), 8, 32},
		{"bytes of silences for each session", float64(f.changeBytes) / n, 8, 200},
	} {
		if c.got < c.least || c.got > c.most {
			t.Errorf("%d sessions: %s: %.1f, want %.0f to %.0f", f.sessions, c.what, c.got, c.least, c.most)
		}
	}
	if f.spent == 0 {
		t.Error("the profiles show no processor time of the leader")
	}
}

// steadyTime returns a virtual time in which the leader's pings take some hundred samples. The test's form needs none.
func (s *scene) steadyTime(n int) time.Duration {
	if n <= sessionsByDefault && os.Getenv("ROLLCALL_SESSIONS") == "" {
		return 2 * tick
	}
	return tick * time.Duration(min(400, max(20, 5_000_000/n)))
}

func perHalfTick(p span, cost time.Duration) time.Duration {
	return time.Duration(float64(cost) / p.halfTicks())
}

// more returns the part of a cost above the usual one.
func more(p span, cost, usual time.Duration) time.Duration {
	return max(0, cost-time.Duration(float64(usual)*p.halfTicks()))
}

// checkAlive checks that n sessions live at each running member, and that the members of the clients may speak for them.
func (s *scene) checkAlive(n int) {
	s.t.Helper()
	vouched := 0
	for id := uint32(1); id <= members; id++ {
		if !s.e.Running(id) {
			continue
		}
		if got := s.sessionCount(id); got != n {
			s.t.Fatalf("member %d has %d sessions, want %d", id, got, n)
		}
		vouched += s.crowds[id].vouched()
	}
	if vouched != n {
		s.t.Fatalf("%d of %d sessions have a valid lease", vouched, n)
	}
}

// measureTable makes a leader's table from the replicated sessions, as a new leader does.
func measureTable(t *testing.T, state *znode.State, n int) (size int64, took time.Duration) {
	state.RLock()
	defer state.RUnlock()
	var table *sessiontracker.GlobalTable
	before := heapInUse()
	took = threadTime(t, func() {
		table = sessiontracker.NewGlobalTable(time.Now(), tick, func(yield func(sessiontracker.TrackedSession) bool) {
			for s := range state.Sessions(0) {
				if !yield(sessiontracker.TrackedSession{ID: s.ID, Timeout: s.Timeout, OwnerMember: s.Owner.Member, OwnerIndex: s.OwnerIndex}) {
					return
				}
			}
		})
	})
	size = heapInUse() - before
	if got := table.Len(); got != n {
		t.Fatalf("%d sessions in the table, want %d", got, n)
	}
	return size, took
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // what the first one has found to be garbage is freed
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// threadTime returns the processor time of do, which must run on this goroutine alone. The collector's is not counted.
func threadTime(t *testing.T, do func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	at := func() time.Duration {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
			t.Fatal(err)
		}
		return time.Duration(now.Nano())
	}
	begun := at()
	do()
	return at() - begun
}

func (f *figures) measureSnapshot(t *testing.T, state *znode.State) {
	var image *znode.Snapshot
	state.RLock()
	f.snapshotCopy = threadTime(t, func() { image = state.Snapshot() })
	state.RUnlock()
	var file bytes.Buffer
	f.snapshotTime = threadTime(t, func() {
		if _, err := image.WriteTo(&file); err != nil {
			t.Fatal(err)
		}
	})
	f.snapshotBytes = int64(file.Len())
	restored := znode.New(znode.Config{})
	f.restoreTime = threadTime(t, func() {
		if err := restored.RestoreSnapshot(&file); err != nil {
			t.Fatal(err)
		}
	})
	if got := restored.SessionCount(); got != f.sessions {
		t.Fatalf("%d sessions in the snapshot, want %d", got, f.sessions)
	}
}

// measureExpiry loses an observer with its clients.
func (s *scene) measureExpiry(f *figures, leader uint32) {
	const observer = members
	f.lost = len(s.crowds[observer].leave())
	s.e.Kill(observer)
	ending := s.during("expiry", func() uint32 { return leader }, func() {
		s.e.Wait("the lost member's sessions to end", 2*timeout, func() bool { return s.sessionCount(leader) == f.sessions-f.lost })
		s.e.Equal()
	})
	if ending.ends != int64(f.lost) {
		s.t.Fatalf("%d sessions have ended, want %d", ending.ends, f.lost)
	}
	f.expiry = more(ending, ending.costOf(leader), f.leaderPing)
	f.expiryOther = more(ending, ending.costOfOthers(leader, observer), f.memberPing)
	f.expiryEntries, f.expiryBytes = ending.entries, ending.logged
	s.checkAlive(f.sessions - f.lost)
}

// measureChange loses the leader with its clients. The other clients rest meanwhile, so that the replies to the new leader's pings have
// silences and no touches.
func (s *scene) measureChange(f *figures, old uint32) {
	lost := len(s.crowds[old].leave())
	s.restAll(true)
	time.Sleep(tick) // until all touches are acknowledged
	var next uint32
	change := s.during("change", func() uint32 { return next }, func() {
		s.e.Kill(old) // takes a tick, in which the others elect
		next = s.e.Leader()
		time.Sleep(tick)
		synctest.Wait()
	})
	s.restAll(false)
	f.changeTime = more(change, change.costOf(next), f.idle)
	f.changeOther = more(change, change.costOfOthers(next, old, members), f.idleMember)
	f.changeBytes = max(0, change.received-int64(float64(f.idleBytes)*change.halfTicks()))
	left := f.sessions - f.lost - lost
	s.e.Wait("the old leader's sessions to end", 3*timeout, func() bool { return s.sessionCount(next) == left })
	s.e.Equal()
	s.checkAlive(left)
}

// column is a column of the table.
type column struct {
	name  string
	unit  float64
	value func(f *figures) float64
}

const (
	ms  = float64(time.Millisecond)
	kib = 1024.0
)

var columns = []column{
	{"leader, ms in half a tick", ms, func(f *figures) float64 { return float64(f.leaderPing) }},
	{"another member, ms in half a tick", ms, func(f *figures) float64 { return float64(f.memberPing) }},
	{"replies to one ping, all members, KiB", kib, func(f *figures) float64 { return float64(f.pongBytes) }},
	{"reply of one member, KiB", kib * (members - 1), func(f *figures) float64 { return float64(f.pongBytes) }},
	{"one ping to all members, KiB", kib, func(f *figures) float64 { return float64(f.pingBytes) }},
	{"leader's table, KiB", kib, func(f *figures) float64 { return float64(f.tableBytes) }},
	{"making the table, ms", ms, func(f *figures) float64 { return float64(f.tableTime) }},
	{"snapshot, KiB", kib, func(f *figures) float64 { return float64(f.snapshotBytes) }},
	{"copying the state for it, ms", ms, func(f *figures) float64 { return float64(f.snapshotCopy) }},
	{"writing it, ms", ms, func(f *figures) float64 { return float64(f.snapshotTime) }},
	{"reading it, ms", ms, func(f *figures) float64 { return float64(f.restoreTime) }},
	{"change of leader: the new one, ms", ms, func(f *figures) float64 { return float64(f.changeTime) }},
	{"another member, ms", ms, func(f *figures) float64 { return float64(f.changeOther) }},
	{"silences of all members, KiB", kib, func(f *figures) float64 { return float64(f.changeBytes) }},
	{"lost member: its sessions", 1, func(f *figures) float64 { return float64(f.lost) }},
	{"leader, ms", ms, func(f *figures) float64 { return float64(f.expiry) }},
	{"another member, ms", ms, func(f *figures) float64 { return float64(f.expiryOther) }},
	{"entries", 1, func(f *figures) float64 { return float64(f.expiryEntries) }},
	{"log to all members, KiB", kib, func(f *figures) float64 { return float64(f.expiryBytes) }},
	{"resumed at once: sessions", 1, func(f *figures) float64 { return float64(f.moved) }},
	{"leader, ms", ms, func(f *figures) float64 { return float64(f.resuming) }},
	{"another member, ms", ms, func(f *figures) float64 { return float64(f.resumingOther) }},
	{"log to all members, KiB", kib, func(f *figures) float64 { return float64(f.resumedBytes) }},
	{"all opened at once: leader, ms", ms, func(f *figures) float64 { return float64(f.opening) }},
	{"log to all members, KiB", kib, func(f *figures) float64 { return float64(f.openedBytes) }},
	{"collector and clients, ms in half a tick", ms, func(f *figures) float64 { return float64(f.restPing) }},
}

// printTable logs the figures, and writes them into the file that ROLLCALL_TABLE names: a row for each column, and a formula through the
// first and the last number of sessions.
func printTable(t *testing.T, all []figures) {
	if t.Failed() || len(all) == 0 {
		return
	}
	slices.SortFunc(all, func(a, b figures) int { return a.sessions - b.sessions })
	var b strings.Builder
	b.WriteString("| |")
	for _, f := range all {
		fmt.Fprintf(&b, " %s |", withCommas(strconv.Itoa(f.sessions)))
	}
	b.WriteString(" n million |\n|---|" + strings.Repeat("---|", len(all)+1) + "\n")
	for _, c := range columns {
		fmt.Fprintf(&b, "| %s |", c.name)
		for _, f := range all {
			fmt.Fprintf(&b, " %s |", threeDigits(c.value(&f)/c.unit))
		}
		first, last := &all[0], &all[len(all)-1]
		slope := 0.0
		if len(all) > 1 {
			slope = (c.value(last) - c.value(first)) / float64(last.sessions-first.sessions)
		}
		base := c.value(first) - slope*float64(first.sessions)
		fmt.Fprintf(&b, " %s + %s n |\n", threeDigits(max(0, base)/c.unit), threeDigits(slope*1e6/c.unit))
	}
	t.Log("\n" + b.String())
	if path := os.Getenv("ROLLCALL_TABLE"); path != "" {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// threeDigits returns a number with three digits that count, and with commas from 1,000 on.
func threeDigits(x float64) string {
	if x < 1000 {
		return strconv.FormatFloat(x, 'g', 3, 64)
	}
	unit := math.Pow(10, math.Floor(math.Log10(x))-2)
	return withCommas(strconv.FormatFloat(math.Round(x/unit)*unit, 'f', 0, 64))
}

func withCommas(digits string) string {
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
