package wire

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/proto"

	pb "google.golang.org/protobuf/proto"
)

// The cause of a term is the one that this member knew when it requested votes in that term.
func TestLeaderCauses(t *testing.T) {
	const (
		handedOver = proto.LeaderCauseKind_LEADER_CAUSE_HANDED_OVER
		died       = proto.LeaderCauseKind_LEADER_CAUSE_DIED
		silent     = proto.LeaderCauseKind_LEADER_CAUSE_SILENT
		again      = proto.LeaderCauseKind_LEADER_CAUSE_ELECTED_AGAIN
		resumed    = proto.LeaderCauseKind_LEADER_CAUSE_RESUMED
		started    = proto.LeaderCauseKind_LEADER_CAUSE_STARTED
	)
	type causes = *LeaderCauses
	follow := func(leader uint32, term uint64) func(causes) {
		return func(l causes) { l.noteFollowed(leader, term, time.Now()) }
	}
	stand := func(term uint64, atOnce bool) func(causes) {
		return func(l causes) { l.noteCandidacy(term, atOnce) }
	}
	handOver := func(leader uint32) func(causes) { return func(l causes) { l.noteHandOver(leader) } }
	death := func(leader uint32) func(causes) { return func(l causes) { l.NoteDeath(leader) } }
	led := func(term uint64) func(causes) { return func(l causes) { l.NoteLed(term) } }
	pause := func(d time.Duration) func(causes) { return func(causes) { time.Sleep(d) } }

	for name, tt := range map[string]struct {
		events []func(causes)
		term   uint64
		want   leaderCause
	}{
		"no leader since the start":           {[]func(causes){stand(5, false)}, 5, leaderCause{kind: started}},
		"the only voter":                      {nil, 5, leaderCause{kind: started}},
		"no heartbeats":                       {[]func(causes){follow(1, 4), pause(2 * time.Second), stand(5, false)}, 5, leaderCause{silent, 1, 2 * time.Second}},
		"elected long after it stood":         {[]func(causes){follow(1, 4), pause(time.Second), stand(5, false), pause(time.Second)}, 5, leaderCause{silent, 1, time.Second}},
		"the second attempt":                  {[]func(causes){follow(1, 4), pause(time.Second), stand(5, false), pause(time.Second), stand(6, false)}, 6, leaderCause{silent, 1, 2 * time.Second}},
		"handed over":                         {[]func(causes){follow(1, 4), handOver(1), stand(5, true)}, 5, leaderCause{kind: handedOver, former: 1}},
		"a heartbeat is noted after that":     {[]func(causes){follow(1, 4), handOver(1), follow(1, 4), stand(5, true)}, 5, leaderCause{kind: handedOver, former: 1}},
		"handed over, and elected by timeout": {[]func(causes){follow(1, 4), handOver(1), stand(5, true), pause(time.Second), stand(6, false)}, 6, leaderCause{kind: handedOver, former: 1}},
		"handed over, and another one led":    {[]func(causes){follow(1, 4), handOver(1), stand(5, true), follow(3, 6), pause(time.Second), stand(7, false)}, 7, leaderCause{silent, 3, time.Second}},
		"a late hand-over":                    {[]func(causes){follow(1, 4), handOver(1), follow(3, 5), stand(6, true)}, 6, leaderCause{kind: handedOver, former: 1}},
		"a hand-over that had no effect":      {[]func(causes){follow(1, 4), handOver(1), follow(3, 5), pause(time.Second), death(3), stand(6, true)}, 6, leaderCause{kind: died, former: 3}},
		"its process died":                    {[]func(causes){follow(1, 4), death(1), stand(5, true)}, 5, leaderCause{kind: died, former: 1}},
		"died, and elected by timeout":        {[]func(causes){follow(1, 4), death(1), pause(time.Second), stand(9, false)}, 9, leaderCause{kind: died, former: 1}},
		"it lives after all":                  {[]func(causes){follow(1, 4), death(1), pause(time.Second), follow(1, 4), pause(time.Second), stand(5, false)}, 5, leaderCause{silent, 1, time.Second}},
		"the death of another member":         {[]func(causes){follow(1, 4), death(3), pause(time.Second), stand(5, false)}, 5, leaderCause{silent, 1, time.Second}},
		"two causes in one term":              {[]func(causes){follow(1, 4), handOver(1), stand(5, true), death(1), stand(5, true)}, 5, leaderCause{kind: handedOver, former: 1}},
		"an earlier leader is noted late":     {[]func(causes){follow(3, 5), death(3), follow(1, 4), stand(6, true)}, 6, leaderCause{kind: died, former: 3}},
		"an unknown sender":                   {[]func(causes){follow(0, 4), stand(5, false)}, 5, leaderCause{kind: started}},
		"it led before":                       {[]func(causes){follow(1, 4), handOver(1), stand(5, true), led(5), pause(time.Second), stand(7, false)}, 7, leaderCause{kind: again}},
		"it led before, and followed since":   {[]func(causes){led(5), follow(1, 6), pause(time.Second), stand(7, false)}, 7, leaderCause{silent, 1, time.Second}},
		"the same term again":                 {[]func(causes){follow(1, 4), death(1), stand(5, true), led(5)}, 5, leaderCause{kind: resumed}},
		"it stood in another term":            {[]func(causes){follow(1, 4), handOver(1), stand(5, true), follow(1, 6), pause(time.Second)}, 7, leaderCause{silent, 1, time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l LeaderCauses
				for _, event := range tt.events {
					event(&l)
				}
				if got := l.ofTerm(tt.term); got != tt.want {
					t.Errorf("%+v, want %+v", got, tt.want)
				}
			})
		})
	}
}

