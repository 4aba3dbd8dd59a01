// Command mutants measures what the tests notice. It draws faults of one line from the production code, by seed, and runs the
// tests that come by each of them. It prints the faults that no test notices.
//
// With -named, it plays faults of the table in named.go instead, each of which names the test that must notice it.
//
// All faults are built into the test binaries at once, each behind a switch, which an environment variable turns on. So
// a package is built once, and not once for each fault. The code with the faults is written to a temporary directory, and
// go's -overlay puts it in the place of the tree's own.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"
)

func main() {
	n := flag.Int("n", 0, "the `number` of faults that are drawn (0: 200, or with -named all)")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano())%1e9, "which faults are drawn")
	atLeast := flag.Float64("least", 0, "fail if the tests notice fewer `percent`")
	workers := flag.Int("workers", runtime.NumCPU(), "faults that are judged at a time")
	list := flag.Bool("list", false, "only print the faults")
	playNamed := flag.Bool("named", false, "draw from the faults of named.go whose names contain an argument; without arguments: from all of them")
	own := flag.Bool("own", false, "run the unit tests of a fault's own package only")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go run ./tools/mutants [flags] [package …], such as quorum/trust; without packages: all of them\n       go run ./tools/mutants -named [text …]")
		flag.PrintDefaults()
	}
	flag.Parse()
	var err error
	if *playNamed {
		p := playing{named: drawNamed(someNamed(named, flag.Args()), *n, *seed), workers: *workers, limit: playLimit, out: os.Stdout}
		err = p.playAll(".")
	} else {
		s := sample{n: cmp.Or(*n, 200), seed: *seed, workers: *workers, packages: flag.Args(), limits: usualLimits(), list: *list, own: *own, out: os.Stdout}
		var caught float64
		if caught, err = s.takeSample("."); err == nil && caught < *atLeast {
			err = fmt.Errorf("the tests notice %.1f %% of the faults, want at least %.1f %%", caught, *atLeast)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// sample is a number of faults to draw and to judge.
type sample struct {
	n        int
	seed     uint64
	workers  int
	packages []string // relative to the root; none: all
	limits   limits
	list     bool // do not judge
	own      bool // judge by the unit tests of a fault's own package only
	crowded  bool // draw several faults in one line, if there are places for them
	out      io.Writer
}

// takeSample draws the sample from the tree in dir, judges it, and prints what the tests notice. It returns the percentage.
func (s *sample) takeSample(dir string) (percent float64, err error) {
	start := time.Now()
	fmt.Fprintf(s.out, "%d faults, seed %d\n", s.n, s.seed)
	t, err := readTree(dir)
	if err != nil {
		return 0, err
	}
	packages, err := t.productionPackages(s.packages)
	if err != nil {
		return 0, err
	}
	drawn, err := t.drawFaults(packages, s.n, s.seed, s.crowded)
	if err != nil {
		return 0, err
	}
	if len(drawn) < s.n {
		fmt.Fprintf(s.out, "the packages have places for %d faults only\n", len(drawn))
	}
	if s.list {
		for _, m := range drawn {
			s.printFault("drawn", m, "")
		}
		return 100, nil
	}
	work, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(work)
	b := &bench{tree: t, work: work, workers: s.workers, limits: s.limits, binaries: map[string]*binary{}}
	if err := b.writeFaults(drawn); err != nil {
		return 0, err
	}
	verdicts := make([]verdict, len(drawn))
	for stage, by := range []string{"unit tests of their own packages", "tests of the packages that import these", "tests of integration"} {
		fmt.Fprintf(s.out, "%v: %s\n", time.Since(start).Round(time.Second), by)
		if s.own && stage > 0 {
			break
		}
		if err := s.huntRemaining(b, drawn, stage, verdicts); err != nil {
			return 0, err
		}
	}
	fmt.Fprintf(s.out, "%v: judged\n", time.Since(start).Round(time.Second))
	return s.printReport(b, drawn, verdicts), nil
}

// huntRemaining hunts the faults that no test has noticed, several at a time, with the tests of a stage.
func (s *sample) huntRemaining(b *bench, drawn []*mutant, stage int, verdicts []verdict) error {
	var open []*mutant
	packages := map[string]bool{}
	for _, m := range drawn {
		if verdicts[m.number-1].by != "" {
			continue
		}
		open = append(open, m)
		for _, path := range b.tree.testersOf(m.pkg)[stage] {
			packages[path] = true
		}
	}
	if err := b.buildTests(packages); err != nil {
		return err
	}
	within := s.limits.others
	if stage == 0 {
		within = 0
	}
	var mu sync.Mutex
	b.inParallel(len(open), func(i int) {
		v := &verdicts[open[i].number-1]
		b.huntFault(open[i], b.tree.testersOf(open[i].pkg)[stage], within, v)
		mu.Lock()
		defer mu.Unlock()
		took := v.took.Round(100 * time.Millisecond)
		switch {
		case v.hung:
			s.printFault("caught", open[i], fmt.Sprintf("%s does not end, in %v", v.by, took))
		case v.by != "":
			s.printFault("caught", open[i], fmt.Sprintf("%s, in %v", v.by, took))
		default:
			s.printFault("survives so far", open[i], fmt.Sprintf("%d of %d tests that come by, in %v", v.ran, v.reached, took))
		}
	})
	return nil
}

// printFault prints a fault with what is known about it.
func (s *sample) printFault(what string, m *mutant, more string) {
	before, after := m.changedLines()
	fmt.Fprintf(s.out, "%s %s:%d (%s) %s\n  - %s\n  + %s\n", what, m.file.name, m.line, m.kind, more, before, after)
}

// tally counts the faults of a package or a kind.
type tally struct{ all, caught, hung, unreached int }

func (t *tally) addVerdict(v verdict) {
	t.all++
	switch {
	case v.by != "":
		t.caught++
		if v.hung {
			t.hung++
		}
	case v.reached == 0:
		t.unreached++
	}
}

func (t *tally) percent() float64 { return 100 * float64(t.caught) / float64(t.all) }

// printReport prints the faults that survive and what the tests notice of each package and kind.
func (s *sample) printReport(b *bench, drawn []*mutant, verdicts []verdict) (percent float64) {
	for _, path := range b.tree.order {
		if bin := b.binaries[path]; bin != nil && len(bin.bad) > 0 {
			fmt.Fprintf(s.out, "left out, because they fail without a fault or take longer than %v: %s %v\n", s.limits.longest, b.tree.shortName(path), bin.bad)
		}
	}
	total := &tally{}
	rows := map[string]*tally{}
	for i, m := range drawn {
		total.addVerdict(verdicts[i])
		for _, name := range []string{"package " + b.tree.shortName(m.pkg), "kind " + m.kind} {
			if rows[name] == nil {
				rows[name] = &tally{}
			}
			rows[name].addVerdict(verdicts[i])
		}
	}
	fmt.Fprintln(s.out)
	for _, m := range slices.SortedFunc(slices.Values(drawn), byPlace) {
		if v := verdicts[m.number-1]; v.by == "" {
			s.printFault("survives", m, fmt.Sprintf("%d tests come by", v.reached))
		}
	}
	names := slices.Sorted(maps.Keys(rows))
	rows["all"] = total
	fmt.Fprintf(s.out, "\n%-28s %6s %7s %10s %12s\n", "", "faults", "caught", "by a limit", "none comes by")
	for _, name := range append(names, "all") {
		row := rows[name]
		fmt.Fprintf(s.out, "%-28s %6d %6.0f%% %10d %12d\n", name, row.all, row.percent(), row.hung, row.unreached)
	}
	fmt.Fprintf(s.out, "\ncaught: %d of %d (%.1f %%), seed %d\n", total.caught, total.all, total.percent(), s.seed)
	return total.percent()
}
