package schedules

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"rollcall/client"
	"rollcall/client/group"
	"rollcall/lab/checker"
)

// presenceRecipe has clients that join a group and leave it, and are its members in the end.
func presenceRecipe() recipe {
	path := folder("presence", 1)
	return recipe{
		name: "presence", subjects: []string{path}, rounds: 2, keeps: true,
		play: func(a *actor, final bool) {
			for began := time.Now(); !a.join(path, final) && final; {
				if time.Since(began) > checker.Bound || a.ctx.Err() != nil {
					a.recordSurprise("final round", errNoRight)
					return
				}
			}
		},
		finish: func(w *world) error { return w.listMembers(path) },
	}
}

// listMembers deletes the nodes of all members, waits until they are back, and records the members.
func (w *world) listMembers(path string) error {
	before, err := w.members(path)
	if err != nil {
		return err
	}
	for _, m := range before {
		if err := w.retryConnection(func() error { return w.operator.Delete(w.ctx, path+"/"+m.ID, client.AnyVersion) }); err != nil {
			return err
		}
	}
	for began := time.Now(); ; sleepFor(w.ctx, samplePause) {
		now, err := w.members(path)
		if err != nil {
			return err
		}
		if len(now) < len(before) && time.Since(began) < leaveTime {
			continue
		}
		for _, m := range now {
			number, _ := strconv.Atoi(strings.TrimPrefix(m.ID, "m"))
			w.recordEvent(event{Client: number, Kind: checker.Listed, Subject: path})
		}
		return nil
	}
}

// members returns the members of a group.
func (w *world) members(path string) (members []group.Member, err error) {
	err = w.retryConnection(func() error {
		members, err = group.Members(w.ctx, w.operator, path)
		return err
	})
	return members, err
}

// join joins a group, and leaves it unless the round is the final one.
func (a *actor) join(path string, final bool) bool {
	a.waitWhilePaused()
	c := a.liveClient()
	if c == nil {
		return false
	}
	ctx, cancel := a.waitContext(patience)
	defer cancel()
	id := fmt.Sprintf("m%d", a.number)
	p, err := group.Join(ctx, c, path, id, nil)
	if err != nil {
		if !a.isExpected(ctx, err) {
			a.recordSurprise("join", err)
		}
		return false
	}
	if final {
		a.recordEvent(event{Client: a.number, Kind: checker.Present, Subject: path})
		return true
	}
	a.workFor(5 * workPause)
	if err := p.Set(ctx, []byte("set")); err != nil && !a.isExpected(ctx, err) {
		a.recordSurprise("set", err)
	}
	if err := p.Leave(a.ctx); err != nil && !a.isExpected(a.ctx, err) {
		a.recordSurprise("leave", err)
	}
	return true
}

const (
	settleTime    = 200 * time.Millisecond
	partitionTime = 3 * time.Second // for which a client takes part in a round
)

// partitionRecipe has clients that share partitions. Each partition is a subject that one client may hold.
func partitionRecipe() recipe {
	path := folder("partitions", 1)
	var subjects []string
	for n := range partitions {
		subjects = append(subjects, partitionOf(path, n))
	}
	return recipe{
		name: "partitions", subjects: subjects, limit: 1, rounds: 2,
		play: func(a *actor, final bool) {
			if !final {
				a.share(path, partitionTime, nil)
				return
			}
			for began := time.Now(); !a.share(path, checker.Bound, a.shared); {
				if time.Since(began) > checker.Bound || a.ctx.Err() != nil {
					a.recordSurprise("final round", errNoRight)
					return
				}
			}
		},
	}
}

func partitionOf(path string, n int) string { return fmt.Sprintf("%s/%d", path, n) }

// share takes part in the group for a time. With done, it reports whether all partitions had an owner.
func (a *actor) share(path string, most time.Duration, done *claims) bool {
	a.waitWhilePaused()
	c := a.liveClient()
	if c == nil {
		return false
	}
	ctx, cancel := a.waitContext(most)
	defer cancel()
	if done != nil {
		go func() { // ends with ctx
			select {
			case <-done.all:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	session, _ := c.Session()
	cfg := group.PartitionsConfig{
		Parent: path, ID: fmt.Sprintf("m%d", a.number), Partitions: partitions, Settle: settleTime,
	}
	err := group.SharePartitions(ctx, c, cfg, func(work context.Context, p group.Partition) error {
		a.workOn(work, path, p, session)
		if done != nil {
			done.add(p.Number)
		}
		<-work.Done()
		return nil
	})
	if !a.isExpected(ctx, err) && !errors.Is(err, context.Canceled) {
		a.recordSurprise("share", err)
	}
	return done == nil || done.isFull()
}

// workOn works with a partition. Several goroutines of a client do that.
func (a *actor) workOn(ctx context.Context, path string, p group.Partition, session client.SessionID) {
	got, _ := oneSubject(partitionOf(path, p.Number), true, p.Right, nil)
	grants := a.recordGrants(got, session)
	for range 2 {
		a.guardWrite(ctx, got, grants)
		sleepFor(ctx, workPause)
		a.waitWhilePaused()
	}
}
