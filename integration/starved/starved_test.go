package starved

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rollcall/lab/process"
	"rollcall/operator/api"
)

// lowestPriority is the nice value of members that run only when no other process wants to.
const lowestPriority = 19

// start starts three members with failover at its default, and waits until each of them may lead.
func start(t *testing.T) *process.Ensemble {
	t.Helper()
	e := process.StartEnsemble(t, process.Config{Binary: rollcall, Size: 3, Tick: 2 * time.Second, Lines: process.AnyHTTP, Patience: time.Minute})
	err := process.Until(t.Context(), "all members vote and follow one leader, as each of them says", func() bool {
		return !slices.ContainsFunc(e.Members, func(m *process.Member) bool { return !sawAllVote(m) })
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// sawAllVote reports whether a member knows that all three have a vote, and serve.
func sawAllVote(m *process.Member) bool {
	addr, err := m.HTTP()
	if err != nil {
		return false
	}
	reply, err := (&http.Client{Timeout: process.Patience}).Get("http://" + addr + "/v1/members")
	if err != nil {
		return false
	}
	defer reply.Body.Close()
	var members api.Members
	if json.NewDecoder(reply.Body).Decode(&members) != nil {
		return false
	}
	ready := 0
	for _, s := range members.Items {
		if s.IsVoter && (s.State == "leader" || s.State == "follower") {
			ready++
		}
	}
	return ready == 3 && members.IsSettled
}

// elections returns the number of lines about an election that the members have logged.
func elections(t *testing.T, e *process.Ensemble) (n int) {
	t.Helper()
	for _, m := range e.Members {
		log, err := os.ReadFile(m.Log)
		if err != nil {
			t.Fatal(err)
		}
		n += strings.Count(string(log), "leader elected")
	}
	return n
}

// The leader's process stops for 250 to 380 ms, again and again, and each time continues before the time after which it would
// be replaced. It stays the leader, although all that the others have sent lies unread in its sockets when it continues.
func TestLeaderStopsForAMoment(t *testing.T) {
	stops := process.Setting(t, "STARVED_STOPS", 1, 60)
	e := start(t)
	before := elections(t, e)
	for range stops {
		leader := e.Settle()
		if err := leader.Process.Stop(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(250*time.Millisecond + rand.N(130*time.Millisecond))
		if err := leader.Process.Continue(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500*time.Millisecond + rand.N(500*time.Millisecond))
	}
	changes := elections(t, e) - before
	t.Logf("%d changes of the leader in %d stops of 250 to 380 ms", changes, stops)
	if changes > 0 {
		t.Errorf("%d changes of the leader, want none", changes)
	}
}

// All members run at the lowest priority beside busy loops. None of them fails, and the leader stays.
func TestBesideBusyLoops(t *testing.T) {
	seconds := process.Setting(t, "STARVED_SECONDS", 1, 150)
	loops := process.Setting(t, "STARVED_LOOPS", 1, 30)
	e := start(t)
	for _, m := range e.Members {
		lower(t, m.Process.Cmd.Process.Pid)
	}
	before := elections(t, e)
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	for i := range loops {
		loop := exec.Command("timeout", fmt.Sprint(seconds), "sh", "-c", "while :; do :; done")
		process.Start(t, fmt.Sprintf("busy loop %d", i), loop, func() string { return "" }).Forgive()
	}
	time.Sleep(time.Until(end))
	changes := elections(t, e) - before
	t.Logf("%d changes of the leader in %d s beside %d busy loops", changes, seconds, loops)
	if changes > 0 {
		t.Errorf("%d changes of the leader, want none", changes)
	}
}

// lower gives the lowest priority to all threads of a process. Later threads inherit it from the thread that starts
// them.
func lower(t *testing.T, pid int) {
	t.Helper()
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range threads {
		var id int
		if _, err := fmt.Sscan(one.Name(), &id); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Setpriority(syscall.PRIO_PROCESS, id, lowestPriority); err != nil {
			t.Fatal(err)
		}
	}
}
