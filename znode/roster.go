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

// The state has the list of the ensemble's servers. The first TermStart that knows a list sets it, and a
// reconfig changes it. It is the wanted list: raft's configuration follows it, and is not part of the state.
// The data of /zookeeper/config is the list's text. A client that may write that node can replace the text
// until the next change, but not the list.

// ServerListFormat is the first Entry.format in which the state has the list of servers.
const ServerListFormat = 1

// minVoters is how many participants a client's reconfig must leave, as in ZooKeeper. One alone could
// not be replaced without a pause. An operator may force it.
const minVoters = 2

// ServerList is the list of an ensemble's servers in one version. Its servers must not be changed.
type ServerList struct {
	EnsembleID [32]byte // the ensemble's id
	Version    int64    // zxid of the transaction that made the list; 0: there is no list
	Servers    serverlist.List
}

// ServerListFromProto returns the list that a message has. The error says what is wrong with the message.
func ServerListFromProto(m *proto.Roster) (ServerList, error) {
	r := ServerList{Version: m.GetVersion()}
	if len(m.GetEnsemble()) != len(r.EnsembleID) {
		return ServerList{}, fmt.Errorf("znode: the id of the ensemble has %d bytes, want %d", len(m.GetEnsemble()), len(r.EnsembleID))
	}
	copy(r.EnsembleID[:], m.GetEnsemble())
	var err error
	if r.Servers, err = serverlist.ParseLines(m.GetServers()); err != nil {
		return ServerList{}, fmt.Errorf("znode: the list of servers: %w", err)
	}
	return r, nil
}

// ToProto returns the list as a message has it.
func (r ServerList) ToProto() *proto.Roster {
	return &proto.Roster{Ensemble: r.EnsembleID[:], Version: r.Version, Servers: r.Servers.CanonicalLines()}
}

// ConfigText returns what /zookeeper/config has while the list is this one.
func (r ServerList) ConfigText() string { return r.Servers.ConfigText(r.Version) }

// invalidReason returns why a snapshot whose last zxid is this one cannot have the list, or "" if it can.
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

// notCanonical says that a snapshot's list is not as a state has it.
const notCanonical = "the list of servers is not in its canonical form"

func (r *ServerList) equalList(o *ServerList) bool {
	return r.EnsembleID == o.EnsembleID && r.Version == o.Version && slices.Equal(r.Servers, o.Servers)
}

// ServerList returns the list of servers, and false if the state has none. The caller holds at least the read lock.
func (s *State) ServerList() (ServerList, bool) { return s.serverList, s.serverList.Version != 0 }

// adoptServerList sets the list that a TermStart has. It does so only if the state has no list of that ensemble: the ensemble
// begins, or its data were recovered, which began another one.
func (t *transaction) adoptServerList(m *proto.Roster) {
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
}

// setServerList makes r the list, in the version of the running transaction. What the state knows of the
// progress of members that are not in the list is forgotten, so that their old writes are never in turn.
// The greatest ids of their sessions stay, because no id may be used again.
func (t *transaction) setServerList(list ServerList) {
	list.Version = t.state.zxid
	t.state.serverList = list
	t.state.members.dropUnlisted(&t.state.serverList)
	t.writeConfigNode()
	t.hooks.ServerListChanged(list)
}

// allowsMember reports whether a member may take part: the list has it, or there is no list.
func (r *ServerList) allowsMember(id uint32) bool {
	_, ok := r.Servers.Find(id)
	return ok || r.Version == 0
}

// writeConfigNode writes the list's text to /zookeeper/config. The data of that node count in no quota, and its
// version stays -1, as in ZooKeeper.
func (t *transaction) writeConfigNode() {
	n := t.editor.beginEdit(ConfigPath)
	t.state.setData(n, []byte(t.state.serverList.ConfigText()))
	n.data.version, n.mzxid, n.mtime = -1, t.state.zxid, t.state.timeMs
	t.state.addHash(n)
	t.watches.addPending(notification{event: jute.EventNodeDataChanged, path: n.path, acl: n.acl})
}

