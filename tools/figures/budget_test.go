package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// writeProfile writes a CPU profile of one second. Each stack took so many milliseconds.
func writeProfile(t *testing.T, stacks map[string]int64) string {
	t.Helper()
	p := &profile.Profile{
		SampleType:    []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType:    &profile.ValueType{Type: "cpu", Unit: "nanoseconds"},
		DurationNanos: 1e9,
	}
	for stack, ms := range stacks {
		s := &profile.Sample{Value: []int64{1, ms * 1e6}}
		for name := range strings.SplitSeq(stack, " ") {
			f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name}
			l := &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f}}}
			p.Function, p.Location, s.Location = append(p.Function, f), append(p.Location, l), append(s.Location, l)
		}
		p.Sample = append(p.Sample, s)
	}
	file := filepath.Join(t.TempDir(), "profile")
	var text bytes.Buffer
	if err := p.Write(&text); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A sample belongs to the first stage that one of its functions has.
func TestBudget(t *testing.T) {
	leader := writeProfile(t, map[string]int64{
		"runtime.mallocgc rollcall/znode.(*tree).nodeAt rollcall/znode.(*State).ApplyEntry rollcall/quorum.(*fsm).ApplyBatch": 20,
		"rollcall/znode.(*State).ApplyEntry rollcall/quorum.(*fsm).ApplyBatch":                                                30,
		"rollcall/proto.UnmarshalEntry rollcall/quorum.(*fsm).ApplyBatch github.com/hashicorp/raft.(*Raft).runFSM":            10,
		"runtime.gcAssistAlloc rollcall/znode.(*State).ApplyEntry":                                                            5,
		"runtime.mcall": 1,
		"main.main":     2,
	})
	follower := writeProfile(t, map[string]int64{"google.golang.org/grpc/internal/transport.(*loopyWriter).run": 4})
	var out bytes.Buffer
	if err := writeBudget(&out, "1000", []string{leader, follower}); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		"| stage | leader | follower | all |", "|---|---|---|---|", "| apply: look-ups of nodes | 20.00 | 0.00 | 20.00 |",
		"| apply: the rest of the tree | 30.00 | 0.00 | 30.00 |", "| apply: decode the entry | 10.00 | 0.00 | 10.00 |",
		"| collector | 5.00 | 0.00 | 5.00 |", "| forward: encode, gRPC | 0.00 | 4.00 | 4.00 |",
		"| threads and goroutines | 1.00 | 0.00 | 1.00 |", "| other | 2.00 | 0.00 | 2.00 |", "| all | 68.00 | 4.00 | 72.00 |",
	} {
		if !strings.Contains(out.String(), row+"\n") {
			t.Errorf("no row %q in:\n%s", row, &out)
		}
	}
}

func TestBudgetErrors(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no profile"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ rate, file, want string }{
		{"0", text, "want a number above 0"}, {"x", text, "want a number above 0"}, {"1", text, text}, {"1", text + "x", "no such file"},
	} {
		if err := writeBudget(&bytes.Buffer{}, tt.rate, []string{tt.file}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s, %s: %v, want %q", tt.rate, tt.file, err, tt.want)
		}
	}
}
