package otlp

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metricscollector "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	metrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"

	"rollcall/operator/otlp/otlptest"
)

// hijack has a handler write raw bytes to the connection, and close it.
func hijack(t *testing.T, write func(w interface{ Write([]byte) (int, error) })) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		write(conn)
		_ = conn.Close()
	}
}

// Whatever a collector replies, every span is counted once, each line is short and readable, and the next traces arrive once the collector
// works again.
func TestHostileCollector(t *testing.T) {
	rejectAll, err := proto.Marshal(&collector.ExportTraceServiceResponse{PartialSuccess: &collector.ExportTracePartialSuccess{RejectedSpans: math.MaxInt64}})
	if err != nil {
		t.Fatal(err)
	}
	rejectLess, err := proto.Marshal(&collector.ExportTraceServiceResponse{PartialSuccess: &collector.ExportTracePartialSuccess{RejectedSpans: math.MinInt64}})
	if err != nil {
		t.Fatal(err)
	}
	type raw = interface{ Write([]byte) (int, error) }
	status := func(code int, header, value string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(header, value)
			w.WriteHeader(code)
		}
	}
	for name, tt := range map[string]struct {
		handler http.HandlerFunc
		taken   uint64 // of three spans
		line    string
	}{
		"garbage":                {hijack(t, func(w raw) { _, _ = w.Write(append(bytes.Repeat([]byte("\x1b[2Jx"), 10_000), '\n')) }), 0, "malformed HTTP"},
		"garbage without an end": {hijack(t, func(w raw) { _, _ = w.Write(bytes.Repeat([]byte("\x1b[2Jx"), 1<<16)) }), 0, "headers exceeded"},
		"headers without an end": {hijack(t, func(w raw) { _, _ = fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nX: %s", strings.Repeat("x", 1<<20)) }), 0, "headers exceeded"},
		"early hints without an end": {hijack(t, func(w raw) {
			_, _ = w.Write(bytes.Repeat([]byte("HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n"), 1<<16))
		}), 0, "failed"},
		"a body shorter than it says":   {hijack(t, func(w raw) { _, _ = w.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx")) }), 3, ""},
		"no reply":                      {hijack(t, func(raw) {}), 0, "EOF"},
		"garbage in the body":           {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte{0xff}, 1000)) }, 3, ""},
		"more rejected than sent":       {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(rejectAll) }, 0, "rejected a part"},
		"fewer than none rejected":      {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(rejectLess) }, 3, ""},
		"a reply of compressed zeros":   {compressedZeros, 3, ""},
		"too many, wait for a year":     {status(429, "Retry-After", "31536000"), 0, "it is overloaded"},
		"too many, wait for ever":       {status(429, "Retry-After", strings.Repeat("9", 30)), 0, "it is overloaded"},
		"too many, wait less than none": {status(429, "Retry-After", "-1"), 0, "it is overloaded"},
		"a redirect to another address": {status(307, "Location", "http://elsewhere/v1/traces"), 0, "redirects are not followed"},
		"a redirect without an address": {status(302, "X", ""), 0, "redirects are not followed"},
		"a proxy that wants a password": {status(407, "Proxy-Authenticate", "Basic"), 0, "check otlp.endpoint"},
		"a switch to another protocol":  {status(101, "Upgrade", "h2c"), 0, "it replied 101"},
		"a status out of range":         {hijack(t, func(w raw) { _, _ = w.Write([]byte("HTTP/1.1 999 \r\nContent-Length: 0\r\n\r\n")) }), 0, "it replied 999"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(cfg *Config) { cfg.NoMetrics = true }, func(t *testing.T, r *running) {
				r.collector.Handle(tt.handler)
				r.KeepSlow(slowWrite())
				time.Sleep(maxTries * (maxRetryAfter + sendTimeout)) // the most that a batch takes
				if sent, dropped := r.sent.spans.Load(), r.dropped.spans.Load(); sent != tt.taken || sent+dropped != 3 {
					t.Errorf("%d spans are sent and %d dropped, want %d of 3 sent", sent, dropped, tt.taken)
				}
				if n := len(r.collector.Requests()); n > maxTries {
					t.Errorf("%d requests", n)
				}
				for line := range strings.Lines(r.lines.String()) {
					if len(line) > 2*maxShownError+500 || strings.Contains(line, "\x1b") {
						t.Errorf("a line of %d bytes: %.300q", len(line), line)
					}
				}
				if got := r.lines.String(); !strings.Contains(got, tt.line) || tt.line == "" && got != "" {
					t.Errorf("the lines are %.1000s, want %q", got, tt.line)
				}
				r.collector.Handle(nil)
				r.KeepSlow(slowWrite())
				synctest.Wait()
				if n := len(r.collector.Spans()); n != 3 {
					t.Errorf("%d spans came afterwards", n)
				}
			})
		})
	}
}

func compressedZeros(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	_, _ = z.Write(make([]byte, 16<<20))
	_ = z.Close()
}

// A wait that does not fit a number of seconds is the longest one, and one that is none is none.
func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, "300": maxRetryAfter, "301": maxRetryAfter, "31536000": maxRetryAfter,
		strings.Repeat("9", 30): maxRetryAfter, "-1": 0, "1.5": 0, "Fri, 31 Dec 2099 23:59:59 GMT": 0,
	} {
		if got := retryAfter(header); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
}

