package clients

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

const (
	// scrapeEvery is the interval in which Prometheus scrapes the members and evaluates the alerts. A member must reply
	// in this time, also on a busy machine.
	scrapeEvery = 500 * time.Millisecond
	// shortFor is the time for which an alert has to hold in the test, in place of the rules' own time.
	shortFor = "1s"
	// lately is the time in which an alert must not have fired. It is as long as moreRounds.
	lately = "3s"
	// loadTime is for how long each case of the load runs.
	loadTime = "700ms"
	// moreRounds is the most scrapes of all members until an alert that holds fires.
	moreRounds = 6
)

// prometheus is Debian's Prometheus, which scrapes an ensemble.
type prometheus struct {
	url string
	t   *testing.T
}

// Debian's Prometheus scrapes an ensemble under load. promtool finds no fault with the alerts, nor with
// Rollcall's own metrics. All panels of the dashboard have data, and no alert fires. When a member is
// killed, two do: Prometheus does not reach it, and neither does the leader.
func TestPrometheus(t *testing.T) {
	needs.Check(t, needs.Usual)
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	defer cancel()
	promtool(t, nil, "check", "rules", "../../deploy/alerts.yml")
	promtool(t, nil, "test", "rules", "../../deploy/alerts_test.yml")

	e := process.StartEnsemble(t, process.Config{
		Binary: rollcall, Size: 3, Tick: 2 * time.Second, Lines: process.AnyHTTP + "archive.to=" + t.TempDir() + "\narchive.seconds=1\n",
	})
	var targets []string
	for _, m := range e.Members {
		addr, err := m.HTTP()
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, addr)
	}
	p := startPrometheus(ctx, t, targets)
	load(t, e)
	leader := e.Settle()
	checkMetrics(t, targets[leader.ID-1])
	p.awaitScrapes(ctx, moreRounds)
	p.wantFired(ctx, nil)
	p.panels()

	victim := e.Members[leader.ID%3]
	victim.Process.Kill()
	p.awaitScrapes(ctx, moreRounds)
	p.wantFired(ctx, []string{"RollcallMemberDown " + targets[victim.ID-1], fmt.Sprintf("RollcallMemberSilent %d", victim.ID)})
}

// load has clients send requests of most classes, open and close sessions, and set watches.
func load(t *testing.T, e *process.Ensemble) {
	t.Helper()
	bench := exec.CommandContext(t.Context(), rollcall, "bench", "--hosts="+strings.Join(e.ClientAddresses(e.Members[0]), ","),
		"--duration="+loadTime, "--warmup=0s", "--conns=6", "mix", "create", "sessions:conns=6", "watches:watchers=10", "multi")
	if out, err := bench.CombinedOutput(); err != nil {
		t.Fatalf("load: %v\n%s", err, out)
	}
}

