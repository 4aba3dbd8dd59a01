package wire

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
)

// A follower whose clients wait for their writes learns of a commit directly from the other voters, half a round trip before the leader can
// tell it. The leader says how far its own disk has the entries, and names voters; these tell the follower when they have acknowledged the
// entries. The rule:
//
//   - A follower commits an entry once it has accepted it, the leader's word says that the leader's disk has it, and the voters that the
//     word names have told it directly, in the leader's term, that theirs have it: so many that all of these are a majority, and each that
//     may have a lease for reads.
//   - It applies the entry once its own disk has it.
//
// The argument: these are copies of a majority of the leader's latest configuration, which is committed, and the last entry is of the
// leader's term. That is raft's own condition for a commit, and the follower counts what raft's leader counts: copies that servers have
// acknowledged in the term. A later leader is elected by a server that had the entry when it voted. All voters that may have a lease when
// the word is given hold the entry, so the leader might release it (package readlease); a lease that is granted later names an end of the
// log at or after it. The models in integration/leasemodel and integration/model find a fault without each condition.
//
// A direct message has the term and the index of its sender's last entry, which is of that term. By raft's log matching that says which
// entries the sender has. If no direct message comes, the follower hears of the commit by the leader's notice, as without the rule.

// maxDirectVoters limits the voters of an ensemble whose members tell each other of their copies. With as many, a write at a follower costs
// 13 messages more.
const maxDirectVoters = 15

// directPart precedes a frame to a follower. It is the leader's word to it that needs direct messages, and names those to whom the follower
// is to send some.
type directPart struct {
	index  uint64          // the leader's disk has the entries of the request, and before, up to here; 0: there is no word
	copies int             // so many of voters must have told the follower
	voters []directVoter   // those that count
	tell   []raft.ServerID // the follower tells these when it acknowledges the entries of the request
}

// directVoter is a voter that may tell a follower of its copies.
type directVoter struct {
	server raft.ServerID
	holds  bool // it must have told the follower, because it may have a lease for reads
}

// limit returns the last index that a follower commits by the word, by what each server has told it in the leader's term.
func (d *directPart) limit(told func(raft.ServerID) uint64) uint64 {
	index := d.index
	have := make([]uint64, 0, maxDirectVoters)
	for _, v := range d.voters {
		has := told(v.server)
		have = append(have, has)
		if v.holds {
			index = min(index, has)
		}
	}
	if d.copies > 0 {
		slices.Sort(have)
		index = min(index, have[len(have)-d.copies])
	}
	return index
}

// withoutTell returns the direct part of a notice: the follower acknowledges no entries of it.
func (d *directPart) withoutTell() *directPart {
	if d != nil {
		d.tell = nil
	}
	return d
}

// A direct part is frameDirect (1), the index (8), the number of copies (1), of voters (1) and of those to tell (1), the voters, and those
// to tell. A voter is 1 if it must have told or 0 (1), and its server. A server is its member (1) and its disk (8). A direct message is
// frameCopy (1), the term (8) and the index (8). It has no reply.
const (
	directHeadSize   = 8 + 1 + 1 + 1
	directServerSize = 1 + 8
	directVoterSize  = 1 + directServerSize
	maxDirectSize    = directHeadSize + maxDirectVoters*(directVoterSize+directServerSize)
	copySize         = 8 + 8
)

func appendDirect(b []byte, d *directPart) []byte {
	if d == nil {
		return b
	}
	b = binary.BigEndian.AppendUint64(append(b, frameDirect), d.index)
	b = append(b, byte(d.copies), byte(len(d.voters)), byte(len(d.tell)))
	for _, v := range d.voters {
		b = appendServer(append(b, boolByte(v.holds)), v.server)
	}
	for _, server := range d.tell {
		b = appendServer(b, server)
	}
	return b
}

func appendServer(b []byte, server raft.ServerID) []byte {
	id, of, _ := parseServerID(server)
	return binary.BigEndian.AppendUint64(append(b, byte(id)), uint64(of))
}

