package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"rollcall/operator/api"
	"rollcall/proto"
)

// Peer is a member that can be asked. View returns when the reply is there or ctx ends. Its error is
// ErrBusy or ErrTooLong, or says why the member cannot be reached.
type Peer interface {
	View(ctx context.Context, r *proto.ViewRequest) (*proto.ViewReply, error)
}

// A Peer returns one of these if the member was reached and did not answer. A Collector returns ErrBusy
// too.
var (
	ErrBusy = errors.New("view: too many questions at a time")
	// ErrTooLong means that the reply was longer than MaxReply, and was not read.
	ErrTooLong = errors.New("view: the reply is too long")
)

// maxQueries is how many questions of operators a Collector asks at a time: a few people with a few windows
// each. Members have only so many streams for one another, and need most of them for other purposes.
const maxQueries = 8

// Config is what a Collector is built from. A field without a default is required.
type Config struct {
	Self       uint32           // the member that asks
	Members    func() []Member  // of the ensemble as it is now, Self always among them; must not block. New does not call it
	ServerList func() Ensemble  // the list of servers and raft's configuration, as Self has them; may wait for the tree's lock
	Leader     func() uint32    // the member that Self takes for the leader; 0: none; must not block
	Deadline   time.Duration    // within which members must have answered
	Now        func() time.Time // wall clock of Self
}

// Member is a member of the ensemble.
type Member struct {
	ID              uint32
	QuorumAddress   string // host:port of the port for members
	ElectionAddress string // host:port of the port for the log
	Peer            Peer
}

// Collector asks the members of the ensemble. Each of its methods returns within the deadline, and
// names the members that have not answered. It fails if Self does not answer and the question is one
// about the replicated state, which is asked of Self. It is safe for concurrent use.
type Collector struct {
	cfg        Config
	querySlots chan struct{} // a place for each question under way
	scanSlot   chan struct{} // a place for each scan of all sessions, or for one that waits for a place among the questions
}

// New checks cfg and returns a Collector.
func New(cfg Config) (*Collector, error) {
	switch {
	case cfg.Deadline <= 0:
		return nil, fmt.Errorf("view: deadline %v is not positive", cfg.Deadline)
	case cfg.Leader == nil || cfg.Now == nil || cfg.Members == nil || cfg.ServerList == nil:
		return nil, errors.New("view: Leader, Now, Members and Ensemble are required")
	}
	return &Collector{cfg: cfg, querySlots: make(chan struct{}, maxQueries), scanSlot: make(chan struct{}, maxScans)}, nil
}

// memberIDs returns the ids of the members, ascending. A question asks those that it begins with.
func (c *Collector) memberIDs() (ids []uint32) {
	for _, m := range c.cfg.Members() {
		ids = append(ids, m.ID)
	}
	slices.Sort(ids)
	return ids
}

// memberByID returns a member. It is zero if the ensemble has none with this id, or has it no more.
func (c *Collector) memberByID(id uint32) Member {
	for _, m := range c.cfg.Members() {
		if m.ID == id {
			return m
		}
	}
	return Member{}
}

// runQuery calls collect with a context that ends at the deadline, when there is a place for it: in each of first, and then among the
// questions under way. An error of the caller's context comes first.
func (c *Collector) runQuery(ctx context.Context, collect func(ctx context.Context) error, first ...chan struct{}) error {
	timed, cancel := context.WithTimeout(ctx, c.cfg.Deadline)
	defer cancel()
	for _, places := range append(first, c.querySlots) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		case <-timed.Done():
			return cmp.Or(ctx.Err(), ErrBusy)
		}
	}
	err := collect(timed)
	return cmp.Or(ctx.Err(), err)
}

// memberReply is what came of a question to one member.
type memberReply struct {
	member     uint32
	reply      *proto.ViewReply
	err        error
	sentAt     time.Time // by Config.Now, as is
	receivedAt time.Time // when it came
}

// queryMembers sends the requests to their members at the same time. It calls take with each reply as it comes,
// one at a time, and returns the silences of the members that do not answer before ctx ends, and of
// those whose reply take refuses. It does not wait for calls that go on after that.
func (c *Collector) queryMembers(ctx context.Context, requests map[uint32]*proto.ViewRequest, take func(memberReply) error) []api.Silence {
	answers := make(chan memberReply, len(requests)) // a late answer finds room, and nobody
	open := make(map[uint32]bool, len(requests))
	for id, request := range requests {
		open[id] = true
		go func() { answers <- c.queryMember(ctx, id, request) }()
	}
	var silent []api.Silence
	for len(open) > 0 {
		select {
		case a := <-answers:
			delete(open, a.member)
			if s, ok := c.takeReply(ctx, a, take); !ok {
				silent = append(silent, s)
			}
		case <-ctx.Done():
			for id := range open {
				silent = append(silent, c.lateSilence(id))
			}
			clear(open)
		}
	}
	return silent
}

func (c *Collector) queryMember(ctx context.Context, id uint32, request *proto.ViewRequest) memberReply {
	a := memberReply{member: id, sentAt: c.cfg.Now()}
	if peer := c.memberByID(id).Peer; peer == nil {
		a.err = errors.New("it is not in this member's server list")
	} else {
		a.reply, a.err = peer.View(ctx, request)
	}
	a.receivedAt = c.cfg.Now()
	return a
}

// takeReply passes an answer to take, or returns why there is none.
func (c *Collector) takeReply(ctx context.Context, a memberReply, take func(memberReply) error) (s api.Silence, ok bool) {
	switch {
	case a.err == nil:
		if err := take(a); err != nil {
			return api.Silence{MemberID: a.member, Reason: ReasonWrong, Detail: err.Error()}, false
		}
		return api.Silence{}, true
	case errors.Is(a.err, ErrBusy):
		return api.Silence{MemberID: a.member, Reason: ReasonBusy, Detail: "it has too many questions to answer: try again"}, false
	case errors.Is(a.err, ErrTooLong):
		return api.Silence{MemberID: a.member, Reason: ReasonWrong, Detail: fmt.Sprintf("the reply has more than %d bytes", MaxReply)}, false
	case ctx.Err() != nil:
		return c.lateSilence(a.member), false
	}
	return api.Silence{MemberID: a.member, Reason: ReasonDown, Detail: a.err.Error()}, false
}

func (c *Collector) lateSilence(id uint32) api.Silence { return lateSilenceAfter(id, c.cfg.Deadline) }

func lateSilenceAfter(id uint32, wait time.Duration) api.Silence {
	return api.Silence{MemberID: id, Reason: ReasonLate, Detail: fmt.Sprintf("no answer within %v", wait)}
}

// querySelf asks this member, without which there is no answer.
func (c *Collector) querySelf(ctx context.Context, request *proto.ViewRequest, take func(memberReply) error) error {
	for _, s := range c.queryMembers(ctx, map[uint32]*proto.ViewRequest{c.cfg.Self: request}, take) {
		return fmt.Errorf("view: this member, %d: %s: %s", s.MemberID, s.Reason, s.Detail)
	}
	return nil
}

// sortByMember sorts silences by the members' ids.
func sortByMember(silent []api.Silence) []api.Silence {
	slices.SortFunc(silent, func(a, b api.Silence) int { return cmp.Compare(a.MemberID, b.MemberID) })
	return silent
}
