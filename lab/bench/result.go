package bench

import (
	"errors"
	"time"

	"rollcall/client"
)

// Result is one row of a report: the measurement of one case on one target.
type Result struct {
	Target    string           `json:"target,omitempty"`
	Case      string           `json:"case"` // with its parameters
	Op        string           `json:"op"`   // name of an op
	Seconds   float64          `json:"seconds"`
	Ops       int64            `json:"ops"` // ops that succeeded
	PerSecond float64          `json:"per_second"`
	Errors    map[string]int64 `json:"errors,omitempty"`
	Latency   Summary          `json:"latency"`
	Cost
	Extra []Figure `json:"extra,omitempty"`
	Notes []string `json:"notes,omitempty"`
}

// Summary summarises a histogram, in microseconds.
type Summary struct {
	Mean float64 `json:"mean_us"`
	P50  float64 `json:"p50_us"`
	P90  float64 `json:"p90_us"`
	P99  float64 `json:"p99_us"`
	P999 float64 `json:"p999_us"`
	Max  float64 `json:"max_us"`
}

func summarize(h *Histogram) Summary {
	return Summary{
		Mean: toMicros(h.Mean()), P50: toMicros(h.Quantile(0.5)), P90: toMicros(h.Quantile(0.9)),
		P99: toMicros(h.Quantile(0.99)), P999: toMicros(h.Quantile(0.999)), Max: toMicros(h.Max()),
	}
}

func toMicros(d time.Duration) float64 { return float64(d.Nanoseconds()/10) / 100 }

// Cost is the machine's cost of the measured time.
type Cost struct {
	ServerCPU float64 `json:"server_cpu_us_per_op,omitempty"` // 0 if no process was given or no op succeeded
	ToolCPU   float64 `json:"tool_cpu_us_per_op"`
	// Void is set if the tool used more than a third of the CPU time of the servers. On a shared machine, the
	// row then describes the tool rather than the servers.
	Void      bool  `json:"void"`
	ServerRSS int64 `json:"server_rss_bytes,omitempty"`
	ServerPSS int64 `json:"server_pss_bytes,omitempty"`
}

// toolShare limits the tool's CPU time per second of the servers'.
const toolShare = 1.0 / 3

// costPerOp divides the usage between two readings by the number of ops.
func costPerOp(begin, end usageReading, ops int64) Cost {
	c := Cost{ServerRSS: end.serverUsage.rss, ServerPSS: end.serverUsage.pss}
	if ops == 0 {
		return c
	}
	server, tool := cpuSince(begin.serverUsage.cpuByPID, end.serverUsage.cpuByPID), end.toolCPU-begin.toolCPU
	c.ToolCPU = toMicros(tool*100/time.Duration(ops)) / 100 // two more digits
	c.ServerCPU = toMicros(server*100/time.Duration(ops)) / 100
	c.Void = len(end.serverUsage.cpuByPID) > 0 && float64(tool) > float64(server)*toolShare
	return c
}

// usageReading is the usage up to one moment.
type usageReading struct {
	at          time.Time
	serverUsage usage
	toolCPU     time.Duration
}

// Figure is a value of one case only.
type Figure struct {
	Name            string  `json:"name"`
	Value           float64 `json:"value"`
	Unit            string  `json:"unit"`
	betterDirection string  // moreIsBetter, lessIsBetter or "": neither
}

// Units of values, and the better direction.
const (
	unitMillis  = "ms"
	unitMicros  = "µs"
	unitBytes   = "B"
	unitCount   = ""
	unitRate    = "/s"
	unitPercent = "%"

	moreIsBetter = "more"
	lessIsBetter = "less"
)

func millisFigure(name string, d time.Duration) Figure {
	return Figure{Name: name, Value: float64(d.Nanoseconds()/10) / 1e5, Unit: unitMillis, betterDirection: lessIsBetter}
}

func rateFigure(name string, n int, in time.Duration) Figure {
	return Figure{
		Name: name, Value: roundToTenth(float64(n) / in.Seconds()), Unit: unitRate,
		betterDirection: moreIsBetter,
	}
}

// faultFigure counts events that should not happen.
func faultFigure(name string, n int64) Figure {
	return Figure{Name: name, Value: float64(n), Unit: unitCount, betterDirection: lessIsBetter}
}

// withoutDirection marks a value that does not rate the servers.
func (f Figure) withoutDirection() Figure {
	f.betterDirection = ""
	return f
}

// tally counts the ops of one worker. It is not safe for concurrent use.
type tally struct {
	latencies Histogram
	succeeded int64 // including the time before and after the measured time
	failures  map[string]int64
}

func (t *tally) addFailures(why string, n int64) {
	if n == 0 {
		return
	}
	if t.failures == nil {
		t.failures = map[string]int64{}
	}
	t.failures[why] += n
}

// measured returns the number of ops of the measured time, with those that failed.
func (t *tally) measured() int64 {
	n := t.latencies.Count()
	for _, failed := range t.failures {
		n += failed
	}
	return n
}

func (t *tally) merge(o *tally) {
	t.latencies.Merge(&o.latencies)
	t.succeeded += o.succeeded
	for why, n := range o.failures {
		t.addFailures(why, n)
	}
}

// hasNoReply reports whether err is not the reply of a server, so that the next request would fail at once, too.
func hasNoReply(err error) bool {
	return client.MayHaveHappened(err) || errors.Is(err, client.ErrSuspended) || errors.Is(err, client.ErrExpired) ||
		errors.Is(err, client.ErrClosed)
}

// failureReason returns the reason of a failed request, or "". It is the same for all paths.
func failureReason(err error) string {
	if failed, ok := errors.AsType[*client.Error](err); ok {
		err = failed.Err
	}
	if failed, ok := errors.AsType[*client.MultiError](err); ok {
		err = failed.Err
	}
	if err == nil {
		return ""
	}
	return err.Error()
}
