package znode

import (
	"errors"
	"fmt"
	"slices"

	"rollcall/jute"
	"rollcall/proto"
	"rollcall/roster"

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
	Servers  roster.List
}

// RosterOf returns the list that a message has. The error says what is wrong with the message.
func RosterOf(m *proto.Roster) (Roster, error) {
	r := Roster{Version: m.GetVersion()}
	if len(m.GetEnsemble()) != len(r.Ensemble) {
		return Roster{}, fmt.Errorf("znode: the id of the ensemble has %d bytes, want %d", len(m.GetEnsemble()), len(r.Ensemble))
	}
	copy(r.Ensemble[:], m.GetEnsemble())
	var err error
	if r.Servers, err = roster.ParseLines(m.GetServers()); err != nil {
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
	if again, err := roster.ParseList(r.Servers.Text()); err != nil || !slices.Equal(again, r.Servers) {
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
func (s *State) beginRoster(m *proto.Roster) {
	if m == nil {
		return
	}
	r, err := RosterOf(m)
	if err != nil || len(r.Servers.Voters()) == 0 {
		return // no leader sends this; all members ignore it
	}
	if s.roster.Version != 0 && r.Ensemble == s.roster.Ensemble {
		return
	}
	s.take()
	s.setRoster(r)
	s.watches.fire(s.zxid, &s.term.Rules)
}

// setRoster makes r the list, in the version of the running transaction. What the state knows of the
// progress of members that are not in the list is forgotten, so that their old writes are never in turn.
// The greatest ids of their sessions stay, because no id may be used again.
func (s *State) setRoster(r Roster) {
	r.Version = s.zxid
	s.roster = r
	for id := range s.members {
		if m := &s.members[id]; !s.listed(uint32(id)) {
			*m = member{highest: m.highest}
		}
	}
	s.showRoster()
	s.hooks.Listed(r)
}

// listed reports whether a member may take part: the list has it, or there is no list.
func (s *State) listed(id uint32) bool {
	_, ok := s.roster.Servers.Find(id)
	return ok || s.roster.Version == 0
}

// showRoster writes the list's text to /zookeeper/config. The data of that node count in no quota, and its
// version stays -1, as in ZooKeeper.
func (s *State) showRoster() {
	n := s.edit(s.gen.Load(), ConfigPath)
	s.setBytes(n, []byte(s.roster.Text()))
	n.data.version, n.mzxid, n.mtime = -1, s.zxid, s.now
	s.count(n)
	s.watches.note(notification{event: jute.EventNodeDataChanged, path: n.path, acl: n.acl})
}

// ChangeOf returns the change of the list that a reconfig asks for.
func ChangeOf(txn *proto.Txn) (roster.Change, error) {
	if txn.GetMember() == 0 {
		var req proto.ReconfigureRequest
		err := pb.Unmarshal(txn.GetBody(), &req)
		return roster.Change{Joining: req.GetJoining(), Leaving: req.GetLeaving(), Members: req.GetMembers()}, err
	}
	var req jute.ReconfigRequest
	d := jute.NewDecoder(txn.GetBody())
	req.Decode(&d)
	return roster.Change{Joining: string(req.JoiningServers), Leaving: string(req.LeavingServers), Members: string(req.NewMembers)}, d.Err()
}

// runReconfig serves a client's reconfig. It checks in ZooKeeper's order.
func (s *State) runReconfig(txn *proto.Txn, r *Result) {
	var req jute.ReconfigRequest
	d := jute.NewDecoder(txn.GetBody())
	if req.Decode(&d); d.Err() != nil {
		r.Code = jute.MarshallingError
		return
	}
	s.take()
	if !s.term.Reconfig {
		r.Code, r.Why = jute.ReconfigDisabled, "reconfigEnabled is not set at the leader"
		return
	}
	if r.Code = s.refuse(txn); r.Code != jute.OK {
		return
	}
	change := roster.Change{Joining: string(req.JoiningServers), Leaving: string(req.LeavingServers), Members: string(req.NewMembers)}
	next, code, err := s.nextList(change, req.CurConfigID, fewestVoters, txn.GetReached())
	switch {
	case err != nil:
		r.Code, r.Why = code, err.Error()
	case !s.grants(s.get(ConfigPath).acl, jute.PermWrite, txn):
		r.Code, r.Why = jute.NoAuth, "it needs the permission WRITE on "+ConfigPath
	default:
		s.reconfigure(next, r)
	}
}

// runOperators serves a reconfig of the leader's own, which an operator asked for. It needs no right and
// no rule.
func (s *State) runOperators(txn *proto.Txn, r *Result) {
	var req proto.ReconfigureRequest
	if err := pb.Unmarshal(txn.GetBody(), &req); err != nil || len(req.GetBy()) > MaxBy {
		r.Code = jute.MarshallingError
		return
	}
	s.take()
	fewest := min(fewestVoters, len(s.roster.Servers.Voters())) // one that is alone already may have observers
	if req.GetForce() {
		fewest = 1
	}
	change := roster.Change{Joining: req.GetJoining(), Leaving: req.GetLeaving(), Members: req.GetMembers()}
	next, code, err := s.nextList(change, req.GetVersion(), fewest, txn.GetReached())
	if err != nil {
		r.Code, r.Why = code, err.Error()
		return
	}
	s.reconfigure(next, r)
}

// errNoList is the error of a reconfig without a list to change.
var errNoList = errors.New("there is no list of servers: nobody has become the leader since the last member was upgraded (rollcall members lead hands over), or this is a standalone server, which standaloneEnabled=false and its own line server.N make an ensemble of one")

// nextList returns the list after a change of the list of this version, or why there is none. reached are
// the servers that answer the leader. At least fewest participants must remain, and most of them must
// answer, because raft could not commit anything with the others.
func (s *State) nextList(c roster.Change, version int64, fewest int, reached []uint32) (roster.List, jute.Code, error) {
	if s.roster.Version == 0 {
		return nil, jute.Unimplemented, errNoList
	}
	if version != anyVersion && version != s.roster.Version {
		return nil, jute.BadVersion, fmt.Errorf("the list has version %x by now, not %x; read it again", s.roster.Version, version)
	}
	next, err := s.roster.Servers.Apply(c)
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
func (s *State) reconfigure(next roster.List, r *Result) {
	list := s.roster
	list.Servers = next
	s.setRoster(list)
	n := s.get(ConfigPath)
	r.Data, r.Stat = n.data.bytes(), n.stat()
}
