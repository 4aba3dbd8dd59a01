package znode

import (
	"errors"
	"fmt"
	"slices"

	"rollcall/internal/serverlist"
	"rollcall/proto"
	"rollcall/zk/jute"

	pb "google.golang.org/protobuf/proto"
)

// The state has the list of the ensemble's servers. The first TermStart with a list sets it, and a reconfig
// changes it. Raft's configuration follows the list, and is not part of the state. The data of
// /zookeeper/config are the list's text. A client that may write that node can replace the text until the
// next change, but not the list.

// minVoters is the number of participants that a client's reconfig must leave, as in ZooKeeper. A single one
// could not be replaced without a pause. An operator may force it.
const minVoters = 2

// ServerList is one version of the list of an ensemble's servers. Its servers must not be changed.
type ServerList struct {
	EnsembleID [32]byte
	Version    int64 // zxid of the transaction that made the list; 0 if there is no list
	Servers    serverlist.List
}

// ServerListFromProto converts a message, or returns an error that describes the fault in it.
func ServerListFromProto(m *proto.ServerList) (ServerList, error) {
	r := ServerList{Version: m.GetVersion()}
	if len(m.GetEnsemble()) != len(r.EnsembleID) {
		return ServerList{}, fmt.Errorf("znode: the id of the ensemble has %d bytes, want %d",
			len(m.GetEnsemble()), len(r.EnsembleID))
	}
	copy(r.EnsembleID[:], m.GetEnsemble())
	var err error
	if r.Servers, err = serverlist.ParseLines(m.GetServers()); err != nil {
		return ServerList{}, fmt.Errorf("znode: the list of servers: %w", err)
	}
	return r, nil
}

// ToProto returns the list as a message has it.
func (r ServerList) ToProto() *proto.ServerList {
	return &proto.ServerList{Ensemble: r.EnsembleID[:], Version: r.Version, Servers: r.Servers.CanonicalLines()}
}

// ConfigText returns the list's text for /zookeeper/config.
func (r ServerList) ConfigText() string { return r.Servers.ConfigText(r.Version) }

// invalidReason returns the reason why a snapshot with this last zxid cannot have the list, or "".
func (r *ServerList) invalidReason(zxid int64) (why string) {
	switch {
	case r.Version == 0 && (len(r.Servers) > 0 || r.EnsembleID != [32]byte{}):
		return "the list of servers has no version"
	case r.Version < 0 || r.Version > zxid:
		return fmt.Sprintf("the list of servers has version %#x, and the last zxid is %#x", r.Version, zxid)
	case r.Version == 0:
		return ""
	case len(r.Servers.Voters()) == 0:
		return "the list of servers has no participant"
	}
	if again, err := serverlist.ParseList(r.Servers.CanonicalText()); err != nil || !slices.Equal(again, r.Servers) {
		return notCanonical
	}
	return ""
}

const notCanonical = "the list of servers is not in its canonical form"

func (r *ServerList) equalList(o *ServerList) bool {
	return r.EnsembleID == o.EnsembleID && r.Version == o.Version && slices.Equal(r.Servers, o.Servers)
}

// ServerList returns the list of servers, or false if the state has none. The caller holds at least the read
// lock.
func (s *State) ServerList() (ServerList, bool) {
	return s.replicated.serverList, s.replicated.serverList.Version != 0
}

// adoptServerList sets the list of a TermStart, unless the state has a list of that ensemble. A recovery of
// its data makes another ensemble.
func (t *transaction) adoptServerList(m *proto.ServerList) {
	if m == nil {
		return
	}
	list, err := ServerListFromProto(m)
	if err != nil || len(list.Servers.Voters()) == 0 {
		return // no leader sends this; all members ignore it
	}
	if t.state.serverList.Version != 0 && list.EnsembleID == t.state.serverList.EnsembleID {
		return
	}
	t.takeZxid()
	t.setServerList(list)
	t.watches.firePending(t.state.zxid, &t.state.term.Rules)
	t.changes.report(t.state, Removal{})
}

// setServerList sets the list in a version of the running transaction. The progress of members outside the
// list is dropped, so their old writes are never next.
func (t *transaction) setServerList(list ServerList) {
	list.Version = t.state.zxid
	t.state.serverList = list
	t.state.members.dropUnlisted(&t.state.serverList)
	t.writeConfigNode()
	t.hooks.ServerListChanged(list)
}

// allowsMember reports whether a member may take part, because it is listed or there is no list.
func (r *ServerList) allowsMember(id uint32) bool {
	_, ok := r.Servers.Find(id)
	return ok || r.Version == 0
}

// writeConfigNode writes the list's text to /zookeeper/config. The data count in no quota, and their version
// stays -1, as in ZooKeeper.
func (t *transaction) writeConfigNode() {
	n := t.editor.beginEdit(t.state.tree.nodeAt(ConfigPath))
	t.state.tree.setData(n, []byte(t.state.serverList.ConfigText()))
	n.data.version, n.mzxid, n.mtime = -1, t.state.zxid, t.state.timeMs
	t.state.tree.addHash(n)
	t.watches.addPending(notification{event: jute.EventNodeDataChanged, path: n.path, acl: n.acl})
	t.changes.addNode(ServersChanged, n)
}

