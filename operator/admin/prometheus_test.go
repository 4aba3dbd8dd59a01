package admin

import (
	"context"
	"math"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
)

// scrape is a member's metrics as Prometheus reads them.
type scrape struct {
	kind, help map[string]string
	value      map[string]float64 // by name, with its labels
}

var sample = regexp.MustCompile(`^([a-z_0-9]+(?:\{[^}]*\})?) (\S+)$`)

// scraped reads the metrics as h serves them.
func scraped(t *testing.T, h *HTTP) scrape {
	t.Helper()
	w := visit{method: "GET", path: "/metrics"}.to(h)
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Fatalf("metrics: %d, %s", w.Code, w.Header().Get("Content-Type"))
	}
	s := scrape{map[string]string{}, map[string]string{}, map[string]float64{}}
	for line := range strings.Lines(w.Body.String()) {
		line = strings.TrimSuffix(line, "\n")
		word, rest, _ := strings.Cut(strings.TrimPrefix(line, "# "), " ")
		name, text, _ := strings.Cut(rest, " ")
		switch m := sample.FindStringSubmatch(line); {
		case word == "HELP":
			s.help[name] = text
		case word == "TYPE":
			s.kind[name] = text
		case m == nil:
			t.Fatalf("line %q", line)
		default:
			v, err := strconv.ParseFloat(m[2], 64)
			if err != nil {
				t.Fatal(err)
			}
			s.value[m[1]] = v
		}
	}
	return s
}

// statsSource is a member whose metrics a test sets.
type statsSource struct {
	*fakeSource
	stats Stats
}

func (s *statsSource) Stats() Stats { return s.stats }
func (s *statsSource) ResetStats()  { s.stats = Stats{Role: s.stats.Role} }

func newStatsHTTP(t *testing.T, role string) (*HTTP, *statsSource) {
	t.Helper()
	source := &statsSource{&fakeSource{role: role}, Stats{Role: role}}
	words, err := NewFourLetterCommands(FourLetterConfig{Version: "1", Source: source})
	if err != nil {
		t.Fatal(err)
	}
	h, err := NewHTTP(HTTPConfig{HTTPSettings: HTTPSettings{BareMetrics: true}, FourLetter: words, Source: source, Operations: newFakeOps()})
	if err != nil {
		t.Fatal(err)
	}
	return h, source
}

// grow gives every number another value. A greater first gives greater values.
func (s *statsSource) grow(first int64) {
	populateFields(reflect.ValueOf(&s.stats).Elem(), &first)
	s.stats.Role = s.role
}

// Prometheus gets every row of the table with its type, its unit and its value, under ZooKeeper's
// name, and nothing else but what is ours.
func TestMetricsAreTheTable(t *testing.T) {
	h, source := newStatsHTTP(t, "leader")
	source.grow(1001)
	got := scraped(t, h)
	for i := range monitorMetrics {
		m := &monitorMetrics[i]
		want := map[kind]string{gauge: "gauge", counter: "counter", summary: "summary", percentileSummary: "summary"}[m.kind]
		if got.kind[m.name] != want {
			t.Errorf("%s is a %q, want %s", m.name, got.kind[m.name], want)
		}
		if help := got.help[m.name]; !strings.HasPrefix(help, m.help) || m.unit != "" && !strings.HasSuffix(help, "("+m.unit+")") {
			t.Errorf("%s: help %q, want %q with the unit %q", m.name, help, m.help, m.unit)
		}
		switch {
		case strings.HasSuffix(m.name, "_file_descriptor_count"): // of this process
		case m.kind < summary:
			if v := got.value[m.name]; v != m.readValue(&source.stats) {
				t.Errorf("%s is %v, want %v", m.name, v, m.readValue(&source.stats))
			}
		default:
			sum := m.readSummary(&source.stats)
			for name, want := range map[string]float64{"_count": float64(sum.Count), "_sum": milliseconds(sum.Sum), `{quantile="0.5"}`: milliseconds(sum.P50)} {
				if v := got.value[m.name+name]; v != want {
					t.Errorf("%s%s is %v, want %v", m.name, name, v, want)
				}
			}
			if v, ok := got.value[m.name+`{quantile="0.99"}`]; ok != (m.kind == percentileSummary) || ok && v != milliseconds(sum.P99) {
				t.Errorf("%s: the quantile 0.99 is %v, there: %t", m.name, v, ok)
			}
		}
		delete(got.kind, m.name)
	}
	for name := range got.kind {
		if !strings.HasPrefix(name, "rollcall_") {
			t.Errorf("%s is no row of the table", name)
		}
	}
}

