package otlp

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	"google.golang.org/protobuf/proto"

	"rollcall/internal/stages"
	"rollcall/operator/logs/logtest"
	"rollcall/operator/otlp/otlptest"
)

// running is an Exporter that runs against a collector of the test, in a bubble.
type running struct {
	*Exporter
	collector *otlptest.Collector
	lines     *logtest.Buffer
	stop      func() time.Duration // ends the Exporter, and returns how long that took
}

func start(t *testing.T, adjust func(*Config)) *running {
	t.Helper()
	r := &running{collector: otlptest.Start(), lines: &logtest.Buffer{}}
	cfg := Config{
		Settings: Settings{Endpoint: "http://collector:4318/"}, Member: 2, InstanceID: func() string { return "ab/2" }, Version: "v1",
		Gatherer: prometheus.NewRegistry(), StartTime: time.Now(), Now: time.Now, Dial: r.collector.Dial,
		Logger: slog.New(slog.NewTextHandler(r.lines, nil)),
	}
	if adjust != nil {
		adjust(&cfg)
	}
	var err error
	if r.Exporter, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		_ = r.Run(ctx)
		close(ended)
	}()
	r.stop = func() time.Duration {
		begun := time.Now()
		cancel()
		<-ended
		return time.Since(begun)
	}
	t.Cleanup(func() {
		r.stop()
		r.collector.Close()
	})
	return r
}

// inBubble runs a test with an Exporter.
func inBubble(t *testing.T, adjust func(*Config), test func(t *testing.T, r *running)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, start(t, adjust)) })
}

// slowWrite is a slow request of two stages.
func slowWrite() *stages.Slow {
	return &stages.Slow{
		Request: stages.Request{Session: 0x2a, Address: "10.0.0.7:4711", Op: "setData", Path: "/a", Xid: 7, Index: 99},
		Number:  0x1f, At: time.Now(), Total: 500 * time.Millisecond, Joined: true,
		Stages: []stages.Stage{
			{Kind: stages.StageLink, Member: 2, To: 1, Took: 100 * time.Millisecond},
			{Kind: stages.StageDisk, Member: 1, Took: 400 * time.Millisecond},
		},
		Causes:  []stages.MemberCause{{Kind: stages.Snapshot, Member: 1, Took: 300 * time.Millisecond}},
		Missing: []uint32{3},
	}
}

// attributesOf returns attributes as text.
func attributesOf(all []*common.KeyValue) map[string]string {
	texts := map[string]string{}
	for _, one := range all {
		texts[one.Key] = valueText(one.Value)
	}
	return texts
}

func valueText(v *common.AnyValue) string {
	switch v := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_IntValue:
		return strconv.FormatInt(v.IntValue, 10)
	case *common.AnyValue_ArrayValue:
		var parts []string
		for _, one := range v.ArrayValue.Values {
			parts = append(parts, valueText(one))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return ""
}

// A slow request is a trace: one span for the request, and one for each stage, which begins where the stage before ends.
func TestSlowRequestIsATrace(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *running) {
		one := slowWrite()
		r.KeepSlow(one)
		synctest.Wait()
		spans := r.collector.Spans()
		if len(spans) != 3 {
			t.Fatalf("%d spans, want 3: %v", len(spans), spans)
		}
		root, at := spans[0], one.At
		if root.Name != "setData" || len(root.TraceId) != 16 || len(root.SpanId) != 8 || root.ParentSpanId != nil ||
			root.StartTimeUnixNano != uint64(at.UnixNano()) || root.EndTimeUnixNano != uint64(at.Add(one.Total).UnixNano()) {
			t.Errorf("the request is %v", root)
		}
		want := map[string]string{
			"rollcall.slow.id": "2-1f", "zookeeper.operation": "setData", "zookeeper.session.id": "0x2a", "zookeeper.xid": "7",
			"zookeeper.path": "/a", "client.address": "10.0.0.7", "client.port": "4711", "rollcall.entry": "99",
			"rollcall.causes": "[snapshot on member 1 for 300ms]", "rollcall.members.missing": "[3]",
		}
		if got := attributesOf(root.Attributes); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the attributes are %v, want %v", got, want)
		}
		for i, stage := range one.Stages {
			span := spans[i+1]
			if span.Name != stage.Kind.String() || string(span.ParentSpanId) != string(root.SpanId) || string(span.TraceId) != string(root.TraceId) ||
				span.StartTimeUnixNano != uint64(at.UnixNano()) || span.EndTimeUnixNano != uint64(at.Add(stage.Took).UnixNano()) {
				t.Errorf("stage %v is %v", stage, span)
			}
			if got := attributesOf(span.Attributes)["rollcall.member"]; got != fmt.Sprint(stage.Member) {
				t.Errorf("stage %v is of member %s", stage, got)
			}
			at = at.Add(stage.Took)
		}
		from := attributesOf(r.collector.Resources()[0].Attributes)
		if fmt.Sprint(from) != "map[rollcall.member.id:2 service.instance.id:ab/2 service.name:rollcall service.version:v1]" {
			t.Errorf("the sender is %v", from)
		}
		if r.sent.spans.Load() != 3 || r.dropped.spans.Load() != 0 {
			t.Errorf("%d spans are sent and %d dropped, want 3 and 0", r.sent.spans.Load(), r.dropped.spans.Load())
		}
	})
}

