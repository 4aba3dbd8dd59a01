package admin

import (
	"context"
	"encoding/hex"
	"iter"
	"net/http"
	"time"

	"rollcall/operator/api"
	"rollcall/operator/stateview"
	"rollcall/operator/view"
	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// pastCommands are the endpoints that a state of the past answers, with the command that shows the same, on a machine of its own.
var pastCommands = map[string]string{
	"/v1/sessions": "sessions --at", "/v1/sessions/{id}": "session show ID --at", "/v1/sessions/{id}/ephemerals": "session show ID --at",
	"/v1/owner": "who-owns PATH --at", "/v1/ends": "why --at", "/v1/removals": "why --at", "/v1/members": "members list --at",
}

// pastDeadline limits a query about a state of the past. Only this process works on it.
const pastDeadline = time.Minute

// NewPastHandler returns a handler for the endpoints under /v1/ that need the replicated state alone, for a command with a state
// of the past. It checks no credentials: the caller has the state. What only running members know is missing from the replies:
// connections and watches, whether a session was connected and when it was last heard, and what a server did, except which one
// led. All sessions have the state view.StateUnknown. now returns the time of the state.
func NewPastHandler(state *znode.State, now func() time.Time) (http.Handler, error) {
	rows, err := pastRoutes(state, now)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	for _, e := range rows {
		mux.HandleFunc(e.method+" "+e.path, func(w http.ResponseWriter, r *http.Request) {
			q := newQuery(&e, r, "")
			q.paths = &pathFilter{visibility: allPaths}
			e.writeReply(q, w, r)
		})
	}
	return mux, nil
}

// pastRoutes returns the rows of pastCommands, for a state of the past. now returns the time of the state.
func pastRoutes(state *znode.State, now func() time.Time) (rows []endpoint, err error) {
	past := pastQueries{viewer: stateview.Viewer{State: state}}
	past.Collector, err = view.New(view.Config{
		Self: pastSelf, Members: past.members, ServerList: func() view.Ensemble { return view.Ensemble{} },
		Leader: func() uint32 { return 0 }, Deadline: pastDeadline, Now: now,
	})
	if err != nil {
		return nil, err
	}
	for _, e := range (&ensembleAPI{queries: past}).routes() {
		if e.hasPast() {
			rows = append(rows, e)
		}
	}
	return append(rows, endpoint{
		method: "GET", path: "/v1/members", replyJSON: func(*query) (any, error) { return past.serverList(), nil },
	}), nil
}

// hasPast reports whether a state of the past answers for the endpoint, too.
func (e *endpoint) hasPast() bool { return e.method == "GET" && pastCommands[e.path] != "" }

// pastSelf is the id under which a state of the past is queried. No session is connected to a member with this id.
const pastSelf = 0

// pastQueries implements EnsembleQueries with a state of the past.
type pastQueries struct {
	*view.Collector
	viewer stateview.Viewer
}

// members returns one that answers from the state, and all others a session can be connected to, which know nothing.
func (p pastQueries) members() []view.Member {
	members := []view.Member{{ID: pastSelf, Peer: pastPeer(p)}}
	for id := uint32(1); id <= maxMemberID; id++ {
		members = append(members, view.Member{ID: id, Peer: forgetfulPeer{}})
	}
	return members
}

// pastPeer is a view.Peer that answers from the state.
type pastPeer pastQueries

// View implements view.Peer.
func (p pastPeer) View(ctx context.Context, r *proto.ViewRequest) (*proto.ViewReply, error) {
	if reply := p.viewer.Reply(ctx, r); reply != nil {
		return reply, ctx.Err()
	}
	return forgetfulPeer{}.View(ctx, r)
}

// forgetfulPeer is a view.Peer that knows no connection, no time and no removal.
type forgetfulPeer struct{}

// View implements view.Peer.
func (forgetfulPeer) View(_ context.Context, r *proto.ViewRequest) (*proto.ViewReply, error) {
	if r.GetRemovals() != nil {
		return &proto.ViewReply{About: &proto.ViewReply_Removals{Removals: &proto.RemovalRows{}}}, nil
	}
	return &proto.ViewReply{About: &proto.ViewReply_Facts{Facts: &proto.FactRows{}}}, nil
}

// Sessions implements EnsembleQueries.
func (p pastQueries) Sessions(ctx context.Context, f view.SessionFilter, page view.Page) (api.List[api.Session], error) {
	a, err := p.Collector.Sessions(ctx, f, page)
	for i := range a.Items {
		a.Items[i].State = view.StateUnknown
	}
	return a, err
}

// SessionByID implements EnsembleQueries.
func (p pastQueries) SessionByID(ctx context.Context, id jute.SessionID) (api.List[api.Session], error) {
	a, err := p.Collector.SessionByID(ctx, id)
	for i := range a.Items {
		a.Items[i].State = view.StateUnknown
	}
	return a, err
}

// NodeOwner implements EnsembleQueries.
func (p pastQueries) NodeOwner(ctx context.Context, path string) (api.Owner, error) {
	o, err := p.Collector.NodeOwner(ctx, path)
	if o.Session != nil {
		o.Session.State = view.StateUnknown
	}
	return o, err
}

// SessionEnds implements EnsembleQueries.
func (p pastQueries) SessionEnds(session jute.SessionID, address string, before uint64) iter.Seq[znode.SessionEnd] {
	return p.viewer.SessionEnds(stateview.EndFilter{Session: session, Address: address, Before: before})
}

// serverList returns the servers of the list, and which one led. Participants count as voters.
func (p pastQueries) serverList() api.Members {
	state := p.viewer.State
	state.RLock()
	defer state.RUnlock()
	list, _ := state.ServerList()
	m := api.Members{
		Version: view.ZxidText(list.Version), LeaderID: state.Term().Leader, IsSettled: true,
		Items: []api.Server{}, Silent: []api.Silence{},
	}
	if list.Version != 0 {
		m.EnsembleID = hex.EncodeToString(list.EnsembleID[:])
	}
	for _, s := range list.Servers {
		row := api.Server{
			MemberID: s.ID, ListLine: s.String(), QuorumAddress: s.QuorumAddr(), ElectionAddress: s.ElectionAddr(),
			ClientAddress: s.ClientAddr(), Role: "participant", IsVoter: !s.Observer, State: api.StateUnknown,
		}
		if s.Observer {
			row.Role = "observer"
		}
		if s.ID == m.LeaderID {
			row.State = "leader"
		}
		m.Items = append(m.Items, row)
	}
	return m
}
