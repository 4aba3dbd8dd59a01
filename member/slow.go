package member

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"rollcall/config"
	"rollcall/internal/admission"
	"rollcall/internal/metrics"
	"rollcall/internal/stages"
	"rollcall/operator/otlp"
	"rollcall/operator/view"
	"rollcall/proto"
	"rollcall/quorum"
	"rollcall/zk/jute"
)

const (
	// joinDelay is the time from a slow request to the query for its stages on the other members. It limits the queries to
	// four in a second, and lets the other members apply the entry.
	joinDelay = 250 * time.Millisecond
	// rejoinDelay is the time until the next query to members that have not replied.
	rejoinDelay = time.Second
	// slowThreshold is the default of the least duration of a slow request, unless a tenth of a tick is longer.
	slowThreshold = 100 * time.Millisecond
)

// slowRequests keeps the slow requests of this member's clients, and queries the other members for the stages of their time.
type slowRequests struct {
	m         *Member
	recorder  *stages.Recorder
	lines     *admission.LogLimiter               // about slow requests
	pauses    *admission.LogLimiter               // lines about pauses
	durations [stages.NumStages]metrics.Durations // of the stages of slow requests
	exporter  *otlp.Exporter                      // sends them to a collector; nil: there is none
}

func newSlowRequests(m *Member) *slowRequests {
	return &slowRequests{
		m: m, recorder: stages.New(slowThresholds(m.cfg.Slow, m.cfg.Tick), m.wallClock.Now), lines: admission.NewLogLimiter(),
		pauses: admission.NewLogLimiter(),
	}
}

// slowThresholds returns the thresholds of all classes. A class that has none of its own has the one of all requests.
func slowThresholds(cfg config.SlowThresholds, tick time.Duration) stages.Thresholds {
	request := cmp.Or(cfg.Request, max(slowThreshold, tick/10))
	return stages.Thresholds{
		stages.Reads: cmp.Or(cfg.Read, request), stages.Writes: cmp.Or(cfg.Write, request), stages.Sessions: cmp.Or(cfg.Session, request),
	}
}

// joinLoop joins the stages of slow requests until ctx ends.
func (s *slowRequests) joinLoop(ctx context.Context) error {
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.recorder.Arrived():
		case <-again:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(joinDelay):
		}
		again = nil
		if indexes, any := s.recorder.Unjoined(); any {
			s.join(ctx, indexes)
		}
		if _, any := s.recorder.Unjoined(); any {
			again = time.After(rejoinDelay)
		}
	}
}

// join queries all members for the times of entries, and divides the time of the requests that the entries belong to.
func (s *slowRequests) join(ctx context.Context, indexes []uint64) {
	peers, missing := map[uint32]stages.Peer{}, []uint32(nil)
	if len(indexes) > 0 {
		peers, missing = s.askOthers(ctx, indexes)
	}
	peers[s.m.cfg.ID] = stages.Peer{Records: s.recorder.Records(indexes)}
	in := stages.Ensemble{Self: s.m.cfg.ID, Voters: raftVoters(s.m.node)}
	for _, one := range s.recorder.Join(in, indexes, peers, missing) {
		for _, stage := range one.Stages {
			s.durations[stage.Kind].Add(stage.Took)
		}
		s.logOne(&one)
		s.exporter.KeepSlow(&one)
	}
}

// askOthers queries the other members for the times of entries. It returns the members that have not replied in time.
func (s *slowRequests) askOthers(ctx context.Context, indexes []uint64) (map[uint32]stages.Peer, []uint32) {
	ctx, cancel := context.WithTimeout(ctx, min(s.m.cfg.Tick, view.MaxDeadline))
	defer cancel()
	request := &proto.ViewRequest{About: &proto.ViewRequest_Times{Times: &proto.ViewTimes{Indexes: indexes}}}
	var (
		mu      sync.Mutex
		asked   sync.WaitGroup
		peers   = map[uint32]stages.Peer{}
		missing []uint32
	)
	for _, one := range s.m.viewer.viewMembers() {
		if one.ID == s.m.cfg.ID {
			continue
		}
		asked.Go(func() {
			sent := s.recorder.Now()
			reply, err := one.Peer.View(ctx, request)
			received := s.recorder.Now()
			rows := reply.GetTimes()
			mu.Lock()
			defer mu.Unlock()
			if err != nil || rows == nil || len(rows.Rows) > 2*stages.MaxIndexes {
				missing = append(missing, one.ID)
				return
			}
			peers[one.ID] = stages.PeerOf(recordsOf(rows), sent, received)
		})
	}
	asked.Wait()
	slices.Sort(missing)
	return peers, missing
}