// A member has the metrics of its role. One that does not serve says so, and one whose apply hangs
// says nothing else.
func TestMetricsOfEachRole(t *testing.T) {
	for _, tt := range []struct {
		role, stalled                  string
		serving                        float64
		leaderUptime, quorum, sessions bool
	}{
		{"leader", "", 1, true, true, true},
		{"follower", "", 1, false, true, true},
		{"standalone", "", 1, false, false, true},
		{"", "", 0, false, true, true},
		{"", "apply hangs", 0, false, false, false},
	} {
		h, source := newStatsHTTP(t, tt.role)
		source.health.Stalled = tt.stalled
		got := scraped(t, h)
		if v := got.value["rollcall_serving"]; v != tt.serving {
			t.Errorf("%q: serving %v", tt.role, v)
		}
		for name, want := range map[string]bool{"leader_uptime": tt.leaderUptime, "quorum_size": tt.quorum, "global_sessions": tt.sessions} {
			if _, ok := got.value[name]; ok != want {
				t.Errorf("%q, stalled %q: %s is there: %t", tt.role, tt.stalled, name, ok)
			}
		}
		if v, ok := got.value[`readlatency{quantile="0.99"}`]; ok != tt.sessions || ok && !math.IsNaN(v) {
			t.Errorf("%q: without measurements a quantile is %v", tt.role, v)
		}
		if v := got.value[`rollcall_build_info{version="`+h.cfg.FourLetter.version+`"}`]; v != 1 {
			t.Errorf("%q: no version among %v", tt.role, got.value)
		}
	}
}

// Counters, and the counts and sums of summaries, never fall: srst does not reach Prometheus.
func TestCountersNeverFall(t *testing.T) {
	h, source := newStatsHTTP(t, "leader")
	counts := map[string]float64{}
	look := func(what string, grown bool) {
		got := scraped(t, h)
		for i := range monitorMetrics {
			m := &monitorMetrics[i]
			names := []string{m.name}
			switch {
			case m.kind == gauge:
				continue
			case m.kind >= summary:
				names = []string{m.name + "_count", m.name + "_sum"}
			}
			for _, name := range names {
				if v := got.value[name]; v < counts[name] || (v > counts[name]) != grown {
					t.Errorf("%s: %s is %v after %v", what, name, v, counts[name])
				}
				counts[name] = got.value[name]
			}
		}
	}
	source.grow(1001)
	look("at first", true)
	h.cfg.FourLetter.resetCounters()
	look("after a reset", false)
	source.grow(11)
	look("fewer than before the reset", true)
	h.cfg.FourLetter.resetCounters()
	h.cfg.FourLetter.resetCounters()
	look("after two resets", false)
}

// The port for metrics serves them to everybody, and nothing else.
func TestServeMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newTestHTTP(t, "leader")
		ctx, stop := context.WithCancel(t.Context())
		p, done := newPipes(), make(chan error)
		go func() { done <- h.ServeMetrics(ctx, p) }()
		for path, want := range map[string]int{"/metrics": 200, "/": 404, "/commands": 404, "/livez": 404, "/debug/pprof/": 404} {
			c := p.dial()
			if status, err := requestStatus(c, path); status != want || err != nil {
				t.Errorf("%s: %d, %v; want %d", path, status, err, want)
			}
			_ = c.Close()
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