// Points that a collector rejects, or never gets, count as dropped. A line has the reason.
func TestPointsAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "a"}), prometheus.NewGauge(prometheus.GaugeOpts{Name: "b"}))
	inBubble(t, func(cfg *Config) { cfg.Gatherer, cfg.MetricsInterval = registry, 2*linePause }, func(t *testing.T, r *running) {
		reply, err := proto.Marshal(&metricscollector.ExportMetricsServiceResponse{PartialSuccess: &metricscollector.ExportMetricsPartialSuccess{
			RejectedDataPoints: 1, ErrorMessage: "no such metric",
		}})
		if err != nil {
			t.Fatal(err)
		}
		counted := func(sent, dropped uint64) {
			t.Helper()
			time.Sleep(2 * linePause)
			synctest.Wait()
			if s, d := r.sent.points.Load(), r.dropped.points.Load(); s != sent || d != dropped {
				t.Errorf("%d points are sent and %d dropped, want %d and %d", s, d, sent, dropped)
			}
		}
		r.collector.Handle(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(reply) })
		counted(1, 1)
		if !strings.Contains(r.lines.String(), "no such metric") || !strings.Contains(r.lines.String(), "points of metrics") {
			t.Errorf("the lines are %s", r.lines)
		}
		r.collector.Handle(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) })
		counted(1, 3)
		r.collector.Handle(nil)
		counted(3, 3)
		if all := r.collector.Resources(); len(all) != 1 || attributesOf(all[0].GetAttributes())["service.instance.id"] != "ab/2" {
			t.Errorf("the metrics are of %v", all)
		}
	})
}

// families is a Gatherer with metrics of any form, and an error.
type families struct {
	all []*dto.MetricFamily
	err error
}

func (f families) Gather() ([]*dto.MetricFamily, error) { return f.all, f.err }

// Metrics of forms that no package here makes are sent as well as they can be, and the others arrive although some cannot be gathered.
func TestOddMetrics(t *testing.T) {
	untyped, histogram := dto.MetricType_UNTYPED, dto.MetricType_HISTOGRAM
	odd := families{
		all: []*dto.MetricFamily{
			{Name: proto.String("none")},
			{Name: proto.String("u"), Type: &untyped, Metric: []*dto.Metric{{Untyped: &dto.Untyped{Value: proto.Float64(7)}}}},
			{Name: proto.String("h"), Type: &histogram, Metric: []*dto.Metric{{Histogram: &dto.Histogram{
				SampleCount: proto.Uint64(3), SampleSum: proto.Float64(2), // the count lags behind the buckets
				Bucket: []*dto.Bucket{
					{UpperBound: proto.Float64(1), CumulativeCount: proto.Uint64(4)}, {UpperBound: proto.Float64(math.Inf(1)), CumulativeCount: proto.Uint64(4)},
				},
			}}}},
		},
		err: errors.New("a collector of metrics is broken"),
	}
	inBubble(t, func(cfg *Config) { cfg.Gatherer, cfg.MetricsInterval = odd, time.Second }, func(t *testing.T, r *running) {
		time.Sleep(time.Second)
		synctest.Wait()
		got := r.collector.Metrics()
		if len(got) != 2 || got[0].GetGauge().GetDataPoints()[0].GetAsDouble() != 7 {
			t.Fatalf("the metrics are %v", got)
		}
		h := got[1].GetHistogram()
		if p := h.GetDataPoints()[0]; p.Count != 4 || fmt.Sprint(p.ExplicitBounds, p.BucketCounts) != "[1] [4 0]" ||
			h.AggregationTemporality != metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE {
			t.Errorf("the histogram is %v", h)
		}
		if !strings.Contains(r.lines.String(), "is broken") {
			t.Errorf("the lines are %s", r.lines)
		}
	})
}

// New returns the fault of each file.
func TestFilesAreChecked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("no header and no PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	for key, settings := range map[string]Settings{
		"otlp.headersFile": {HeadersFile: file}, "otlp.trustStore.location": {TrustFile: file}, "otlp.keyStore.location": {KeyFile: file},
	} {
		settings.Endpoint = "http://127.0.0.1:1"
		if _, err := New(Config{Settings: settings}); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// Without Dial, requests go over TCP, two at a time, and the connections end with the Exporter. A body longer than the collector's limit
// does not occur: the largest batch is below 1 MiB.
func TestOverTCP(t *testing.T) {
	c := otlptest.Start()
	defer c.Close()
	longest := int64(0)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		longest = max(longest, q.ContentLength)
		c.ServeHTTP(w, q)
	}))
	r := start(t, func(cfg *Config) { cfg.Endpoint, cfg.Dial, cfg.NoMetrics = srv.URL, nil, true })
	for range maxBatch {
		one := slowWrite()
		one.Path, one.Op, one.Address = strings.Repeat("\x01", 1<<20), strings.Repeat("\x01", 1<<20), strings.Repeat("1", 1<<20)+":1"
		for len(one.Stages) < 2*maxStages {
			one.Stages = append(one.Stages, one.Stages[0])
		}
		r.KeepSlow(one)
	}
	r.stop()
	srv.Close() // waits for connections that are used
	if n := len(c.Spans()); n != maxBatch*(maxStages+1) || longest > 1<<20 {
		t.Errorf("%d spans came, in requests of up to %d bytes", n, longest)
	}
}
