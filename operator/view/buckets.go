package view

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"rollcall/operator/api"
	"rollcall/proto"
)

// ExpiryBuckets queries the leader for the number of sessions that fall due at each time. The leader scans all
// sessions.
func (c *Collector) ExpiryBuckets(ctx context.Context) (b api.Buckets, err error) {
	b = api.Buckets{At: time.Time{}.UTC(), LeaderID: c.cfg.Leader(), Buckets: []api.Bucket{}, Silent: []api.Silence{}}
	if b.LeaderID == 0 {
		return b, nil
	}
	request := &proto.ViewRequest{About: &proto.ViewRequest_Buckets{Buckets: &proto.ViewBuckets{Limit: MaxRows}}}
	b.Silent, err = c.runMemberQuery(ctx, map[uint32]*proto.ViewRequest{b.LeaderID: request}, b.Silent,
		func(one memberReply) error {
			return parseBuckets(&b, one.reply.GetBuckets())
		})
	return b, err
}

// parseBuckets fills b with a leader's reply.
func parseBuckets(b *api.Buckets, r *proto.BucketRows) error {
	switch {
	case r == nil:
		return errUnrelatedReply
	case !r.Leads: // not yet, or no longer
		b.LeaderID = 0
		return nil
	case len(r.Rows) > MaxRows:
		return errTooManyRows(len(r.Rows), MaxRows)
	case r.TickMs == 0:
		return errors.New("buckets without a width")
	}
	rows, last := make([]api.Bucket, 0, len(r.Rows)), int64(math.MinInt64)
	for _, row := range r.Rows {
		if row.DueMs <= last || row.Sessions == 0 {
			return fmt.Errorf("a bucket of %d sessions, due in %d ms, comes after one that is due in %d ms", row.Sessions,
				row.DueMs, last)
		}
		last = row.DueMs
		rows = append(rows, api.Bucket{DueMs: clampSignedMillis(row.DueMs), Sessions: int(row.Sessions)})
	}
	b.TickMs, b.At, b.Buckets, b.LaterSessions = clampMillis(uint64(r.TickMs)).Milliseconds(), timeOf(r.ClockMs), rows,
		int(r.Later)
	return nil
}

func clampSignedMillis(n int64) int64 {
	if n < 0 {
		return -clampMillis(-uint64(n)).Milliseconds()
	}
	return clampMillis(uint64(n)).Milliseconds()
}
