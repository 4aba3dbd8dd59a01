package quorum

import (
	"strings"

	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// lostVotersBlockingElection returns the voters whose disks are known to be lost, if no leader can be elected
// without their votes: one of two voters, two of three. Otherwise it returns none.
//
// A member that still reads its data has no configuration to show, and may have the newest one: the disks that an older
// one names may have been replaced since, and none of them be missing. So nothing is known until it has read them.
func (b *bootstrap) lostVotersBlockingElection(r helloRound) (lost []wire.Peer) {
	for _, a := range r.replies {
		if a.GetHasData() && len(a.GetConfiguration().GetServers()) == 0 {
			return nil
		}
	}
	voters := 0
	for _, s := range b.newestConfiguration(r) {
		if s.Observer {
			continue
		}
		voters++
		now := disk.ID(r.replies[s.ID].GetDisk())
		if s.ID == b.status.selfPeer().ID {
			now = b.status.selfPeer().DiskID
		}
		if now != 0 && now != s.DiskID {
			lost = append(lost, s)
		}
	}
	if voters-len(lost) > voters/2 {
		return nil
	}
	return lost
}

// newestConfiguration returns raft's servers according to the member with the longest log, among this one and
// those that have replied. A shorter log may have disks that were replaced since.
func (b *bootstrap) newestConfiguration(r helloRound) (servers []wire.Peer) {
	var longest disk.DataEnd
	if servers = b.status.Servers(); len(servers) > 0 {
		longest = disk.DataEnd{Index: b.status.LastIndex(), Term: b.status.LastTerm()}
	}
	for _, a := range r.replies {
		end := disk.DataEnd{Index: a.GetLastIndex(), Term: a.GetLastTerm()}
		if all := a.GetConfiguration().GetServers(); len(all) > 0 && longest.Before(end) {
			longest, servers = end, nil
			for _, s := range all {
				servers = append(servers, wire.Peer{
					ID: s.GetMember(), DiskID: disk.ID(s.GetDisk()), Addr: s.GetAddress(),
					Observer: !s.GetVoter(),
				})
			}
		}
	}
	return servers
}

// lostMajority describes voters whose loss only an operator can mend.
const lostMajority = "too many voters have lost their disks, and no leader can be elected without their votes; stop all " +
	"members, and run rollcall recover on the one with the most data"

// founderLost describes the loss of the founder's disk before anybody was served.
const founderLost = "the ensemble's founder has lost its disk, and no client was served; the members begin again once all reply"

// reportLostMajority reports in Status.WaitingFor, and logs once, why no leader can be elected after the
// round r. lost are the voters that are lost now, and before those of the last round. missing is the result of
// beginAgain.
func (b *bootstrap) reportLostMajority(r helloRound, lost, before []wire.Peer, missing []string) {
	message, condition := lostMajority, "an operator: "+lostMajority
	switch {
	case len(lost) == 0:
		b.status.setWaitingFor(b.silentVoters(r))
		return
	case len(missing) > 0:
		message, condition = founderLost, strings.Join(missing, "; ")+"; "+founderLost
	}
	b.status.setWaitingFor(condition)
	if len(before) == 0 {
		b.logger.Error(message, "lost", wire.CanonicalLines(lost), "missing", missing)
	}
}
