package rollcalltest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"rollcall/lab/simulated"
	"rollcall/member"
	"rollcall/operator/api"
)

// Server is one server: a real member of Rollcall, whose disk and whose network to other servers are in memory. Its
// methods are safe for concurrent use.
type Server struct {
	Faults
	number    int
	address   string // for clients
	proxy     *proxy
	disk      *simulated.Disk
	monotonic *simulated.Monotonic

	mu     sync.Mutex
	run    *serverRun // nil while the server is down
	paused bool
	closed bool         // never starts again
	ghosts []*serverRun // were killed, and have not all ended
	ends   []error      // of runs that ended by themselves
}

// serverRun is one run of the server, from its start to a crash.
type serverRun struct {
	member *member.Member
	stop   context.CancelFunc
	ended  chan struct{} // closed when the member's Run has returned
	err    error         // of Run
}

// Number returns the server's number in its ensemble, from 1. It is the server's id, as in ZooKeeper's myid.
func (s *Server) Number() int { return s.number }

// ConnectString returns the address at which clients reach the server, as host:port. It stays the same when the
// server is killed and restarted. With Config.Pipes, only Dial reaches it.
func (s *Server) ConnectString() string { return s.address }

// Dial connects a client to the server with address addr: this one, or another one of its ensemble. network is "tcp". It
// blocks until ctx ends at the latest. It is needed with Config.Pipes, and works without it, too. It fits
// client.Config.DialConn.
func (s *Server) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return s.ensemble.Dial(ctx, network, addr)
}

// AwaitReady waits until the server serves clients. It returns ctx's error if ctx ends first.
func (s *Server) AwaitReady(ctx context.Context) error {
	return s.ensemble.awaitCondition(ctx, fmt.Sprintf("server %d does not serve", s.number), s.isServing)
}

// isServing reports whether the server serves all clients.
func (s *Server) isServing() bool {
	m := s.runningMember()
	return m != nil && m.Role() != "" && m.Role() != api.RoleReadOnly
}

// isLeader reports whether the server is the leader, or alone.
func (s *Server) isLeader() bool {
	m := s.runningMember()
	return m != nil && (m.Role() == "leader" || m.Role() == "standalone")
}

// hasVote reports whether the server knows that it has a vote.
func (s *Server) hasVote() bool {
	m := s.runningMember()
	if m == nil {
		return false
	}
	for _, p := range m.RaftConfiguration() {
		if p.ID == uint32(s.number) && p.DiskID == m.DiskID() && !p.Observer {
			return true
		}
	}
	return false
}

// runningMember returns the member, or nil while the server is down or paused.
func (s *Server) runningMember() *member.Member {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil || s.paused {
		return nil
	}
	return s.run.member
}

// These are the errors of methods that start, stop and pause a server.
var (
	errUp     = errors.New("it runs already")
	errDown   = errors.New("it is down")
	errClosed = errors.New("the ensemble is closed")
)

func (s *Server) failed(what string, err error) error {
	return fmt.Errorf("rollcalltest: %s server %d: %w", what, s.number, err)
}

// Kill ends the server as a crash of its machine would. The connections of its clients break, and new ones are closed
// at once. It keeps what its disk has stored. It returns an error if the server is down already.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		return s.failed("kill", errDown)
	}
	s.killLocked()
	return nil
}

// killLocked does what Kill does, under the lock.
func (s *Server) killLocked() {
	s.ensemble.network.Kill(uint32(s.number))
	s.disk.Crash(nil)
	if s.paused {
		s.resumeLocked()
	}
	run := s.run
	s.run = nil
	s.ghosts = append(s.ghosts, run)
	if len(s.ensemble.Servers) == 1 {
		run.stop()
		return
	}
	time.AfterFunc(2*heartbeatTimeout, run.stop) // cut off, it no longer leads by then, so it does not hand over
}

// Restart starts a server that is down, with what its disk has stored. It does not wait until the server serves; see
// AwaitReady. It returns an error if the server runs or its ensemble is closed.
func (s *Server) Restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return s.failed("restart", errClosed)
	case s.run != nil:
		return s.failed("restart", errUp)
	}
	if err := s.startLocked(); err != nil {
		return s.failed("restart", err)
	}
	return nil
}

// startLocked starts the server. The lock is held.
func (s *Server) startLocked() error {
	host := s.ensemble.network.Revive(uint32(s.number))
	clients, err := host.Listen(memberAddress(s.number, clientPort))
	if err != nil {
		return err
	}
	stores := s.disk.Mount()
	list, text := s.ensemble.serverList()
	m, err := member.New(member.Config{
		Settings: s.ensemble.cfg.serverSettings(), ID: uint32(s.number), Servers: list, EnsembleText: text,
		ClientListener: clients, Stores: &stores, Monotonic: s.monotonic,
		Network: member.Network{Listen: host.Listen, Dial: host.Dial, Lookup: simulated.NoAddress},
		Logger:  s.ensemble.cfg.Logger,
	})
	if err != nil {
		_ = clients.Close()
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	run := &serverRun{member: m, stop: stop, ended: make(chan struct{})}
	s.run = run
	go func() {
		run.err = m.Run(ctx)
		close(run.ended)
		s.noteEnd(run)
	}()
	return nil
}

// noteEnd makes a server that has ended by itself one that is down.
func (s *Server) noteEnd(run *serverRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == run {
		s.ends = append(s.ends, fmt.Errorf("rollcalltest: server %d has ended by itself: %w", s.number, run.err))
		s.killLocked()
	}
}

// Pause stops the server for everybody outside, as SIGSTOP stops a process, until Resume: it receives nothing and sends
// nothing, and expires no session. Connections to it stay open, and new ones wait. It returns an error if the server is
// down.
func (s *Server) Pause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.run == nil:
		return s.failed("pause", errDown)
	case s.paused:
		return nil
	}
	s.paused = true
	s.monotonic.Pause()
	s.eachLink(s.ensemble.network.Hang)
	return nil
}

// Resume ends Pause. It returns an error if the server is down.
func (s *Server) Resume() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.run == nil:
		return s.failed("resume", errDown)
	case s.paused:
		s.resumeLocked()
	}
	return nil
}

// resumeLocked ends Pause, under the lock.
func (s *Server) resumeLocked() {
	s.paused = false
	s.eachLink(s.ensemble.network.EndHang)
	s.monotonic.Resume()
}

// eachLink calls do for both directions between the server and every other host.
func (s *Server) eachLink(do func(from, to uint32)) {
	own := uint32(s.number)
	for other := range uint32(len(s.ensemble.Servers) + 1) { // clientsHost is 0
		if other != own {
			do(own, other)
			do(other, own)
		}
	}
}

// SlowDisk makes every write to the server's disk take d from now on. If d is 0, writes take no time again. A leader
// whose write takes more than three seconds is replaced. A negative d is 0.
func (s *Server) SlowDisk(d time.Duration) { s.disk.SetLatency(max(d, 0)) }

// closeForGood kills the server, unless it is down, for good.
func (s *Server) closeForGood() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.run != nil {
		s.killLocked()
	}
}

// awaitEnd waits for the goroutines of all runs of a server that was killed. It returns the errors of the runs that had
// ended by themselves. What a run returns after a kill means nothing.
func (s *Server) awaitEnd() error {
	s.mu.Lock()
	ghosts, ends := s.ghosts, s.ends
	s.ghosts = nil
	s.mu.Unlock()
	for _, run := range ghosts {
		run.stop()
		<-run.ended
	}
	return errors.Join(ends...)
}
