package member

import (
	"errors"
	"fmt"
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

// A member that was rejected is dialed again after minJoinInterval, and gets the same error before. No member is dialed twice at once, and no
// more than maxJoinChecks are.
func TestJoinChecks(t *testing.T) {
	c := joinChecks{underWay: map[uint32]bool{}, failed: map[uint32]failedJoin{}}
	begin := time.Now()
	want := func(step string, err error, text string) {
		t.Helper()
		if got := fmt.Sprint(err); got != text {
			t.Errorf("%s: %s, want %s", step, got, text)
		}
	}
	want("the first request", c.begin(4, begin), "<nil>")
	want("a second one beside it", c.begin(4, begin), "an earlier request of it is under way")
	c.end(4, begin, errors.New("no reply"))
	want("one right after a failure", c.begin(4, begin.Add(minJoinInterval-1)), "no reply")
	want("another member's", c.begin(5, begin), "<nil>")
	want("one after a while", c.begin(4, begin.Add(minJoinInterval)), "<nil>")
	c.end(4, begin, nil)
	want("one after a success", c.begin(4, begin), "<nil>")
	for id := range uint32(maxJoinChecks - 2) {
		want("as many as may be", c.begin(10+id, begin), "<nil>")
	}
	want("one too many", c.begin(20, begin), "the requests of 4 other members are under way")
	c.end(5, begin, nil)
	want("one in its place", c.begin(20, begin), "<nil>")
}
