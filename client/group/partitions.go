package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"rollcall/client"
	"rollcall/client/lock"
	"rollcall/client/recipe"
)

// MaxPartitions limits the partitions of a group. A member that is alone has a goroutine and two watches for each.
const MaxPartitions = 4096

// DefaultSettle is the time for which the list of members must stay the same before partitions move. Members that start
// together then move each partition once.
const DefaultSettle = time.Second

// maxSettles limits the number of times that changes of the list delay the move of partitions. So a member that joins
// and leaves all the time does not keep the others from their shares.
const maxSettles = 10

// retryPause is the time until a member tries again to get a partition. After a suspend, renewing the right to the
// session takes a hundredth of its timeout. Without a pause, the member would send requests all that time.
const retryPause = 100 * time.Millisecond

// releasePatience limits the time for which SharePartitions waits for the deletion of a node when it ends. After that,
// the deletion continues in the background.
const releasePatience = 2 * time.Second

// PartitionsConfig describes a group that shares out partitions.
type PartitionsConfig struct {
	Parent     string // of the group; the nodes are in its children members and partitions
	ID         string // of this member
	Partitions int    // 1 to MaxPartitions, the same at all members
	Data       []byte // of the member's node

	ACL []client.ACL // of all nodes; nil: everyone has every permission

	// Settle is the time for which the list of members must stay the same before partitions move. 0 means DefaultSettle.
	// If it is negative, partitions move at once.
	Settle time.Duration

	// Shares returns the owner of each partition. members is sorted. All members must use the same function, and its
	// result must depend on its arguments alone. If it is nil, the function Shares is used.
	Shares func(members []string, partitions int) []string
}

func (cfg *PartitionsConfig) applyDefaults() error {
	if cfg.Partitions < 1 || cfg.Partitions > MaxPartitions {
		return fmt.Errorf("group: %d partitions; there must be 1 to %d", cfg.Partitions, MaxPartitions)
	}
	cfg.Settle = cmp.Or(cfg.Settle, DefaultSettle)
	if cfg.Shares == nil {
		cfg.Shares = Shares
	}
	return nil
}

// Partition is a partition that this member owns. Its right ends when its node is deleted, or when the Client may no
// longer act on its session.
type Partition struct {
	*client.Right
	Number int // from 0
}

// SharePartitions joins a group, and calls work for each partition while this member owns it, in a goroutine of its
// own. It runs until ctx or the session ends, or until work returns before its context has ended.
//
// The context of work ends when the partition must move to another member, or when its right has ended. work must
// return soon after that, because the partition is released only then. If work returns earlier, the member leaves, as
// with client.Keep, and the others get its partitions. If work returns client.ErrNotHeld after its right has ended, that
// is no reason to leave, although the context may end a moment later. work may be called again with the same number after it has
// returned, with another Right.
//
// When SharePartitions returns, no work runs, and the member has left. The error is that of work, which may be nil,
// that of ctx, or the reason for which the session has ended.
func SharePartitions(ctx context.Context, c *client.Client, cfg PartitionsConfig,
	work func(ctx context.Context, p Partition) error,
) error {
	if err := cfg.applyDefaults(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	members := recipe.PathOf(cfg.Parent, "members")
	presence, err := joinGroup(ctx, c, members, cfg.ID, PresenceConfig{Data: cfg.Data, ACL: cfg.ACL})
	if err != nil {
		return err
	}
	lists := make(chan []Member)
	s := &partitionOwner{c: c, cfg: cfg, work: work, running: map[int]*tenure{}, ended: make(chan *tenure)}
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		for list, err := range Watch(ctx, c, members) {
			if err != nil {
				cancel(err)
				return
			}
			select {
			case lists <- list:
			case <-ctx.Done():
				return
			}
		}
	}()
	err = s.followMembers(ctx, lists)
	cancel(err)
	s.endTenures()
	<-watching
	leaveCtx, stop := context.WithTimeout(context.WithoutCancel(ctx), releasePatience)
	defer stop()
	_ = presence.Leave(leaveCtx) // if it fails, it continues in the background, or the session has ended
	if errors.Is(err, errWorkReturned) {
		return nil
	}
	return err
}

// errWorkReturned means that work has returned without an error before its context had ended.
var errWorkReturned = errors.New("group: work has returned")

// partitionOwner owns the partitions of one member. Only the goroutine of SharePartitions uses it.
type partitionOwner struct {
	c       *client.Client
	cfg     PartitionsConfig
	work    func(context.Context, Partition) error
	wanted  []bool          // by partition: this member must own it
	running map[int]*tenure // by partition
	ended   chan *tenure
}