// Only entries that raft has accepted in the request's term show that a leader lives.
func TestResponsesThatShowALeader(t *testing.T) {
	entries, accepted := &raft.AppendEntriesRequest{Term: 4}, &raft.AppendEntriesResponse{Term: 4}
	for name, tt := range map[string]struct {
		request, response any
		want              uint32
	}{
		"accepted":         {entries, accepted, 1},
		"of an older term": {entries, &raft.AppendEntriesResponse{Term: 5}, 0},
		"no response":      {entries, nil, 0},
		"a vote":           {&raft.RequestVoteRequest{Term: 4}, &raft.RequestVoteResponse{Term: 4, Granted: true}, 0},
	} {
		rc := &receiver{cfg: &Config{LeaderCauses: NewLeaderCauses(2), LeadTimes: new(LeadTimes)}}
		at := time.Now()
		rc.noteResponse(&inConn{peerID: 1, serverID: "1", requestBegun: at}, tt.request, tt.response)
		if l := rc.cfg.LeaderCauses; l.followed != tt.want || tt.want != 0 && l.heardAt != at {
			t.Errorf("%s: leader %d, heard at %v, want %d, %v", name, l.followed, l.heardAt, tt.want, at)
		}
	}
}

// The first request for a vote of a term fixes the cause of that term. The cause is a late hand-over only if raft was
// requested to stand.
func TestRequestForAVoteFixesTheCause(t *testing.T) {
	for name, tt := range map[string]struct {
		atOnce bool
		want   *proto.LeaderCause
	}{
		"by a timeout":        {false, &proto.LeaderCause{Term: 6, Kind: proto.LeaderCauseKind_LEADER_CAUSE_SILENT, Former: 3, SilentMs: 1000}},
		"by a late hand-over": {true, &proto.LeaderCause{Term: 6, Kind: proto.LeaderCauseKind_LEADER_CAUSE_HANDED_OVER, Former: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := newTestTransport(t, newPipes(func(c net.Conn) { _ = c.Close() }))
				l := tr.cfg.LeaderCauses
				l.noteFollowed(1, 4, time.Now())
				l.noteHandOver(1)
				l.noteFollowed(3, 5, time.Now())
				time.Sleep(time.Second)
				for range 2 { // voters
					_ = tr.RequestVote("2", "m2:1", &raft.RequestVoteRequest{Term: 6, LeadershipTransfer: tt.atOnce}, &raft.RequestVoteResponse{})
					time.Sleep(time.Second)
				}
				if got := l.Cause(6); !pb.Equal(got, tt.want) {
					t.Errorf("%v, want %v", got, tt.want)
				}
			})
		})
	}
}

// A member names itself as the leader before, if it was.
func TestCauseNamesItself(t *testing.T) {
	l := NewLeaderCauses(7)
	l.NoteLed(4)
	for term, want := range map[uint64]proto.LeaderCauseKind{
		4: proto.LeaderCauseKind_LEADER_CAUSE_RESUMED, 5: proto.LeaderCauseKind_LEADER_CAUSE_ELECTED_AGAIN,
	} {
		if got := l.Cause(term); got.Kind != want || got.Former != 7 || got.Term != term {
			t.Errorf("term %d: %v, want %v of member 7", term, got, want)
		}
	}
}