// DecodeServerListChange returns the requested change of a client's reconfig or an operator's change of the list.
func DecodeServerListChange(txn *proto.Txn) (serverlist.Change, error) {
	if jute.Op(txn.GetOp()) == jute.OpChangeServers {
		var req proto.ChangeServers
		err := pb.Unmarshal(txn.GetBody(), &req)
		return operatorChange(&req), err
	}
	var req jute.ReconfigRequest
	d := jute.NewDecoder(txn.GetBody())
	req.Decode(&d)
	return clientChange(&req), d.Err()
}

func clientChange(r *jute.ReconfigRequest) serverlist.Change {
	return serverlist.Change{
		Joining: string(r.JoiningServers), Leaving: string(r.LeavingServers), Members: string(r.NewMembers),
	}
}

func operatorChange(r *proto.ChangeServers) serverlist.Change {
	return serverlist.Change{Joining: r.GetJoining(), Leaving: r.GetLeaving(), Members: r.GetMembers()}
}

// runReconfig serves a client's reconfig, with the checks in ZooKeeper's order.
func (t *transaction) runReconfig() {
	var req jute.ReconfigRequest
	d := jute.NewDecoder(t.txn.GetBody())
	if req.Decode(&d); d.Err() != nil {
		t.result.Code = jute.MarshallingError
		return
	}
	t.takeZxid()
	if !t.state.term.Reconfig {
		t.result.Code, t.result.RejectReason = jute.ReconfigDisabled, "reconfigEnabled is not set at the leader"
		return
	}
	if t.result.Code = t.checkOwnerLoadIdentities(); t.result.Code != jute.OK {
		return
	}
	next, code, err := t.state.serverList.applyChecked(clientChange(&req), req.CurConfigID, minVoters, t.txn.GetReachableServers())
	_, isOwnLimit := errors.AsType[*serverlist.OwnLimit](err)
	isWrong := err != nil && !isOwnLimit // for ZooKeeper, too
	switch {
	case !isWrong && !t.clientMayAccess(t.state.tree.nodeAt(ConfigPath).acl, jute.PermWrite):
		t.result.Code, t.result.RejectReason = jute.NoAuth, "it needs the permission WRITE on "+ConfigPath
	case err != nil:
		t.result.Code, t.result.RejectReason = code, err.Error()
	default:
		t.replaceServers(next)
	}
}

// changeServers changes the list for an operator. It ignores the rule Reconfig.
func (t *transaction) changeServers() {
	var req proto.ChangeServers
	if err := pb.Unmarshal(t.txn.GetBody(), &req); err != nil || len(req.GetOperator()) > MaxRequesterBytes {
		t.result.Code = jute.MarshallingError
		return
	}
	t.takeZxid()
	// An operator without a reply gives up. A later leader reaches other servers, so the change must not be
	// made then.
	if term := req.GetTerm(); term != t.state.term.Term {
		t.result.Code = jute.ReconfigInProgress
		t.result.RejectReason = fmt.Sprintf("the leader has changed since the change was requested in term %d; "+
			"read the list again, and retry", term)
		return
	}
	fewest := min(minVoters, len(t.state.serverList.Servers.Voters())) // a single one may have observers
	if req.GetForce() {
		fewest = 1
	}
	next, code, err := t.state.serverList.applyChecked(operatorChange(&req), req.GetVersion(), fewest, t.txn.GetReachableServers())
	if err != nil {
		t.result.Code, t.result.RejectReason = code, err.Error()
		return
	}
	t.replaceServers(next)
}

var errNoServerList = errors.New("there is no list of servers: no member has become the leader since the last one " +
	"was upgraded (rollcall members lead hands over), or this is a standalone server, which standaloneEnabled=false " +
	"and its own line server.N make an ensemble of one")

// applyChecked returns the list after a change of the given version, or an error. At least fewest participants
// must remain, and the leader must reach most of them, because raft could not commit anything with the
// others.
func (r *ServerList) applyChecked(
	c serverlist.Change, version int64, fewest int, reached []uint32,
) (serverlist.List, jute.Code, error) {
	if r.Version == 0 {
		return nil, jute.Unimplemented, errNoServerList
	}
	if version != anyVersion && version != r.Version {
		return nil, jute.BadVersion, fmt.Errorf("the list has version %x, not %x; read it again", r.Version, version)
	}
	next, err := r.Servers.Apply(c)
	if err != nil {
		return nil, jute.BadArguments, err
	}
	voters := next.Voters()
	if len(voters) < fewest {
		return nil, jute.BadArguments, fmt.Errorf("too few participants would be left: %d, must be at least %d",
			len(voters), fewest)
	}
	silent := slices.DeleteFunc(slices.Clone(voters), func(id uint32) bool { return slices.Contains(reached, id) })
	if 2*len(silent) >= len(voters) {
		return nil, jute.NewConfigNoQuorum, fmt.Errorf("of the %d participants of the new list the leader does not "+
			"reach %d at their addresses there; start them there first", len(voters), silent)
	}
	return next, jute.OK, nil
}

// replaceServers replaces the servers in the list, and fills in the result of a successful reconfig.
func (t *transaction) replaceServers(next serverlist.List) {
	list := t.state.serverList
	list.Servers = next
	t.setServerList(list)
	n := t.state.tree.nodeAt(ConfigPath)
	t.result.ConfigText, t.result.Stat = n.data.bytes(), n.stat()
}
