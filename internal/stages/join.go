package stages

import (
	"cmp"
	"slices"
	"time"
)

// Kind is a kind of stages.
type Kind uint8

// The kinds of stages, in the order in which a request passes them.
const (
	StageRoom      Kind = iota + 1 // it waited for room among the writes of its member
	StageForward                   // it waited to be sent to the leader
	StageLink                      // it was on its way to the leader
	StageEntry                     // it waited at the leader for an entry
	StageLeader                    // the leader's log took the entry
	StageReplicate                 // the entry was on its way to a follower
	StageDisk                      // a member's disk wrote the entry
	StageAck                       // a follower's confirmation was on its way to the leader
	StageNotice                    // the report of the commit was on its way to the member
	StageBefore                    // earlier entries were applied
	StageLock                      // readers held the state
	StageApply                     // the entry was applied, up to the request's own write
	StageFresh                     // a read waited for an entry that another member may have applied
	StageProof                     // the leader proved that it leads, and the member followed it
	StageReply                     // earlier requests of the connection were answered
	StageTaken                     // the client took the reply
	StageUnknown                   // the records of the leader are missing
	StagePaused                    // a process did not run
	StageNoLeader                  // the member knew no leader
	StageNoReply                   // the connection ended before the request had a result
	NumStages
)

// names are the names of stages in the API and in metrics.
var names = [NumStages]string{
	StageRoom: "room", StageForward: "forward", StageLink: "link", StageEntry: "entry", StageLeader: "leader",
	StageReplicate: "replicate", StageDisk: "disk", StageAck: "ack", StageNotice: "notice", StageBefore: "before",
	StageLock: "lock", StageApply: "apply", StageFresh: "fresh", StageProof: "proof", StageReply: "reply",
	StageTaken: "taken", StageUnknown: "unknown", StagePaused: "paused", StageNoLeader: "no_leader",
	StageNoReply: "no_reply",
}

// String returns the stage's name in the API and in metrics.
func (k Kind) String() string {
	if k >= NumStages {
		return ""
	}
	return names[k]
}

// Stage is a part of a request's time. The stages of a request follow one another, and their sum is its total.
type Stage struct {
	Kind   Kind
	Member uint32 // where the time went; of a way between members, the one that it began at; 0: unknown
	To     uint32 // of a way between members, the one that it led to; otherwise 0
	Took   time.Duration
	Entry  uint64        // of StageBefore and StageEntry: the earlier entry that was applied for longest; 0: none was
	Of     time.Duration // the time that this entry took
}

// Peer holds the records of one member, and its clock.
type Peer struct {
	Records
	// Ahead is the difference of the member's clock: it shows Ahead more than the one of the member that joins. Error is
	// the greatest error of that.
	Ahead Time
	Error Time
}

// PeerOf returns the records of a member whose reply came between two times of the caller's clock.
func PeerOf(records Records, sent, received Time) Peer {
	return Peer{records, records.Clock - (sent+received)/2, (received - sent) / 2}
}

// Ensemble describes the members for a join.
type Ensemble struct {
	Self   uint32 // the member that the request came to
	Voters []uint32
}

// maxWordVoters is the number of voters up to which a voter's own copy and the leader's are a majority, so that it
// commits by the leader's word. It is the constant of that name in package wire.
const maxWordVoters = 3

// joinLocal returns the stages of a request that no other member took part in, as far as its own member knows them.
func joinLocal(q *Request) []Stage {
	j := joiner{request: q, last: q.Received}
	j.addBeginning()
	j.addEnd()
	return j.stages
}

// Join returns the stages of a request with the records of all members, by member. The error bounds the mistake of a
// stage that lies between two members.
func Join(q *Request, in Ensemble, peers map[uint32]Peer) (stages []Stage, clockError time.Duration) {
	j := joiner{request: q, in: in, peers: peers, last: q.Received}
	j.findEntry()
	j.addBeginning()
	if q.Index != 0 {
		j.addEntry()
	}
	j.addEnd()
	if j.leader != 0 {
		clockError = time.Duration(j.peers[j.leader].Error)
	}
	return j.stages, clockError
}

// joiner divides the time of one request. All its times are of the clock of the request's member.
type joiner struct {
	request *Request
	in      Ensemble
	peers   map[uint32]Peer

	entries map[uint32]Entry // of the request's entry, by member
	leader  uint32           // that made the entry; 0: unknown
	last    Time             // the end of the last stage
	stages  []Stage
}

