package admin

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"rollcall/internal/metrics"
)

// Each metric shows a field of Stats of its own. Exceptions are followers, which is learners under another name, and the
// metrics of features that a member does not have.
func TestEveryMetricShowsItsField(t *testing.T) {
	var s Stats
	next := int64(1001)
	populateFields(reflect.ValueOf(&s).Elem(), &next)
	s.Role = "leader"
	shown := map[string]string{} // by value: the metric
	for i := range monitorMetrics {
		m := &monitorMetrics[i]
		m.eachLine(&s, func(name, value string) {
			if reflect.ValueOf(m.readValue).Pointer() == reflect.ValueOf(alwaysZero).Pointer() {
				return
			}
			if value == "1" {
				return // TestMetricsOfSwitches
			}
			if value == "0" || value == "0.0" {
				t.Errorf("%s shows no field", name)
			}
			if other := shown[value]; other != "" && name != "followers" {
				t.Errorf("%s is %s, as %s is", name, value, other)
			}
			shown[value] = name
		})
	}
}

// Each metric that is 0 or 1 shows a field of its own.
func TestMetricsOfSwitches(t *testing.T) {
	ones := func(s *Stats) (names []string) {
		for i := range monitorMetrics {
			monitorMetrics[i].eachLine(s, func(name, value string) {
				if value == "1" {
					names = append(names, name)
				}
			})
		}
		return names
	}
	var s Stats
	next := int64(1001)
	fields := reflect.ValueOf(&s).Elem()
	populateFields(fields, &next)
	s.Role = "leader"
	all := ones(&s)
	var shown []string
	for _, f := range fields.Fields() {
		if f.Kind() != reflect.Bool {
			continue
		}
		f.SetBool(false)
		off := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(ones(&s), name) })
		if len(off) > 1 {
			t.Errorf("these show one field: %q", off)
		}
		shown = append(shown, off...)
		f.SetBool(true)
	}
	slices.Sort(shown)
	if slices.Sort(all); !slices.Equal(shown, all) || len(all) < 2 {
		t.Errorf("%q show a field, want %q", shown, all)
	}
}

// populateFields gives each number in a struct another value: a duration so many milliseconds. Values lie two
// apart, because a metric may be one more than its field. A map gets two keys, and a histogram two
// bounds.
func populateFields(v reflect.Value, next *int64) {
	for i := range v.NumField() {
		fillField(v.Field(i), next)
	}
}

func fillField(f reflect.Value, next *int64) {
	switch {
	case f.Type() == reflect.TypeFor[metrics.Buckets]():
		n := uint64(*next)
		f.Set(reflect.ValueOf(metrics.Buckets{Bounds: []float64{0.5, 2}, Counts: []uint64{n, n + 2}, Count: n + 4, Sum: float64(n + 6)}))
		*next += 6
	case f.Kind() == reflect.Struct:
		populateFields(f, next)
	case f.Kind() == reflect.Map:
		f.Set(reflect.MakeMap(f.Type()))
		for _, key := range []string{"one", "two"} {
			value := reflect.New(f.Type().Elem()).Elem()
			fillField(value, next)
			f.SetMapIndex(reflect.ValueOf(key), value)
		}
	case f.Kind() == reflect.Bool:
		f.SetBool(true)
	case f.Type() == reflect.TypeFor[time.Duration]():
		f.SetInt(*next * int64(time.Millisecond))
	case f.CanInt():
		f.SetInt(*next)
	case f.CanUint():
		f.SetUint(uint64(*next))
	case f.CanFloat():
		f.SetFloat(float64(*next))
	}
	*next += 2
}

// Metrics with similar meanings have values of their own: the counts of proposals, commits and
// expiries, and the percentiles of one metric.
func TestFiguresAreTheirOwn(t *testing.T) {
	s := &Stats{
		Role: "leader", ProposedTransactions: 41, CommittedTransactions: 42, ExpiredSessions: 43,
		Updates: metrics.Summary{Count: 9, P50: 50 * time.Millisecond, P95: 95 * time.Millisecond, P99: 99 * time.Millisecond, P999: 999 * time.Millisecond},
	}
	got := map[string]string{}
	for i := range monitorMetrics {
		if m := &monitorMetrics[i]; m.isReported(s) {
			m.eachLine(s, func(name, value string) { got[name] = value })
		}
	}
	for name, want := range map[string]string{
		"proposal_count": "41", "commit_count": "42", "stale_sessions_expired": "43",
		"p50_updatelatency": "50", "p95_updatelatency": "95", "p99_updatelatency": "99", "p999_updatelatency": "999",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %s", name, got[name], want)
		}
	}
}
