package admin

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"rollcall/internal/metrics"
)

// detailsSource is a member whose own metrics a test sets.
type detailsSource struct {
	*fakeSource
	details Details
}

func (s *detailsSource) Details() Details { return s.details }

// scrapedDetails returns what Prometheus gets of a member, and all samples of its own metrics that it
// should get, by name with labels.
func scrapedDetails(t *testing.T, d Details) (got scrape, want map[string]float64) {
	t.Helper()
	source := &detailsSource{&fakeSource{role: "leader"}, d}
	words, err := NewWords(WordsConfig{Version: "1", Source: source})
	if err != nil {
		t.Fatal(err)
	}
	h, err := NewHTTP(HTTPConfig{HTTPSettings: HTTPSettings{BareMetrics: true}, Words: words, Source: source, Operations: newFakeOps()})
	if err != nil {
		t.Fatal(err)
	}
	d.Version = words.version
	want = map[string]float64{}
	for i := range nativeMetrics {
		m := &nativeMetrics[i]
		if m.kind == histogram {
			for label, b := range m.buckets(&d) {
				wantBuckets(want, m, label, b)
			}
			continue
		}
		for label, value := range m.values(&d) {
			want[m.name+braced(m.pair(label))] = value
		}
	}
	return scraped(t, h), want
}

// pair is the label of a sample as Prometheus writes it.
func (m *nativeMetric) pair(value string) string {
	if m.label == "" {
		return ""
	}
	return fmt.Sprintf("%s=%q", m.label, value)
}

func braced(pairs ...string) string {
	text := strings.Trim(strings.Join(pairs, ","), ",")
	if text == "" {
		return ""
	}
	return "{" + text + "}"
}

func wantBuckets(want map[string]float64, m *nativeMetric, label string, b metrics.Buckets) {
	for i, bound := range b.Bounds {
		want[m.name+"_bucket"+braced(m.pair(label), fmt.Sprintf(`le="%v"`, bound))] = float64(b.Counts[i])
	}
	want[m.name+"_bucket"+braced(m.pair(label), `le="+Inf"`)] = float64(b.Count)
	want[m.name+"_count"+braced(m.pair(label))] = float64(b.Count)
	want[m.name+"_sum"+braced(m.pair(label))] = b.Sum
}

// Prometheus gets every row of the table of own metrics with its kind, its help and all its series, and
// nothing else under a name of Rollcall's.
func TestOwnMetricsAreTheTable(t *testing.T) {
	var d Details
	next := int64(1001)
	fill(reflect.ValueOf(&d).Elem(), &next)
	d.Role, d.Damage, d.Stalled = "leader", "bits", ""
	got, want := scrapedDetails(t, d)
	for name, value := range want {
		if v, ok := got.value[name]; !ok || v != value {
			t.Errorf("%s is %v, there: %t; want %v", name, v, ok, value)
		}
	}
	for name := range got.value {
		if _, wanted := want[name]; strings.HasPrefix(name, "rollcall_") && !wanted {
			t.Errorf("%s is no series of the table", name)
		}
	}
	for i := range nativeMetrics {
		m := &nativeMetrics[i]
		if got.kind[m.name] != m.kind.String() || got.help[m.name] != m.help {
			t.Errorf("%s is a %s: %q; want a %v: %q", m.name, got.kind[m.name], got.help[m.name], m.kind, m.help)
		}
	}
}

// No two own metrics show the same number, and every number in Details is shown.
func TestEveryOwnMetricShowsItsField(t *testing.T) {
	var d Details
	fields, next := reflect.ValueOf(&d).Elem(), int64(1001)
	of := map[float64]string{} // by number: its field
	for i := range fields.NumField() {
		from := next
		fillField(fields.Field(i), &next)
		for n := from; n < next; n++ {
			of[float64(n)] = fields.Type().Field(i).Name
		}
	}
	d.Health, d.Version = Health{Role: "leader", HasLeader: true, Joining: true, Stalled: "hangs", Damage: "bits"}, "1"
	shown := map[string]bool{"Health": true, "Version": true}
	names := map[float64]string{}
	_, samples := scrapedDetails(t, d)
	for name, value := range samples {
		if strings.Contains(name, `le="+Inf"`) || value == 1 { // the count, or a flag
			continue
		}
		if other := names[value]; other != "" {
			t.Errorf("%s is %v, as %s is", name, value, other)
		}
		names[value], shown[of[value]] = name, true
	}
	for i := range fields.NumField() {
		if field := fields.Type().Field(i).Name; !shown[field] {
			t.Errorf("no metric shows Details.%s", field)
		}
	}
}

// Every flag shows what it is about, and nothing else.
func TestFlagsOfAMember(t *testing.T) {
	for name, health := range map[string]Health{
		"rollcall_leader_known": {HasLeader: true}, "rollcall_joining": {Joining: true},
		"rollcall_stalled": {Stalled: "hangs"}, "rollcall_damaged": {Damage: "bits"}, "rollcall_serving": {Role: "follower"},
	} {
		got, _ := scrapedDetails(t, Details{Health: health})
		for _, flag := range []string{
			"rollcall_leader_known", "rollcall_joining", "rollcall_stalled", "rollcall_damaged", "rollcall_serving", "rollcall_leading",
		} {
			if got.value[flag] == 1 != (flag == name) {
				t.Errorf("of %+v, %s is %v", health, flag, got.value[flag])
			}
		}
	}
	if got, _ := scrapedDetails(t, Details{Health: Health{Role: "follower", Drained: true}}); got.value["rollcall_serving"] != 0 {
		t.Error("a drained member serves")
	}
	for _, role := range []string{"leader", "standalone"} {
		if got, _ := scrapedDetails(t, Details{Health: Health{Role: role}}); got.value["rollcall_leading"] != 1 {
			t.Errorf("a %s does not lead", role)
		}
	}
}

// docs/metrics.md has the table of own metrics, row for row.
func TestDocsHaveOwnMetrics(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "| Metric | Kind | Unit | Label | Meaning |\n|---|---|---|---|---|\n")
	if !ok {
		t.Fatal("docs/metrics.md: no table of metrics")
	}
	var want strings.Builder
	for i := range nativeMetrics {
		m := &nativeMetrics[i]
		fmt.Fprintf(&want, "| `%s` | %v | %s | %s | %s |\n", m.name, m.kind, m.unit(), m.label, m.help)
	}
	if got, _, _ := strings.Cut(rest, "\n\n"); got+"\n" != want.String() {
		t.Errorf("the table in docs/metrics.md differs from the program's, which is\n%s", want.String())
	}
}

// Names follow Prometheus's conventions: a counter ends in _total, a histogram in its unit, and nothing
// else does.
func TestOwnNames(t *testing.T) {
	for i := range nativeMetrics {
		m := &nativeMetrics[i]
		if strings.HasSuffix(m.name, "_total") != (m.kind == counter) || m.kind == histogram && m.unit() == "" || !strings.HasPrefix(m.name, "rollcall_") ||
			(m.values == nil) != (m.kind == histogram) || (m.buckets == nil) == (m.kind == histogram) || m.help == "" {
			t.Errorf("row %q is not complete, or its name does not say what it is", m.name)
		}
	}
}

// unit returns the unit that the metric's name has, or "".
func (m *nativeMetric) unit() string {
	name := strings.TrimSuffix(m.name, "_total")
	for _, unit := range []string{"seconds", "bytes"} {
		if strings.HasSuffix(name, "_"+unit) {
			return unit
		}
	}
	return ""
}