// promtool runs promtool with an input, and returns its output. It must find no fault, unless the arguments are "check
// metrics".
func promtool(t *testing.T, input []byte, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "promtool", args...)
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && (args[1] != "metrics" || !errors.As(err, &exit)) {
		t.Fatalf("promtool %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// checkMetrics lets promtool check what a member serves. ZooKeeper's names do not follow Prometheus's
// conventions, so promtool may complain of these.
func checkMetrics(t *testing.T, target string) {
	t.Helper()
	answer, err := http.Get("http://" + target + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("metrics: %s, %v", answer.Status, err)
	}
	complaints := promtool(t, text, "check", "metrics")
	for line := range strings.Lines(complaints) {
		if strings.HasPrefix(line, "rollcall_") || strings.HasPrefix(line, "error") {
			t.Errorf("promtool: %s", line)
		}
	}
	if !strings.Contains(complaints, "packets_received") {
		t.Errorf("promtool has not read the metrics: %s", complaints)
	}
}

var heldFor = regexp.MustCompile(`(?m)^( +for:).*`)

// startPrometheus starts Prometheus with the alerts, and waits until it has scraped all targets.
func startPrometheus(ctx context.Context, t *testing.T, targets []string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	rules, err := os.ReadFile("../../deploy/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	quick := heldFor.ReplaceAllString(string(rules), "$1 "+shortFor)
	cfg := fmt.Sprintf(`global: {scrape_interval: %v, scrape_timeout: %v, evaluation_interval: %v}
rule_files: [alerts.yml]
scrape_configs:
  - job_name: rollcall
    static_configs: [{targets: [%s]}]
`, scrapeEvery, scrapeEvery, scrapeEvery, strings.Join(quoteAll(targets), ", "))
	for name, text := range map[string]string{"alerts.yml": quick, "prometheus.yml": cfg} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	port := process.FreePort(t)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the process has a descriptor of its own
	cmd := exec.Command("prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+port.String())
	cmd.Stdout, cmd.Stderr = log, log
	process.Start(t, "prometheus", cmd, func() string {
		text, _ := os.ReadFile(log.Name())
		return string(text)
	})
	p := &prometheus{url: "http://" + port.String(), t: t}
	err = process.Until(ctx, "Prometheus asks all members", func() bool {
		answer, err := http.Get(p.url + "/-/ready")
		if err != nil {
			return false
		}
		_ = answer.Body.Close()
		return answer.StatusCode == http.StatusOK && len(p.query(`up{job="rollcall"} == 1`)) == len(targets)
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func quoteAll(texts []string) (quoted []string) {
	for _, text := range texts {
		quoted = append(quoted, fmt.Sprintf("%q", text))
	}
	return quoted
}

// series is one that a query has returned.
type series struct {
	labels map[string]string
	value  int // rounded down
}

// query returns the current result of a query.
func (p *prometheus) query(query string) (all []series) {
	p.t.Helper()
	answer, err := http.Get(p.url + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var result struct {
		Error string
		Data  struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any // time and value
			}
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&result); err != nil || result.Error != "" {
		p.t.Fatalf("%s: %v %s", query, err, result.Error)
	}
	for _, r := range result.Data.Result {
		value, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64)
		if err != nil {
			p.t.Fatalf("%s: %v", query, err)
		}
		all = append(all, series{r.Metric, int(value)})
	}
	return all
}

// awaitScrapes waits until Prometheus has scraped every member so many more times, and evaluated the alerts as often.
func (p *prometheus) awaitScrapes(ctx context.Context, n int) {
	p.t.Helper()
	asked := func() (times int) {
		times = math.MaxInt
		for _, up := range p.query(`count_over_time(up{job="rollcall"}[5m])`) {
			times = min(times, up.value)
		}
		return times
	}
	before := asked()
	if err := process.Until(ctx, "Prometheus asks the members again", func() bool { return asked() >= before+n }); err != nil {
		p.t.Fatal(err)
	}
}

// ofABusyMachine are alerts that may rightly fire on a machine that runs other tests beside this one.
const ofABusyMachine = "RollcallSlow.*|RollcallPauses|RollcallLeaderChanges|RollcallWriteGap|RollcallVouchingCuts|RollcallExpiriesLate|RollcallSessionsExpire|RollcallDisk.*"

// firedAlerts returns the alerts that have fired lately, each with its member, without the alerts about this machine.
func (p *prometheus) firedAlerts() (alerts []string) {
	p.t.Helper()
	for _, s := range p.query(`count by (alertname, instance, member) (last_over_time(ALERTS{alertstate="firing", alertname!~"` + ofABusyMachine + `"}[` + lately + `]))`) {
		alerts = append(alerts, s.labels["alertname"]+" "+cmp.Or(s.labels["instance"], s.labels["member"]))
	}
	return alerts
}

// wantFired waits until these alerts have fired lately, and no others. On a busy machine a member may rightly be out of
// reach, or without a leader, for a moment. An alert that is wrong fires all the time, because it holds without a reason.
func (p *prometheus) wantFired(ctx context.Context, want []string) {
	p.t.Helper()
	var fired []string
	if err := process.Until(ctx, "the alerts", func() bool {
		fired = p.firedAlerts()
		return slices.Equal(fired, want)
	}); err != nil {
		p.t.Errorf("%v: %q have fired, want %q", err, fired, want)
	}
}

// panels fails the test if a query of the dashboard has no data.
func (p *prometheus) panels() {
	p.t.Helper()
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	text, err := os.ReadFile("../../deploy/grafana/rollcall.json")
	if err == nil {
		err = json.Unmarshal(text, &dashboard)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	variables := strings.NewReplacer("$job", "rollcall", "$instance", ".+", "$__rate_interval", "1m")
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			if strings.Contains(target.Expr, "rollcall_history_seconds") {
				continue // a new ensemble keeps nothing of the past yet
			}
			if len(p.query(variables.Replace(target.Expr))) == 0 {
				p.t.Errorf("%s has no data for %s", panel.Title, target.Expr)
			}
		}
	}
}
