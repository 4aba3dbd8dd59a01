package otlp

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"strconv"
	"time"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	trace "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"rollcall/internal/screentext"
	"rollcall/internal/stages"
	"rollcall/operator/view"
	"rollcall/zk/jute"
)

const (
	// maxQueued limits the slow requests that wait. A member keeps at most 8 of a second, so this is half a minute of
	// the worst. With their stages they take about 512 KiB.
	maxQueued = 256
	// maxBatch limits the traces of one request. With maxStages each, it is below 1 MiB, and collectors take 4 MiB.
	maxBatch = 32
	// maxStages limits the stages of a request that are sent. Few have more than ten. Pauses cut them in two.
	maxStages = 64
	// maxTries limits the requests with one batch. With back-off they take half a minute, the restart of a collector.
	maxTries = 6
	// firstPause and lastPause bound the wait after a failed request, which doubles.
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

// KeepSlow has a slow request or a pause sent as a trace. Its stages must not change any more. It never blocks: if too
// many wait, it is dropped.
func (e *Exporter) KeepSlow(one *stages.Slow) {
	if e == nil || e.cfg.NoTraces {
		return
	}
	select {
	case e.queue <- one:
	default:
		e.dropped.spans.Add(spansOf(one))
	}
}

// spansOf returns the number of spans of a trace.
func spansOf(one *stages.Slow) uint64 { return 1 + uint64(min(len(one.Stages), maxStages)) }

// traceLoop sends traces until ctx ends, and then those that wait, once.
func (e *Exporter) traceLoop(ctx, requests context.Context) {
	pause := firstPause
	for {
		var batch []*stages.Slow
		select {
		case first := <-e.queue:
			batch = e.takeBatch(first)
		case <-ctx.Done():
			e.flushTraces(ctx, requests)
			return
		}
		pause = e.sendBatch(ctx, requests, batch, pause)
	}
}

// takeBatch returns first and what waits behind it.
func (e *Exporter) takeBatch(first *stages.Slow) []*stages.Slow {
	batch := []*stages.Slow{first}
	for len(batch) < maxBatch {
		select {
		case next := <-e.queue:
			batch = append(batch, next)
		default:
			return batch
		}
	}
	return batch
}

// flushTraces sends what waits. ctx has ended, so each batch has one try.
func (e *Exporter) flushTraces(ctx, requests context.Context) {
	for {
		select {
		case first := <-e.queue:
			e.sendBatch(ctx, requests, e.takeBatch(first), firstPause)
		default:
			return
		}
	}
}

// sendBatch sends traces until the collector takes or rejects them, ctx ends, or maxTries have failed. pause is the wait
// after the next failure; sendBatch returns the one after its last failure.
func (e *Exporter) sendBatch(ctx, requests context.Context, batch []*stages.Slow, pause time.Duration) time.Duration {
	message, spans := e.traceRequest(batch)
	body, err := proto.Marshal(message)
	for tries := 1; err == nil; tries++ {
		var reply []byte
		if reply, err = e.sender.send(requests, "/v1/traces", body); err == nil {
			e.countTraces(reply, spans)
			return firstPause
		}
		failed := failureOf(err)
		if !failed.canRetry || tries == maxTries || ctx.Err() != nil {
			break
		}
		e.logFailure("slow requests", err)
		wait := max(pause+rand.N(pause/4), failed.retryAfter) // the members of an ensemble do not come at the same moment
		pause = min(2*pause, lastPause)
		select {
		case <-time.After(wait):
			err = nil
		case <-ctx.Done():
			err = nil // one last try
		}
	}
	e.dropped.spans.Add(spans)
	e.logFailure("slow requests", err)
	return pause
}

// countTraces counts the spans of a request that the collector has taken, by its reply.
func (e *Exporter) countTraces(text []byte, spans uint64) {
	var reply collector.ExportTraceServiceResponse
	rejected := uint64(0)
	if proto.Unmarshal(text, &reply) == nil { // a reply that makes no sense rejects nothing
		rejected = min(uint64(max(0, reply.GetPartialSuccess().GetRejectedSpans())), spans)
	}
	e.sent.spans.Add(spans - rejected)
	e.dropped.spans.Add(rejected)
	e.logRejected("spans", rejected, reply.GetPartialSuccess().GetErrorMessage())
}

// traceRequest returns the request with a batch, and the number of its spans.
func (e *Exporter) traceRequest(batch []*stages.Slow) (message *collector.ExportTraceServiceRequest, spans uint64) {
	in := &trace.ScopeSpans{Scope: e.scope()}
	for _, one := range batch {
		in.Spans = append(in.Spans, e.spans(one)...)
	}
	return &collector.ExportTraceServiceRequest{ResourceSpans: []*trace.ResourceSpans{
		{Resource: e.resource(), ScopeSpans: []*trace.ScopeSpans{in}},
	}}, uint64(len(in.Spans))
}

// spans returns the spans of a slow request: the request itself, and its stages. Stages follow one another, so each
// begins where the one before ends.
func (e *Exporter) spans(one *stages.Slow) []*trace.Span {
	traceID := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, rand.Uint64()), newID())
	root := &trace.Span{
		TraceId: traceID, SpanId: newSpanID(), Name: shown(one.Op), Kind: trace.Span_SPAN_KIND_SERVER,
		StartTimeUnixNano: unixNano(one.At), EndTimeUnixNano: unixNano(one.At.Add(one.Total)), Attributes: e.requestAttributes(one),
	}
	if one.Op == stages.PauseOp {
		root.Kind = trace.Span_SPAN_KIND_INTERNAL
	}
	if one.Lost {
		root.Status = &trace.Status{Code: trace.Status_STATUS_CODE_ERROR, Message: "the connection ended before the reply"}
	}
	all, at := []*trace.Span{root}, one.At
	for i, stage := range one.Stages {
		if i == maxStages {
			root.Attributes = append(root.Attributes, intAttribute("rollcall.stages.left_out", int64(len(one.Stages)-i)))
			break
		}
		end := at.Add(stage.Took)
		all = append(all, &trace.Span{
			TraceId: traceID, SpanId: newSpanID(), ParentSpanId: root.SpanId, Name: stage.Kind.String(),
			Kind: trace.Span_SPAN_KIND_INTERNAL, StartTimeUnixNano: unixNano(at), EndTimeUnixNano: unixNano(end),
			Attributes: stageAttributes(stage),
		})
		at = end
	}
	return all
}

