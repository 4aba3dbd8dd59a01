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

// This file lets members come and go. The ensemble's list is what the members have applied, not what a
// test has asked for: see List.

// Add makes a member with empty disks, which is down. It starts with a server list of its own: the
// ensemble's present members and itself. It is no member until a Reconfigure adds it.
func (e *Ensemble) Add(id uint32) {
	e.t.Helper()
	if e.members[id] != nil {
		e.t.Fatalf("cluster: there is a member %d already", id)
	}
	e.members[id] = e.newMember(serverLine(id, 0), nil)
	e.Relist(id)
}

// Relist gives a member that is down a new server list: the ensemble's present members and itself.
func (e *Ensemble) Relist(id uint32) {
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
	e.Relist(id)
}

func (e *Ensemble) mustBeDown(id uint32) {
	e.t.Helper()
	if e.Running(id) {
		e.t.Fatalf("cluster: member %d runs", id)
	}
}

// Line returns a member's line for a Reconfigure.
func (e *Ensemble) Line(id uint32, observer bool) string {
	role := "participant"
	if observer {
		role = "observer"
	}
	return fmt.Sprintf("server.%d=%s:2888:3888:%s;%s", id, host(id, e.members[id].moves), role, clientAddr(id))
}

// List returns the newest list of servers that a running member has applied. If there is none yet, it
// returns the list with which the ensemble began.
func (e *Ensemble) List() serverlist.List {
	e.t.Helper()
	list, _ := e.newest()
	return list
}

// newest does the same, and returns the list's version, -1 if there is none yet.
func (e *Ensemble) newest() (newest serverlist.List, last int64) {
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

func idsOf(list serverlist.List) (ids []uint32) {
	for _, s := range list {
		ids = append(ids, s.ID)
	}
	return ids
}

// Members returns the ids of the newest list, in order, running or not.
func (e *Ensemble) Members() []uint32 {
	e.t.Helper()
	return idsOf(e.List())
}

// observes reports whether a member is an observer by the newest list.
func (e *Ensemble) observes(id uint32) bool {
	s, ok := e.List().Find(id)
	return ok && s.Observer
}

// observer returns the first observer of the newest list, or 0 if there is none.
func (e *Ensemble) observer() uint32 {
	for _, s := range e.List() {
		if s.Observer {
			return s.ID
		}
	}
	return 0
}

// bring starts a member that is to come in, unless it runs. One that there has not been has empty disks.
// One that has been there before, and is not in the list, gets empty ones if empty is set.
func (e *Ensemble) bring(id uint32, empty bool) {
	switch {
	case e.members[id] == nil:
		e.Add(id)
	case e.members[id].done != nil:
		return
	case !slices.Contains(e.Members(), id):
		if empty && e.spares(id) { // raft's configuration may still have its vote
			e.Wipe(id)
		}
		e.Relist(id)
	}
	e.start(id)
}

// Settled reports whether all members of the newest list run and know it, and have exactly its servers in their
// raft's configurations.
func (e *Ensemble) Settled() bool {
	list := e.List()
	return !slices.ContainsFunc(list, func(s serverlist.Server) bool { return !e.Running(s.ID) || !e.follows(s.ID, list) })
}

// follows reports whether a member has applied this list, and its raft has exactly these servers, with the disks that they have now.
func (e *Ensemble) follows(id uint32, list serverlist.List) bool {
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
		e.settle()
		return e.Settled()
	})
}

// Changes returns how often the list has become another one. It needs Options.Record.
func (e *Ensemble) Changes() int {
	e.record.mu.Lock()
	defer e.record.mu.Unlock()
	return e.record.changes.made
}

// spares reports whether the ensemble promises to survive the loss of a member's disk now: in each disk's newest configuration
// of raft, a majority of the voters' disks is left without it. A disk that was lost before counts as lost until another one
// votes in its place. Configurations that are one change apart have a majority each, so the one that raft goes on with has, too.
//
// A leader that looks at the members, and loses one of them before its next change is on its disk, does not see that. So the
// configurations that are one change nearer to the list count, too. What a leader has on its own disk may be on its way to the
// others, although its own disk is the one to be lost.
func (e *Ensemble) spares(id uint32) bool {
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
		if e.Disk(other).Stalled() || slices.ContainsFunc(next, func(c []quorumwire.Peer) bool { return !e.survives(c, id) }) {
			return false // of a stalled disk, a change may wait for it, which no disk shows
		}
	}
	return found
}

