package schedules

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/needs"
	"rollcall/lab/checker"
	"rollcall/lab/process"
	"rollcall/rollcalltest"
)

// recipes are all recipes under test.
func recipes() []recipe {
	return []recipe{
		mutexRecipe(), kazooRecipe(), readWriteRecipe(), semaphoreRecipe(), multiRecipe(), revocableRecipe(),
		counterRecipe("counter", false), counterRecipe("counter-without-receipts", true),
		barrierRecipe(), doubleRecipe(), presenceRecipe(), partitionRecipe(),
		queueRecipe(), electionRecipe("election", false), electionRecipe("hand-over", true),
	}
}

// schedules is the number of random schedules, and of schedules with one fault. ROLLCALL_SCHEDULES sets another number.
func schedules() int { return needs.Amount(30, 60, 500) }

// Random faults at random requests of several clients. A failed schedule prints its faults and how to repeat it.
// ROLLCALL_SEED runs one seed only, and ROLLCALL_FIRST names the first of ROLLCALL_SCHEDULES seeds.
func TestRandomFaults(t *testing.T) {
	all := recipes()
	for _, seed := range seedsToRun(t) {
		rng := rand.New(rand.NewPCG(seed, 1))
		clients, members := 2+rng.IntN(5), 1
		if rng.IntN(4) == 0 {
			members = 3
		}
		r := all[seed%uint64(len(all))]
		p := randomPlan(rng, clients)
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			repeat(t, fmt.Sprintf("ROLLCALL_SEED=%d", seed))
			playVirtual(t, r, seed, clients, members, p)
		})
	}
}

// repeat prints the command that repeats a failed schedule.
func repeat(t *testing.T, environment string) {
	name, _, _ := strings.Cut(t.Name(), "/")
	if strings.Contains(environment, "SCHEDULES") {
		name = t.Name()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("to repeat it, as often as it takes: %s go test -count=20 -failfast -run '^%s$' ./integration/recipes/schedules",
				environment, name)
		}
	})
}

// These are the lengths of single faults that take time: less than a session's timeout, and more.
var lengths = []time.Duration{time.Second, sessionTimeout * 3 / 2}

// single is a schedule with one fault.
type single struct {
	recipe recipe
	fault  fault
}

// singles returns the schedules with a fault of one of the kinds at each request of each client, for each recipe.
func singles(t *testing.T, kinds ...faultKind) (cases []single) {
	t.Helper()
	for _, r := range recipes() {
		for client, requests := range undisturbed(t, r) {
			for request := 1; request <= requests; request++ {
				for _, kind := range kinds {
					n := 1
					if kind.takesTime() {
						n = len(lengths)
					}
					for _, length := range lengths[:n] {
						cases = append(cases, single{r, fault{client + 1, request, kind, length}})
					}
				}
			}
		}
	}
	return cases
}

func (c single) play(t *testing.T, environment string) {
	t.Run(strings.ReplaceAll(fmt.Sprintf("%s %v", c.recipe.name, c.fault), " ", "-"), func(t *testing.T) {
		t.Parallel()
		repeat(t, environment)
		playVirtual(t, c.recipe, singleSeed, singleClients, 1, plan{c.fault})
	})
}

// One fault, at each request of each of two clients in turn, for each recipe. ROLLCALL_SCHEDULES limits the number of these
// schedules, and ROLLCALL_FIRST chooses others then.
func TestSingleFaults(t *testing.T) {
	cases := singles(t, faultKinds...)
	n := min(process.Setting(t, "ROLLCALL_SCHEDULES", 1, schedules()), len(cases))
	first := process.Setting(t, "ROLLCALL_FIRST", 0, 0)
	for i := range n {
		cases[(i*len(cases)/n+first)%len(cases)].play(t, fmt.Sprintf("ROLLCALL_SCHEDULES=%d", len(cases)))
	}
	fmt.Printf("%d of %d schedules with a single fault\n", n, len(cases))
}

// The faults on which the promises depend most, at each request: the reply is lost, and a request comes late, after an
// operator has deleted a node. With -short, these are some of the requests.
func TestLostAndLate(t *testing.T) {
	step := 1
	if testing.Short() {
		step = shortStep
	}
	cases := singles(t, loseReply, lateDelete)
	for i := 0; i < len(cases); i += step {
		cases[i].play(t, "ROLLCALL_SCHEDULES=1")
	}
}

// shortStep leaves out most schedules with -short, and no kind of fault.
const shortStep = 7

// These are the seed, which decides on what the clients do, and the number of clients of a schedule with a single fault.
const singleSeed, singleClients = 3, 2

// undisturbed runs a recipe without faults, and returns the number of requests of each client.
func undisturbed(t *testing.T, r recipe) (requests []int) {
	t.Helper()
	w := playVirtual(t, r, singleSeed, singleClients, 1, nil)
	for _, a := range w.actors {
		requests = append(requests, a.requests)
	}
	return requests
}

// Each release wakes one of many clients that wait.
func TestOneWakePerRelease(t *testing.T) {
	const clients = 30
	for _, r := range recipes() {
		if !r.wakesOne {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			r.rounds, r.patient = 1, true
			w := playVirtual(t, r, singleSeed, clients, 1, nil)
			for _, v := range checker.Wakes(w.history) {
				t.Error(v)
			}
		})
	}
}

// seedsToRun returns the seeds of the random schedules.
func seedsToRun(t *testing.T) []uint64 {
	t.Helper()
	if seed := process.Setting(t, "ROLLCALL_SEED", 0, -1); seed >= 0 {
		return []uint64{uint64(seed)}
	}
	first := uint64(process.Setting(t, "ROLLCALL_FIRST", 0, 0))
	seeds := make([]uint64, process.Setting(t, "ROLLCALL_SCHEDULES", 1, schedules()))
	for i := range seeds {
		seeds[i] = first + uint64(i)
	}
	return seeds
}

// playVirtual runs a schedule in virtual time and checks it.
func playVirtual(t *testing.T, r recipe, seed uint64, clients, members int, p plan) (w *world) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s, seed %d, %d clients, %d servers; faults:\n%v", r.name, seed, clients, members, p)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		e := rollcalltest.StartEnsembleWith(t, members, rollcalltest.Config{Pipes: true})
		w = newWorld(t.Context(), virtual{e}, seed, clients, slices.Clone(p))
		report(t, w, w.runSchedule(r))
	})
	return w
}

// mostViolations limits the violations that a failed schedule prints. The samples repeat them.
const mostViolations = 5

// report fails the test if the schedule could not run, or broke a rule.
func report(t *testing.T, w *world, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
	violations := checker.Check(w.history)
	if err != nil { // what the servers have in the end was not read
		violations = slices.DeleteFunc(violations, func(v checker.Violation) bool { return v.Rule != checker.Waiters })
	}
	for _, v := range violations[:min(len(violations), mostViolations)] {
		t.Error(v)
	}
	if err == nil && len(violations) == 0 {
		return
	}
	var lines strings.Builder
	for _, e := range w.history.Events {
		if e.Kind != checker.Sample {
			fmt.Fprintln(&lines, e)
		}
	}
	t.Logf("the history, without samples:\n%s", &lines)
}
