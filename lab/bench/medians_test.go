package bench

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The medians of a part name the sides whose runs had errors or were void, and only those.
func TestMediansTellErrors(t *testing.T) {
	directory := t.TempDir()
	var lines strings.Builder
	for _, run := range []struct {
		side   string
		errors map[string]int64
		void   bool
	}{
		{"A", nil, false},
		{"A", map[string]int64{`a "quoted": 50, reason}`: 2, "other": 3}, true},
		{"B", nil, false},
	} {
		results, err := json.MarshalIndent([]Result{{Case: "get", PerSecond: 10, Errors: run.errors, Cost: Cost{Void: run.void}}}, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		flat := strings.ReplaceAll(strings.ReplaceAll(string(results), "\n  ", ""), "\n", "") // about as ensemble.sh does
		lines.WriteString(`{"row":"get","side":"` + run.side + `","round":1,"results":` + flat + "}\n")
	}
	if err := os.WriteFile(filepath.Join(directory, "part.jsonl"), []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	script := exec.CommandContext(t.Context(), "bash", "-c", ". ./medians.sh; medians part")
	script.Env = append(os.Environ(), "DATA="+directory)
	out, err := script.CombinedOutput()
	got := string(out)
	if err != nil || strings.Contains(got, "B | ERRORS") || strings.Contains(got, "B | VOID") {
		t.Errorf("%v:\n%s", err, got)
	}
	for _, want := range []string{"A | ERRORS | 5 in 1 of 2 runs\n", "A | VOID | 1 of 2 runs", "B | ops/s | 10 (10-10)\n"} {
		if !strings.Contains(got, "part | get | "+want) {
			t.Errorf("%q is missing:\n%s", want, got)
		}
	}
}