// tenure is the time in which a member waits for a partition, owns it and releases it.
type tenure struct {
	number int
	cancel context.CancelFunc
	err    error // the reason of the end, or nil; read after the tenure was received from ended
}

// followMembers follows the lists of members until ctx ends or a tenure fails.
func (s *partitionOwner) followMembers(ctx context.Context, lists <-chan []Member) error {
	settled := time.NewTimer(0)
	settled.Stop()
	var ids []string
	changes := 0 // since partitions were last shared
	for {
		select {
		case list := <-lists:
			latest := make([]string, 0, len(list))
			for _, m := range list {
				latest = append(latest, m.ID)
			}
			if !slices.Equal(ids, latest) && changes < maxSettles {
				settled.Reset(max(s.cfg.Settle, 0))
				changes++
			}
			ids = latest
		case <-settled.C:
			changes = 0
			if err := s.assignPartitions(ctx, ids); err != nil {
				return err
			}
		case t := <-s.ended:
			delete(s.running, t.number)
			if t.err != nil {
				return t.err
			}
			if s.wanted[t.number] {
				s.startTenure(ctx, t.number)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// assignPartitions starts and ends tenures so that the member gets its share.
func (s *partitionOwner) assignPartitions(ctx context.Context, ids []string) error {
	owners := s.cfg.Shares(ids, s.cfg.Partitions)
	if len(ids) > 0 && len(owners) != s.cfg.Partitions {
		return fmt.Errorf("group: Shares returned %d owners of %d partitions", len(owners), s.cfg.Partitions)
	}
	s.wanted = make([]bool, s.cfg.Partitions)
	for number := range s.wanted {
		s.wanted[number] = len(owners) > 0 && owners[number] == s.cfg.ID
		t := s.running[number]
		switch {
		case s.wanted[number] && t == nil:
			s.startTenure(ctx, number)
		case !s.wanted[number] && t != nil:
			t.cancel()
		}
	}
	return nil
}

func (s *partitionOwner) startTenure(ctx context.Context, number int) {
	ctx, cancel := context.WithCancel(ctx)
	t := &tenure{number: number, cancel: cancel}
	s.running[number] = t
	go func() {
		defer cancel()
		t.err = s.runTenure(ctx, number)
		s.ended <- t
	}()
}

// endTenures ends all tenures and waits for them.
func (s *partitionOwner) endTenures() {
	for _, t := range s.running {
		t.cancel()
	}
	for len(s.running) > 0 {
		delete(s.running, (<-s.ended).number)
	}
}

// runTenure waits for a partition, calls work for it, and releases it. It returns when the right or ctx has ended. The
// error is that of work, or of the servers.
func (s *partitionOwner) runTenure(ctx context.Context, number int) error {
	right, err := s.acquirePartition(ctx, number)
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, lock.ErrRemoved), errors.Is(err, client.ErrNotHeld):
		// Another client has deleted the node, or the process was stopped for long: it is tried again.
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
		}
		return nil
	case err != nil:
		return fmt.Errorf("group: partition %d: %w", number, err)
	}
	workCtx, stop := right.Context(ctx)
	err = s.work(workCtx, Partition{Right: right, Number: number})
	if err == nil && workCtx.Err() == nil && right.Held() {
		err = errWorkReturned
	} else if hasEnded(workCtx, right, err) {
		err = nil
	}
	stop()
	s.releaseRight(ctx, right)
	return err
}

// hasEnded reports whether work has returned err because its context or its right has ended. After a pause of the
// process, the context ends later than the right.
func hasEnded(ctx context.Context, right *client.Right, err error) bool {
	if errors.Is(err, client.ErrNotHeld) && !right.Held() {
		return true
	}
	return ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
}

// acquirePartition waits until this member owns the partition. If ctx ends meanwhile, it releases the partition.
func (s *partitionOwner) acquirePartition(ctx context.Context, number int) (*client.Right, error) {
	parent := fmt.Sprintf("%s/%04d", recipe.PathOf(s.cfg.Parent, "partitions"), number)
	right, err := lock.NewMutex(s.c, parent, lock.Config{Data: []byte(s.cfg.ID), ACL: s.cfg.ACL}).Lock(ctx)
	if err == nil && ctx.Err() != nil {
		s.releaseRight(ctx, right)
	}
	return right, err
}

// releaseRight releases a right, whether or not ctx has ended. After releasePatience, the release continues in the
// background.
func (s *partitionOwner) releaseRight(ctx context.Context, right *client.Right) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), releasePatience)
	defer stop()
	_ = right.Release(ctx) // if it fails, it continues in the background, or the session has ended
}