// mayLead reports whether a member's raft may lead. One whose disk has just stopped to hang has no role, and goes on with the change
// that waited for the disk.
func (e *Ensemble) mayLead(id uint32) bool {
	return e.Running(id) && (e.Member(id).Role() == "leader" || e.Member(id).Role() == "")
}

// survives reports whether a majority of the voters' disks in a configuration is left if a member's disk is lost.
func (e *Ensemble) survives(configuration []quorumwire.Peer, lost uint32) bool {
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

// nearlyAll is how many entries a member may lack that may get a vote at any moment.
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
		case stays && p.Observer && e.Disk(p.ID).Last()+nearlyAll > e.Disk(leader).Last():
			after[i].Observer = false
			next = append(next, after)
		}
	}
	return next
}

// Silent waits until a member that has been removed serves nobody, if it runs, and checks that it opens no
// session.
func (e *Ensemble) Silent(id uint32) {
	e.t.Helper()
	if !e.Running(id) {
		return
	}
	e.Wait(fmt.Sprintf("removed member %d to serve nobody", id), 20*e.opts.Tick, func() bool { return !e.serves(id) })
	c, err := e.Dial(id)
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(e.opts.Tick)) // fails only on a closed connection
	if resp, err := c.Open(10 * e.opts.Tick); err == nil && resp.SessionID != 0 {
		e.t.Errorf("cluster: member %d, which has been removed, has opened session %v", id, resp.SessionID)
	}
}

// departed reports whether the configuration of the member that leads is without a member.
func (e *Ensemble) departed(id uint32) bool {
	for _, other := range e.Members() {
		if e.Running(other) && e.Member(other).Role() == "leader" {
			return !slices.ContainsFunc(e.Member(other).RaftConfiguration(), func(p quorumwire.Peer) bool { return p.ID == id })
		}
	}
	return false
}

// settle records whom the members that lead ask, and when raft's configuration has become that of the newest list.
func (e *Ensemble) settle() {
	if e.record == nil {
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
		e.record.leads(id, configuration, e.IDs())
	}
	if !e.record.moves() || !e.Settled() {
		return
	}
	_, version := e.newest()
	e.record.settled(version)
}

// Reconfigure asks a member for a change of the list, once, as super does with reconfig. It returns the
// new list and its version. If the member refuses, the error is a jute.Code; otherwise the outcome is unknown.
func (e *Ensemble) Reconfigure(ctx context.Context, via uint32, c serverlist.Change) (list string, err error) {
	conn, err := e.dial(ctx, via)
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
		JoiningServers: text(c.Joining), LeavingServers: text(c.Leaving), NewMembers: text(c.Members), CurConfigID: -1,
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

// text returns a string of a request. An empty one is null, as ZooKeeper's clients send it.
func text(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

// closeSession ends the session of a connection, so that no test has to wait until it expires.
func closeSession(c *wire.Conn) { _, _, _ = c.Call(2, jute.OpCloseSession, nil) }

// Errand is a change of the list that is asked for again and again, until a member answers.
type Errand struct {
	done chan struct{}
	err  error
}

// Insist asks members for a change in turn, until one of them does it or refuses it, or limit is over.
// It does not wait. A member refuses while too few of the new voters answer, so that is asked again. The
// change must be one that may be done twice.
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
			if r.err = e.askOnce(ctx, members[i%len(members)], c); r.err == nil || refused(r.err) {
				return
			}
			pause(ctx, e.opts.Tick/10)
		}
	}()
	return r
}

func (e *Ensemble) askOnce(ctx context.Context, via uint32, c serverlist.Change) error {
	ctx, cancel := context.WithTimeout(ctx, 3*e.opts.Tick)
	defer cancel()
	_, err := e.Reconfigure(ctx, via, c)
	return err
}

// refused reports whether an answer is about the change itself, so that the next one would be the same.
func refused(err error) bool {
	var code jute.Code
	return errors.As(err, &code) && !slices.Contains([]jute.Code{jute.NewConfigNoQuorum, jute.ConnectionLoss, jute.SessionMoved, jute.SessionExpired, jute.OperationTimeout}, code)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// Done reports whether the errand has ended.
func (r *Errand) Done() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// Wait waits for the errand's end. It returns nil if the change was done, a jute.Code if it was refused, and
// another error if nobody has answered.
func (r *Errand) Wait() error {
	<-r.done
	return r.err
}