// ServerListChange returns the change of the list that a client's reconfig or an operator requests.
func ServerListChange(txn *proto.Txn) (serverlist.Change, error) {
	if jute.Op(txn.GetOp()) == jute.OpChangeServers {
		var req proto.ChangeServers
		err := pb.Unmarshal(txn.GetBody(), &req)
		return serverlist.Change{Joining: req.GetJoining(), Leaving: req.GetLeaving(), Members: req.GetMembers()}, err
	}
	var req jute.ReconfigRequest
	d := jute.NewDecoder(txn.GetBody())
	req.Decode(&d)
	return serverlist.Change{Joining: string(req.JoiningServers), Leaving: string(req.LeavingServers), Members: string(req.NewMembers)}, d.Err()
}

// runReconfig serves a client's reconfig. It checks in ZooKeeper's order.
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
	if t.result.Code = t.checkSession(); t.result.Code != jute.OK {
		return
	}
	change := serverlist.Change{Joining: string(req.JoiningServers), Leaving: string(req.LeavingServers), Members: string(req.NewMembers)}
	next, code, err := t.state.serverList.afterChange(change, req.CurConfigID, minVoters, t.txn.GetReached())
	switch {
	case err != nil:
		t.result.Code, t.result.RejectReason = code, err.Error()
	case !t.clientMay(t.state.nodeAt(ConfigPath).acl, jute.PermWrite):
		t.result.Code, t.result.RejectReason = jute.NoAuth, "it needs the permission WRITE on "+ConfigPath
	default:
		t.replaceServers(next)
	}
}

// changeServers changes the list for an operator, whatever clients may do.
func (t *transaction) changeServers() {
	var req proto.ChangeServers
	if err := pb.Unmarshal(t.txn.GetBody(), &req); err != nil || len(req.GetBy()) > MaxRequesterBytes {
		t.result.Code = jute.MarshallingError
		return
	}
	t.takeZxid()
	// An operator who was not answered gives up. A later leader reaches other servers, so the change must not be made then.
	if asked := req.GetTerm(); asked != t.state.term.Term {
		t.result.Code, t.result.RejectReason = jute.ReconfigInProgress, fmt.Sprintf("the leader has changed since the change was asked for in term %d; look at the list, and try again", asked)
		return
	}
	fewest := min(minVoters, len(t.state.serverList.Servers.Voters())) // one that is alone already may have observers
	if req.GetForce() {
		fewest = 1
	}
	change := serverlist.Change{Joining: req.GetJoining(), Leaving: req.GetLeaving(), Members: req.GetMembers()}
	next, code, err := t.state.serverList.afterChange(change, req.GetVersion(), fewest, t.txn.GetReached())
	if err != nil {
		t.result.Code, t.result.RejectReason = code, err.Error()
		return
	}
	t.replaceServers(next)
}

// errNoServerList is the error of a reconfig without a list to change.
var errNoServerList = errors.New("there is no list of servers: nobody has become the leader since the last member was upgraded (rollcall members lead hands over), or this is a standalone server, which standaloneEnabled=false and its own line server.N make an ensemble of one")

// afterChange returns the list after a change of the list of this version, or an error. reached are
// the servers that answer the leader. At least fewest participants must remain, and most of them must
// answer, because raft could not commit anything with the others.
func (r *ServerList) afterChange(c serverlist.Change, version int64, fewest int, reached []uint32) (serverlist.List, jute.Code, error) {
	if r.Version == 0 {
		return nil, jute.Unimplemented, errNoServerList
	}
	if version != anyVersion && version != r.Version {
		return nil, jute.BadVersion, fmt.Errorf("the list has version %x by now, not %x; read it again", r.Version, version)
	}
	next, err := r.Servers.Apply(c)
	if err != nil {
		return nil, jute.BadArguments, err
	}
	voters := next.Voters()
	if len(voters) < fewest {
		return nil, jute.BadArguments, fmt.Errorf("too few participants would be left: %d, and at least %d must be", len(voters), fewest)
	}
	silent := slices.DeleteFunc(slices.Clone(voters), func(id uint32) bool { return slices.Contains(reached, id) })
	if 2*len(silent) >= len(voters) {
		return nil, jute.NewConfigNoQuorum, fmt.Errorf("of the %d participants of the new list the leader does not reach %d at their addresses there; start them there first", len(voters), silent)
	}
	return next, jute.OK, nil
}

// replaceServers makes next the list, and the result that of a successful reconfig.
func (t *transaction) replaceServers(next serverlist.List) {
	list := t.state.serverList
	list.Servers = next
	t.setServerList(list)
	n := t.state.nodeAt(ConfigPath)
	t.result.Data, t.result.Stat = n.data.bytes(), n.stat()
}
