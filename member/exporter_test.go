package member_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"rollcall/member"
	"rollcall/operator/otlp"
	"rollcall/operator/otlp/otlptest"
	"rollcall/zk/jute"
)

// noCollector is a collector that cannot be reached.
func noCollector(context.Context, string) (net.Conn, error) { return nil, errors.New("no collector") }

// toCollector has members send to a collector of the test.
func toCollector(c *otlptest.Collector) func(*member.Config) {
	return func(cfg *member.Config) {
		cfg.OTLP.Endpoint, cfg.Network.DialCollector = "http://collector:4318", c.Dial
	}
}

// textAttribute returns an attribute of a span or a point, as text.
func textAttribute(all []*common.KeyValue, key string) string {
	for _, one := range all {
		if one.Key == key {
			if text := one.GetValue().GetStringValue(); text != "" {
				return text
			}
			return strconv.FormatInt(one.GetValue().GetIntValue(), 10)
		}
	}
	return ""
}

// traceOf returns the span of a slow request and those of its stages, in order.
func traceOf(all []*trace.Span, id string) (root *trace.Span, stages []*trace.Span) {
	for _, span := range all {
		if textAttribute(span.Attributes, "rollcall.slow.id") == id {
			root = span
		}
	}
	for _, span := range all {
		if root != nil && string(span.ParentSpanId) == string(root.SpanId) {
			stages = append(stages, span)
		}
	}
	return root, stages
}

func spanTime(s *trace.Span) time.Duration {
	return time.Duration(s.EndTimeUnixNano - s.StartTimeUnixNano)
}

// A request that one stage makes slow is a trace, whose spans are its stages: the same ones, of the same members and for
// as long as rollcall slow shows them, one after the other from the time of the request on.
func TestSlowRequestIsATrace(t *testing.T) {
	for _, c := range slowCases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				collector := otlptest.Start()
				defer collector.Close()
				s := startSlow(t, false, toCollector(collector))
				stage, members, took := c.slow(s, s.set)
				shown := s.slowest("/node")
				synctest.Wait()
				root, spans := traceOf(collector.Spans(), shown.ID)
				if root == nil || len(spans) != len(shown.Stages) {
					t.Fatalf("%d spans of %v, want those of %+v", len(spans), root, shown)
				}
				if root.Name != "setData" || textAttribute(root.Attributes, "zookeeper.path") != "/node" ||
					textAttribute(root.Attributes, "zookeeper.session.id") != jute.SessionID(s.client.Session()).String() {
					t.Errorf("the request is %v", root)
				}
				at, longest := root.StartTimeUnixNano, spans[0]
				for i, span := range spans {
					want := shown.Stages[i]
					if span.Name != want.Stage || textAttribute(span.Attributes, "rollcall.member") != fmt.Sprint(want.MemberID) ||
						spanTime(span).Microseconds() != want.TookUs || span.StartTimeUnixNano != at {
						t.Errorf("span %d is %v, want %+v from %d on", i, span, want, at)
					}
					at = span.EndTimeUnixNano
					if spanTime(span) > spanTime(longest) {
						longest = span
					}
				}
				if at != root.EndTimeUnixNano {
					t.Errorf("the stages end at %d, and the request at %d", at, root.EndTimeUnixNano)
				}
				id, _ := strconv.Atoi(textAttribute(longest.Attributes, "rollcall.member"))
				if off := (spanTime(longest) - took).Abs(); longest.Name != stage || !slices.Contains(members, uint32(id)) || off > took/20 {
					t.Errorf("the longest span is %v; want %s of %d, %v", longest, stage, members, took)
				}
			})
		})
	}
}

// A pause of a process is a trace, too.
func TestPauseIsATrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		collector := otlptest.Start()
		defer collector.Close()
		s := startSlow(t, false, toCollector(collector))
		s.Pause(s.home)
		time.Sleep(slowLength)
		s.Resume(s.home)
		time.Sleep(time.Second)
		i := slices.IndexFunc(collector.Spans(), func(one *trace.Span) bool { return one.Name == "pause" })
		if i < 0 {
			t.Fatal("no trace of the pause")
		}
		if took := spanTime(collector.Spans()[i]); (took - slowLength).Abs() > slowLength/10 {
			t.Errorf("the pause took %v, want %v", took, slowLength)
		}
	})
}