// requestAttributes describe a slow request. A pause has no client.
func (e *Exporter) requestAttributes(one *stages.Slow) (all []*common.KeyValue) {
	all = append(all, textAttribute("rollcall.slow.id", view.SlowID(e.cfg.Member, one.Number)))
	if one.Op == stages.PauseOp {
		return append(all, intAttribute("rollcall.clients", int64(one.Connections)))
	}
	all = append(all, textAttribute("zookeeper.operation", one.Op), textAttribute("zookeeper.session.id", jute.SessionID(one.Session).String()),
		intAttribute("zookeeper.xid", int64(one.Xid)))
	if one.Path != "" {
		all = append(all, textAttribute("zookeeper.path", one.Path))
	}
	if host, port, err := net.SplitHostPort(one.Address); err == nil {
		all = append(all, textAttribute("client.address", host))
		if number, err := strconv.ParseUint(port, 10, 16); err == nil {
			all = append(all, intAttribute("client.port", int64(number)))
		}
	}
	if one.Index != 0 {
		all = append(all, intAttribute("rollcall.entry", int64(one.Index)))
	}
	var causes, missing []*common.AnyValue
	for _, c := range one.Causes {
		causes = append(causes, textValue(view.CauseText(c)))
	}
	for _, member := range one.Missing {
		missing = append(missing, &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: int64(member)}})
	}
	all = appendList(all, "rollcall.causes", causes)
	all = appendList(all, "rollcall.members.missing", missing)
	if one.Error != 0 {
		all = append(all, intAttribute("rollcall.clock_error_us", one.Error.Microseconds()))
	}
	return all
}

func stageAttributes(s stages.Stage) []*common.KeyValue {
	all := []*common.KeyValue{textAttribute("rollcall.stage", view.StageText(s))}
	if s.Member != 0 {
		all = append(all, intAttribute("rollcall.member", int64(s.Member)))
	}
	if s.To != 0 {
		all = append(all, intAttribute("rollcall.member.to", int64(s.To)))
	}
	if s.Entry != 0 {
		all = append(all, intAttribute("rollcall.entry", int64(s.Entry)))
	}
	return all
}

// newID returns a random number that is not 0: ids of zeros are not valid.
func newID() uint64 { return rand.Uint64() | 1 }

func newSpanID() []byte { return binary.BigEndian.AppendUint64(nil, newID()) }

func unixNano(t time.Time) uint64 { return uint64(max(0, t.UnixNano())) }

// maxShownText limits an attribute's text, in bytes, before it is escaped. Texts that clients choose are shorter already.
const maxShownText = 512

// shown returns a text, which others may have chosen, as valid UTF-8 without control characters.
func shown(text string) string { return screentext.Escape(text[:min(len(text), maxShownText)]) }

func textValue(text string) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: shown(text)}}
}

func textAttribute(key, text string) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: textValue(text)}
}

func intAttribute(key string, value int64) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: value}}}
}

// appendList adds an attribute with a list, unless the list is empty.
func appendList(all []*common.KeyValue, key string, list []*common.AnyValue) []*common.KeyValue {
	if len(list) == 0 {
		return all
	}
	return append(all, &common.KeyValue{Key: key, Value: &common.AnyValue{
		Value: &common.AnyValue_ArrayValue{ArrayValue: &common.ArrayValue{Values: list}},
	}})
}
