package clients

import (
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// missing are the metrics of ZooKeeper that docs/metrics.md says are missing.
var missing = sync.OnceValues(func() (map[string]bool, error) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	_, table, _ := strings.Cut(string(text), "| ZooKeeper's | Why it is missing |")
	for row := range strings.Lines(table) {
		if cells := strings.Split(row, "|"); len(cells) > 2 {
			for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
				names[m[1]] = true
			}
		}
	}
	return names, nil
})

var (
	quoted = regexp.MustCompile("`([^`]+)`")
	// keys of a summary, perhaps of one of a set, whose name comes before the summary's
	ofSummary = regexp.MustCompile(`^(?:avg|min|max|cnt|sum|p50|p95|p99|p999)_(?:\w+_(ack_latency|learner_handler_qp_\w+|\w+_per_namespace)|(\w+))$`)
)

// missesMetric reports whether docs/metrics.md says that ZooKeeper's key of mntr is missing.
func missesMetric(t *testing.T, key string) bool {
	t.Helper()
	names, err := missing()
	if err != nil {
		t.Fatal(err)
	}
	if m := ofSummary.FindStringSubmatch(key); m != nil && (names[m[1]] || names[m[2]]) {
		return true
	}
	return names[key]
}
