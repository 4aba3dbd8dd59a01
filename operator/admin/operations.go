package admin

import (
	"context"
	"io"
	"iter"
	"net/http"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/operator/api"
	"rollcall/operator/view"
	"rollcall/quorum/history"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// EnsembleQueries are the queries about the ensemble for the endpoints under /v1/. It is safe for concurrent use. A
// view.Collector has all methods but the last one; they return within its deadline.
type EnsembleQueries interface {
	MemberStatuses(ctx context.Context) (api.List[api.Member], error)
	Sessions(ctx context.Context, f view.SessionFilter, p view.Page) (api.List[api.Session], error)
	SessionsBy(ctx context.Context, f view.SessionFilter, by view.SessionOrder, p view.Page) (api.List[api.Session], error)
	SessionByID(ctx context.Context, id jute.SessionID) (api.List[api.Session], error)
	SessionWatches(ctx context.Context, id jute.SessionID, p view.Page) (api.List[api.Watch], error)
	Ephemerals(ctx context.Context, id jute.SessionID, p view.Page) (api.List[api.Ephemeral], error)
	Connections(ctx context.Context, f view.ConnectionFilter, p view.Page) (api.List[api.Connection], error)
	PathWatches(ctx context.Context, path string, p view.Page) (api.List[api.Watch], error)
	NodeOwner(ctx context.Context, path string) (api.Owner, error)
	ExpiryBuckets(ctx context.Context) (api.Buckets, error)
	NodeRemovals(ctx context.Context, path string, p view.Page) (api.List[api.Removal], error)
	SlowRequests(ctx context.Context, f view.SlowFilter, p view.Page) (api.List[api.SlowRequest], error)
	// SessionEnds yields the retained ends of sessions, newest first: of session unless it is 0, of
	// clients at address unless it is "", and with a number below before unless it is 0.
	SessionEnds(session jute.SessionID, address string, before uint64) iter.Seq[znode.SessionEnd]
}

// Operations are the member's operations for the endpoints under /v1/. It is safe for concurrent use.
type Operations interface {
	EnsembleQueries

	// Members returns the servers of the ensemble, with their status.
	Members(ctx context.Context) (view.Members, error)
	// ChangeMembers changes the server list through the log, and returns the new list when the leader has
	// applied it or ctx ends. Raft's configuration follows the list. The error is a *Failure.
	ChangeMembers(ctx context.Context, c MembersChange) (MembersChanged, error)
	// TransferLeadership returns when member leads or ctx ends. The error is a *Failure.
	TransferLeadership(ctx context.Context, member uint32) error

	// ReadNode returns what the caller of q may see of a node. It reads this member's state, which may lag
	// behind the leader's. The error is a *Failure.
	ReadNode(q NodeQuery) (Node, error)
	// RestoreBackup writes the nodes of a backup into the ensemble, through the log and as the super user, and
	// deletes nodes that the backup lacks. It first reads and checks the whole backup. If it fails later or ctx
	// ends, its Failure describes the progress; sending the same backup again does the rest. The error is a
	// *Failure.
	RestoreBackup(ctx context.Context, r RestoreRequest) (RestoreResult, error)
	// ChangeNode creates, sets or deletes a node for an administrator. It returns the node's path and new Stat
	// when this member has applied the change or ctx ends. The error is a *Failure.
	ChangeNode(ctx context.Context, c NodeChange) (path string, stat jute.Stat, err error)
	// ReadLoad returns the load of this member's clients. It does not block.
	ReadLoad() Load
	// KillSession returns when the session has ended or ctx ends. by names the requester in at most
	// znode.MaxRequesterBytes bytes. The error is a *Failure.
	KillSession(ctx context.Context, id jute.SessionID, by string) error
	// CopyState copies the state at one index, for a backup. The error is a *Failure.
	CopyState(ctx context.Context) (StateCopy, error)
	// StoreSnapshot writes a snapshot to this member's disk, and returns when it is there or ctx ends, which
	// does not stop it. One is written at a time. The error is a *Failure.
	StoreSnapshot(ctx context.Context) (StoredSnapshot, error)
	// History lists what this member keeps of the past. The error is a *Failure.
	History() (history.Listing, error)
	// HistoryFile opens a file of the past (history.Source). The error is a *Failure, or wraps fs.ErrNotExist.
	HistoryFile(ctx context.Context, name string) (io.ReadCloser, error)
	// LaterEntries returns committed entries of the log after an index, of mostBytes bytes or a little more, or none if there is none
	// yet. The error is a *Failure.
	LaterEntries(after uint64, mostBytes int) ([]*raft.Log, error)
	// DrainSelf transfers leadership, takes no more clients and closes the connections of the present ones, spread
	// over a time. It returns the number of closed connections, and whether this member still leads. It returns
	// early if ctx ends.
	DrainSelf(ctx context.Context, over time.Duration) (closed int, leads bool)
	// Rebalance has members with more clients than their share close up to perSecond connections per second
	// each, until the shares are about even or no longer improve. It returns early if ctx ends. by names the
	// requester. The error is a *Failure.
	Rebalance(ctx context.Context, perSecond int, by string) (RebalanceResult, error)
	// ShedConnections closes percentage of this member's connections of clients with a session, rounded up, from the
	// oldest on and at MaxRebalanceRate. It returns early if ctx ends. The error is a *Failure.
	ShedConnections(ctx context.Context, percentage int) (closed int, err error)
	// DrainMember drains any member, and returns when that is done or ctx ends. by names the requester. The
	// error is a *Failure.
	DrainMember(ctx context.Context, member uint32, over time.Duration, by string) (closed int, leads bool, err error)
}

// Failure is the error of a request under /v1/.
type Failure struct {
	Status int    // of HTTP; not 200
	Text   string // what was wrong, what is allowed, what to do
	Reason string // for programs, such as api.ReasonRemoved; "": the status says enough
}

// Error implements error.
func (f *Failure) Error() string { return f.Text }

// write sends the failure, as JSON to a path under /v1/ and otherwise as text.
func (f *Failure) write(w http.ResponseWriter, r *http.Request) {
	switch f.Status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="rollcall"`)
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1")
	}
	recordFailure(w, f)
	if underV1(r) {
		writeJSON(w, f.Status, api.Failure{Error: f.Text, Reason: f.Reason})
		return
	}
	http.Error(w, f.Text, f.Status)
}
