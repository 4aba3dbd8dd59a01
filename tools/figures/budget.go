package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// stages are the ways of a request through a member, in the order in which a sample of a CPU profile is compared with them: it
// belongs to the first one whose pattern matches a function of its stack. So apply's parts come before apply.
var stages = []struct {
	name     string
	function *regexp.Regexp
}{
	{"collector", regexp.MustCompile(`^runtime\.(gcBgMarkWorker|gcAssist|bgsweep|bgscavenge|gcStart|gcMarkDone|sweepone|forEachG)`)},
	{"apply: look-ups of nodes", regexp.MustCompile(`znode\.\(\*(tree\)\.(nodeAt|parentOf)|pathIndex\))`)},
	{"apply: digest", regexp.MustCompile(`znode\..*(hashWithinBudget|hashWithData|\.Digest)`)},
	{"apply: watches", regexp.MustCompile(`znode\..*(firePending|addPending|watchNotifier)`)},
	{"apply: replies to clients", regexp.MustCompile(`server\.\(\*request\)\.ReceiveResult`)},
	{"apply: writes that wait here", regexp.MustCompile(`hooks\.(TxnApplied|EntryFinished)`)},
	{"apply: the rest of the tree", regexp.MustCompile(`rollcall/znode\.`)},
	{"apply: replies to the sockets", regexp.MustCompile(`server\.\(\*Server\)\.Flush`)},
	{"apply: decode the entry", regexp.MustCompile(`quorum\.\(\*fsm\)\.`)},
	{"client: read, decode, submit", regexp.MustCompile(`rollcall/server[./]`)},
	{"forward: encode, gRPC", regexp.MustCompile(`follower\.\(\*forwarder\)|transport\.\(\*loopyWriter\)`)},
	{"leader: gRPC, decode", regexp.MustCompile(`leader\.\(\*receiver\)|google\.golang\.org/grpc`)},
	{"leader: batch, encode", regexp.MustCompile(`leader\.\(\*Leader\)\.batchLoop`)},
	{"log: write and fsync", regexp.MustCompile(`rollcall/quorum/disk`)},
	{"replication: frames, sockets", regexp.MustCompile(`rollcall/quorum/wire`)},
	{"raft", regexp.MustCompile(`hashicorp/raft\.`)},
	{"threads and goroutines", regexp.MustCompile(`^runtime\.`)},
	{"other", regexp.MustCompile(``)},
}

// writeBudget writes a table of the processor time by stage, in µs of a request, for so many requests per second. Each
// file is the CPU profile of one member in that time, the leader's first.
func writeBudget(w io.Writer, perSecond string, files []string) error {
	rate, err := strconv.ParseFloat(perSecond, 64)
	if err != nil || rate <= 0 {
		return fmt.Errorf("%q requests per second: want a number above 0", perSecond)
	}
	columns := make([][]float64, len(files))
	for i, file := range files {
		if columns[i], err = stageTimes(file, rate); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	fmt.Fprintf(w, "| stage | leader |%s all |\n|---|%s---|\n", strings.Repeat(" follower |", len(files)-1), strings.Repeat("---|", len(files)))
	for s := range len(stages) + 1 {
		name, sum := "all", 0.0
		if s < len(stages) {
			name = stages[s].name
		}
		cells := []string{name}
		for _, times := range columns {
			sum += times[s]
			cells = append(cells, fmt.Sprintf("%.2f", times[s]))
		}
		fmt.Fprint(w, tableRow(append(cells, fmt.Sprintf("%.2f", sum))...))
	}
	return nil
}

// stageTimes returns the µs of a request in each stage, and in all of them.
func stageTimes(file string, rate float64) ([]float64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	p, err := profile.ParseData(text)
	if err != nil {
		return nil, err
	}
	if len(p.SampleType) != 2 || p.SampleType[1].Unit != "nanoseconds" || p.DurationNanos <= 0 {
		return nil, errors.New("not a CPU profile")
	}
	requests := rate * time.Duration(p.DurationNanos).Seconds()
	times := make([]float64, len(stages)+1)
	for _, sample := range p.Sample {
		took := float64(sample.Value[1]) / float64(time.Microsecond) / requests
		times[stageOf(sample)] += took
		times[len(stages)] += took
	}
	return times, nil
}

func stageOf(sample *profile.Sample) int {
	for i, stage := range stages {
		for _, location := range sample.Location {
			for _, line := range location.Line {
				if line.Function != nil && stage.function.MatchString(line.Function.Name) {
					return i
				}
			}
		}
	}
	return len(stages) - 1
}