// logOne logs a slow request, unless another line was logged a short time ago.
func (s *slowRequests) logOne(one *stages.Slow) {
	skipped, due := s.lines.AllowLine(time.Now())
	if !due {
		return
	}
	largest := one.Largest()
	s.m.log.Warn("slow request", "id", view.SlowID(s.m.cfg.ID, one.Number), "op", one.Op, "took", one.Total.Round(time.Millisecond),
		"session", jute.SessionID(one.Session), "client", one.Address, "largest", view.StageText(largest), "stage", largest.Kind.String(),
		"stage_took", largest.Took.Round(time.Millisecond), "skipped", skipped)
}

// recordPause keeps and logs that the process did not run, unless that was shorter than the threshold of all classes of requests
// and costs no leader its place. Requests that came meanwhile waited in their sockets, where no time is recorded, so the pause is
// their only trace.
func (s *slowRequests) recordPause(took time.Duration) {
	advice := failoverAdvice(took, s.m.cfg.HeartbeatTimeout)
	if s.m.cfg.isStandalone() {
		advice = nil
	}
	if took < min(s.recorder.Threshold(stages.Reads), s.recorder.Threshold(stages.Writes), s.recorder.Threshold(stages.Sessions)) && advice == nil {
		return
	}
	s.exporter.KeepSlow(s.recorder.KeepPause(s.m.cfg.ID, took, s.m.server.Stats().Connections))
	if skipped, due := s.pauses.AllowLine(time.Now()); due {
		s.m.log.Warn("the process did not run", append([]any{"took", took.Round(time.Millisecond), "skipped", skipped}, advice...)...)
	}
}

// failoverStep is the precision of the failover that a log line advises.
const failoverStep = 50 * time.Millisecond

// failoverAdvice returns attributes of a log line that name the key to change, and its value, if a leader may lose its place by
// a pause of its process. It returns nil if it keeps its place, or if no value that is allowed is enough. A failover as long as
// the pause tolerates a third more than the pause.
func failoverAdvice(took, failover time.Duration) []any {
	enough := (took + failoverStep - 1).Truncate(failoverStep)
	if took <= quorum.PauseTolerance(failover) || enough > config.MaxFailover {
		return nil
	}
	return []any{"advice", fmt.Sprintf("a leader can lose its place by such a pause; give the process more of the machine, or set failover=%d on all members",
		enough.Milliseconds())}
}

func (s *slowRequests) nativeMetrics() []metrics.Native {
	return []metrics.Native{
		metrics.HistogramBy("rollcall_stage_seconds", "stage",
			"the stages of slow requests of this member's clients", s.stageBuckets),
		metrics.Counter("rollcall_slow_requests_not_kept_total",
			"slow requests that rollcall slow does not list, because slower ones are listed",
			func() uint64 { _, notKept := s.recorder.Kept(); return notKept }),
	}
}

func (s *slowRequests) stageBuckets() map[string]metrics.Buckets {
	all := make(map[string]metrics.Buckets, stages.NumStages)
	for kind := stages.Kind(1); kind < stages.NumStages; kind++ {
		all[kind.String()] = s.durations[kind].Buckets()
	}
	return all
}

// timeRows returns the times of entries that this member has recorded.
func (s *slowRequests) timeRows(q *proto.ViewTimes) *proto.TimeRows {
	found := s.recorder.Records(q.Indexes[:min(len(q.Indexes), stages.MaxIndexes)])
	r := &proto.TimeRows{Clock: int64(found.Clock)}
	for i := range found.Entries {
		e := &found.Entries[i]
		r.Rows = append(r.Rows, &proto.TimeRow{
			Index: e.Index, Sealed: int64(e.Sealed), Received: int64(e.Received), Durable: int64(e.Durable),
			Committed: int64(e.Committed), ApplyBegun: int64(e.ApplyBegun),
			Locked: int64(e.Locked), Applied: int64(e.Applied), Arrivals: delayRows(&e.Arrivals), Acks: delayRows(&e.Acks),
		})
	}
	for _, c := range found.Causes {
		r.Causes = append(r.Causes, &proto.CauseRow{Cause: proto.SlowCause(c.Kind), From: int64(c.From), To: int64(c.To)})
	}
	return r
}

