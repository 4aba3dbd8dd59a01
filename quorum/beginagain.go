package quorum

import (
	"errors"
	"fmt"

	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// An ensemble that is only beginning may lose the disk of its founder, and then no leader can ever be elected. The other
// disks are renewed then, and the members begin again. No acknowledged write is lost:
//
//   - Only a disk without a transaction is renewed, so every copy of every transaction stays where it is.
//   - A new ensemble begins only when no member has data: see foundingBlocker.
//
// A transaction that was acknowledged is on a second disk, because no ensemble serves before most voters of its lines
// vote. So if one disk is lost, another member replies that it has the transaction, and no disk is renewed. If this member's
// lines have one voter, the lost disk may have been the only copy, and an operator must decide. That guard reads this
// member's own lines, which may differ from the founder's.

// errDiskSpent ends a member whose disk is to be renewed. It wraps wire.ErrRestart.
var errDiskSpent = fmt.Errorf("%w: the founder's disk was lost before the ensemble served, and the members begin again",
	wire.ErrRestart)

// beginAgain returns an error that restarts this member if its ensemble must begin again. Otherwise, if the ensemble is only
// beginning and its founder is lost, missing describes the members that must reply first.
func (b *bootstrap) beginAgain(r helloRound, lost []wire.Peer) (missing []string, err error) {
	switch {
	case !b.disk.HasData():
		return nil, b.restartIfNobodyHasData(r)
	case !b.onlyFounderLost(r, lost):
		return nil, nil
	}
	if missing = b.membersToAwait(r); len(missing) == 0 {
		return nil, errDiskSpent
	}
	return missing, nil
}

// onlyFounderLost reports whether one lost disk blocks every election, and no member that has replied has a transaction.
func (b *bootstrap) onlyFounderLost(r helloRound, lost []wire.Peer) bool {
	if len(lost) != 1 || len(wire.VoterIDs(b.serverList.wantedServers())) < 2 {
		return false
	}
	for _, a := range r.replies {
		if a.GetHasData() && !a.GetOnlyBeginning() {
			return false
		}
	}
	return !b.disk.HasTransaction()
}

// membersToAwait returns the members without which this disk must not be renewed. A voter waits until the other disks have no
// data. So the founder's disk remains the only voter that is lost until all are renewed.
func (b *bootstrap) membersToAwait(r helloRound) (missing []string) {
	votes := b.status.isVoter()
	for _, p := range b.addressBook.OnePerMember() {
		a, ok := r.replies[p.ID]
		switch {
		case p.ID == b.status.selfPeer().ID:
		case !ok:
			missing = append(missing, fmt.Sprintf("member %d (%s): %v", p.ID, p.Addr, r.failures[p.ID]))
		case a.GetRival() != "":
			missing = append(missing, "the end of one of two processes: "+a.GetRival())
		case votes && a.GetHasData():
			missing = append(missing, fmt.Sprintf("member %d (%s), which empties its disk first", p.ID, p.Addr))
		}
	}
	return missing
}

// restartIfNobodyHasData returns an error that restarts this member, which joins an ensemble and has no data yet, if there
// is nothing to join: the ensemble was founded again, or all others have replied that they have no data.
func (b *bootstrap) restartIfNobodyHasData(r helloRound) error {
	var foundedAgain, silent bool
	for _, err := range r.failures {
		other := errors.Is(err, wire.ErrOtherEnsemble)
		foundedAgain, silent = foundedAgain || other, silent || !other
	}
	for _, a := range r.replies {
		if a.GetHasData() {
			return nil
		}
	}
	if foundedAgain || !silent && len(r.replies) > 0 {
		return fmt.Errorf("%w: no member has data of the ensemble that this one was about to join", wire.ErrRestart)
	}
	return nil
}

// renewDiskIfSpent renews the disk of a member that has ended with errDiskSpent. raft may have stored more before it
// stopped: then the disk stays as it is, and the restart changes nothing.
func renewDiskIfSpent(d *disk.Data, ended error) error {
	if !errors.Is(ended, errDiskSpent) {
		return nil
	}
	return d.Renew()
}