func (j *joiner) findEntry() {
	j.entries = map[uint32]Entry{}
	for member, peer := range j.peers {
		for _, e := range peer.Entries {
			if e.Index == j.request.Index {
				j.entries[member] = e
				if e.Sealed != 0 {
					j.leader = member
				}
			}
		}
	}
}

// timeAt returns a time of a member by the clock of the request's member, or zero.
func (j *joiner) timeAt(member uint32, t Time) Time {
	if t == 0 {
		return 0
	}
	return t - j.peers[member].Ahead
}

// addStage adds a stage that lasts until end. What came before the last stage's end or after the request's is cut off, because
// clocks may differ by a little.
func (j *joiner) addStage(s Stage, end Time) {
	if end = min(end, j.request.endTime()); end <= j.last {
		return
	}
	from := j.last
	j.last = end
	for _, c := range j.causesWithin(s, from, end) {
		j.appendStage(s, c.From-from)
		j.appendStage(Stage{Kind: c.kind, Member: c.member}, c.To-c.From)
		from = c.To
	}
	j.appendStage(s, end-from)
}

func (j *joiner) appendStage(s Stage, took Time) {
	if took <= 0 {
		return
	}
	s.Took = time.Duration(took)
	if n := len(j.stages); n > 0 && j.stages[n-1].Kind == s.Kind && j.stages[n-1].Member == s.Member && j.stages[n-1].To == s.To {
		j.stages[n-1].Took += s.Took
		return
	}
	j.stages = append(j.stages, s)
}

// placedCause is a cause on a member, by the clock of the request's member.
type placedCause struct {
	kind     Kind
	member   uint32
	From, To Time
}

// needLeader are the stages that cannot end while the request's member knows no leader.
var needLeader = []Kind{StageForward, StageLink, StageNotice, StageProof, StageUnknown, StageNoReply}

// waitsForLeader reports whether a stage of a length cannot end while the request's member knows no leader. A member that
// made the entry as leader learns only by the next term that it is committed: until then it counts no confirmations, and
// applies nothing more. What an earlier entry took is not explained by that.
func (j *joiner) waitsForLeader(s Stage, took Time) bool {
	if j.leader == j.in.Self && j.leader != 0 {
		return slices.Contains(needLeader, s.Kind) || s.Kind == StageAck || s.Kind == StageBefore && 2*Time(s.Of) < took
	}
	return slices.Contains(needLeader, s.Kind)
}

// causesWithin returns the pauses and the times without a leader that explain a part of a stage, without overlaps. A pause
// explains what its member should have done, and what was on its way to it. Time without a leader explains only that a
// write was not sent, that its commit was not reported, or that it was not answered.
func (j *joiner) causesWithin(s Stage, from, to Time) (found []placedCause) {
	var all []placedCause
	for _, member := range []uint32{s.Member, s.To} {
		for _, c := range j.peers[member].Causes {
			one := placedCause{StagePaused, member, j.timeAt(member, c.From), j.timeAt(member, c.To)}
			switch {
			case member == 0:
				continue
			case c.Kind == NoLeader && member == j.in.Self && j.waitsForLeader(s, to-from):
				one.kind = StageNoLeader
			case c.Kind != Paused:
				continue
			}
			if c.To == 0 {
				one.To = to
			}
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b placedCause) int { return int(a.From - b.From) })
	for _, c := range all {
		if c.From, c.To = max(c.From, from), min(c.To, to); c.From < c.To {
			found = append(found, c)
			from = c.To
		}
	}
	return found
}

// addBeginning adds the stages before the leader has the request.
func (j *joiner) addBeginning() {
	q := j.request
	j.addStage(Stage{Kind: StageFresh, Member: j.in.Self}, q.Ready)
	j.addStage(Stage{Kind: StageRoom, Member: j.in.Self}, q.Room)
	j.addStage(Stage{Kind: StageForward, Member: j.in.Self}, q.Sent)
}

// addEnd adds the stages after the member has the result.
func (j *joiner) addEnd() {
	q, kind := j.request, StageProof
	if q.Index != 0 {
		kind = StageUnknown
	}
	j.addStage(Stage{Kind: kind, Member: j.in.Self}, q.Result)
	end := Stage{Kind: StageReply, Member: j.in.Self}
	if q.Lost && q.Result == 0 {
		end.Kind = StageNoReply
	}
	j.addStage(end, q.Queued)
	j.addStage(Stage{Kind: StageTaken, Member: j.in.Self}, q.Taken)
}

