package peers

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// beside is the number of parts of a suite that run at a time: they wait most of their time.
const beside = 3

// inParts runs the parts of a suite, each with its own part of the outcomes, and returns these together, and what was printed.
func inParts(parts []string, play func(part string) (map[string]outcome, string)) (map[string]outcome, string) {
	var mu sync.Mutex
	var group sync.WaitGroup
	outcomes, printed, places := map[string]outcome{}, "", make(chan struct{}, beside)
	for _, part := range parts {
		group.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			own, out := play(part)
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(outcomes, own)
			if slices.Contains(slices.Collect(maps.Values(own)), failed) {
				printed += fmt.Sprintf("%s:\n%s\n", part, tail([]byte(out)))
			}
		})
	}
	group.Wait()
	return outcomes, printed
}

// partsOf returns the parts that have these tests, or all.
func partsOf(all, tests []string) []string {
	if len(tests) == 0 {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(part string) bool {
		return !slices.ContainsFunc(tests, func(test string) bool { return test == part || strings.HasPrefix(test, part+".") })
	})
}
