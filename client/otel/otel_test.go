package otel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"rollcall/client"
	"rollcall/zk/jute"
)

// recorded is a Telemetry whose spans and metrics the test reads.
type recorded struct {
	*Telemetry
	spans  *tracetest.SpanRecorder
	reader *sdkmetric.ManualReader
}

func newRecorded(t *testing.T, cfg Config) *recorded {
	t.Helper()
	r := &recorded{spans: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader()}
	cfg.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r.spans))
	cfg.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(r.reader))
	var err error
	if r.Telemetry, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	return r
}

// attributesOf returns attributes as sorted text.
func attributesOf(all []attribute.KeyValue) string {
	var texts []string
	for _, one := range all {
		texts = append(texts, fmt.Sprintf("%s=%v", one.Key, one.Value.AsInterface()))
	}
	slices.Sort(texts)
	return strings.Join(texts, " ")
}

// metricsNow returns the metrics as text: the values, or the counts and sums.
func (r *recorded) metricsNow(t *testing.T) map[string]string {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := r.reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, in := range all.ScopeMetrics {
		for _, m := range in.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					values[m.Name+" "+attributesOf(p.Attributes.ToSlice())] = fmt.Sprint(p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					values[m.Name] = fmt.Sprint(p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					values[m.Name+" "+attributesOf(p.Attributes.ToSlice())] = fmt.Sprint(p.Count, " ", p.Sum)
				}
			}
		}
	}
	return values
}

// A call is a span with its operation, path, session, numbers and server, and the name of its error, without its text.
func TestCallIsASpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorded(t, Config{})
		ctx, end := r.Begin(t.Context(), "getData", "/a\xff"+strings.Repeat("x", 2*maxPath))
		_, inner := r.Begin(ctx, "sync", "")
		inner(client.Outcome{Session: 0x2a})
		time.Sleep(3 * time.Second)
		end(client.Outcome{
			Err: &client.Error{Op: "getData", Path: "/secret", Err: client.ErrNoNode}, Session: 0x2a, Server: "10.0.0.1:2181", Xid: 7, Zxid: 0x100000005, Requests: 2,
		})
		spans := r.spans.Ended()
		if len(spans) != 2 || spans[0].Parent().SpanID() != spans[1].SpanContext().SpanID() || spans[0].Status().Code != codes.Unset {
			t.Fatalf("%d spans: %v", len(spans), spans)
		}
		outer := spans[1]
		path := "/a\uFFFD" + strings.Repeat("x", maxPath-3)
		want := "error.type=no_node server.address=10.0.0.1 server.port=2181 zookeeper.operation=getData zookeeper.path=" + path +
			" zookeeper.requests=2 zookeeper.session.id=0x2a zookeeper.xid=7 zookeeper.zxid=0x100000005"
		if got := attributesOf(outer.Attributes()); got != want || outer.Name() != "getData" {
			t.Errorf("%s has %s, want %s", outer.Name(), got, want)
		}
		if s := outer.Status(); s.Code != codes.Error || s.Description != "no_node" {
			t.Errorf("the status is %v", s)
		}
		got := r.metricsNow(t)["zookeeper.client.call.duration error.type=no_node zookeeper.operation=getData"]
		if got != "1 3" {
			t.Errorf("the calls are %q, want one of 3 s", got)
		}
	})
}

// With NoPaths, no span has a path.
func TestNoPaths(t *testing.T) {
	r := newRecorded(t, Config{NoPaths: true})
	_, end := r.Begin(t.Context(), "getData", "/secret")
	end(client.Outcome{Err: &client.Error{Path: "/secret", Err: client.ErrNoAuth}})
	if got := fmt.Sprint(attributesOf(r.spans.Ended()[0].Attributes()), r.spans.Ended()[0].Status()); strings.Contains(got, "secret") {
		t.Errorf("the span has %s", got)
	}
}