// A pause has no client, and a request whose connection ended is an error.
func TestPausesAndLostRequests(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *running) {
		r.KeepSlow(&stages.Slow{Request: stages.Request{Op: stages.PauseOp}, Number: 1, At: time.Now(), Connections: 5})
		lost := slowWrite()
		lost.Lost = true
		r.KeepSlow(lost)
		synctest.Wait()
		spans := r.collector.Spans()
		if got := attributesOf(spans[0].Attributes); spans[0].Name != "pause" ||
			fmt.Sprint(got) != "map[rollcall.clients:5 rollcall.slow.id:2-1]" {
			t.Errorf("the pause is %v", spans[0])
		}
		if spans[1].GetStatus().GetMessage() == "" {
			t.Errorf("the lost request has no status: %v", spans[1])
		}
	})
}

// Clients choose paths. They are short, and valid UTF-8 without control characters, when they leave: a message with other
// bytes could not be encoded, and all slow requests of its batch would be lost.
func TestPathsAreEscaped(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *running) {
		one := slowWrite()
		one.Path = "/\xff\x1b[2J\u202e" + strings.Repeat("é", maxShownText)
		r.KeepSlow(one)
		synctest.Wait()
		spans := r.collector.Spans()
		if len(spans) == 0 {
			t.Fatal("no span has come")
		}
		got := attributesOf(spans[0].Attributes)["zookeeper.path"]
		if !strings.HasPrefix(got, `/\xff\x1b[2J\u202eé`) || len(got) > 2*maxShownText {
			t.Errorf("the path is %q", got)
		}
	})
}

// Of a request with very many stages, the first ones are sent, and the number of the others.
func TestStagesAreBounded(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *running) {
		one := slowWrite()
		one.Stages = slices.Repeat(one.Stages[:1], maxStages+3)
		r.KeepSlow(one)
		synctest.Wait()
		spans := r.collector.Spans()
		if left := attributesOf(spans[0].Attributes)["rollcall.stages.left_out"]; len(spans) != maxStages+1 || left != "3" {
			t.Errorf("%d spans, and %s stages are left out; want %d and 3", len(spans), left, maxStages+1)
		}
	})
}

// Each kind of metric of Prometheus arrives with its name and its values.
func TestMetricsArrive(t *testing.T) {
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "c_total", Help: "a counter"}, []string{"kind"})
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "g"})
	histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", Buckets: []float64{1, 10}})
	summary := prometheus.NewSummary(prometheus.SummaryOpts{Name: "s", Objectives: map[float64]float64{0.5: 0.01}})
	registry.MustRegister(counter, gauge, histogram, summary)
	counter.WithLabelValues("x").Add(3)
	gauge.Set(-1.5)
	for _, v := range []float64{0.5, 5, 6, 50} {
		histogram.Observe(v)
		summary.Observe(v)
	}
	inBubble(t, func(cfg *Config) { cfg.Gatherer, cfg.MetricsInterval = registry, 5*time.Second }, func(t *testing.T, r *running) {
		begun := time.Now()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		var got []string
		for _, m := range r.collector.Metrics() {
			switch {
			case m.GetSum() != nil:
				p := m.GetSum().DataPoints[0]
				got = append(got, fmt.Sprint(m.Name, " ", m.Description, " ", m.GetSum().IsMonotonic, attributesOf(p.Attributes), p.GetAsDouble(),
					p.StartTimeUnixNano == uint64(begun.UnixNano()), p.TimeUnixNano-p.StartTimeUnixNano))
			case m.GetGauge() != nil:
				got = append(got, fmt.Sprint(m.Name, " ", m.GetGauge().DataPoints[0].GetAsDouble()))
			case m.GetHistogram() != nil:
				p := m.GetHistogram().DataPoints[0]
				got = append(got, fmt.Sprint(m.Name, " ", p.Count, " ", p.GetSum(), p.ExplicitBounds, p.BucketCounts))
			case m.GetSummary() != nil:
				p := m.GetSummary().DataPoints[0]
				got = append(got, fmt.Sprint(m.Name, " ", p.Count, " ", p.Sum, len(p.QuantileValues)))
			}
		}
		want := []string{"c_total a counter true map[kind:x] 3 true 5000000000", "g -1.5", "h 4 61.5 [1 10] [1 2 1]", "s 4 61.5 1"}
		if !slices.Equal(got, want) {
			t.Errorf("the metrics are\n%q, want\n%q", got, want)
		}
		if r.sent.points.Load() != 4 {
			t.Errorf("%d points are sent, want 4", r.sent.points.Load())
		}
	})
}

