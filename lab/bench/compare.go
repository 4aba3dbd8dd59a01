package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of the rounds. Fewer runs would not show the spread.
const (
	MinRounds = 3
	MaxRounds = 100
)

const (
	stopTimeout = 2 * time.Minute // of a hook that stops servers
	maxPIDs     = 1000
)

// Side is one of two ensembles to compare. Start and Stop are shell commands that start and stop it for its
// turns, so that the two do not share the machine. Without them it runs all the time. Start must return when
// the servers serve, and print their process ids.
type Side struct {
	Target
	Start, Stop string
}

// CompareConfig configures a comparison of sides A and B.
type CompareConfig struct {
	Sides    [2]Side
	Cases    []Params
	Rounds   int
	Progress func(line string)
}

// Comparison is the result of a comparison.
type Comparison struct {
	A      string           `json:"a"`
	B      string           `json:"b"`
	Rounds int              `json:"rounds"`
	Cases  []CaseComparison `json:"cases"`
}

// CaseComparison has the results of one case on both sides.
type CaseComparison struct {
	Case    string       `json:"case"`
	Op      string       `json:"op"`
	Figures []FigurePair `json:"figures"`
	Void    [2]int       `json:"void"`   // void rounds
	Errors  [2]int64     `json:"errors"` // in all rounds
	Runs    []Result     `json:"runs"`
}

// FigurePair is one measured value of a case on both sides: medians, spread, and the ratio of B to A.
type FigurePair struct {
	Name   string   `json:"name"`
	Unit   string   `json:"unit"`
	A      Spread   `json:"a"`
	B      Spread   `json:"b"`
	Ratio  *float64 `json:"ratio,omitempty"`  // nil if A's median is 0
	Better string   `json:"better,omitempty"` // "more" or "less"; "": neither is better
}

// Spread is a median with the minimum and the maximum.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// IsWorse reports whether B is worse than A.
func (f *FigurePair) IsWorse() bool {
	switch {
	case f.Ratio == nil:
		return f.Better == lessIsBetter && f.Unit == unitCount && f.B.Median > 0
	case f.Better == moreIsBetter:
		return *f.Ratio < 1
	case f.Better == lessIsBetter:
		return *f.Ratio > 1
	}
	return false
}

// ParsePIDs parses process ids separated by commas or white space.
func ParsePIDs(text string) ([]int, error) {
	var pids []int
	for _, field := range strings.FieldsFunc(text,
		func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' }) {
		pid, err := strconv.Atoi(field)
		if err != nil || pid < 1 {
			return nil, fmt.Errorf("bench: %.40q is not a process id", field)
		}
		if pids = append(pids, pid); len(pids) > maxPIDs {
			return nil, fmt.Errorf("bench: more than %d process ids", maxPIDs)
		}
	}
	return pids, nil
}

type comparer struct {
	cfg        CompareConfig
	runs       [][2][]Result // by case and side
	runCase    func(context.Context, Config) (Result, error)
	runCommand func(context.Context, string) (string, error)
}

// Compare runs every case on both sides in turn, once per round. If a side is started for its turns, one turn
// runs all cases; otherwise the turns alternate case by case. The side that goes first alternates between
// rounds.
func Compare(ctx context.Context, cfg CompareConfig) (*Comparison, error) {
	c := &comparer{cfg: cfg, runCase: Run, runCommand: runHook}
	return c.compareSides(ctx)
}

func (c *comparer) compareSides(ctx context.Context) (*Comparison, error) {
	if n := c.cfg.Rounds; n < MinRounds || n > MaxRounds {
		return nil, fmt.Errorf("bench: %d rounds; must be %d to %d", n, MinRounds, MaxRounds)
	}
	perTurn := 1
	for _, s := range c.cfg.Sides {
		if (s.Start == "") != (s.Stop == "") {
			return nil, fmt.Errorf("bench: %s needs both a start and a stop command, or neither", s.Name)
		}
		if s.Start != "" {
			perTurn = max(1, len(c.cfg.Cases))
		}
	}
	c.runs = make([][2][]Result, len(c.cfg.Cases))
	for round := range c.cfg.Rounds {
		for cases := range slices.Chunk(intsBelow(len(c.cfg.Cases)), perTurn) {
			for _, side := range [][]int{{0, 1}, {1, 0}}[round%2] {
				if err := c.runTurn(ctx, round, side, cases); err != nil {
					return nil, err
				}
			}
		}
	}
	return c.combineRuns(), nil
}

