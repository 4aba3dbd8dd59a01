package member

import (
	"fmt"
	"slices"
	"time"
)

// silentVoterTime is the time after which a voter that the leader does not hear is named as a problem. A restart takes less. The alert
// RollcallMemberSilent waits longer, because it wakes somebody.
const silentVoterTime = time.Minute

// silentVoters returns a sentence for each voter that the leader has not heard for silentVoterTime: such a voter still counts for the
// majority. It returns none while this member has no contact with a leader.
func (s source) silentVoters() (all []string) {
	voters := s.m.node.Status().VoterIDs()
	for _, silent := range s.m.follower.SilentMembers(silentVoterTime) {
		if slices.Contains(voters, silent.ID) {
			all = append(all, fmt.Sprintf("the leader has not heard voter %d for %v: start it, or if it is gone for good, run rollcall members "+
				"remove %[1]d", silent.ID, silent.Silent.Truncate(time.Second)))
		}
	}
	return all
}
