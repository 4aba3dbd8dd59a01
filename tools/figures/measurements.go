package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// recordedRun is one run as the scripts record it.
type recordedRun struct {
	Row     string             `json:"row"`
	Side    string             `json:"side"`
	Round   int                `json:"round"`
	Build   string             `json:"build"`
	At      string             `json:"at"`
	Results []benchResult      `json:"results"` // of rollcall bench; there is one
	Figures map[string]float64 `json:"figures"` // measured by the scripts
}

// benchResult has the fields of rollcall bench -o json that tables show.
type benchResult struct {
	PerSecond float64          `json:"per_second"`
	Errors    map[string]int64 `json:"errors"`
	Latency   struct {
		P50  float64 `json:"p50_us"`
		P99  float64 `json:"p99_us"`
		P999 float64 `json:"p999_us"`
		Max  float64 `json:"max_us"`
	} `json:"latency"`
	ServerCPU float64 `json:"server_cpu_us_per_op"`
	ToolCPU   float64 `json:"tool_cpu_us_per_op"`
	Void      bool    `json:"void"`
	ServerRSS float64 `json:"server_rss_bytes"`
	Extra     []struct {
		Name  string  `json:"name"`
		Value float64 `json:"value"`
	} `json:"extra"`
}

// figureValues returns a run's values by the names in tables and targets. It leaves out a zero that means that
// nothing was measured.
func (l *recordedRun) figureValues() map[string]float64 {
	v := map[string]float64{}
	maps.Copy(v, l.Figures)
	for _, r := range l.Results {
		for name, value := range map[string]float64{
			"ops/s": r.PerSecond, "p50": r.Latency.P50 / 1000, "p99": r.Latency.P99 / 1000, "p99.9": r.Latency.P999 / 1000,
			"max":               r.Latency.Max / 1000,
			"server CPU per op": r.ServerCPU, "tool CPU per op": r.ToolCPU, "RSS of the servers": r.ServerRSS / (1 << 20),
		} {
			if value != 0 {
				v[name] = value
			}
		}
		for _, e := range r.Extra {
			if !strings.Contains(e.Name, ":") { // of one member, whose port changes from turn to turn
				v[e.Name] = e.Value
			}
		}
	}
	return v
}

// figureUnits are the units of values in tables.
var figureUnits = map[string]string{
	"p50": "ms", "p99": "ms", "p99.9": "ms", "max": "ms", "server CPU per op": "µs", "tool CPU per op": "µs",
	"RSS of the servers":     "MiB",
	"RSS growth per session": "B", "opened": "/s", "closed": "/s", "first to last": "ms", "first to last at most": "ms",
	"earliest by": "ms",
	"write p50":   "ms", "first event p50": "ms", "last event p50": "ms", "last event max": "ms", "open p50": "ms",
	"open p99":  "ms",
	"close p50": "ms", "close p99": "ms", "whole session p50": "ms", "whole session p99": "ms", "tool late p99": "ms",
	"longest gap of writes": "ms", "longest gap of writes at the others": "ms",
	"longest gap of reads at the others": "ms",
}

// tableFigures are the first values of the long tables. A run's other values follow.
var tableFigures = []string{
	"ops/s", "p50", "p99", "p99.9", "max", "server CPU per op", "tool CPU per op",
	"RSS of the servers",
}

// measurements is everything that was measured.
type measurements struct {
	machineText  string
	Note         string                   // from note.md; may be empty
	runsByPart   map[string][]recordedRun // by part
	targets      []target
	curves       []point
	benchSamples map[string][]sample // the lines of go test -bench, by file
	benchBuilds  map[string]string   // builds of these files
}

func readMeasurements(data string) (*measurements, error) {
	k := &measurements{
		runsByPart: map[string][]recordedRun{}, benchSamples: map[string][]sample{},
		benchBuilds: map[string]string{},
	}
	var err error
	if k.targets, err = readTargets("../../lab/bench/compare.txt"); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(data, "*"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		base, extension := filepath.Base(file), filepath.Ext(file)
		name := strings.TrimSuffix(base, extension)
		switch {
		case base == "machine.txt":
			k.machineText = string(text)
		case base == "note.md":
			k.Note = string(text)
		case extension == ".jsonl":
			if k.runsByPart[name], err = parseLines(text); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
		case extension == ".txt":
			k.benchSamples[name] = parseBench(text)
			first, _, _ := strings.Cut(string(text), "\n")
			k.benchBuilds[name], _ = strings.CutPrefix(first, "build: ")
		}
	}
	k.curves = k.allCurvePoints()
	return k, nil
}

func parseLines(text []byte) (lines []recordedRun, err error) {
	for line := range bytes.Lines(text) {
		var l recordedRun
		if err := json.Unmarshal(line, &l); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(lines)+1, err)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// spread is a median with the minimum and maximum of several runs.
type spread struct {
	median, minimum, maximum float64
	runs                     int
}

// runsOf returns the runs of a row on a side, in some parts.
func (k *measurements) runsOf(row, side string, parts ...string) (runs []recordedRun) {
	for _, part := range parts {
		for _, l := range k.runsByPart[part] {
			if l.Row == row && l.Side == side {
				runs = append(runs, l)
			}
		}
	}
	return runs
}

// flawsOf returns the number of void runs, and the number of errors in all of them.
func flawsOf(runs []recordedRun) (void int, failed int64) {
	for _, l := range runs {
		for _, r := range l.Results {
			if r.Void {
				void++
			}
			for _, n := range r.Errors {
				failed += n
			}
		}
	}
	return void, failed
}

// rowNames returns the rows of a part, in the order of their first runs.
func (k *measurements) rowNames(part string) (names []string) {
	for _, l := range k.runsByPart[part] {
		names = appendNew(names, l.Row)
	}
	return names
}

// sidesOf returns the sides on which a row was measured, in the order of their first runs.
func (k *measurements) sidesOf(part, row string) (sides []string) {
	for _, l := range k.runsByPart[part] {
		if l.Row == row {
			sides = appendNew(sides, l.Side)
		}
	}
	return sides
}

// figureNames returns the figures of a row: those of the long tables first.
func (k *measurements) figureNames(part, row string) []string {
	names := slices.Clone(tableFigures)
	has := map[string]bool{}
	for _, l := range k.runsByPart[part] {
		if l.Row != row {
			continue
		}
		for name := range l.figureValues() {
			has[name] = true
		}
		for name := range l.Figures { // each line that the scripts record has one
			names = appendNew(names, name)
		}
		for _, r := range l.Results {
			for _, e := range r.Extra {
				names = appendNew(names, e.Name)
			}
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return !has[name] })
}

// appendNew appends v to a list that does not have it.
func appendNew[T comparable](list []T, v T) []T {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}

// rowSpread returns the spread of one value of a row on one side. runs is 0 if it was not measured.
func (k *measurements) rowSpread(part, row, side, figure string) spread {
	var values []float64
	for _, l := range k.runsOf(row, side, part) {
		if v, ok := l.figureValues()[figure]; ok {
			values = append(values, v)
		}
	}
	return spreadOf(values)
}

func (k *measurements) valuesByRound(part, row, side, figure string) map[int]float64 {
	values := map[int]float64{}
	for _, l := range k.runsOf(row, side, part) {
		if v, ok := l.figureValues()[figure]; ok {
			values[l.Round] = v
		}
	}
	return values
}

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	slices.Sort(values)
	n := len(values)
	return spread{median: (values[(n-1)/2] + values[n/2]) / 2, minimum: values[0], maximum: values[n-1], runs: n}
}
