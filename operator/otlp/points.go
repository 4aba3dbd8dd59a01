package otlp

import (
	"context"
	"math"
	"time"

	dto "github.com/prometheus/client_model/go"
	collector "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	"google.golang.org/protobuf/proto"

	"rollcall/internal/screentext"
)

// metricsLoop sends the metrics again and again until ctx ends, and then once more. Metrics count since the start of the
// member, so a request that fails is not repeated: the next one makes up for it.
func (e *Exporter) metricsLoop(ctx, requests context.Context) {
	tick := time.NewTicker(e.cfg.MetricsInterval)
	defer tick.Stop()
	var notBefore time.Time // the collector has asked to be left alone until then
	for {
		select {
		case <-ctx.Done():
			if !time.Now().Before(notBefore) {
				e.sendMetrics(requests)
			}
			return
		case now := <-tick.C:
			if !now.Before(notBefore) {
				notBefore = time.Now().Add(e.sendMetrics(requests))
			}
		}
	}
}

// sendMetrics sends the present metrics once. It returns the time for which the collector asks to be left alone.
func (e *Exporter) sendMetrics(ctx context.Context) (retryAfter time.Duration) {
	message, points := e.metricsRequest()
	body, err := proto.Marshal(message)
	var reply []byte
	if err == nil {
		reply, err = e.sender.send(ctx, "/v1/metrics", body)
	}
	if err != nil {
		e.dropped.points.Add(points)
		e.logFailure("metrics", err)
		return failureOf(err).retryAfter
	}
	var read collector.ExportMetricsServiceResponse
	rejected := uint64(0)
	if proto.Unmarshal(reply, &read) == nil { // a reply that makes no sense rejects nothing
		rejected = min(uint64(max(0, read.GetPartialSuccess().GetRejectedDataPoints())), points)
	}
	e.sent.points.Add(points - rejected)
	e.dropped.points.Add(rejected)
	e.logRejected("points of metrics", rejected, read.GetPartialSuccess().GetErrorMessage())
	return 0
}

// logRejected logs that the collector has rejected a part of a request, with its reason, if it has.
func (e *Exporter) logRejected(what string, rejected uint64, reason string) {
	if rejected == 0 {
		return
	}
	if skipped, due := e.lines.AllowLine(time.Now()); due {
		e.cfg.Logger.Warn("the collector of OpenTelemetry has rejected a part of a request", "what", what, "count", rejected,
			"reason", screentext.Escape(reason[:min(len(reason), maxShownReply)]), "skipped", skipped)
	}
}

// metricsRequest returns the request with the present metrics, and the number of its points.
func (e *Exporter) metricsRequest() (message *collector.ExportMetricsServiceRequest, points uint64) {
	families, err := e.cfg.Gatherer.Gather() // it returns what it could gather beside an error
	if err != nil {
		e.logFailure("all metrics", err)
	}
	in := &metrics.ScopeMetrics{Scope: e.scope()}
	c := converter{start: unixNano(e.cfg.StartTime), now: unixNano(e.cfg.Now())}
	for _, family := range families {
		if m := c.convert(family); m != nil {
			in.Metrics = append(in.Metrics, m)
		}
	}
	return &collector.ExportMetricsServiceRequest{ResourceMetrics: []*metrics.ResourceMetrics{
		{Resource: e.resource(), ScopeMetrics: []*metrics.ScopeMetrics{in}},
	}}, c.points
}

// resource describes this member.
func (e *Exporter) resource() *resource.Resource {
	return &resource.Resource{Attributes: []*common.KeyValue{
		textAttribute("service.name", "rollcall"), textAttribute("service.instance.id", e.cfg.InstanceID()),
		textAttribute("service.version", e.cfg.Version), intAttribute("rollcall.member.id", int64(e.cfg.Member)),
	}}
}

func (e *Exporter) scope() *common.InstrumentationScope {
	return &common.InstrumentationScope{Name: "rollcall", Version: e.cfg.Version}
}

// converter converts metrics of Prometheus at one moment.
type converter struct {
	start, now uint64 // in nanoseconds since 1970
	points     uint64 // that it has converted
}

