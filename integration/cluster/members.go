package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"rollcall/integration/wire"
	"rollcall/internal/serverlist"
	"rollcall/member"
	quorumwire "rollcall/quorum/wire"
	"rollcall/zk/jute"
)

// This file lets members come and go. The ensemble's list is the one that the members have applied,
// not the one that a test has requested: see List.

// Add makes a member with empty disks, which is down. It starts with a server list of its own: the
// ensemble's present members and itself. It is no member until a Reconfigure adds it.
func (e *Ensemble) Add(id uint32) {
	e.t.Helper()
	if e.members[id] != nil {
		e.t.Fatalf("cluster: there is a member %d already", id)
	}
	e.members[id] = e.newMember(serverLine(id, 0), nil)
	e.SetServerList(id)
}

// SetServerList gives a member that is down a new server list: the ensemble's present members and itself.
func (e *Ensemble) SetServerList(id uint32) {
	e.t.Helper()
	e.mustBeDown(id)
	r := e.members[id]
	r.list = nil
	for _, s := range e.List() {
		if s.ID != id {
			r.list = append(r.list, member.Server{ID: s.ID, GrpcAddr: s.QuorumAddr(), RaftAddr: s.ElectionAddr()})
		}
	}
	r.list = append(r.list, r.self)
}

// Move gives a member that is down other addresses, and a new server list with them.
func (e *Ensemble) Move(id uint32) {
	e.t.Helper()
	e.mustBeDown(id)
	r := e.members[id]
	r.moves++
	r.self = serverLine(id, r.moves)
	e.SetServerList(id)
}

func (e *Ensemble) mustBeDown(id uint32) {
	e.t.Helper()
	if e.Running(id) {
		e.t.Fatalf("cluster: member %d runs", id)
	}
}

// ServerLine returns a member's line for a Reconfigure.
func (e *Ensemble) ServerLine(id uint32, observer bool) string {
	role := "participant"
	if observer {
		role = "observer"
	}
	return fmt.Sprintf("server.%d=%s:2888:3888:%s;%s", id, hostName(id, e.members[id].moves), role, clientAddr(id))
}

// List returns the newest list of servers that a running member has applied. If there is none yet, it
// returns the list with which the ensemble began.
func (e *Ensemble) List() serverlist.List {
	e.t.Helper()
	list, _ := e.newestList()
	return list
}

// newestList does the same, and returns the list's version, -1 if there is none yet.
func (e *Ensemble) newestList() (newest serverlist.List, last int64) {
	e.t.Helper()
	newest, last = e.first, -1
	for _, id := range e.IDs() {
		if !e.Running(id) {
			continue
		}
		if list, version := e.listOf(id); version > last {
			newest, last = list, version
		}
	}
	return newest, last
}

// listOf returns the list of servers that a running member has applied, and its version. If there is
// none, it returns nil and -1.
func (e *Ensemble) listOf(id uint32) (list serverlist.List, version int64) {
	e.t.Helper()
	s := e.Member(id).State()
	s.RLock()
	defer s.RUnlock()
	if r, ok := s.ServerList(); ok {
		return r.Servers, r.Version
	}
	return nil, -1
}

func serverIDs(list serverlist.List) (ids []uint32) {
	for _, s := range list {
		ids = append(ids, s.ID)
	}
	return ids
}

// Members returns the ids of the newest list, in order, running or not.
func (e *Ensemble) Members() []uint32 {
	e.t.Helper()
	return serverIDs(e.List())
}

// isObserver reports whether a member is an observer by the newest list.
func (e *Ensemble) isObserver(id uint32) bool {
	s, ok := e.List().Find(id)
	return ok && s.Observer
}

// startJoining starts a member that is to come in, unless it runs. One that there has not been has empty disks.
// One that has been there before, and is not in the list, gets empty ones if empty is set.
func (e *Ensemble) startJoining(id uint32, empty bool) {
	switch {
	case e.members[id] == nil:
		e.Add(id)
	case e.members[id].done != nil:
		return
	case !slices.Contains(e.Members(), id):
		if empty && e.survivesDiskLoss(id) { // raft's configuration may still have its vote
			e.Wipe(id)
		}
		e.SetServerList(id)
	}
	e.startMember(id)
}

// Settled reports whether all members of the newest list run and know it, and have exactly its servers in their
// raft's configurations.
func (e *Ensemble) Settled() bool {
	list := e.List()
	return !slices.ContainsFunc(list, func(s serverlist.Server) bool { return !e.Running(s.ID) || !e.followsList(s.ID, list) })
}

