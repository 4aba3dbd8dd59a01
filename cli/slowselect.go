package cli

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/operator/api"
	"rollcall/operator/subtree"
)

// maxStageSums bounds the sums below the list of slow requests.
const maxStageSums = 5

// slowSelection chooses, of the slow requests that members list, those to print, and whether to print them again and again.
type slowSelection struct {
	path  string        // of a node; requests about it or about one below it; "": any
	since time.Duration // 0: however long ago
	watch bool
	every time.Duration
}

func (s *slowSelection) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&s.path, "path", "", "only requests about the node at this `path`, or about one below it")
	fs.DurationVar(&s.since, "since", 0, "only what members received within this `duration`, such as 90s or 10m")
	fs.BoolVar(&s.watch, "watch", false, "print the list again and again, until Ctrl-C")
	fs.DurationVar(&s.every, "every", defaultWatchInterval, "with --watch: the `time` between two lists")
}

// check returns an error if a value is wrong, or comes with the ID of one request.
func (s *slowSelection) check(ofOne bool) error {
	switch {
	case ofOne && (s.path != "" || s.since != 0 || s.watch):
		return UsageError.Errorf("slow: an ID names one request; leave --path, --since and --watch out")
	case s.since < 0:
		return UsageError.Errorf("slow: --since %v: must not be negative", s.since)
	case s.path != "":
		if err := subtree.CheckPath(s.path); err != nil {
			return UsageError.Errorf("slow: --path: %w", err)
		}
	}
	return nil
}

// choose returns the first limit rows that are selected, or all of them if limit is 0.
func (s *slowSelection) choose(rows iter.Seq2[api.SlowRequest, error], now time.Time, limit int) iter.Seq2[api.SlowRequest, error] {
	return func(yield func(api.SlowRequest, error) bool) {
		n := 0
		for r, err := range rows {
			if err == nil && !s.selects(r, now) {
				continue
			}
			if n++; !yield(r, err) || n == limit {
				return
			}
		}
	}
}

func (s *slowSelection) selects(r api.SlowRequest, now time.Time) bool {
	if s.since > 0 && now.Sub(r.ReceivedAt) > s.since {
		return false
	}
	return s.path == "" || r.Path == s.path || strings.HasPrefix(r.Path, strings.TrimSuffix(s.path, "/")+"/")
}

// stageSum is the time of all printed requests in one stage.
type stageSum struct {
	text     string
	tookUs   int64
	requests int
}

// stageSums adds up the stages of requests.
type stageSums map[string]*stageSum // by the stage's text

// add adds the stages of a request. A pause is none: its row says how long it was.
func (s stageSums) add(r api.SlowRequest) {
	if r.Op == api.PauseOp {
		return
	}
	for _, stage := range r.Stages {
		if s[stage.Text] == nil {
			s[stage.Text] = &stageSum{text: stage.Text}
		}
		s[stage.Text].tookUs += stage.TookUs
		s[stage.Text].requests++
	}
}

// print writes the sums of the stages that took longest. With one stage or none it writes nothing.
func (s stageSums) print(w io.Writer) error {
	if len(s) < 2 {
		return nil
	}
	all := slices.SortedFunc(maps.Values(s), func(a, b *stageSum) int {
		return cmp.Or(cmp.Compare(b.tookUs, a.tookUs), cmp.Compare(a.text, b.text))
	})
	for _, sum := range all[:min(len(all), maxStageSums)] {
		if _, err := fmt.Fprintf(w, "in all %s in %s: %s\n", formatLatency(sum.tookUs), counted(sum.requests, "request"), EscapeUnprintable(sum.text)); err != nil {
			return err
		}
	}
	return nil
}

// printSlowList prints the selected requests once, and for people the sums of their stages below them.
func printSlowList(w IOStreams, output *Output, rows iter.Seq2[api.SlowRequest, error]) error {
	out := *output
	out.streams = w
	sums := stageSums{}
	added := MapRows(rows, func(r api.SlowRequest) api.SlowRequest {
		sums.add(r)
		return r
	})
	if err := PrintRows(&out, slowColumns(w.Now()), added); err != nil || !out.IsText() {
		return err
	}
	return sums.print(w.Out)
}
