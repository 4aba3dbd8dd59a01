package member_test

import (
	"encoding/json"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.yaml.in/yaml/v3"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/zk/jute"
)

var (
	// what a query has besides names of metrics: matchers and texts, ranges, and lists of labels
	notNames = regexp.MustCompile(`\{[^}]*\}|"[^"]*"|\[[^\]]*\]|\b(by|on|group_left|without) *\([^)]*\)`)
	// a name, unless it is a function or a number
	nameInQuery = regexp.MustCompile(`\b[a-z_]\w*\b *\(?`)
	keywords    = strings.Fields("and or unless offset bool")
)

// namesIn returns the names of metrics in a query of Prometheus.
func namesIn(query string) (names []string) {
	query = regexp.MustCompile(`offset \w+`).ReplaceAllString(notNames.ReplaceAllString(query, " "), " ")
	for _, name := range nameInQuery.FindAllString(query, -1) {
		if name = strings.TrimSpace(name); !strings.HasSuffix(name, "(") && !slices.Contains(keywords, name) {
			names = append(names, name)
		}
	}
	return names
}

func TestNamesIn(t *testing.T) {
	for query, want := range map[string]string{
		`rollcall_applied_index < on (job) group_left () max by (job) (rollcall_applied_index offset 1m)`:                                   "rollcall_applied_index rollcall_applied_index",
		`histogram_quantile(0.99, sum by (job, le) (rate(a_bucket{class="write (all)"}[5m]))) > 1e9`:                                        "a_bucket",
		`b == 0 unless on (job, instance) (c{x="1"} == 1 or d == 1)`:                                                                        "b c d",
		`sum(increase(e_total[$__rate_interval])) / clamp_min(f, 2) and predict_linear(g[6h], 86400) < 0 and count by (version) (rollcall)`: "e_total f g rollcall",
	} {
		if got := strings.Join(namesIn(query), " "); got != want {
			t.Errorf("%s has %q, want %q", query, got, want)
		}
	}
}

// queries returns the queries of the dashboard and of the alerts, by panel or alert.
func queries(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	var dashboard struct {
		Panels []struct {
			Type, Title, Description string
			Targets                  []struct{ Expr string }
		}
		Annotations struct {
			List []struct{ Name, Expr string }
		}
	}
	read(t, "../deploy/grafana/rollcall.json", json.Unmarshal, &dashboard)
	for _, p := range dashboard.Panels {
		if p.Type != "row" && (p.Title == "" || p.Description == "" || len(p.Targets) == 0 || all[p.Title] != nil) {
			t.Errorf("panel %q is not complete, or there are two of that name", p.Title)
		}
		for _, target := range p.Targets {
			all[p.Title] = append(all[p.Title], target.Expr)
		}
	}
	for _, a := range dashboard.Annotations.List {
		if a.Expr != "" {
			all[a.Name] = append(all[a.Name], a.Expr)
		}
	}
	var alerts struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	read(t, "../deploy/alerts.yml", yaml.Unmarshal, &alerts)
	for _, g := range alerts.Groups {
		for _, r := range g.Rules {
			all[r.Alert] = append(all[r.Alert], r.Expr)
		}
	}
	return all
}

func read(t *testing.T, path string, into func([]byte, any) error, value any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = into(text, value)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// Every metric that the dashboard or an alert names is in the /metrics of a member. Every metric of
// Rollcall's own is on the dashboard or in an alert.
func TestDashboardAndAlertsNameMetrics(t *testing.T) {
	served := map[string]bool{"up": true} // Prometheus's own
	synctest.Test(t, func(t *testing.T) {
		all := operators{}
		e := cluster.Start(t, 3, cluster.Options{Adjust: func(cfg *member.Config) {
			all.listen(cfg)
			cfg.OperatorListener, cfg.MetricsListener = nil, cfg.OperatorListener
			cfg.Audit.Enable, cfg.AuditOutput = true, io.Discard // for its metric
		}})
		leader := e.Ready()
		if _, err := e.Connect(20*time.Second, leader).Create("/n", nil, jute.Persistent); err != nil {
			t.Fatal(err)
		}
		samples, _ := all.samples(t, leader)
		for name := range samples {
			name, _, _ = strings.Cut(name, "{")
			served[name] = true
		}
	})
	served["rollcall_disk_used_bytes"], served["rollcall_disk_free_bytes"] = true, true // these members have no files
	served["rollcall_history_seconds"] = true                                           // nor a past
	served["rollcall_archive_age_seconds"] = true                                       // nor an archive
	served["rollcall_certificate_valid_seconds"] = true                                 // nor certificates: TestCertificateMetric
	served["rollcall_ticket_valid_seconds"] = true                                      // nor Kerberos: trust.TestKerberos
	served["rollcall_otlp_dropped_total"] = true                                        // nor a collector: TestEveryOwnMetricLeavesZero
	named := map[string]bool{}
	total := 0
	for of, exprs := range queries(t) {
		for _, expr := range exprs {
			for _, name := range namesIn(expr) {
				total++
				if !served[name] {
					t.Errorf("%s names %s, which no member has, in %s", of, name, expr)
				}
				for _, suffix := range []string{"_bucket", "_count", "_sum"} {
					name = strings.TrimSuffix(name, suffix)
				}
				named[name] = true
			}
		}
	}
	if total < 80 {
		t.Errorf("only %d names", total)
	}
	for name := range served {
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			name = strings.TrimSuffix(name, suffix)
		}
		if strings.HasPrefix(name, "rollcall_") && !named[name] {
			t.Errorf("neither the dashboard nor an alert shows %s", name)
		}
	}
}