// cumulative is the temporality of all counts: since the start of the member.
const cumulative = metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE

// convert returns a metric of Prometheus under the same name, or nil if it has no series.
func (c *converter) convert(family *dto.MetricFamily) *metrics.Metric {
	m := &metrics.Metric{Name: family.GetName(), Description: family.GetHelp()}
	if len(family.GetMetric()) == 0 {
		return nil
	}
	c.points += uint64(len(family.GetMetric()))
	switch family.GetType() {
	case dto.MetricType_COUNTER:
		sum := &metrics.Sum{AggregationTemporality: cumulative, IsMonotonic: true}
		for _, one := range family.GetMetric() {
			sum.DataPoints = append(sum.DataPoints, c.number(one, c.start, one.GetCounter().GetValue()))
		}
		m.Data = &metrics.Metric_Sum{Sum: sum}
	case dto.MetricType_SUMMARY:
		all := &metrics.Summary{}
		for _, one := range family.GetMetric() {
			all.DataPoints = append(all.DataPoints, c.summary(one))
		}
		m.Data = &metrics.Metric_Summary{Summary: all}
	case dto.MetricType_HISTOGRAM:
		all := &metrics.Histogram{AggregationTemporality: cumulative}
		for _, one := range family.GetMetric() {
			all.DataPoints = append(all.DataPoints, c.histogram(one))
		}
		m.Data = &metrics.Metric_Histogram{Histogram: all}
	default:
		gauge := &metrics.Gauge{}
		for _, one := range family.GetMetric() {
			gauge.DataPoints = append(gauge.DataPoints, c.number(one, 0, one.GetGauge().GetValue()+one.GetUntyped().GetValue()))
		}
		m.Data = &metrics.Metric_Gauge{Gauge: gauge}
	}
	return m
}

// number returns a point with one value. start is 0 for a gauge, which counts from no moment on.
func (c *converter) number(one *dto.Metric, start uint64, value float64) *metrics.NumberDataPoint {
	return &metrics.NumberDataPoint{
		Attributes: labels(one), StartTimeUnixNano: start, TimeUnixNano: c.now,
		Value: &metrics.NumberDataPoint_AsDouble{AsDouble: value},
	}
}

func (c *converter) summary(one *dto.Metric) *metrics.SummaryDataPoint {
	from := one.GetSummary()
	point := &metrics.SummaryDataPoint{
		Attributes: labels(one), StartTimeUnixNano: c.start, TimeUnixNano: c.now, Count: from.GetSampleCount(), Sum: from.GetSampleSum(),
	}
	for _, q := range from.GetQuantile() {
		point.QuantileValues = append(point.QuantileValues,
			&metrics.SummaryDataPoint_ValueAtQuantile{Quantile: q.GetQuantile(), Value: q.GetValue()})
	}
	return point
}

// histogram returns a point with the count of each bucket alone. Prometheus adds the counts of the buckets before.
func (c *converter) histogram(one *dto.Metric) *metrics.HistogramDataPoint {
	from := one.GetHistogram()
	point := &metrics.HistogramDataPoint{
		Attributes: labels(one), StartTimeUnixNano: c.start, TimeUnixNano: c.now, Count: from.GetSampleCount(),
		Sum: proto.Float64(from.GetSampleSum()),
	}
	before := uint64(0)
	for _, b := range from.GetBucket() {
		if math.IsInf(b.GetUpperBound(), 1) {
			continue // what is above the last bound is added below
		}
		point.ExplicitBounds = append(point.ExplicitBounds, b.GetUpperBound())
		point.BucketCounts = append(point.BucketCounts, b.GetCumulativeCount()-before)
		before = b.GetCumulativeCount()
	}
	// The count and the buckets are read one after the other, so the count may lag.
	point.Count = max(point.Count, before)
	point.BucketCounts = append(point.BucketCounts, point.Count-before)
	return point
}

func labels(one *dto.Metric) (all []*common.KeyValue) {
	for _, label := range one.GetLabel() {
		all = append(all, textAttribute(label.GetName(), label.GetValue()))
	}
	return all
}