func intsBelow(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// runTurn runs cases on one side.
func (c *comparer) runTurn(ctx context.Context, round, side int, cases []int) (err error) {
	s := &c.cfg.Sides[side]
	tell := func(line string) {
		if c.cfg.Progress != nil {
			c.cfg.Progress(fmt.Sprintf("round %d of %d, %s: %s", round+1, c.cfg.Rounds, s.Name, line))
		}
	}
	target := s.Target
	if s.Start != "" {
		defer func() {
			tell("stopping")
			ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
			defer stop()
			_, stopped := c.runCommand(ctx, s.Stop)
			err = errors.Join(err, stopped)
		}()
		tell("starting")
		printed, err := c.runCommand(ctx, s.Start)
		if err != nil {
			return err
		}
		pids, err := ParsePIDs(printed)
		if err != nil {
			return fmt.Errorf("bench: output of the start command of %s: %w", s.Name, err)
		}
		if len(pids) > 0 {
			target.PIDs = pids
		}
	}
	for _, i := range cases {
		result, err := c.runCase(ctx, Config{Target: target, Params: c.cfg.Cases[i], Progress: tell})
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		c.runs[i][side] = append(c.runs[i][side], result)
	}
	return nil
}

func (c *comparer) combineRuns() *Comparison {
	all := &Comparison{A: c.cfg.Sides[0].Name, B: c.cfg.Sides[1].Name, Rounds: c.cfg.Rounds}
	for _, runs := range c.runs {
		m := CaseComparison{Case: runs[0][0].Case, Op: runs[0][0].Op, Runs: slices.Concat(runs[0], runs[1])}
		for side, list := range runs {
			for i := range list {
				if list[i].Void {
					m.Void[side]++
				}
				for _, n := range list[i].Errors {
					m.Errors[side] += n
				}
			}
		}
		for _, g := range figureReaders(&runs[0][0]) {
			m.Figures = append(m.Figures, g.compareRuns(runs))
		}
		all.Cases = append(all.Cases, m)
	}
	return all
}

// figureReader reads one value from a result.
type figureReader struct {
	name, unit, betterDirection string
	readValue                   func(*Result) float64
}

// figureReaders returns the values that a case has. first is one of its results.
func figureReaders(first *Result) []figureReader {
	list := []figureReader{
		{"ops/s", unitRate, moreIsBetter, func(r *Result) float64 { return r.PerSecond }},
		{"p50", unitMillis, lessIsBetter, func(r *Result) float64 { return r.Latency.P50 / 1000 }},
		{"p99", unitMillis, lessIsBetter, func(r *Result) float64 { return r.Latency.P99 / 1000 }},
		{"max", unitMillis, "", func(r *Result) float64 { return r.Latency.Max / 1000 }},
		{"server CPU per op", "µs", lessIsBetter, func(r *Result) float64 { return r.ServerCPU }},
		{"tool CPU per op", "µs", "", func(r *Result) float64 { return r.ToolCPU }},
		{"RSS of the servers", "MB", lessIsBetter, func(r *Result) float64 { return float64(r.ServerRSS >> 20) }},
	}
	for i, f := range first.Extra {
		list = append(list, figureReader{f.Name, f.Unit, f.betterDirection, func(r *Result) float64 {
			if i < len(r.Extra) {
				return r.Extra[i].Value
			}
			return 0
		}})
	}
	return list
}

func (g figureReader) compareRuns(runs [2][]Result) FigurePair {
	c := FigurePair{Name: g.name, Unit: g.unit, Better: g.betterDirection}
	for side, spread := range []*Spread{&c.A, &c.B} {
		values := make([]float64, len(runs[side]))
		for i := range runs[side] {
			values[i] = g.readValue(&runs[side][i])
		}
		*spread = spreadOf(values)
	}
	if c.A.Median != 0 {
		ratio := c.B.Median / c.A.Median
		c.Ratio = &ratio
	}
	return c
}

// spreadOf returns the spread of values, which must not be empty. It sorts them.
func spreadOf(values []float64) Spread {
	slices.Sort(values)
	n := len(values)
	return Spread{Median: (values[(n-1)/2] + values[n/2]) / 2, Min: values[0], Max: values[n-1]}
}
