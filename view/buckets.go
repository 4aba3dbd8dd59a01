package view

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"rollcall/proto"
)

// Buckets is the time axis of the leader's session table.
type Buckets struct {
	Leader  uint32 // that was asked; 0: there is none at the moment, and the other fields are zero
	Tick    time.Duration
	At      time.Time // by the leader's clock
	Buckets []Bucket  // those that hold sessions, by time
	Later   int       // sessions that fall due more than MaxRows ticks from At on
	Silent  []Silence // the leader, if it has not answered
}

// Bucket is how many sessions fall due together if they are not heard.
type Bucket struct {
	Due      time.Duration // from Buckets.At on; 0 or less: they are due
	Sessions int
}

// Buckets asks the leader how many sessions fall due at which time. The leader looks at all sessions for
// that.
func (c *Collector) Buckets(ctx context.Context) (b Buckets, err error) {
	b.Leader = c.cfg.Leader()
	if b.Leader == 0 {
		return b, nil
	}
	request := &proto.ViewRequest{About: &proto.ViewRequest_Buckets{Buckets: &proto.ViewBuckets{Limit: MaxRows}}}
	err = c.within(ctx, func(ctx context.Context) error {
		b.Silent = c.ask(ctx, map[uint32]*proto.ViewRequest{b.Leader: request}, func(one answer) error {
			return b.read(one.reply.GetBuckets())
		})
		return nil
	})
	return b, err
}

// read fills b with a leader's answer.
func (b *Buckets) read(r *proto.BucketRows) error {
	switch {
	case r == nil:
		return errOther
	case !r.Leads: // not yet, or no longer
		b.Leader = 0
		return nil
	case len(r.Rows) > MaxRows:
		return tooMany(len(r.Rows), MaxRows)
	case r.TickMs == 0:
		return errors.New("buckets without a width")
	}
	rows, last := make([]Bucket, 0, len(r.Rows)), int64(math.MinInt64)
	for _, row := range r.Rows {
		if row.DueMs <= last || row.Sessions == 0 {
			return fmt.Errorf("a bucket of %d sessions, due in %d ms, comes after one that is due in %d ms", row.Sessions, row.DueMs, last)
		}
		last = row.DueMs
		rows = append(rows, Bucket{Due: signedMillis(row.DueMs), Sessions: int(row.Sessions)})
	}
	b.Tick, b.At, b.Buckets, b.Later = millis(uint64(r.TickMs)), time.UnixMilli(r.ClockMs), rows, int(r.Later)
	return nil
}

// signedMillis returns a number of milliseconds, at most maxTime away.
func signedMillis(n int64) time.Duration {
	if n < 0 {
		return -millis(-uint64(n))
	}
	return millis(uint64(n))
}
