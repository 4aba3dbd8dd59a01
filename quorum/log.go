package quorum

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/hashicorp/go-hclog"
)

// debugOnly holds raft's messages that repeat many times a second while a member is away, or that report every
// step. They are logged at debug level. Other messages report the same facts.
var debugOnly = []string{
	"failed to heartbeat to",
	"failed to appendEntries to",
	"failed to make requestVote RPC",
	lostContactMessage,
	"failed to pipeline appendEntries",
	"failed to start pipeline replication to",
	"failed to get log",       // a follower lacks entries that the log no longer has: it gets a snapshot
	"failed to take snapshot", // there is nothing new to snapshot; if a store fails, the member ends
	"appendEntries rejected, sending older logs",
	"Election timeout reached, restarting election",
	"no known peers, aborting election",
	"pipelining replication",
	"aborting pipeline replication",
	"entering follower state",
	"entering candidate state",
	"entering leader state",
	"election won",
	"new leader elected, stepping down", // when several members stand for election
	"rejecting vote request since we have a leader",
	"rejecting vote request since our last term is greater",
	"rejecting vote request since our last index is greater",
	"rejecting pre-vote request since our last term is greater",
	"rejecting pre-vote request since our last index is greater",
	"duplicate requestVote for same term",
	"duplicate requestVote from",
	"not part of stable configuration, aborting election", // while this member joins
	"peer has newer term, stopping replication",
	"added peer, starting replication",
	"initial configuration",
	"pre-vote campaign failed, waiting for election timeout",
	"pre-vote successful, starting election",
	"rejecting pre-vote request since we have a leader",
	"no logs to truncate",
	"compacting logs",
	"creating new snapshot",
	"reaping snapshot",
	"previous log term mis-match",
	"failed to get previous log",
	"snapshot restore progress",
}

// lostContactMessage is raft's message when its leader checks the lease and has not heard a voter within it. raft looks at the
// voters one after the other, and writes the message before it looks at the next. Right after a pause of this process the
// replies of all may lie unread, so the message waits until they are read, and the voters after the first count as heard. A
// lease is longer than most pauses; for a longer one, this is the only place in which raft's main loop can be held. A leader
// with two voters, or whose first voter alone would have made the majority, steps down all the same.
const lostContactMessage = "failed to contact"

// electionStartMessage is raft's message when it has not heard from a leader in time. It is a warning only if
// there was a leader: when an ensemble starts, there was none.
const electionStartMessage = "heartbeat timeout reached, starting election"

// namesLastLeader reports whether the arguments of electionStartMessage name a leader.
func namesLastLeader(args []any) bool {
	for i := 1; i < len(args); i += 2 {
		if args[i-1] == "last-leader-id" {
			return fmt.Sprint(args[i]) != ""
		}
	}
	return false
}

// raftLogger passes raft's log messages to slog. Its errors become warnings: this package logs itself if an operator
// must act. The embedded logger implements the methods that raft does not call.
type raftLogger struct {
	hclog.Logger
	logger       *slog.Logger
	awaitBacklog func() bool // see lostContactMessage; nil: raft does not run
}

// newRaftLogger returns a logger of messages of raft. awaitBacklog is that of silenceWatch, or nil if raft does not run.
func newRaftLogger(l *slog.Logger, awaitBacklog func() bool) hclog.Logger {
	return &raftLogger{hclog.NewNullLogger(), l, awaitBacklog}
}

func (r *raftLogger) Log(level hclog.Level, msg string, args ...any) {
	if msg == lostContactMessage && r.awaitBacklog != nil {
		r.awaitBacklog()
	}
	to := slog.LevelDebug
	switch level {
	case hclog.Info:
		to = slog.LevelInfo
	case hclog.Warn, hclog.Error:
		to = slog.LevelWarn
	}
	switch {
	case slices.Contains(debugOnly, msg):
		to = slog.LevelDebug
	case msg == electionStartMessage && !namesLastLeader(args):
		to = slog.LevelInfo
	}
	ctx := context.Background()
	if !r.logger.Enabled(ctx, to) {
		return
	}
	for i, a := range args {
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			args[i] = fmt.Sprintf(fmt.Sprint(f[0]), f[1:]...)
		}
	}
	r.logger.Log(ctx, to, "raft: "+msg, args...)
}

func (r *raftLogger) Trace(msg string, args ...any) { r.Log(hclog.Trace, msg, args...) }
func (r *raftLogger) Debug(msg string, args ...any) { r.Log(hclog.Debug, msg, args...) }
func (r *raftLogger) Info(msg string, args ...any)  { r.Log(hclog.Info, msg, args...) }
func (r *raftLogger) Warn(msg string, args ...any)  { r.Log(hclog.Warn, msg, args...) }
func (r *raftLogger) Error(msg string, args ...any) { r.Log(hclog.Error, msg, args...) }

func (r *raftLogger) With(args ...any) hclog.Logger {
	return &raftLogger{r.Logger, r.logger.With(args...), r.awaitBacklog}
}
func (r *raftLogger) Named(string) hclog.Logger { return r }
