package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"rollcall/operator/api"
)

const (
	// membersPollEvery is the time between two polls of the list. Each poll queries all members.
	membersPollEvery    = 500 * time.Millisecond
	progressReportEvery = 5 * time.Second
	// membersPollPatience bounds a time without replies. It is longer than an election and a restart take.
	membersPollPatience = 30 * time.Second
)

// pollMembersUntil polls the members until ok returns true, and reports the progress of the server id. rest
// describes what continues without the command if it is stopped.
func (k *membersCommand) pollMembersUntil(ctx context.Context, id uint32, rest string,
	ok func(m api.Members) bool,
) (api.Members, error) {
	p := &serverProgress{command: k, id: id}
	defer p.endProgress()
	lastReply := time.Now()
	for {
		m, err := k.fetchMembers(ctx)
		switch {
		case (err == nil || isRemovedServer(m, id)) && ok(m):
			return m, nil
		case err == nil:
			lastReply = time.Now()
			p.reportServer(m)
		case ctx.Err() == nil && time.Since(lastReply) > membersPollPatience:
			return m, fmt.Errorf("%w; %s; run the command again: it continues where it is", err, rest)
		}
		if sleepContext(ctx, cmp.Or(k.streams.membersPollInterval, membersPollEvery)) != nil {
			return m, Failed.Errorf("stopped; %s; run the command again: it continues where it is", rest)
		}
	}
}

// isRemovedServer reports whether the member that replied is server id and was removed.
func isRemovedServer(m api.Members, id uint32) bool {
	s, _ := findServer(m, id)
	return m.WasRemoved && s.State == api.StateRemoved
}

type serverProgress struct {
	command         *membersCommand
	id              uint32
	progress        *Progress // on a terminal, while it catches up
	reportedApplied uint64    // applied entries at the last report
	reportedAt      time.Time // zero: not yet
	lastState       string    // at the last line
	isLeaving       bool      // the list does not have it any more
}

func (p *serverProgress) endProgress() {
	if p.progress != nil {
		p.progress.Done()
		p.progress = nil
	}
}

// reportServer prints changes of the server's state, and its progress while it catches up.
func (p *serverProgress) reportServer(m api.Members) {
	s, known := findServer(m, p.id)
	state := s.State
	p.isLeaving = !known && state != ""
	if !known && state == "" {
		state = "not in the list"
	}
	if state != api.StateCatchingUp {
		p.endProgress()
		p.printIfChanged(s, state)
		return
	}
	if p.progress == nil {
		p.progress, p.reportedAt = NewProgress(p.command.streams, fmt.Sprintf("log entries on member %d", p.id), 0), time.Time{}
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
		p.printIfChanged(s, formatServerState(row))
	}
}

// printIfChanged prints a line about the server, unless it repeats the last one.
func (p *serverProgress) printIfChanged(s api.Server, state string) {
	text := fmt.Sprintf("member %d: %s", p.id, state)
	switch s.State {
	case api.StateSilent:
		if p.isLeaving {
			text += " (" + s.Detail + "); it need not run: it is out as soon as a majority of the other members replies"
			break
		}
		text += " (" + s.Detail + "); start it, with the lines server.N of the other members in its zoo.cfg"
	case api.StateNotServing:
		if p.lastState == s.State && time.Since(p.reportedAt) < progressReportEvery {
			return // the detail of a member that reads its data changes with each percent
		}
		text, p.reportedAt = text+": "+s.Detail, time.Now()
	}
	if text != p.command.lastReport {
		warnf(p.command.streams, "%s", text)
	}
	p.command.lastReport, p.lastState = text, s.State
}
