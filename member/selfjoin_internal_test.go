package member

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"rollcall/internal/serverlist"
	"rollcall/operator/api"
	"rollcall/operator/view"
)

// The leader gives votes in pairs, the lowest number first, to observers that want one, reply and have caught up. It takes no step while
// another change is under way, and takes no vote away.
func TestNextPromotion(t *testing.T) {
	const (
		voter    = 'v' // votes
		dead     = 'd' // votes, and does not reply
		ready    = 'r' // an observer that wants a vote
		content  = 'o' // an observer that wants none
		silent   = 's' // an observer that wants one, and does not reply
		late     = 'l' // an observer that wants one, and catches up
		draining = 'x' // an observer that wants one, and is about to stop
		joining  = 'j' // a participant without a vote
		demoted  = 'm' // an observer that votes as yet
		goes     = 'g' // votes, and leaves by itself
		leaving  = 'e' // in raft's configuration, and not in the list
	)
	row := func(id uint32, kind rune) view.Server {
		s := view.Server{HasReplied: kind != dead && kind != silent}
		s.ListEntry = serverlist.Server{ID: id, Observer: kind != voter && kind != goes && kind != dead && kind != joining}
		s.MemberID, s.IsVoter, s.State = id, kind == voter || kind == goes || kind == dead || kind == demoted, api.StateObserver
		s.WantsVote = kind != content
		s.Leaves = kind == goes
		switch kind {
		case late:
			s.State = api.StateCatchingUp
		case draining:
			s.IsDrained = true
		case leaving:
			s.ListEntry = serverlist.Server{}
		}
		return s
	}
	for _, tt := range []struct {
		servers string
		limit   int
		want    uint32
	}{
		{"v", 5, 0},
		{"vr", 5, 0},
		{"vrr", 5, 2},
		{"vvr", 5, 3},
		{"vvv", 5, 0},
		{"vvvr", 5, 0},
		{"vvvrr", 5, 4},
		{"vvvvr", 5, 5},
		{"vvvvv", 5, 0},
		{"vvvvvrr", 5, 0},
		{"vvvvvrr", 7, 6},
		{"vvvrr", 3, 0},
		{"vrrrr", 1, 0},
		{"vvvvvrr", 3, 0},
		{"vvvv", 5, 0},
		{"vvvvrr", 5, 5},
		{"rvrvv", 5, 1},
		{"vvvro", 5, 0},
		{"vvvrs", 5, 0},
		{"vvvrl", 5, 0},
		{"vvvrx", 5, 0},
		{"vvvosrr", 5, 6},
		{"vvdrr", 5, 4},
		{"vvdr", 5, 0},
		{"vvvjrr", 5, 0},
		{"vvrg", 5, 3},
		{"vvvg", 5, 0},
		{"vvog", 5, 0},
		{"vvvvg", 5, 0},
		{"vvvrg", 5, 0},
		{"vvvvrg", 5, 5},
		{"vg", 5, 0},
		{"vrg", 5, 0},
		{"vvvmrr", 5, 0},
		{"vvverr", 5, 0},
	} {
		var m view.Members
		for i, kind := range tt.servers {
			m.Servers = append(m.Servers, row(uint32(i+1), kind))
		}
		if got := nextPromotion(&m, tt.limit); got != tt.want {
			t.Errorf("of %s, with up to %d voters, member %d gets a vote, want %d", tt.servers, tt.limit, got, tt.want)
		}
	}
}

// at returns the server line of a member at a host. Its number is one that a process claims.
func at(id uint32, host string) serverlist.Server {
	return serverlist.Server{ID: id, Host: host, QuorumPort: 2888}
}

// An address whose check has failed is dialed again after minJoinInterval, and gets the same error before, whatever number is claimed there. No
// host is dialed twice at once, and no more than maxJoinChecks are.
func TestJoinChecks(t *testing.T) {
	c := joinChecks{underWay: map[string]bool{}, failed: map[string]failedJoin{}}
	begin := time.Now()
	want := func(step string, err error, text string) {
		t.Helper()
		if got := fmt.Sprint(err); got != text {
			t.Errorf("%s: %s, want %s", step, got, text)
		}
	}
	want("the first request", c.begin(at(4, "m4"), begin), "<nil>")
	want("a second one beside it", c.begin(at(5, "m4"), begin), "an earlier request from its host is under way")
	c.end(at(4, "m4"), begin, errors.New("no reply"))
	want("one right after a failure", c.begin(at(4, "m4"), begin.Add(minJoinInterval-1)), "no reply")
	want("one there with another number", c.begin(at(5, "m4"), begin.Add(minJoinInterval-1)), "no reply")
	want("one with its number from another host", c.begin(at(4, "m5"), begin), "<nil>")
	want("one after a while", c.begin(at(4, "m4"), begin.Add(minJoinInterval)), "<nil>")
	c.end(at(4, "m4"), begin, nil)
	want("one after a success", c.begin(at(4, "m4"), begin), "<nil>")
	for id := range uint32(maxJoinChecks - 2) {
		want("as many as may be", c.begin(at(10+id, fmt.Sprint("x", id)), begin), "<nil>")
	}
	want("one too many", c.begin(at(20, "m20"), begin), "the requests of 4 other members are under way")
	c.end(at(5, "m5"), begin, nil)
	want("one in its place", c.begin(at(20, "m20"), begin), "<nil>")
}

// The failed checks that are remembered are the latest maxFailedJoins.
func TestFailedJoinsAreBounded(t *testing.T) {
	c := joinChecks{underWay: map[string]bool{}, failed: map[string]failedJoin{}}
	begin := time.Now()
	for i := range 1000 {
		s := at(9, fmt.Sprintf("m%d", i))
		now := begin.Add(time.Duration(i))
		if err := c.begin(s, now); err != nil {
			t.Fatal(err)
		}
		c.end(s, now, errors.New("no reply"))
	}
	if n := len(c.failed); n != maxFailedJoins || len(c.underWay) != 0 {
		t.Errorf("%d failed checks are remembered, want %d; %d are under way", n, maxFailedJoins, len(c.underWay))
	}
	if err := c.begin(at(9, fmt.Sprintf("m%d", 1000-maxFailedJoins)), begin.Add(1000)); err == nil {
		t.Error("one of the latest failures is forgotten")
	}
}

// A reason is logged when it differs from the last one, and two that take turns are logged once in joinReasonInterval.
func TestReasonsThatTakeTurns(t *testing.T) {
	var l reasonLog
	begin := time.Now()
	for _, tt := range []struct {
		after  time.Duration
		reason string
		due    bool
	}{
		{0, "", false},
		{0, "a", true},
		{time.Second, "a", false},
		{2 * time.Second, "b", false},
		{3 * time.Second, "a", false},
		{joinReasonInterval, "a", false},
		{joinReasonInterval, "b", true},
		{joinReasonInterval + time.Second, "a", false},
		{2 * joinReasonInterval, "a", true},
		{3 * joinReasonInterval, "", false},
	} {
		if due := l.isDue(tt.reason, begin.Add(tt.after)); due != tt.due {
			t.Errorf("%q after %v is due: %t, want %t", tt.reason, tt.after, due, tt.due)
		}
	}
}

// An error before a member is chosen for a vote names no member.
func TestNoMemberIsChosen(t *testing.T) {
	var j joinRequests
	j.isChanging.Store(true)
	if err := j.promoteNext(t.Context()); err == nil || strings.Contains(err.Error(), "member 0") {
		t.Errorf("promoteNext: %v", err)
	}
}