// volatile are metrics that differ between two readings: time, memory and processor time of the process, what
// a scrape itself changes, and what the sending of metrics counts.
var volatile = regexp.MustCompile("^(go_|process_|uptime|leader_uptime|bytes_received|packets|approximate|open_file|rollcall_(otlp|touch|queue|memory)|.*latency|fsync)")

// The metrics that a collector gets have the names and the values of /metrics.
func TestMetricsAreThoseOfPrometheus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		collector := otlptest.Start()
		defer collector.Close()
		all := operators{}
		var home uint32
		s := startSlow(t, false, func(cfg *member.Config) {
			all.listen(cfg)
			cfg.OperatorListener, cfg.MetricsListener = nil, cfg.OperatorListener
			if cfg.ID == 1 {
				toCollector(collector)(cfg)
				home = cfg.ID
			}
		})
		end := s.needDisk(s.leader, slowLength)
		s.set()
		end()
		s.slowest("/node")
		time.Sleep(2 * otlp.DefaultMetricsInterval)
		values := pointValues(collector.Metrics())
		shown, _ := all.samples(t, home)
		compared := 0
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if volatile.MatchString(name) {
				continue
			}
			want, known := shown[name]
			if compared++; !known || want != values[name] {
				t.Errorf("%s is %v, and %v (%t) at /metrics", name, values[name], want, known)
			}
		}
		if compared < 100 {
			t.Errorf("only %d values: %v", compared, values)
		}
	})
}

// pointValues returns the values of metrics under the names of /metrics. Of a histogram and a summary it returns the
// count and the sum.
func pointValues(all []*metrics.Metric) map[string]float64 {
	values := map[string]float64{}
	for _, m := range all {
		numbers := slices.Concat(m.GetSum().GetDataPoints(), m.GetGauge().GetDataPoints())
		for _, p := range numbers {
			values[m.Name+labelText(p.Attributes)] = p.GetAsDouble()
		}
		for _, p := range m.GetHistogram().GetDataPoints() {
			values[m.Name+"_count"+labelText(p.Attributes)], values[m.Name+"_sum"+labelText(p.Attributes)] = float64(p.Count), p.GetSum()
		}
		for _, p := range m.GetSummary().GetDataPoints() {
			values[m.Name+"_count"+labelText(p.Attributes)], values[m.Name+"_sum"+labelText(p.Attributes)] = float64(p.Count), p.Sum
		}
	}
	return values
}

func labelText(all []*common.KeyValue) (text string) {
	for _, one := range all {
		text += fmt.Sprintf(",%s=%q", one.Key, one.GetValue().GetStringValue())
	}
	if text == "" {
		return ""
	}
	return "{" + text[1:] + "}"
}

// A collector that hangs holds up no request, and the end of no member for longer than a second.
func TestHangingCollector(t *testing.T) {
	took := func(hangs bool) (request, end time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			collector := otlptest.Start()
			defer collector.Close()
			s := startSlow(t, false, toCollector(collector))
			if hangs {
				hang := make(chan struct{})
				defer close(hang)
				collector.Handle(func(http.ResponseWriter, *http.Request) { <-hang })
			}
			for range 20 { // each is slow, and so sent
				end := s.needDisk(s.leader, slowLength)
				begun := time.Now()
				s.set()
				request = max(request, time.Since(begun))
				end()
			}
			time.Sleep(time.Second)
			begun := time.Now()
			s.Stop(s.home)
			end = time.Since(begun)
			if hangs != (len(collector.Spans()) == 0) {
				t.Errorf("%d spans came, although the collector hangs: %t", len(collector.Spans()), hangs)
			}
		})
		return request, end
	}
	request, end := took(false)
	slowRequest, slowEnd := took(true)
	if slowRequest > request || slowEnd > end+time.Second {
		t.Errorf("with a collector that hangs, a request took %v and the end %v; without, %v and %v", slowRequest, slowEnd, request, end)
	}
}