// followsList reports whether a member has applied this list, and its raft has exactly these servers, with the disks that they have now.
func (e *Ensemble) followsList(id uint32, list serverlist.List) bool {
	if own, _ := e.listOf(id); own == nil || own.CanonicalText() != list.CanonicalText() {
		return false
	}
	return slices.EqualFunc(e.Member(id).RaftConfiguration(), list, func(p quorumwire.Peer, s serverlist.Server) bool {
		return p.ID == s.ID && e.Running(p.ID) && p.DiskID == e.Member(p.ID).DiskID() && p.Addr == s.ElectionAddr() && p.Observer == s.Observer
	})
}

// Follow waits until the newest list is settled. It starts those of its members that are down, and those that
// end meanwhile.
func (e *Ensemble) Follow() {
	e.t.Helper()
	e.Wait("the configuration to follow the list", 60*e.opts.Tick, func() bool {
		e.Restart()
		for _, id := range e.Members() {
			if e.members[id].done == nil {
				e.Boot(id)
			}
		}
		e.recordConfigurations()
		return e.Settled()
	})
}

// Changes returns the number of changes of the list. It needs Options.Record.
func (e *Ensemble) Changes() int {
	e.record.mu.Lock()
	defer e.record.mu.Unlock()
	return e.record.changes.made
}

// survivesDiskLoss reports whether the ensemble promises to survive the loss of a member's disk now: in each disk's
// newest configuration of raft, a majority of the voters' disks is left without it. A disk that was lost before counts
// as lost until another one votes in its place. Configurations that are one change apart have a majority each, so the
// one that raft continues with has, too.
//
// A leader that has checked the members does not notice that one of them is lost before its next change is on its disk.
// So the configurations that are one change nearer to the list count, too. A change on the leader's own disk may be in
// flight to the others, even if its own disk is the one to be lost.
func (e *Ensemble) survivesDiskLoss(id uint32) bool {
	e.t.Helper()
	found := false
	for _, other := range e.IDs() {
		leads := e.mayLead(other)
		have := e.Disk(other).Configuration()
		if len(have) == 0 || other == id && !leads {
			continue
		}
		found = found || other != id
		next := [][]quorumwire.Peer{have}
		if leads {
			next = append(next, e.nextChanges(other, have)...)
		}
		if e.Disk(other).IsStalled() || slices.ContainsFunc(next, func(c []quorumwire.Peer) bool { return !e.keepsMajority(c, id) }) {
			return false // of a stalled disk, a change may wait for it, which no disk shows
		}
	}
	return found
}

// mayLead reports whether a member's raft may lead. One whose disk has just been released has no role, and continues
// with the change that waited for the disk.
func (e *Ensemble) mayLead(id uint32) bool {
	return e.Running(id) && (e.Member(id).Role() == "leader" || e.Member(id).Role() == "")
}

// keepsMajority reports whether a majority of the voters' disks in a configuration is left if a member's disk is lost.
func (e *Ensemble) keepsMajority(configuration []quorumwire.Peer, lost uint32) bool {
	voters, left := 0, 0
	for _, p := range configuration {
		if p.Observer {
			continue
		}
		voters++
		if m := e.members[p.ID]; p.ID != lost && m != nil && e.Disk(p.ID).ID() == p.DiskID {
			left++
		}
	}
	return voters == 0 || left > voters/2
}

// nearlyAll bounds the entries that a member may lack when it may get a vote at any moment.
const nearlyAll = 100

// nextChanges returns the configurations that a leader may propose next: without a voter that the list does not have, or with the
// vote of a server that has nearly all of the log.
func (e *Ensemble) nextChanges(leader uint32, have []quorumwire.Peer) (next [][]quorumwire.Peer) {
	list := e.List()
	for i, p := range have {
		line, in := list.Find(p.ID)
		after := slices.Clone(have)
		switch stays := in && !line.Observer; {
		case !stays && !p.Observer:
			next = append(next, slices.Delete(after, i, i+1))
		case stays && p.Observer && e.Disk(p.ID).LastIndex()+nearlyAll > e.Disk(leader).LastIndex():
			after[i].Observer = false
			next = append(next, after)
		}
	}
	return next
}

// AwaitSilent waits until a removed member serves no client, if it runs, and checks that it opens no session.
func (e *Ensemble) AwaitSilent(id uint32) {
	e.t.Helper()
	if !e.Running(id) {
		return
	}
	e.Wait(fmt.Sprintf("removed member %d to serve nobody", id), 20*e.opts.Tick, func() bool { return !e.serves(id) })
	if session := e.tryOpen(e.ctx, id, e.opts.Tick); session != 0 {
		e.t.Errorf("cluster: member %d, which has been removed, has opened session %v", id, session)
	}
}