// A summary without values has quantiles that are no numbers, as at /metrics.
func TestQuantilesWithoutValues(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewSummary(prometheus.SummaryOpts{Name: "s", Objectives: map[float64]float64{0.5: 0.01}}))
	inBubble(t, func(cfg *Config) { cfg.Gatherer = registry }, func(t *testing.T, r *running) {
		time.Sleep(DefaultMetricsInterval)
		synctest.Wait()
		if all := r.collector.Metrics(); len(all) != 1 || !math.IsNaN(all[0].GetSummary().DataPoints[0].QuantileValues[0].Value) {
			t.Errorf("the metrics are %v", all)
		}
	})
}

// The settings switch traces and metrics off, each by itself.
func TestSwitches(t *testing.T) {
	for name, set := range map[string]func(*Config){
		"/v1/traces":  func(cfg *Config) { cfg.NoMetrics = true },
		"/v1/metrics": func(cfg *Config) { cfg.NoTraces = true },
	} {
		t.Run("only "+name, func(t *testing.T) {
			inBubble(t, set, func(t *testing.T, r *running) {
				for range maxQueued + 1 {
					r.KeepSlow(slowWrite())
					synctest.Wait()
				}
				time.Sleep(2*DefaultMetricsInterval + time.Second)
				if r.dropped.spans.Load() != 0 {
					t.Errorf("%d spans are dropped, want none", r.dropped.spans.Load())
				}
				all := r.collector.Requests()
				if len(all) == 0 || slices.ContainsFunc(all, func(q otlptest.Request) bool { return q.Path != name }) {
					t.Errorf("the requests are %v, want some to %s", all, name)
				}
			})
		})
	}
	off := []Settings{{}, {Endpoint: "http://a", NoTraces: true, NoMetrics: true}}
	for _, s := range off {
		e, err := New(Config{Settings: s})
		if e != nil || err != nil {
			t.Errorf("%+v makes %v, %v; want none", s, e, err)
		}
	}
	var none *Exporter
	none.KeepSlow(slowWrite())
	none.ReloadFiles()
	if none.NativeMetrics() != nil {
		t.Error("no Exporter has metrics")
	}
}

// A busy collector gets the same traces again. The retry waits for the time in the collector's reply, or backs off if
// the reply has none.
func TestRetries(t *testing.T) {
	for _, retryAfter := range []string{"", "90"} {
		t.Run("Retry-After "+retryAfter, func(t *testing.T) {
			inBubble(t, func(cfg *Config) { cfg.NoMetrics = true }, func(t *testing.T, r *running) {
				var times []time.Duration
				begun := time.Now()
				r.collector.Handle(func(w http.ResponseWriter, q *http.Request) {
					if times = append(times, time.Since(begun)); len(times) == 3 {
						r.collector.Take(w, q)
						return
					}
					if retryAfter != "" {
						w.Header().Set("Retry-After", retryAfter)
					}
					w.WriteHeader(http.StatusTooManyRequests)
				})
				r.KeepSlow(slowWrite())
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				first, second := firstPause, 2*firstPause
				if retryAfter != "" {
					first, second = 90*time.Second, 90*time.Second
				}
				if len(times) != 3 || times[1] < first || times[1] > first*5/4 || times[2]-times[1] < second || times[2]-times[1] > second*5/4 {
					t.Errorf("tries after %v, want 3 with pauses of %v and %v", times, first, second)
				}
				if len(r.collector.Spans()) != 3 || r.sent.spans.Load() != 3 || r.dropped.spans.Load() != 0 {
					t.Errorf("%d spans came; %d are counted as sent and %d as dropped",
						len(r.collector.Spans()), r.sent.spans.Load(), r.dropped.spans.Load())
				}
			})
		})
	}
}