// readDirect reads a direct part without its kind.
func (m *messageReader) readDirect() (*directPart, error) {
	if err := m.readBytes(directHeadSize); err != nil {
		return nil, err
	}
	head := m.buffer[len(m.buffer)-directHeadSize:]
	index, copies, voters, tell := binary.BigEndian.Uint64(head), int(head[8]), int(head[9]), int(head[10])
	if voters > maxDirectVoters || tell > maxDirectVoters || copies > voters {
		return nil, fmt.Errorf("%w: %d copies of %d voters, and %d to tell: must be at most %d of each, and no more copies than voters",
			errNotRaftRequest, copies, voters, tell, maxDirectVoters)
	}
	size := voters*directVoterSize + tell*directServerSize
	if err := m.readBytes(int64(size)); err != nil {
		return nil, err
	}
	b := m.buffer[len(m.buffer)-size:]
	d := &directPart{index: index, copies: copies}
	for range voters {
		d.voters = append(d.voters, directVoter{parseServer(b[1:]), b[0] != 0})
		b = b[directVoterSize:]
	}
	for range tell {
		d.tell = append(d.tell, parseServer(b))
		b = b[directServerSize:]
	}
	return d, nil
}

func parseServer(b []byte) raft.ServerID {
	return Peer{ID: uint32(b[0]), DiskID: disk.ID(binary.BigEndian.Uint64(b[1:]))}.ServerID()
}

// checkDirect checks the word in a direct part against its request.
func checkDirect(req *raft.AppendEntriesRequest, d *directPart) error {
	if last := continueAfter(req); d != nil && d.index != 0 && (d.index > last.PrevLogEntry || last.PrevLogTerm != req.Term) {
		return fmt.Errorf("%w: a word of %d: must be at most the last entry, %d, which must be of the request's term, %d, and is of %d",
			errNotRaftRequest, d.index, last.PrevLogEntry, req.Term, last.PrevLogTerm)
	}
	return nil
}

// directEarlyCommits gives a leader's words that need direct messages.
type directEarlyCommits struct{ cfg *Config }

// to returns the direct part for a request to a server, or nil if there is none: no member's clients wait, or nobody is to hear directly.
// The conditions of a word are those of earlyCommitTo, but for the number of voters.
func (w directEarlyCommits) to(id raft.ServerID, req *raft.AppendEntriesRequest) *directPart {
	r, last := w.cfg.Raft(), continueAfter(req)
	if r == nil || last.PrevLogTerm != req.Term || !w.cfg.ConfigurationCommitted() {
		return nil
	}
	index := w.cfg.Durability.LimitToDurable(last.PrevLogEntry)
	others, ok := w.otherVoters(r.GetConfiguration().Configuration(), id)
	if !ok {
		return nil
	}
	copies := (len(others)+2)/2 - 1                      // a majority of the voters, less the leader and the server
	holders, ok := w.cfg.Releases.MayHaveLease(req.Term) // after index: a later lease names an end of the log at or after it
	if !ok || copies <= 0 && len(holders) == 0 {
		return nil
	}
	d, waiting := &directPart{copies: max(0, copies)}, w.cfg.AwaitingCommit()
	for _, other := range others {
		if slices.Contains(waiting, MemberID(other)) && (copies > 0 || slices.Contains(holders, id)) {
			d.tell = append(d.tell, other)
		}
	}
	if slices.Contains(waiting, MemberID(id)) {
		d.index, d.voters = index, votersThatCount(others, copies, holders)
	}
	if r.CurrentTerm() != req.Term { // read last: see logPosition
		return nil
	}
	return d
}

// otherVoters returns the voters without this member and a server. It returns false if one of these two is no voter, or there are too many.
func (w directEarlyCommits) otherVoters(c raft.Configuration, id raft.ServerID) (others []raft.ServerID, ok bool) {
	self := w.cfg.LocalServer.ServerID()
	if self == id || !isVoter(c, self) || !isVoter(c, id) || countVoters(c) > maxDirectVoters {
		return nil, false
	}
	for _, s := range c.Servers {
		if s.Suffrage == raft.Voter && s.ID != self && s.ID != id {
			others = append(others, s.ID)
		}
	}
	return others, true
}

func votersThatCount(others []raft.ServerID, copies int, holders []raft.ServerID) (voters []directVoter) {
	for _, other := range others {
		if holds := slices.Contains(holders, other); holds || copies > 0 {
			voters = append(voters, directVoter{other, holds})
		}
	}
	return voters
}