// tryOpen returns the session that a member which should open none has opened within limit, or 0.
func (e *Ensemble) tryOpen(ctx context.Context, id uint32, limit time.Duration) jute.SessionID {
	c, err := e.dialMember(ctx, id)
	if err != nil {
		return 0
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(limit)) // fails only on a closed connection
	resp, err := c.Open(4 * e.opts.Tick)
	if err != nil {
		return 0
	}
	return resp.SessionID
}

// hasLeftConfiguration reports whether the configuration of the member that leads is without a member.
func (e *Ensemble) hasLeftConfiguration(id uint32) bool {
	for _, other := range e.Members() {
		if e.Running(other) && e.Member(other).Role() == "leader" {
			return !slices.ContainsFunc(e.Member(other).RaftConfiguration(), func(p quorumwire.Peer) bool { return p.ID == id })
		}
	}
	return false
}

// recordConfigurations records which members each leader pings, and when raft's configuration has become that of the
// newest list.
func (e *Ensemble) recordConfigurations() {
	if e.record.to == nil {
		return
	}
	for _, id := range e.IDs() {
		if !e.Running(id) || e.Member(id).Role() != "leader" {
			continue
		}
		var configuration []uint32
		for _, p := range e.Member(id).RaftConfiguration() {
			configuration = append(configuration, p.ID)
		}
		e.record.noteLeading(id, configuration, e.IDs())
	}
	if !e.record.isMoving() || !e.Settled() {
		return
	}
	_, version := e.newestList()
	e.record.noteSettled(version)
}

// Reconfigure sends a reconfig to a member, once, as super. It returns the new list and its version. If the
// member rejects the change, the error is a jute.Code. After any other error the outcome is unknown.
func (e *Ensemble) Reconfigure(ctx context.Context, via uint32, c serverlist.Change) (list string, err error) {
	conn, err := e.dialMember(ctx, via)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if resp, err := conn.Open(4 * e.opts.Tick); err != nil || resp.SessionID == 0 {
		return "", errors.Join(err, errNoSession)
	}
	auth := &jute.AuthPacket{Scheme: []byte("digest"), Auth: []byte("super:secret")}
	switch r, _, err := conn.Call(int32(jute.XidAuth), jute.OpAuth, auth); {
	case err != nil:
		return "", err
	case r.Err != jute.OK:
		return "", fmt.Errorf("cluster: auth: %w", r.Err)
	}
	r, _, err := conn.Call(1, jute.OpReconfig, &jute.ReconfigRequest{
		JoiningServers: nullableText(c.Joining), LeavingServers: nullableText(c.Leaving), NewMembers: nullableText(c.Members), CurConfigID: -1,
	})
	switch {
	case err != nil:
		return "", err
	case r.Err != jute.OK:
		return "", r.Err
	}
	var resp jute.GetDataResponse
	err = r.Into(&resp)
	closeSession(conn)
	return string(resp.Data), err
}

var errNoSession = errors.New("cluster: no session")

// nullableText returns a string of a request. An empty one is null, as ZooKeeper's clients send it.
func nullableText(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

// closeSession ends the session of a connection, so that no test has to wait until it expires.
func closeSession(c *wire.Conn) { _, _, _ = c.Call(2, jute.OpCloseSession, nil) }

// Errand is a reconfig that is retried until a member replies.
type Errand struct {
	done chan struct{}
	err  error
}

// Insist sends a reconfig to one member after the other, until one of them makes the change or rejects
// it, or limit is over. It does not wait. A rejection because too few of the new voters reply is
// retried. The change must be idempotent.
func (e *Ensemble) Insist(c serverlist.Change, limit time.Duration, members ...uint32) *Errand {
	if len(members) == 0 {
		members = e.IDs()
	}
	r := &Errand{done: make(chan struct{})}
	ctx, cancel := context.WithTimeout(e.ctx, limit)
	go func() {
		defer close(r.done)
		defer cancel()
		for i := 0; ctx.Err() == nil; i++ {
			attempt, stop := context.WithTimeout(ctx, 3*e.opts.Tick)
			_, r.err = e.Reconfigure(attempt, members[i%len(members)], c)
			if stop(); r.err == nil || isRejected(r.err) {
				return
			}
			pauseFor(ctx, e.opts.Tick/10)
		}
	}()
	return r
}

// isRejected reports whether err rejects the change itself, so that a retry would fail, too.
func isRejected(err error) bool {
	var code jute.Code
	return errors.As(err, &code) && !slices.Contains([]jute.Code{jute.NewConfigNoQuorum, jute.ConnectionLoss, jute.SessionMoved, jute.SessionExpired, jute.OperationTimeout}, code)
}

func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// Done reports whether the errand has ended.
func (r *Errand) Done() bool { return isClosed(r.done) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Wait waits for the errand's end. It returns nil if the change was made, a jute.Code if it was rejected,
// and another error if no member has replied.
func (r *Errand) Wait() error {
	<-r.done
	return r.err
}