// Every error has a short name.
func TestErrorType(t *testing.T) {
	for want, err := range map[string]error{
		"not_authorized": client.ErrNoAuth, "connection_lost": &client.Error{Err: client.ErrConnectionLost, Unanswered: true},
		"deadline_exceeded": fmt.Errorf("x: %w", context.DeadlineExceeded), "other": errors.New("/path"), "expired": client.ErrExpired,
	} {
		if got := errorType(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
	if got := errorType(jute.Code(-12345)); got != "other" {
		t.Errorf("a code that is not known is %q, want other", got)
	}
}

// What happens to a session is counted, and is an event of the calls under way alone. Its age ends with it.
func TestSessionStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorded(t, Config{})
		var seen []client.State
		cfg := client.Config{OnState: func(change client.StateChange) { seen = append(seen, change.State) }}
		r.Observe(&cfg)
		report := func(state client.State, err error) {
			cfg.OnState(client.StateChange{State: state, Err: err, Server: "s:1", At: time.Now()})
		}
		_, before := r.Begin(t.Context(), "exists", "/a")
		before(client.Outcome{})
		report(client.Connected, nil)
		_, end := r.Begin(t.Context(), "getData", "/a")
		time.Sleep(5 * time.Second)
		report(client.Suspended, client.ErrConnectionLost)
		time.Sleep(2 * time.Second)
		report(client.Reconnected, nil)
		end(client.Outcome{Requests: 2})
		time.Sleep(3 * time.Second)
		if age := r.metricsNow(t)["zookeeper.client.session.age"]; age != "10" {
			t.Errorf("the age is %q, want 10", age)
		}
		report(client.Expired, client.ErrExpired)
		var events []string
		for _, e := range r.spans.Ended()[1].Events() {
			events = append(events, e.Name+" "+attributesOf(e.Attributes))
		}
		want := []string{
			"zookeeper.session.suspended error.type=connection_lost zookeeper.server=s:1 zookeeper.session.state=suspended",
			"zookeeper.session.reconnected zookeeper.server=s:1 zookeeper.session.state=reconnected",
		}
		if !slices.Equal(events, want) || len(r.spans.Ended()[0].Events()) != 0 {
			t.Errorf("the events are %q, want %q", events, want)
		}
		all := r.metricsNow(t)
		if _, shown := all["zookeeper.client.session.age"]; shown || all["zookeeper.client.session.duration zookeeper.session.state=expired"] != "1 10" ||
			all["zookeeper.client.session.changes zookeeper.session.state=suspended"] != "1" {
			t.Errorf("the metrics are %v", all)
		}
		if len(r.underWay) != 0 {
			t.Errorf("%d calls are under way after their ends", len(r.underWay))
		}
		if len(seen) != 4 {
			t.Errorf("the program's OnState saw %v", seen)
		}
	})
}

// A Client of a server shows its calls: the request's number is the one that the server has read.
func TestWithAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorded(t, Config{})
		xids := make(chan int32, 10)
		cfg := client.Config{DialConn: func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			go serve(there, xids)
			return here, nil
		}}
		r.Observe(&cfg)
		c, err := client.Dial(t.Context(), "server:2181", cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.WhoAmI(t.Context()); err == nil {
			t.Error("the server replied without an error")
		}
		c.Abandon()
		synctest.Wait()
		span := r.spans.Ended()[0]
		want := fmt.Sprintf("error.type=not_authorized server.address=server server.port=2181 zookeeper.operation=whoAmI zookeeper.session.id=0x7 zookeeper.xid=%d zookeeper.zxid=0x9", <-xids)
		if got := attributesOf(span.Attributes()); got != want {
			t.Errorf("the span has %s, want %s", got, want)
		}
	})
}

// serve opens the session 7, and replies NoAuth to every request.
func serve(conn net.Conn, xids chan<- int32) {
	defer func() { _ = conn.Close() }()
	for first := true; ; first = false {
		var size [4]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		d := jute.NewDecoder(size[:])
		body := make([]byte, d.ReadInt32())
		if _, err := io.ReadFull(conn, body); err != nil {
			return
		}
		out, mark := jute.BeginFrame(nil)
		if first {
			out = jute.ConnectResponse{TimeOut: 30_000, SessionID: 7, Passwd: make([]byte, 16)}.Append(out)
		} else {
			var header jute.RequestHeader
			d := jute.NewDecoder(body)
			header.Decode(&d)
			if header.Xid > 0 {
				xids <- header.Xid
			}
			out = jute.ReplyHeader{Xid: header.Xid, Zxid: 9, Err: jute.NoAuth}.Append(out)
		}
		if _, err := conn.Write(jute.EndFrame(out, mark)); err != nil {
			return
		}
	}
}