// Traces are dropped after maxTries if the collector stays busy. No wait is longer than maxRetryAfter, whatever the
// collector's reply says.
func TestGivesUp(t *testing.T) {
	inBubble(t, func(cfg *Config) { cfg.NoMetrics = true }, func(t *testing.T, r *running) {
		r.collector.Handle(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "4000000000")
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		r.KeepSlow(slowWrite())
		time.Sleep((maxTries-1)*maxRetryAfter + time.Second)
		if n := len(r.collector.Requests()); n != maxTries || r.dropped.spans.Load() != 3 {
			t.Errorf("%d tries, and %d spans are dropped; want %d and 3", n, r.dropped.spans.Load(), maxTries)
		}
	})
}

// Traces that a collector rejects for good are not sent again. The logged line says what to do.
func TestRejections(t *testing.T) {
	for status, advice := range map[int]string{
		400: "check otlp.endpoint", 404: "must be the URL before /v1/traces", 413: "longer requests", 415: "application/x-protobuf",
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			inBubble(t, func(cfg *Config) { cfg.NoMetrics = true }, func(t *testing.T, r *running) {
				r.collector.Handle(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no \x1b[2J", status) })
				r.KeepSlow(slowWrite())
				time.Sleep(10 * time.Minute)
				if len(r.collector.Requests()) != 1 || r.dropped.spans.Load() != 3 {
					t.Errorf("%d requests, and %d spans are dropped; want 1 and 3", len(r.collector.Requests()), r.dropped.spans.Load())
				}
				if got := r.lines.String(); !strings.Contains(got, advice) || !strings.Contains(got, "x1b[2J") || strings.Contains(got, "\x1b") {
					t.Errorf("the lines are %s, want %q", got, advice)
				}
			})
		})
	}
}

// The file with headers is read for each request. A token that is replaced is used, and no line shows it.
func TestHeadersOfRequests(t *testing.T) {
	file := filepath.Join(t.TempDir(), "headers")
	write := func(token string) {
		if err := os.WriteFile(file, []byte("# for the collector\n\nAuthorization: Bearer "+token+"\r\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("secret-one")
	inBubble(t, func(cfg *Config) { cfg.HeadersFile, cfg.NoMetrics = file, true }, func(t *testing.T, r *running) {
		r.collector.Handle(func(w http.ResponseWriter, q *http.Request) {
			if q.Header.Get("Authorization") != "Bearer secret-two" {
				http.Error(w, "who are you?", http.StatusUnauthorized)
				return
			}
			r.collector.Take(w, q)
		})
		r.KeepSlow(slowWrite())
		synctest.Wait()
		write("secret-two")
		time.Sleep(2 * firstPause)
		if len(r.collector.Spans()) != 3 {
			t.Errorf("%d spans came, want 3", len(r.collector.Spans()))
		}
		if got := r.lines.String(); !strings.Contains(got, "otlp.headersFile") || strings.Contains(got, "secret") {
			t.Errorf("the lines are %s", got)
		}
	})
}

// A redirect is not followed: the other address is not the one that the operator has named.
func TestRedirectIsNotFollowed(t *testing.T) {
	inBubble(t, func(cfg *Config) { cfg.NoMetrics = true }, func(t *testing.T, r *running) {
		r.collector.Handle(func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, "http://elsewhere/v1/traces", http.StatusTemporaryRedirect)
		})
		r.KeepSlow(slowWrite())
		time.Sleep(time.Minute)
		if n := len(r.collector.Requests()); n != 1 || !strings.Contains(r.lines.String(), "redirects are not followed") {
			t.Errorf("%d requests, want 1; the lines are %s", n, r.lines)
		}
	})
}

// A reply without an end is read up to its limit. The collector has taken the request.
func TestEndlessReply(t *testing.T) {
	inBubble(t, func(cfg *Config) { cfg.NoMetrics = true }, func(t *testing.T, r *running) {
		written := 0
		r.collector.Handle(func(w http.ResponseWriter, q *http.Request) {
			r.collector.Take(w, q)
			for {
				n, err := w.Write(make([]byte, 1000))
				if written += n; err != nil {
					return
				}
			}
		})
		r.KeepSlow(slowWrite())
		synctest.Wait()
		if written < maxReplyBytes || written > 2*maxReplyBytes || r.sent.spans.Load() != 3 {
			t.Errorf("%d bytes of the reply were read, and %d spans are sent", written, r.sent.spans.Load())
		}
	})
}

// What a collector has not taken of a request counts as dropped, and a line has its reason.
func TestPartialSuccess(t *testing.T) {
	inBubble(t, func(cfg *Config) { cfg.NoMetrics = true }, func(t *testing.T, r *running) {
		reply, err := proto.Marshal(&collector.ExportTraceServiceResponse{PartialSuccess: &collector.ExportTracePartialSuccess{
			RejectedSpans: 2, ErrorMessage: "too old " + strings.Repeat("x", 2*maxShownReply),
		}})
		if err != nil {
			t.Fatal(err)
		}
		r.collector.Handle(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(reply) })
		r.KeepSlow(slowWrite())
		synctest.Wait()
		if r.sent.spans.Load() != 1 || r.dropped.spans.Load() != 2 {
			t.Errorf("%d spans are sent and %d dropped, want 1 and 2", r.sent.spans.Load(), r.dropped.spans.Load())
		}
		if got := r.lines.String(); !strings.Contains(got, "too old") || strings.Contains(got, strings.Repeat("x", maxShownReply)) {
			t.Errorf("the lines are %s", got)
		}
	})
}

