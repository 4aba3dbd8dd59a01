package power

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// survival checks the disk that an outage leaves after so many changes.
type survival func(place int, v *volume, o *outage) error

// eachPlace calls do for the disk after each of the changes, until it returns false.
func eachPlace(changes []change, do func(place int, v *volume) bool) {
	v := &volume{}
	for i, c := range changes {
		v.apply(c, i)
		if !do(i+1, v) {
			return
		}
	}
}

// losesPowerEverywhere takes the power after each of the changes, so many times, and returns the number of outages.
// ROLLCALL_OUTAGES is about their total.
func losesPowerEverywhere(t *testing.T, changes []change, times int, survives survival) (tried int) {
	t.Helper()
	first := process.Setting(t, "ROLLCALL_FIRST", 0, 0)
	times = max(times, process.Setting(t, "ROLLCALL_OUTAGES", 1, 1)/len(changes))
	eachPlace(changes, func(place int, v *volume) bool {
		for i := range times {
			tried++
			o := newOutage(uint64(first+place*times+i), place)
			if err := survives(place, v, o); err != nil {
				t.Errorf("power was lost after change %d of %d, and the disk %v: %v", place, len(changes), o, err)
			}
		}
		return !t.Failed()
	})
	return tried
}

// outages returns the number of outages of a test: ROLLCALL_OUTAGES, or usual ones, or twice as many in the nightly
// form.
func outages(t *testing.T, usual int) int {
	t.Helper()
	return process.Setting(t, "ROLLCALL_OUTAGES", 1, needs.Amount(usual, usual, 2*usual))
}

// onDisk writes the files that an outage leaves to a directory, checks them with judge, and removes it.
func onDisk(t *testing.T, v *volume, o *outage, judge func(dir string) error) error {
	t.Helper()
	dir, err := os.MkdirTemp(memory(), "rollcall-power-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := v.cut(o).put(dir, v.root); err != nil {
		t.Fatal(err)
	}
	return judge(dir)
}

// nearby is the number of places that are tried before each sync that follows one that is left out, and how often the last of
// them is tried when each other one is tried once.
const nearby = 12

// without leaves some syncs out of the changes. It returns the number of tries at each place before the next sync of the
// same file, or before the end. At the last of these places the most changes rely on the sync. It may also be a single
// change just before that relies on it, such as the name of a new segment, so that place alone decides.
func without(changes []change, syncs []int) (left []change, often map[int]int) {
	left, often = slices.Clone(changes), map[int]int{}
	for _, at := range syncs {
		left[at] = change{disk: changes[at].disk, kind: nothing}
		end := at + 1
		for end < len(changes) && (changes[end].kind != sync || changes[end].on != changes[at].on) {
			end++
		}
		for place := max(at+1, end-nearby); place < end; place++ {
			often[place] = max(often[place], 1)
		}
		often[end] = nearby
	}
	return left, often
}

// againstCopies is the sync of a start that a loss of power does not need: without it, a log that is put back from a copy after
// that may be believed. A start must make it all the same.
const againstCopies = "data/rollcall/log.durable"

// needsSyncs leaves one class of sync out, each class at a time. Then a loss of power must do harm.
func needsSyncs(t *testing.T, changes []change, syncs map[string][]int, want []string, survives survival) {
	t.Helper()
	if got := sortedKeys(syncs); !slices.Equal(got, want) {
		t.Fatalf("the syncs are of %q, want %q; one that is missing has been removed, and a new one must be listed", got, want)
	}
	for _, class := range want {
		if class == againstCopies {
			continue
		}
		left, often := without(changes, syncs[class])
		rng, tried, harm := rand.New(rand.NewPCG(1, 4)), 0, error(nil)
		for round := 0; harm == nil && round < tries/nearby; round++ {
			eachPlace(left, func(place int, v *volume) bool {
				for n := 0; harm == nil && n < often[place]; n++ {
					tried++
					harm = survives(place, v, newOutage(rng.Uint64(), place))
				}
				return harm == nil
			})
		}
		if harm == nil {
			t.Errorf("without the %d syncs of %s, %d outages did no harm", len(syncs[class]), class, tried)
		} else if os.Getenv("ROLLCALL_LOG") != "" {
			t.Logf("%s, %d times; without it, outage %d: %v", class, len(syncs[class]), tried, harm)
		}
	}
}
