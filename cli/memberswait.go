package cli

import (
	"context"
	"fmt"
	"time"

	"rollcall/operator/api"
)

const (
	// lookEvery is the time between two looks at the list while a command waits. Each look asks all members.
	lookEvery = 500 * time.Millisecond
	// tellEvery is how often a command says how far a server is that catches up.
	tellEvery = 5 * time.Second
	// lookPatience is for how long the members may give no answer while a command waits: longer than an election
	// and a restart take.
	lookPatience = 30 * time.Second
)

// until waits until ok, which it calls with what the members say again and again. rest says what goes on without the
// command if it is stopped. It tells how far the server with an id is.
func (k *work) until(ctx context.Context, id uint32, rest string, ok func(m api.Members) bool) (api.Members, error) {
	p := &pursuit{work: k, id: id}
	defer p.end()
	answered := time.Now()
	for {
		m, err := k.look(ctx)
		switch {
		case (err == nil || isGone(m, id)) && ok(m):
			return m, nil
		case err == nil:
			answered = time.Now()
			p.tell(m)
		case ctx.Err() == nil && time.Since(answered) > lookPatience:
			return m, fmt.Errorf("%w; %s; run the command again: it goes on where it is", err, rest)
		}
		if pause(ctx, k.every()) != nil {
			return m, With(Failed, k.wrap(fmt.Errorf("stopped; %s; run the command again: it goes on where it is", rest)))
		}
	}
}

// isGone reports whether the server with an id is the member that answers, and was removed from the ensemble.
func isGone(m api.Members, id uint32) bool {
	s, _ := find(m, id)
	return m.Removed && s.State == api.StateRemoved
}

// every returns the time between two looks.
func (w World) every() time.Duration {
	if w.looks > 0 {
		return w.looks
	}
	return lookEvery
}

// pursuit is what a command tells about a server while it waits for it.
type pursuit struct {
	*work
	id       uint32
	progress *Progress // on a terminal, while it catches up
	from     uint64    // what it had applied when that was last told
	at       time.Time // when that was; zero: it has not been told
}

func (p *pursuit) end() {
	if p.progress != nil {
		p.progress.Done()
		p.progress = nil
	}
}

// tell says what the server does, when that changes, and how far it is.
func (p *pursuit) tell(m api.Members) {
	s, known := find(m, p.id)
	state := s.State
	if !known && state == "" {
		state = "not in the list"
	}
	if state != api.StateCatchingUp {
		p.end()
		p.say(s, state)
		return
	}
	if p.progress == nil {
		p.progress, p.at = NewProgress(p.World, fmt.Sprintf("log entries on member %d", p.id), 0), time.Time{}
	}
	if m.Committed != nil {
		p.progress.Expect(int(*m.Committed))
		p.progress.Set(int(min(s.Applied, *m.Committed)))
	}
	if since := time.Since(p.at); p.at.IsZero() || since >= tellEvery {
		row := serverRow{Server: s, Target: m.Committed}
		if !p.at.IsZero() {
			row.Rate = rateOf(p.from, s.Applied, since)
		}
		p.from, p.at = s.Applied, time.Now()
		p.say(s, serverText(row))
	}
}

// say prints a line about the server, unless it was the last one.
func (p *pursuit) say(s api.Server, state string) {
	text := fmt.Sprintf("member %d: %s", p.id, state)
	switch s.State {
	case api.StateSilent:
		text += " (" + s.Detail + "); start it, with the lines server.N of the other members in its zoo.cfg"
	case api.StateNotServing:
		text += " " + s.Detail
	}
	if text != p.said {
		warn(p.World, "%s", text)
	}
	p.said = text
}