// A collector that hangs blocks no caller: requests are kept or dropped at once, and Run returns within flushTimeout.
func TestHangingCollector(t *testing.T) {
	inBubble(t, func(cfg *Config) { cfg.MetricsInterval = time.Second }, func(t *testing.T, r *running) {
		hang := make(chan struct{})
		r.collector.Handle(func(http.ResponseWriter, *http.Request) { <-hang })
		defer close(hang)
		begun := time.Now()
		r.KeepSlow(slowWrite())
		synctest.Wait() // it is under way, and hangs
		for range maxQueued + 5 {
			r.KeepSlow(slowWrite())
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("slow requests waited %v", took)
		}
		if dropped := r.dropped.spans.Load(); dropped != 5*3 {
			t.Errorf("%d spans are dropped, want 15", dropped)
		}
		time.Sleep(3 * time.Second)
		if took := r.stop(); took > flushTimeout {
			t.Errorf("the end took %v, want %v at most", took, flushTimeout)
		}
		if all := r.sent.spans.Load() + r.dropped.spans.Load(); all != (1+maxQueued+5)*3 {
			t.Errorf("%d spans are counted, want all %d", all, (1+maxQueued+5)*3)
		}
	})
}

// At the end, what waits is sent.
func TestFlush(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "c_total"}))
	inBubble(t, func(cfg *Config) { cfg.Gatherer = registry }, func(t *testing.T, r *running) {
		fail := true
		r.collector.Handle(func(w http.ResponseWriter, q *http.Request) {
			if fail {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			r.collector.Take(w, q)
		})
		const kept = 6*maxBatch + 1
		for range kept {
			r.KeepSlow(slowWrite())
		}
		synctest.Wait()
		fail = false
		if took := r.stop(); took != 0 {
			t.Errorf("the end took %v of a collector that works", took)
		}
		if len(r.collector.Spans()) != 3*kept || len(r.collector.Metrics()) != 1 {
			t.Errorf("%d spans and %d metrics came, want %d and 1", len(r.collector.Spans()), len(r.collector.Metrics()), 3*kept)
		}
	})
}

// There is one line a minute about a collector that fails. It counts those that were left out.
func TestLines(t *testing.T) {
	inBubble(t, func(cfg *Config) { cfg.MetricsInterval = time.Second }, func(t *testing.T, r *running) {
		r.collector.Close()
		time.Sleep(2*linePause + linePause/2)
		if n := strings.Count(r.lines.String(), "\n"); n != 3 || !strings.Contains(r.lines.String(), "skipped=59") {
			t.Errorf("%d lines, want 3: %s", n, r.lines)
		}
		r.collector = otlptest.Start() // for the end
	})
}

// Every trace and every span has an id of its own.
func TestIDs(t *testing.T) {
	e := &Exporter{}
	seen := map[string]bool{}
	for range 100 {
		for _, span := range e.spans(slowWrite()) {
			id := hex.EncodeToString(span.SpanId)
			if seen[id] || strings.Trim(id, "0") == "" {
				t.Fatalf("id %s", id)
			}
			seen[id] = true
		}
	}
}
