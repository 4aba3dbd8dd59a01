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

// RosterFormat is the first Entry.format in which the state has the list of servers.
const RosterFormat = 1

// fewestVoters is how many participants a client's reconfig must leave, as in ZooKeeper. One alone could
// not be replaced without a pause. An operator may force it.
const fewestVoters = 2

// Roster is the list of an ensemble's servers in one version. Its servers must not be changed.
type Roster struct {
	Ensemble [32]byte // the ensemble's id
	Version  int64    // zxid of the transaction that made the list; 0: there is no list
	Servers  serverlist.List
}

// RosterOf returns the list that a message has. The error says what is wrong with the message.
func RosterOf(m *proto.Roster) (Roster, error) {
	r := Roster{Version: m.GetVersion()}
	if len(m.GetEnsemble()) != len(r.Ensemble) {
		return Roster{}, fmt.Errorf("znode: the id of the ensemble has %d bytes, want %d", len(m.GetEnsemble()), len(r.Ensemble))
	}
	copy(r.Ensemble[:], m.GetEnsemble())
	var err error
	if r.Servers, err = serverlist.ParseLines(m.GetServers()); err != nil {
		return Roster{}, fmt.Errorf("znode: the list of servers: %w", err)
	}
	return r, nil
}

// Message returns the list as a message has it.
func (r Roster) Message() *proto.Roster {
	return &proto.Roster{Ensemble: r.Ensemble[:], Version: r.Version, Servers: r.Servers.Lines()}
}

// Text returns what /zookeeper/config has while the list is this one.
func (r Roster) Text() string { return r.Servers.Config(r.Version) }

// sound returns why a snapshot whose last zxid is this one cannot have the list, or "" if it can.
func (r *Roster) sound(zxid int64) (why string) {
	switch {
	case r.Version == 0 && (len(r.Servers) > 0 || r.Ensemble != [32]byte{}):
		return "the list of servers has no version"
	case r.Version < 0 || r.Version > zxid:
		return fmt.Sprintf("the list of servers has version %#x, and the last zxid is %#x", r.Version, zxid)
	case r.Version == 0:
		return ""
	case len(r.Servers.Voters()) == 0:
		return "the list of servers has no participant"
	}
	if again, err := serverlist.ParseList(r.Servers.Text()); err != nil || !slices.Equal(again, r.Servers) {
		return notCanonical
	}
	return ""
}

// notCanonical says that a snapshot's list is not as a state has it.
const notCanonical = "the list of servers is not in its canonical form"

func (r *Roster) equal(o *Roster) bool {
	return r.Ensemble == o.Ensemble && r.Version == o.Version && slices.Equal(r.Servers, o.Servers)
}

// Roster returns the list of servers, and false if the state has none. The caller holds at least the read lock.
func (s *State) Roster() (Roster, bool) { return s.roster, s.roster.Version != 0 }

// beginRoster sets the list that a TermStart has. It does so only if the state has no list of that ensemble: the ensemble
// begins, or its data were recovered, which began another one.
func (t *transaction) beginRoster(m *proto.Roster) {
	if m == nil {
		return
	}
	list, err := RosterOf(m)
	if err != nil || len(list.Servers.Voters()) == 0 {
		return // no leader sends this; all members ignore it
	}
	if t.state.roster.Version != 0 && list.Ensemble == t.state.roster.Ensemble {
		return
	}
	t.take()
	t.setRoster(list)
	t.watches.fire(t.state.zxid, &t.state.term.Rules)
}

// setRoster makes r the list, in the version of the running transaction. What the state knows of the
// progress of members that are not in the list is forgotten, so that their old writes are never in turn.
// The greatest ids of their sessions stay, because no id may be used again.
func (t *transaction) setRoster(list Roster) {
	list.Version = t.state.zxid
	t.state.roster = list
	t.state.members.keepListed(&t.state.roster)
	t.showRoster()
	t.hooks.Listed(list)
}

