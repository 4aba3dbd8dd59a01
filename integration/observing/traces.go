// Package observing has observers of package client: one makes spans of OpenTelemetry, and one makes metrics of
// Prometheus. They are examples to copy, in a module of their own, so that the client needs neither.
package observing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Traces makes a span of each call.
type Traces struct{ Tracer trace.Tracer }

// Begin implements client.Observer.
func (t Traces) Begin(ctx context.Context, op, path string) (context.Context, func(error)) {
	ctx, span := t.Tracer.Start(ctx, "zookeeper "+op,
		trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("zookeeper.op", op), attribute.String("zookeeper.path", path)))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}
