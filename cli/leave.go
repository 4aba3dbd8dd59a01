package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"rollcall/operator/api"
)

// leaveTimeout limits the removal of a member whose pod is to go, within the time that Kubernetes gives a pod to stop.
const leaveTimeout = 25 * time.Second

// leaveIfToGo removes the member of this pod from the ensemble if its StatefulSet is to have fewer pods. It also removes silent members of
// pods with higher numbers: such a pod was deleted by force before. Nothing but the StatefulSet says that a pod is to go, so without the
// API server's reply the member stays, as in any other restart.
func (k *membersCommand) leaveIfToGo(ctx context.Context, accountDir string) error {
	place, err := fetchPodPlace(ctx, accountDir, k.streams.Getenv)
	switch {
	case err != nil:
		return fmt.Errorf("the member stays in the ensemble, because it is not known whether its pod is to go: %w", err)
	case !place.isToGo():
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	id := uint32(place.ordinal + 1)
	me, err := fetchOwnID(ctx, k)
	if err != nil {
		return fmt.Errorf("the pod is to go, and its member is still in the ensemble: %w", err)
	}
	if me != id {
		return fmt.Errorf("the pod is to go, and its member stays in the ensemble: it has the number %d, and not %d, as its pod's name says",
			me, id)
	}
	if err := k.leave(ctx, id, place); err != nil {
		return fmt.Errorf("the pod is to go, and its member is still in the ensemble: %w; remove it with rollcall members remove %d", err, id)
	}
	return nil
}

// fetchOwnID returns the number of the member that replies.
func fetchOwnID(ctx context.Context, k *membersCommand) (uint32, error) {
	me, err := askEnsemble(ctx, k.ensemble, func(c *api.Client) (api.Caller, error) { return api.Get[api.Caller](ctx, c, "whoami", nil) })
	return me.MemberID, err
}

// leaveRetryPause is the time between two requests for a removal when the list has changed meanwhile: an observer gets the member's vote
// first, and Kubernetes stops all pods that are too many at the same time.
const leaveRetryPause = 500 * time.Millisecond

// leave removes a member by its own request, so that it may come in again when the StatefulSet has its pod again. It waits until raft's
// configuration does not have the member. That is committed then, so the process may stop.
func (k *membersCommand) leave(ctx context.Context, id uint32, place podPlace) error {
	err := k.requestLeave(ctx, id, place)
	for (StatusOf(err) == Conflict || StatusOf(err) == Unavailable) && sleepContext(ctx, leaveRetryPause) == nil {
		err = k.requestLeave(ctx, id, place)
	}
	switch {
	case StatusOf(err) == OutcomeUnknown: // the others send nothing to a member that was removed, so it may never see its own removal
		k.changed = true
	case err != nil:
		return err
	}
	_, err = k.pollMembersUntil(ctx, id, fmt.Sprintf("the ensemble is still removing member %d", id), func(m api.Members) bool {
		s, listed := findServer(m, id)
		return !listed && (s.MemberID == 0 || s.State == api.StateRemoved)
	})
	return err
}

// requestLeave requests the removal of a member, and of silent ones whose pods are to go too, unless the list does not have it.
func (k *membersCommand) requestLeave(ctx context.Context, id uint32, place podPlace) error {
	m, err := k.fetchMembers(ctx)
	if isRemovedServer(m, id) {
		return nil
	}
	if _, listed := findServer(m, id); err != nil || !listed {
		return err
	}
	gone := []string{fmt.Sprint(id)}
	voters, serving := 0, 0 // that stay
	for _, s := range m.Items {
		_, listed := findServer(m, s.MemberID)
		switch {
		case !listed, s.MemberID == id:
		case s.State == api.StateSilent && !place.isKept(s.MemberID) && !isBusy(m, s.MemberID):
			gone = append(gone, fmt.Sprint(s.MemberID))
		case s.Role == "participant":
			if voters++; s.State == api.StateLeader || s.State == api.StateFollower {
				serving++
			}
		}
	}
	k.force = voters == 1 && serving == 1 // one is left on purpose, and it has all that was acknowledged
	return k.requestChange(ctx, m, api.MembersChange{Leaving: strings.Join(gone, ","), BySelf: true})
}

// isBusy reports whether a member that is silent has replied that it is busy.
func isBusy(m api.Members, id uint32) bool {
	return slices.ContainsFunc(m.Silent, func(s api.Silence) bool { return s.MemberID == id && s.Reason == api.SilentBusy })
}
