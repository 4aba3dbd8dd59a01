package znode

import (
	"fmt"
	"time"

	"rollcall/proto"
)

// LeaderCauseKind is the kind of a LeaderCause.
type LeaderCauseKind uint8

const (
	LeaderCauseUnknown LeaderCauseKind = iota // by a version that did not report it, or not valid
	LeaderHandedOver                          // the leader before handed over to this one
	LeaderDied                                // the process of the leader before ended, as this one has detected
	LeaderSilent                              // the leader before sent no heartbeats
	LeaderElectedAgain                        // this leader led before, and had stepped down
	LeaderResumed                             // this leader begins once more in the same term
	LeaderStarted                             // this leader had known no other since its start
	leaderCauseKinds                          // the number of kinds
)

// LeaderCause is what ended the leader before a new one, as far as the new one knows. It comes with the new leader's first
// entry and is only reported: neither the state, nor its digest, nor a snapshot has it. The zero value is unknown.
type LeaderCause struct {
	Kind   LeaderCauseKind
	Former uint32        // the leader before; 0: none
	Silent time.Duration // LeaderSilent: the time for which it was silent when the new leader stood for election
}

// newLeaderCause returns the cause in a TermStart that raft logged in term. What cannot be is unknown: the entry counts all
// the same, because members that do not know this field apply it too.
func newLeaderCause(in *proto.LeaderCause, term uint64) LeaderCause {
	kind, former := LeaderCauseKind(0), in.GetFormer()
	if k := in.GetKind(); k > 0 && k < proto.LeaderCauseKind(leaderCauseKinds) {
		kind = LeaderCauseKind(k)
	}
	namesFormer := former > 0 && former <= maxMember
	switch {
	case kind == LeaderCauseUnknown || in.GetTerm() != term:
		return LeaderCause{}
	case kind == LeaderStarted:
		return LeaderCause{Kind: kind}
	case !namesFormer:
		return LeaderCause{}
	case kind == LeaderSilent:
		return LeaderCause{Kind: kind, Former: former, Silent: cappedSilence(in.GetSilentMs())}
	}
	return LeaderCause{Kind: kind, Former: former}
}

// String returns the kind as operators read it in JSON, such as "handed over".
func (k LeaderCauseKind) String() string {
	switch k {
	case LeaderHandedOver:
		return "handed over"
	case LeaderDied:
		return "died"
	case LeaderSilent:
		return "silent"
	case LeaderElectedAgain:
		return "elected again"
	case LeaderResumed:
		return "resumed"
	case LeaderStarted:
		return "started"
	}
	return "unknown"
}

// String returns a phrase for logs and terminals, such as "handed over by member 2".
func (c LeaderCause) String() string {
	switch c.Kind {
	case LeaderHandedOver:
		return fmt.Sprintf("handed over by member %d", c.Former)
	case LeaderDied:
		return fmt.Sprintf("member %d died", c.Former)
	case LeaderSilent:
		return fmt.Sprintf("no heartbeat from member %d for %v", c.Former, c.Silent)
	case LeaderElectedAgain:
		return fmt.Sprintf("member %d stepped down and was elected again", c.Former)
	case LeaderResumed:
		return fmt.Sprintf("member %d resumed in the same term", c.Former)
	case LeaderStarted:
		return "no leader known since its start"
	}
	return "unknown"
}
