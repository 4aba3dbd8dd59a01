// Package otlptest has a collector of OpenTelemetry for tests.
package otlptest

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"sync"

	metricspb "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	metrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collector takes traces and metrics over connections in memory, which also work in a bubble of testing/synctest. Make one
// with Start, and Close it.
type Collector struct {
	server *http.Server
	conns  chan net.Conn
	closed chan struct{}

	mu        sync.Mutex
	handler   http.HandlerFunc // nil: takes everything
	requests  []Request
	spans     []*trace.Span
	metrics   []*metrics.Metric // of the last request
	resources []*resource.Resource
}

// Request is a request that has come, whatever the reply was.
type Request struct {
	Path   string
	Header http.Header
}

// Start returns a Collector that takes everything.
func Start() *Collector { return StartTLS(nil) }

// StartTLS returns a Collector that takes everything, over TLS unless config is nil.
func StartTLS(config *tls.Config) *Collector {
	c := &Collector{conns: make(chan net.Conn), closed: make(chan struct{})}
	c.server = &http.Server{Handler: c, ErrorLog: log.New(io.Discard, "", 0)}
	var l net.Listener = listener{c}
	if config != nil {
		l = tls.NewListener(l, config)
	}
	go func() { _ = c.server.Serve(l) }() // it returns at Close
	return c
}

// Close closes all connections.
func (c *Collector) Close() {
	close(c.closed)
	_ = c.server.Close()
}

// Dial connects to the collector, whatever the address is.
func (c *Collector) Dial(ctx context.Context, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case c.conns <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.closed:
		return nil, net.ErrClosed
	}
}

// Handle has handler answer all requests from now on. If it is nil, they are taken.
func (c *Collector) Handle(handler http.HandlerFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handler = handler
}

// ServeHTTP implements http.Handler.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	handler := c.handler
	c.requests = append(c.requests, Request{r.URL.Path, r.Header.Clone()})
	c.mu.Unlock()
	if handler != nil {
		handler(w, r)
		return
	}
	c.Take(w, r)
}

// Take takes a request, and replies that all is well.
func (c *Collector) Take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Header.Get("Content-Type") != "application/x-protobuf" || r.Method != http.MethodPost {
		http.Error(w, "no OTLP", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch r.URL.Path {
	case "/v1/traces":
		var q tracepb.ExportTraceServiceRequest
		if err = proto.Unmarshal(body, &q); err != nil {
			break
		}
		for _, in := range q.ResourceSpans {
			c.resources = append(c.resources, in.Resource)
			for _, scope := range in.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
	case "/v1/metrics":
		var q metricspb.ExportMetricsServiceRequest
		if err = proto.Unmarshal(body, &q); err != nil {
			break
		}
		c.metrics = nil
		for _, in := range q.ResourceMetrics {
			c.resources = append(c.resources, in.Resource)
			for _, scope := range in.ScopeMetrics {
				c.metrics = append(c.metrics, scope.Metrics...)
			}
		}
	default:
		http.NotFound(w, r)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

// Requests returns all requests, the oldest first.
func (c *Collector) Requests() []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Request(nil), c.requests...)
}

// Spans returns all spans that were taken.
func (c *Collector) Spans() []*trace.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*trace.Span(nil), c.spans...)
}

// Metrics returns the metrics of the last request that was taken.
func (c *Collector) Metrics() []*metrics.Metric {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*metrics.Metric(nil), c.metrics...)
}

// Resources returns the senders of all requests that were taken.
func (c *Collector) Resources() []*resource.Resource {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*resource.Resource(nil), c.resources...)
}

// listener hands the server the connections of Dial.
type listener struct{ c *Collector }

func (l listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.c.conns:
		return conn, nil
	case <-l.c.closed:
		return nil, net.ErrClosed
	}
}

func (listener) Close() error   { return nil }
func (listener) Addr() net.Addr { return &net.UnixAddr{Name: "collector", Net: "pipe"} }