// addEntry adds the stages of the request's entry.
func (j *joiner) addEntry() {
	own := j.entries[j.in.Self]
	if j.leader != 0 {
		j.addAtLeader()
		if j.leader == j.in.Self {
			j.addLeaderCommit()
		} else {
			j.addFollowerCommit(own)
		}
	} else {
		j.addStage(Stage{Kind: StageUnknown}, own.Received)
		j.addStage(Stage{Kind: StageDisk, Member: j.in.Self}, own.Durable)
		j.addStage(Stage{Kind: StageUnknown}, own.Committed)
	}
	j.addWithEarlier(Stage{Kind: StageBefore, Member: j.in.Self}, own.ApplyBegun)
	j.addStage(Stage{Kind: StageLock, Member: j.in.Self}, own.Locked)
	j.addStage(Stage{Kind: StageApply, Member: j.in.Self}, j.request.Result)
}

// minEarlier is the least time for which an earlier entry is named.
const minEarlier = time.Millisecond

// addWithEarlier is addStage for a stage that waits until a member has applied earlier entries. It names the entry whose
// applying took most of that time, if that was minEarlier at least.
func (j *joiner) addWithEarlier(s Stage, end Time) {
	for _, e := range j.peers[s.Member].Entries {
		if e.Index >= j.request.Index || e.ApplyBegun == 0 || e.Applied == 0 {
			continue
		}
		from, to := max(j.timeAt(s.Member, e.ApplyBegun), j.last), min(j.timeAt(s.Member, e.Applied), end)
		if took := time.Duration(to - from); took >= minEarlier && took > s.Of {
			s.Entry, s.Of = e.Index, took
		}
	}
	j.addStage(s, end)
}

// addAtLeader adds the way to the leader, and the time until the entry was in its log.
func (j *joiner) addAtLeader() {
	e := j.entries[j.leader]
	sealed := j.timeAt(j.leader, e.Sealed)
	if waited, ok := findDelay(&e.Arrivals, j.in.Self); ok {
		j.addStage(Stage{Kind: StageLink, Member: j.in.Self, To: j.leader}, sealed-waited)
	}
	j.addWithEarlier(Stage{Kind: StageEntry, Member: j.leader}, sealed)
	j.addStage(Stage{Kind: StageLeader, Member: j.leader}, j.timeAt(j.leader, e.Received))
}

// addLeaderCommit adds the time until the request's member, which made the entry as leader, could count the copies of a majority.
// If it lost the confirmations, because it did not lead any more, it learned of the commit later.
func (j *joiner) addLeaderCommit() {
	if j.addMajority() {
		return
	}
	own := j.entries[j.leader]
	if follower := j.lastNeededCopy(); follower != 0 {
		j.addCopy(follower)
		j.addStage(Stage{Kind: StageAck, Member: follower, To: j.leader}, cmp.Or(own.Committed, own.ApplyBegun))
		return
	}
	j.addStage(Stage{Kind: StageDisk, Member: j.leader}, j.timeAt(j.leader, own.Durable))
}

// addFollowerCommit adds the time until the request's member, which does not lead, knew that the entry was committed: by its own
// copy and the leader's word, if both were there in time, or by the leader's count of copies.
func (j *joiner) addFollowerCommit(own Entry) {
	durable := j.timeAt(j.leader, j.entries[j.leader].Durable)
	hasWord := len(j.in.Voters) <= maxWordVoters && slices.Contains(j.in.Voters, j.in.Self) && durable != 0
	switch {
	case hasWord && own.Durable >= durable && own.Durable <= own.Committed:
		j.addCopy(j.in.Self)
	case hasWord && own.Durable != 0 && own.Durable < durable && !j.majorityBefore(durable):
		j.addStage(Stage{Kind: StageDisk, Member: j.leader}, durable)
	default:
		j.addMajority()
	}
	j.addStage(Stage{Kind: StageNotice, Member: j.leader, To: j.in.Self}, own.Committed)
}

// addMajority adds the time until the leader knew of the copies of a majority: the last one that it needed was on its own disk, or
// a follower's. It reports whether it knew of so many.
func (j *joiner) addMajority() bool {
	member, at := j.lastNeededAck()
	switch member {
	case 0:
		return false
	case j.leader:
		j.addStage(Stage{Kind: StageDisk, Member: j.leader}, at)
	default:
		j.addCopy(member)
		j.addStage(Stage{Kind: StageAck, Member: member, To: j.leader}, at)
	}
	return true
}

// majorityBefore reports whether the leader knew of the copies of a majority before a time.
func (j *joiner) majorityBefore(t Time) bool {
	member, at := j.lastNeededAck()
	return member != 0 && at < t
}

