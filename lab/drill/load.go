package drill

import (
	"context"
	"slices"
	"time"

	"rollcall/lab/judge"
	"rollcall/lab/load"
	"rollcall/lab/report"
	"rollcall/lab/result"
	"rollcall/lab/target"
	"rollcall/lab/witness"
)

// drillClients are the load of one drill, and where its members stood when it began.
type drillClients struct {
	load  *load.Load
	began time.Time
	mark  uint64 // of package witness
}

const (
	// stopLimit bounds the time in which the load reads at the end the keys that it has written. Every key is read once.
	stopLimit = time.Minute
	// witnessLimit bounds the wait for the members' testimonies, which come within milliseconds.
	witnessLimit = 20 * time.Second
)

// startClients starts the load of a drill below a chroot.
func (r *Runner) startClients(ctx context.Context, used target.Target, chroot string, seed uint64) (*drillClients, error) {
	cfg := load.Config{Chroot: chroot, Timeout: r.cfg.Timeout, Tick: r.cfg.Tick, Seed: seed}
	if own, ok := used.(*target.Processes); ok {
		cfg.TLS = own.ClientTLS()
	}
	for _, m := range used.Members() {
		address := m.Clients
		if cfg.TLS != nil {
			address = m.Secure
		}
		cfg.Servers = append(cfg.Servers, result.Member{Name: m.Name, Clients: address})
	}
	asked, stop := context.WithTimeout(ctx, witnessLimit)
	defer stop()
	mark := witness.Mark(asked, used.Members())
	began := time.Now()
	l, err := load.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &drillClients{l, began, mark}, nil
}

// stopAndJudge stops the load, collects the members' testimonies, and writes the observations and verdicts into found.
func (c *drillClients) stopAndJudge(ctx context.Context, s *stage, limits judge.Limits, found *result.Drill) {
	stopped, stop := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer stop()
	evidence := c.load.Stop(stopped)
	asked, stop := context.WithTimeout(context.WithoutCancel(ctx), witnessLimit)
	defer stop()
	evidence.Testimonies = witness.Gather(asked, s.target.Members(), c.mark)
	evidence.Faults, evidence.Windows = s.forJudge(), s.windows
	found.Faults, found.Gaps, found.Sessions, found.Load = s.faults, evidence.Gaps, evidence.Counts, evidence.Load
	found.Verdicts = append(judge.Judge(evidence, limits), s.verdicts...)
	if slices.ContainsFunc(found.Verdicts, func(v result.Verdict) bool { return v.Outcome == result.Fail }) {
		found.Outcome = result.Fail
	}
}

// forJudge returns the faults of members, with the members that may not pass on what they heard from clients. What
// clients do excuses nothing.
func (s *stage) forJudge() (faults []judge.Fault) {
	for _, f := range s.faults {
		if f.Member == "" {
			continue
		}
		fault := judge.Fault{From: f.From, To: max(f.To, 0), Text: f.Text, Harmless: slices.Contains(harmless, target.Kind(f.Kind))}
		if target.Kind(f.Kind) != target.MoveIn { // which concerns all
			fault.Members = append([]string{f.Member}, s.apart[f.Text]...)
		}
		faults = append(faults, fault)
	}
	return faults
}

// harmless are the acts of operators that no client of the member may notice.
var harmless = []target.Kind{target.Add, target.Secret, target.Keys, target.Backup}

// showEvery is the time between two numbers on the display.
const showEvery = 250 * time.Millisecond

// updateDisplay updates the display until ctx ends.
func (c *drillClients) updateDisplay(ctx context.Context, live *report.Live, ends time.Time) {
	var shown report.Numbers
	ticker := time.NewTicker(showEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := c.load.Now()
		held := 0
		for _, n := range now.Connected {
			held += n
		}
		shown = report.Numbers{
			At: now.At, WritePause: now.Write, ReadPause: now.Read,
			WriteGap: max(shown.WriteGap, now.Write), ReadGap: max(shown.ReadGap, now.Read),
			Held: held, Suspended: now.Suspended, Expired: now.Expired, Left: max(0, time.Until(ends)),
		}
		live.Now(shown)
	}
}
