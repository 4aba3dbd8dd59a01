package main

import (
	"regexp"
	"strconv"
	"strings"
)

// sample is one line of go test -bench: its name without the number of processors, and its values by unit.
type sample struct {
	name        string
	valueByUnit map[string]float64
}

// parseBench parses the output of go test -bench, and ignores other lines.
func parseBench(text []byte) []sample {
	var list []sample
	for row := range strings.Lines(string(text)) {
		name, rest, ok := strings.Cut(strings.TrimSpace(row), "\t")
		if !ok || !strings.HasPrefix(name, "Benchmark") {
			continue
		}
		s := sample{
			name:        strings.TrimPrefix(processors.ReplaceAllString(strings.TrimSpace(name), ""), "Benchmark"),
			valueByUnit: map[string]float64{},
		}
		fields := strings.Fields(rest)
		for i := 1; i+1 < len(fields); i += 2 {
			if v, err := strconv.ParseFloat(fields[i], 64); err == nil {
				s.valueByUnit[fields[i+1]] = v
			}
		}
		if len(s.valueByUnit) > 0 {
			list = append(list, s)
		}
	}
	return list
}

// processors is the -2 of BenchmarkX/size=100-2.
var processors = regexp.MustCompile(`-\d+$`)

// benchSpread returns the spread of one value of a benchmark.
func (k *measurements) benchSpread(file, name, unit string) spread {
	var values []float64
	for _, s := range k.benchSamples[file] {
		if v, ok := s.valueByUnit[unit]; ok && s.name == name {
			values = append(values, v)
		}
	}
	return spreadOf(values)
}

// benchSizes returns the numbers after prefix in the names of benchmarks, in order.
func (k *measurements) benchSizes(file, prefix string) (sizes []float64) {
	for _, s := range k.benchSamples[file] {
		size, ok := strings.CutPrefix(s.name, prefix)
		if v, err := strconv.ParseFloat(size, 64); ok && err == nil {
			sizes = appendNew(sizes, v)
		}
	}
	return sizes
}