func delayRows(all *[stages.MaxMembers]stages.MemberDelay) (rows []*proto.MemberDelay) {
	for _, one := range all {
		if one.Member != 0 {
			rows = append(rows, &proto.MemberDelay{Member: one.Member, Micros: one.Micros})
		}
	}
	return rows
}

// recordsOf returns the records of another member.
func recordsOf(r *proto.TimeRows) (found stages.Records) {
	found.Clock = stages.Time(r.Clock)
	for _, row := range r.Rows {
		e := stages.Entry{
			Index: row.Index, Sealed: stages.Time(row.Sealed), Received: stages.Time(row.Received),
			Durable: stages.Time(row.Durable), Committed: stages.Time(row.Committed),
			ApplyBegun: stages.Time(row.ApplyBegun), Locked: stages.Time(row.Locked), Applied: stages.Time(row.Applied),
		}
		readDelays(&e.Arrivals, row.Arrivals)
		readDelays(&e.Acks, row.Acks)
		found.Entries = append(found.Entries, e)
	}
	for _, row := range r.Causes[:min(len(r.Causes), stages.MaxCauses)] {
		if row.Cause > 0 && row.Cause < proto.SlowCause(stages.NumCauseKinds) {
			found.Causes = append(found.Causes, stages.Cause{
				Kind: stages.CauseKind(row.Cause), From: stages.Time(row.From), To: stages.Time(row.To),
			})
		}
	}
	return found
}

func readDelays(to *[stages.MaxMembers]stages.MemberDelay, rows []*proto.MemberDelay) {
	for i, row := range rows[:min(len(rows), stages.MaxMembers)] {
		to[i] = stages.MemberDelay{Member: row.Member, Micros: row.Micros}
	}
}

// slowRows returns the slow requests of this member's clients that a query selects, newest first, and the pauses of its process
// unless the query selects clients.
func (s *slowRequests) slowRows(q *proto.ViewSlow) *proto.SlowRows {
	kept, notKept := s.recorder.Kept()
	r, limit, want := &proto.SlowRows{NotKept: notKept}, rowLimit(q.Limit), view.NewClientFilter(string(q.Address))
	for i := range kept {
		one := &kept[i]
		switch {
		case q.Number != 0 && one.Number != q.Number || q.Before != 0 && one.Number >= q.Before,
			q.Session != 0 && uint64(one.Session) != q.Session || !want.Matches(one.Address):
			continue
		case len(r.Rows) == limit:
			if limit > 0 {
				r.Next = r.Rows[limit-1].Number
			}
			return r
		}
		r.Rows = append(r.Rows, slowRow(one))
	}
	return r
}

func slowRow(one *stages.Slow) *proto.SlowRow {
	row := &proto.SlowRow{
		Number: one.Number, ReceivedMs: one.At.UnixMilli(), Session: uint64(one.Session), Address: []byte(one.Address),
		Op: one.Op, Path: []byte(one.Path), Xid: one.Xid, Index: one.Index, TotalUs: micros(one.Total), Missing: one.Missing,
		ErrorUs: micros(one.Error), Joined: one.Joined, Connections: uint64(max(0, one.Connections)), Lost: one.Lost,
	}
	for _, stage := range one.Stages {
		row.Stages = append(row.Stages, &proto.StageRow{
			Kind: uint32(stage.Kind), Member: stage.Member, To: stage.To, TookUs: micros(stage.Took), Entry: stage.Entry,
			OfUs: micros(stage.Of),
		})
	}
	for _, c := range one.Causes {
		row.Causes = append(row.Causes, &proto.SlowCauseRow{Cause: proto.SlowCause(c.Kind), Member: c.Member, TookUs: micros(c.Took)})
	}
	return row
}

func micros(d time.Duration) uint64 { return uint64(min(max(0, d.Microseconds()), math.MaxInt64)) }
