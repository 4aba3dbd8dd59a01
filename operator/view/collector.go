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

// Peer is a member that can be queried. View returns with the reply or when ctx ends. Its error is ErrBusy,
// ErrTooLong or the reason why the member is unreachable.
type Peer interface {
	View(ctx context.Context, r *proto.ViewRequest) (*proto.ViewReply, error)
}

var (
	// ErrBusy means that the member has too many queries under way. A Collector returns it, too.
	ErrBusy = errors.New("view: too many queries at a time")
	// ErrTooLong means that the reply was longer than MaxReply, and was not read.
	ErrTooLong = errors.New("view: the reply is too long")
)

// maxQueries limits an operator's concurrent queries in a Collector. Members have few streams for one another,
// and need most of them for other purposes.
const maxQueries = 8

// Config configures a Collector. A field without a default is required.
type Config struct {
	Self uint32 // the member of this process
	// of the ensemble as it is now, Self always among them; must not block. New does not call it
	Members func() []Member
	// the list of servers and raft's configuration, as Self has them; may wait for the tree's lock
	ServerList func() Ensemble
	Leader     func() uint32    // the member that Self takes for the leader; 0: none; must not block
	Deadline   time.Duration    // for the members' replies
	Now        func() time.Time // wall clock of Self
}

// Member is a member of the ensemble.
type Member struct {
	ID              uint32
	QuorumAddress   string // host:port of the port for members
	ElectionAddress string // host:port of the port for the log
	Advice          string // what is known about the reason if it does not reply, and what to do; "": nothing
	Peer            Peer
}

// Collector queries the members of the ensemble. Each method returns within the deadline, and names the members
// that did not reply. A query of replicated state goes to Self alone, and fails if Self does not reply. It is
// safe for concurrent use.
type Collector struct {
	cfg        Config
	querySlots chan struct{} // one place for each query under way
	scanSlot   chan struct{} // one place for each scan of all sessions
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

// memberIDs returns the members' ids, ascending.
func (c *Collector) memberIDs() (ids []uint32) {
	for _, m := range c.cfg.Members() {
		ids = append(ids, m.ID)
	}
	slices.Sort(ids)
	return ids
}

// memberByID returns the zero Member if the ensemble has none with this id.
func (c *Collector) memberByID(id uint32) Member {
	for _, m := range c.cfg.Members() {
		if m.ID == id {
			return m
		}
	}
	return Member{}
}

// runQuery calls collect with a context that ends at the deadline, once each of limits and querySlots has a
// place. An error of the caller's context comes first.
func (c *Collector) runQuery(ctx context.Context, collect func(ctx context.Context) error,
	limits ...chan struct{},
) error {
	timed, cancel := context.WithTimeout(ctx, c.cfg.Deadline)
	defer cancel()
	for _, places := range append(limits, c.querySlots) {
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

// runMemberQuery runs queryMembers as a query of its own, and adds the silent members to silent, sorted.
func (c *Collector) runMemberQuery(ctx context.Context, requests map[uint32]*proto.ViewRequest, silent []api.Silence,
	take func(memberReply) error,
) ([]api.Silence, error) {
	err := c.runQuery(ctx, func(ctx context.Context) error {
		silent = sortByMember(append(silent, c.queryMembers(ctx, requests, take)...))
		return nil
	})
	return silent, err
}

// memberReply is one member's reply to a query, or an error.
type memberReply struct {
	member     uint32
	reply      *proto.ViewReply
	err        error
	sentAt     time.Time // by Config.Now, as is
	receivedAt time.Time // when it came
}

// queryMembers sends the requests to their members at the same time. It passes each reply to take as it arrives,
// one at a time. It returns the members that did not reply before ctx ended, or whose reply take rejected. It
// does not wait for late calls.
func (c *Collector) queryMembers(ctx context.Context, requests map[uint32]*proto.ViewRequest,
	take func(memberReply) error,
) []api.Silence {
	replies := make(chan memberReply, len(requests)) // room for late replies
	open := make(map[uint32]bool, len(requests))
	for id, request := range requests {
		open[id] = true
		go func() { replies <- c.queryMember(ctx, id, request) }()
	}
	var silent []api.Silence
	for len(open) > 0 {
		select {
		case a := <-replies:
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
	for i := range silent {
		if advice := c.memberByID(silent[i].MemberID).Advice; advice != "" {
			silent[i].Detail += "; " + advice
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

// takeReply passes a reply to take, or returns the reason for its absence.
func (c *Collector) takeReply(ctx context.Context, a memberReply, take func(memberReply) error) (s api.Silence,
	ok bool,
) {
	switch {
	case a.err == nil:
		if err := take(a); err != nil {
			return api.Silence{MemberID: a.member, Reason: ReasonWrong, Detail: err.Error()}, false
		}
		return api.Silence{}, true
	case errors.Is(a.err, ErrBusy):
		return api.Silence{MemberID: a.member, Reason: ReasonBusy, Detail: "it has too many queries under way: try again"},
			false
	case errors.Is(a.err, ErrTooLong):
		return api.Silence{
			MemberID: a.member, Reason: ReasonWrong,
			Detail: fmt.Sprintf("the reply has more than %d bytes", MaxReply),
		}, false
	case ctx.Err() != nil:
		return c.lateSilence(a.member), false
	}
	return api.Silence{MemberID: a.member, Reason: ReasonDown, Detail: a.err.Error()}, false
}

func (c *Collector) lateSilence(id uint32) api.Silence { return lateSilenceAfter(id, c.cfg.Deadline) }

func lateSilenceAfter(id uint32, wait time.Duration) api.Silence {
	return api.Silence{MemberID: id, Reason: ReasonLate, Detail: fmt.Sprintf("no answer within %v", wait)}
}

// querySelf queries this member, without which there is no result.
func (c *Collector) querySelf(ctx context.Context, request *proto.ViewRequest, take func(memberReply) error) error {
	for _, s := range c.queryMembers(ctx, map[uint32]*proto.ViewRequest{c.cfg.Self: request}, take) {
		return fmt.Errorf("view: this member, %d: %s: %s", s.MemberID, s.Reason, s.Detail)
	}
	return nil
}

func sortByMember(silent []api.Silence) []api.Silence {
	slices.SortFunc(silent, func(a, b api.Silence) int { return cmp.Compare(a.MemberID, b.MemberID) })
	return silent
}