// addCopy adds the time until a follower had the entry on its disk.
func (j *joiner) addCopy(follower uint32) {
	e := j.entries[follower]
	j.addStage(Stage{Kind: StageReplicate, Member: j.leader, To: follower}, j.timeAt(follower, e.Received))
	j.addStage(Stage{Kind: StageDisk, Member: follower}, j.timeAt(follower, e.Durable))
}

// lastNeededCopy returns the follower whose copy made a majority, with the leader's own, or 0.
func (j *joiner) lastNeededCopy() uint32 {
	var copies []uint32
	for _, voter := range j.in.Voters {
		if voter != j.leader && j.entries[voter].Durable != 0 {
			copies = append(copies, voter)
		}
	}
	needed := len(j.in.Voters) / 2
	if needed == 0 || len(copies) < needed {
		return 0
	}
	slices.SortFunc(copies, func(a, b uint32) int {
		return cmp.Compare(j.timeAt(a, j.entries[a].Durable), j.timeAt(b, j.entries[b].Durable))
	})
	return copies[needed-1]
}

// lastNeededAck returns the voter whose copy made a majority, as the leader knew of it: by its own disk, or by a confirmation. It
// returns zeros if the leader did not know of so many.
func (j *joiner) lastNeededAck() (member uint32, at Time) {
	e := j.entries[j.leader]
	type ack struct {
		member uint32
		at     Time
	}
	var acks []ack
	if e.Durable != 0 && slices.Contains(j.in.Voters, j.leader) {
		acks = append(acks, ack{j.leader, j.timeAt(j.leader, e.Durable)})
	}
	for _, one := range e.Acks {
		if one.Member != 0 && slices.Contains(j.in.Voters, one.Member) {
			acks = append(acks, ack{one.Member, j.timeAt(j.leader, e.Received+Time(one.Micros)*1000)})
		}
	}
	needed := len(j.in.Voters)/2 + 1
	if len(acks) < needed {
		return 0, 0
	}
	slices.SortStableFunc(acks, func(a, b ack) int { return int(a.at - b.at) })
	return acks[needed-1].member, acks[needed-1].at
}

// MemberCause is a cause on a member that overlaps a request, or explains why it was read late.
type MemberCause struct {
	Kind   CauseKind
	Member uint32
	Took   time.Duration // of the request's time; of PausedBefore, the whole pause
}

// backlogTime is the time after a pause in which a member reads what has come meanwhile.
const backlogTime = 100 * time.Millisecond

// isBefore reports whether c is a pause of the member of q that ended just before the member read q: q may have waited in
// its socket for as long.
func (c *Cause) isBefore(q *Request) bool {
	return c.Kind == Paused && c.To != 0 && c.To <= q.Received && q.Received-c.To <= Time(backlogTime)
}

// causesOf returns the causes that overlap a request of member self, or came just before it, by member.
func causesOf(q *Request, self uint32, peers map[uint32]Peer) (found []MemberCause) {
	for member, peer := range peers {
		for _, c := range peer.Causes {
			if member == self && c.isBefore(q) {
				found = append(found, MemberCause{PausedBefore, member, time.Duration(c.To - c.From)})
			}
			to := c.To - peer.Ahead
			if c.To == 0 {
				to = q.endTime()
			}
			if took := min(to, q.endTime()) - max(c.From-peer.Ahead, q.Received); took > 0 {
				found = append(found, MemberCause{c.Kind, member, time.Duration(took)})
			}
		}
	}
	slices.SortFunc(found, func(a, b MemberCause) int {
		return cmp.Or(cmp.Compare(b.Took, a.Took), cmp.Compare(a.Member, b.Member))
	})
	found = keepLongestSyncs(found)
	return found[:min(len(found), maxRequestCauses)]
}

const (
	// maxRequestCauses limits the causes that are kept with a request: the longest ones.
	maxRequestCauses = 16
	// maxRequestSyncs limits those of kind SlowSync among them. A long request meets dozens of them if the threshold is low
	// or the disk is bad, and they would displace a pause.
	maxRequestSyncs = 4
)

// keepLongestSyncs removes the causes of kind SlowSync after the first maxRequestSyncs.
func keepLongestSyncs(causes []MemberCause) (kept []MemberCause) {
	syncs := 0
	for _, c := range causes {
		if c.Kind == SlowSync {
			syncs++
		}
		if c.Kind != SlowSync || syncs <= maxRequestSyncs {
			kept = append(kept, c)
		}
	}
	return kept
}