// lets reports whether a member may take part: the list has it, or there is no list.
func (r *Roster) lets(id uint32) bool {
	_, ok := r.Servers.Find(id)
	return ok || r.Version == 0
}

// showRoster writes the list's text to /zookeeper/config. The data of that node count in no quota, and its
// version stays -1, as in ZooKeeper.
func (t *transaction) showRoster() {
	n := t.nodes.edit(ConfigPath)
	t.state.setBytes(n, []byte(t.state.roster.Text()))
	n.data.version, n.mzxid, n.mtime = -1, t.state.zxid, t.state.now
	t.state.count(n)
	t.watches.note(notification{event: jute.EventNodeDataChanged, path: n.path, acl: n.acl})
}

// ChangeOf returns the change of the list that a client's reconfig or an operator requests.
func ChangeOf(txn *proto.Txn) (serverlist.Change, error) {
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
	t.take()
	if !t.state.term.Reconfig {
		t.result.Code, t.result.Why = jute.ReconfigDisabled, "reconfigEnabled is not set at the leader"
		return
	}
	if t.result.Code = t.refuse(); t.result.Code != jute.OK {
		return
	}
	change := serverlist.Change{Joining: string(req.JoiningServers), Leaving: string(req.LeavingServers), Members: string(req.NewMembers)}
	next, code, err := t.state.roster.next(change, req.CurConfigID, fewestVoters, t.txn.GetReached())
	switch {
	case err != nil:
		t.result.Code, t.result.Why = code, err.Error()
	case !t.grants(t.state.get(ConfigPath).acl, jute.PermWrite):
		t.result.Code, t.result.Why = jute.NoAuth, "it needs the permission WRITE on "+ConfigPath
	default:
		t.reconfigure(next)
	}
}

// changeServers changes the list for an operator, whatever clients may do.
func (t *transaction) changeServers() {
	var req proto.ChangeServers
	if err := pb.Unmarshal(t.txn.GetBody(), &req); err != nil || len(req.GetBy()) > MaxBy {
		t.result.Code = jute.MarshallingError
		return
	}
	t.take()
	// An operator who was not answered gives up. A later leader reaches other servers, so the change must not be made then.
	if asked := req.GetTerm(); asked != t.state.term.Term {
		t.result.Code, t.result.Why = jute.ReconfigInProgress, fmt.Sprintf("the leader has changed since the change was asked for in term %d; look at the list, and try again", asked)
		return
	}
	fewest := min(fewestVoters, len(t.state.roster.Servers.Voters())) // one that is alone already may have observers
	if req.GetForce() {
		fewest = 1
	}
	change := serverlist.Change{Joining: req.GetJoining(), Leaving: req.GetLeaving(), Members: req.GetMembers()}
	next, code, err := t.state.roster.next(change, req.GetVersion(), fewest, t.txn.GetReached())
	if err != nil {
		t.result.Code, t.result.Why = code, err.Error()
		return
	}
	t.reconfigure(next)
}

// errNoList is the error of a reconfig without a list to change.
var errNoList = errors.New("there is no list of servers: nobody has become the leader since the last member was upgraded (rollcall members lead hands over), or this is a standalone server, which standaloneEnabled=false and its own line server.N make an ensemble of one")

// next returns the list after a change of the list of this version, or an error. reached are
// the servers that answer the leader. At least fewest participants must remain, and most of them must
// answer, because raft could not commit anything with the others.
func (r *Roster) next(c serverlist.Change, version int64, fewest int, reached []uint32) (serverlist.List, jute.Code, error) {
	if r.Version == 0 {
		return nil, jute.Unimplemented, errNoList
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

// reconfigure makes next the list, and the result that of a successful reconfig.
func (t *transaction) reconfigure(next serverlist.List) {
	list := t.state.roster
	list.Servers = next
	t.setRoster(list)
	n := t.state.get(ConfigPath)
	t.result.Data, t.result.Stat = n.data.bytes(), n.stat()
}
