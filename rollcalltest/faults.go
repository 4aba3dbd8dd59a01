package rollcalltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"rollcall/member"
	"rollcall/zk/jute"
)

// faultTimeout limits the time that a fault which needs a leader waits for one. An election takes a second or two.
const faultTimeout = 10 * time.Second

// testAuthor is the name under which servers record the sessions that tests end.
const testAuthor = "rollcalltest"

// Faults are the faults between clients and one server, or between clients and all servers of an ensemble. A Server
// and an Ensemble have them. All methods are safe for concurrent use.
//
// A parameter session selects one session. If it is 0, the fault concerns any session.
type Faults struct {
	ensemble *Ensemble
	server   int // the server's number; 0: all servers
}

// OnRequest makes hook decide on the fate of each request from now on. There is at most one hook for each server, and
// one for the ensemble; hooks and planned faults (LoseReply and others) all take effect. If hook is nil, there is none
// any more.
//
// Requests wait while hook runs, and it runs for one request at a time. hook may call every method of this package
// except Close and those that wait for readiness. It must not wait for a request of a client.
func (f *Faults) OnRequest(hook func(Request) Verdict) { f.ensemble.judge.setHook(f.server, hook) }

// LoseReply breaks the connection in place of the reply to the n-th request from now; n is 1 for the next one. The
// request is carried out, and its client never knows. Connects and pings do not count. It returns an error if n is
// less than 1, or 1,000 planned faults wait for their requests.
func (f *Faults) LoseReply(session int64, n int) error {
	return f.ensemble.judge.addFault(plannedFault{f.server, session, n, Verdict{LoseReply: true}})
}

// LoseRequest breaks the connection before the n-th request from now is carried out. It counts and fails as LoseReply
// does.
func (f *Faults) LoseRequest(session int64, n int) error {
	return f.ensemble.judge.addFault(plannedFault{f.server, session, n, Verdict{LoseRequest: true}})
}

// DelayReply holds the reply to the n-th request from now back for d, and everything that follows on its connection.
// It counts and fails as LoseReply does, and also fails if d is negative.
func (f *Faults) DelayReply(session int64, n int, d time.Duration) error {
	return f.ensemble.judge.addFault(plannedFault{f.server, session, n, Verdict{Delay: d}})
}

// DropConnections breaks the connections of clients, and returns their number. Requests that the server has are
// carried out, and their replies are lost. New connections are accepted at once.
func (f *Faults) DropConnections(session int64) int {
	dropped := 0
	for _, s := range f.affectedServers() {
		for _, l := range s.proxy.linksOf(session) {
			l.End()
			dropped++
		}
	}
	return dropped
}

// ExpireSession ends a session with its ephemeral nodes, as if its client had been silent for its timeout. Its client
// is disconnected, and learns the end when it reconnects. ExpireSession returns when a server has applied the end. It
// waits up to 10 s for a leader. It returns an error if there is none, or no such session.
func (f *Faults) ExpireSession(session int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), faultTimeout)
	defer cancel()
	var leader *member.Member
	if err := f.ensemble.awaitCondition(ctx, fmt.Sprintf("expire session %#x: no server leads", session), func() bool {
		if s := f.ensemble.Leader(); s != nil {
			leader = s.runningMember()
		}
		return leader != nil
	}); err != nil {
		return err
	}
	if err := leader.KillSession(ctx, jute.SessionID(session), testAuthor); err != nil {
		return fmt.Errorf("rollcalltest: expire session: %w", err)
	}
	return nil
}

// errNoServer is for what needs a server that runs.
var errNoServer = errors.New("rollcalltest: no server runs")

// Sessions returns the ids of all sessions, in order, as a server that runs has applied them: the leader if there is
// one. It returns an error if no server runs.
func (f *Faults) Sessions() ([]int64, error) {
	servers := f.ensemble.Servers
	if leader := f.ensemble.Leader(); leader != nil {
		servers = []*Server{leader}
	}
	for _, s := range servers {
		m := s.runningMember()
		if m == nil {
			continue
		}
		var ids []int64
		state := m.State()
		state.RLock()
		for s := range state.Sessions(0) {
			ids = append(ids, int64(s.ID))
		}
		state.RUnlock()
		slices.Sort(ids)
		return ids, nil
	}
	return nil, errNoServer
}

// affectedServers returns the servers that the faults concern.
func (f *Faults) affectedServers() []*Server {
	if f.server == 0 {
		return f.ensemble.Servers
	}
	return f.ensemble.Servers[f.server-1 : f.server]
}
