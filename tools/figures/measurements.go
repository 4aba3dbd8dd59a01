package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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
	Case      string           `json:"case"`
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
		Unit  string  `json:"unit"`
	} `json:"extra"`
}

// figureValues returns a run's values by the names in tables and targets. It leaves out a zero that means that
// nothing was measured.
func (l *recordedRun) figureValues() map[string]float64 {
	v := map[string]float64{}
	for name, value := range l.Figures {
		v[name] = value
	}
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
	machine, err := os.ReadFile(filepath.Join(data, "machine.txt"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	k.machineText = string(machine)
	note, err := os.ReadFile(filepath.Join(data, "note.md"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	k.Note = string(note)
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
		name := filepath.Base(file)
		switch filepath.Ext(name) {
		case ".jsonl":
			lines, err := parseLines(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			k.runsByPart[strings.TrimSuffix(name, ".jsonl")] = lines
		case ".txt":
			if name != "machine.txt" {
				k.benchSamples[strings.TrimSuffix(name, ".txt")] = parseBench(text)
				first, _, _ := strings.Cut(string(text), "\n")
				k.benchBuilds[strings.TrimSuffix(name, ".txt")], _ = strings.CutPrefix(first, "build: ")
			}
		}
	}
	k.curves = k.allCurvePoints()
	return k, nil
}

func parseLines(text []byte) ([]recordedRun, error) {
	var lines []recordedRun
	in := bufio.NewScanner(bytes.NewReader(text))
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var l recordedRun
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(lines)+1, err)
		}
		lines = append(lines, l)
	}
	return lines, in.Err()
}

// spread is a median with the minimum and maximum of several runs.
type spread struct {
	median, minimum, maximum float64
	runs                     int
}

// rowSpread returns the spread of one value of a row on one side. runs is 0 if it was not measured.
func (k *measurements) rowSpread(part, row, side, figure string) spread {
	var values []float64
	for _, l := range k.runsByPart[part] {
		if l.Row == row && l.Side == side {
			if v, ok := l.figureValues()[figure]; ok {
				values = append(values, v)
			}
		}
	}
	return spreadOf(values)
}

func (k *measurements) valuesByRound(part, row, side, figure string) map[int]float64 {
	values := map[int]float64{}
	for _, l := range k.runsByPart[part] {
		if v, ok := l.figureValues()[figure]; ok && l.Row == row && l.Side == side {
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
