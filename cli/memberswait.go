package cli

import (
	"context"
	"fmt"
	"time"

	"rollcall/operator/api"
)

const (
	// membersPollEvery is the time between two looks at the list while a command waits. Each look asks all members.
	membersPollEvery = 500 * time.Millisecond
	// progressReportEvery is how often a command says how far a server is that catches up.
	progressReportEvery = 5 * time.Second
	// membersPollPatience is for how long the members may give no answer while a command waits: longer than an election
	// and a restart take.
	membersPollPatience = 30 * time.Second
)

// waitUntil waits until ok, which it calls with what the members say again and again. rest says what goes on without the
// command if it is stopped. It tells how far the server with an id is.
func (k *membersCommand) waitUntil(ctx context.Context, id uint32, rest string, ok func(m api.Members) bool) (api.Members, error) {
	p := &serverProgress{membersCommand: k, id: id}
	defer p.endProgress()
	answered := time.Now()
	for {
		m, err := k.fetchMembers(ctx)
		switch {
		case (err == nil || hasRemovedItself(m, id)) && ok(m):
			return m, nil
		case err == nil:
			answered = time.Now()
			p.reportServer(m)
		case ctx.Err() == nil && time.Since(answered) > membersPollPatience:
			return m, fmt.Errorf("%w; %s; run the command again: it goes on where it is", err, rest)
		}
		if sleepContext(ctx, k.pollInterval()) != nil {
			return m, WithStatus(Failed, k.wrapError(fmt.Errorf("stopped; %s; run the command again: it goes on where it is", rest)))
		}
	}
}

// hasRemovedItself reports whether the server with an id is the member that answers, and was removed from the ensemble.
func hasRemovedItself(m api.Members, id uint32) bool {
	s, _ := findServer(m, id)
	return m.WasRemoved && s.State == api.StateRemoved
}

// pollInterval returns the time between two looks.
func (w IOStreams) pollInterval() time.Duration {
	if w.membersPollInterval > 0 {
		return w.membersPollInterval
	}
	return membersPollEvery
}

// serverProgress is what a command tells about a server while it waits for it.
type serverProgress struct {
	*membersCommand
	id              uint32
	progress        *Progress // on a terminal, while it catches up
	reportedApplied uint64    // what it had applied when that was last told
	reportedAt      time.Time // when that was; zero: it has not been told
}

func (p *serverProgress) endProgress() {
	if p.progress != nil {
		p.progress.Done()
		p.progress = nil
	}
}

// reportServer says what the server does, when that changes, and how far it is.
func (p *serverProgress) reportServer(m api.Members) {
	s, known := findServer(m, p.id)
	state := s.State
	if !known && state == "" {
		state = "not in the list"
	}
	if state != api.StateCatchingUp {
		p.endProgress()
		p.printState(s, state)
		return
	}
	if p.progress == nil {
		p.progress, p.reportedAt = NewProgress(p.IOStreams, fmt.Sprintf("log entries on member %d", p.id), 0), time.Time{}
	}
	if m.CommittedIndex != nil {
		p.progress.SetTotal(int(*m.CommittedIndex))
		p.progress.Set(int(min(s.AppliedIndex, *m.CommittedIndex)))
	}
	if since := time.Since(p.reportedAt); p.reportedAt.IsZero() || since >= progressReportEvery {
		row := serverRow{Server: s, LeaderCommitted: m.CommittedIndex}
		if !p.reportedAt.IsZero() {
			row.EntriesPerSecond = entriesPerSecond(p.reportedApplied, s.AppliedIndex, since)
		}
		p.reportedApplied, p.reportedAt = s.AppliedIndex, time.Now()
		p.printState(s, formatServerState(row))
	}
}

// printState prints a line about the server, unless it was the last one.
func (p *serverProgress) printState(s api.Server, state string) {
	text := fmt.Sprintf("member %d: %s", p.id, state)
	switch s.State {
	case api.StateSilent:
		text += " (" + s.Detail + "); start it, with the lines server.N of the other members in its zoo.cfg"
	case api.StateNotServing:
		text += " " + s.Detail
	}
	if text != p.lastReport {
		warnf(p.IOStreams, "%s", text)
	}
	p.lastReport = text
}
