package quorum

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// A disk is a voter. raft's servers are data directories, each with an id of its own (disk.ID), so no server
// ever forgets a promise, and raft's proof covers these rules:
//
//   - A new ensemble begins with one voter: the member with the lowest id in the server lines, once all others have said that
//     they have no data. A member with data that were imported, restored or recovered is the only voter of its ensemble, too.
//   - Every other member starts with an empty log and no configuration, so it never stands for election. The leader adds it as a
//     nonvoter, and gives it a vote when it has the log: see membership.
//   - An emptied member is a new server, which takes the place of the old one in the same way.
//
// Data belong to one ensemble, whose id is drawn with them, and raft's connections are between members of one
// ensemble only. So nothing of another ensemble gets into a log.

const (
	// firstHelloPause is the pause after the first round of Hellos while a member without data waits. Each pause
	// is twice as long as the one before, up to helloInterval.
	firstHelloPause = 20 * time.Millisecond
	// helloInterval is the maximum pause between two rounds of Hellos, and helloTimeout the limit of one round.
	helloInterval = 500 * time.Millisecond
	helloTimeout  = 2 * time.Second
	// firstListening is the time for which a member that knows no other one listens before it begins an ensemble. The
	// leader of an ensemble that has it in its list sends it a Hello in that time: a round with another silent member
	// takes helloTimeout, and a pause and a dial come before the next one.
	firstListening = helloTimeout + 2*helloInterval
	// selfJoinListening is the same for a member with Config.SelfJoin. The others may have come by themselves, so that no server line
	// of this one names them, and the name of its host may become known to them seconds after it has started.
	selfJoinListening = 15 * time.Second
)

// bootstrap begins a new ensemble, or joins this disk to an existing one.
type bootstrap struct {
	configuredPeers []wire.Peer
	foundByMajority bool // see Config.FoundByMajority
	selfJoin        bool // see Config.SelfJoin
	runsAlone       bool
	addressBook     *wire.AddressBook
	disk            *disk.Data
	status          *Status
	record          *Record
	serverList      *serverList
	hellos          *hellos
	reachability    *Reachability
	endMember       func(error)
	logger          *slog.Logger
	startTime       time.Time // of joinOrFound
}

// joinOrFound makes this member ready for raft, and waits for other members if necessary. It returns ctx's error
// if ctx ends first.
func (b *bootstrap) joinOrFound(ctx context.Context) error {
	switch {
	case b.disk.HasData():
		return nil
	case b.runsAlone:
		return b.foundEnsemble()
	}
	b.startTime = time.Now()
	var logged string
	for pause := firstHelloPause; ; pause = min(2*pause, helloInterval) {
		next := b.nextStep(b.hellos.sendAll(ctx))
		switch {
		case next.waitingFor == "" && next.joinEnsemble != wire.EnsembleID{}:
			b.logger.Info("this member joins the ensemble; it votes once it has the log", "ensemble",
				fmt.Sprintf("%x", next.joinEnsemble[:4]), "disk", b.status.selfPeer().DiskID)
			b.status.setWaitingFor("")
			return b.record.storeJoinedEnsemble(next.joinEnsemble)
		case next.waitingFor == "":
			return b.foundEnsemble()
		case next.waitingFor != logged && ctx.Err() == nil:
			logged = next.waitingFor
			b.status.setWaitingFor(logged)
			b.logger.Info("this member has no data and waits", "for", logged)
		}
		if !sleepContext(ctx, pause) {
			return ctx.Err()
		}
	}
}

// bootstrapStep is the next step of a member without data after a round of Hellos. If waitingFor is not "", the
// member waits for that condition. Otherwise it joins joinEnsemble, or if that is zero, founds a new ensemble.
type bootstrapStep struct {
	joinEnsemble wire.EnsembleID
	waitingFor   string
}

// nextStep applies the rules to the replies of one round.
func (b *bootstrap) nextStep(r helloRound) (next bootstrapStep) {
	ensembles := b.reachability.recentPeers.ensemblesWithData()
	for _, a := range r.replies {
		if id := replyEnsemble(a); a.GetHasData() && id != (wire.EnsembleID{}) {
			ensembles[id] = true
		}
	}
	switch {
	case len(ensembles) > 1:
		next.waitingFor = "the end of one of two ensembles: members with data are of different ones; empty the " +
			"directories of those that must not continue, or correct the server lines"
	case len(ensembles) == 1:
		for id := range ensembles {
			next.joinEnsemble = id
		}
	default:
		next.waitingFor = b.foundingBlocker(r)
	}
	return next
}

// foundingBlocker returns "" if this member may found a new ensemble, or else the condition for which it waits.
// The rules:
//
//   - No known member has data.
//   - Two members never found an ensemble for the same list: only one has the lowest id, and a reply counts only if it has
//     the same list.
//   - Two processes with that id do not found one either: every other member reports the first process to the second one
//     (Rival).
//   - A member that knows no other one listens for firstListening, or for selfJoinListening: its server lines may be older
//     than an ensemble that it has lost.
//   - Members that are only known from a reply must reply, too, because all members in the server lines may have left an
//     ensemble.
func (b *bootstrap) foundingBlocker(r helloRound) string {
	voters := slices.DeleteFunc(wire.SortedByID(b.configuredPeers), func(p wire.Peer) bool { return p.Observer })
	if first := voters[0]; first.ID != b.status.selfPeer().ID {
		condition := fmt.Sprintf("member %d (%s), which begins the ensemble because no voter has a lower id", first.ID,
			first.Addr)
		if err := r.failures[first.ID]; err != nil {
			condition += ": " + silenceReason(err)
		}
		return condition
	}
	known, listening := b.addressBook.OnePerMember(), firstListening
	if b.selfJoin {
		listening = selfJoinListening
	}
	if len(known) == 1 && !b.foundByMajority && time.Since(b.startTime) < listening {
		return fmt.Sprintf("%v, in which an ensemble may send it a Hello: its directory is empty, and it knows no other member",
			listening)
	}
	var silent []string
	replied := 1
	for _, p := range known {
		a, ok := r.replies[p.ID]
		_, voter := findPeer(voters, p.ID)
		switch {
		case p.ID == b.status.selfPeer().ID:
		case !ok:
			silent = append(silent, fmt.Sprintf("member %d (%s): %s", p.ID, p.Addr, silenceReason(r.failures[p.ID])))
		case a.GetRival() != "":
			return "the end of one of two processes with its number: " + a.GetRival()
		case !bytes.Equal(a.GetConfigHash(), serverListHash(b.addressBook)):
			silent = append(silent, fmt.Sprintf("member %d (%s), which has other server lines", p.ID, p.Addr))
		case voter:
			replied++
		}
	}
	if len(silent) == 0 || b.foundByMajority && replied > len(voters)/2 {
		return ""
	}
	return "all members, which must reply that they have no data before a new ensemble begins; missing: " +
		strings.Join(silent, "; ")
}

// errHelloPending is the error of a member that a reply has just named, so that no Hello was sent to it yet.
var errHelloPending = errors.New("no Hello was sent to it yet")

// replyEnsemble returns the ensemble id in a reply, or zero if the sender knows none.
func replyEnsemble(a *proto.HelloReply) (id wire.EnsembleID) {
	if len(a.GetEnsemble()) == len(id) {
		return wire.EnsembleID(a.GetEnsemble())
	}
	return id
}

func serverListHash(book *wire.AddressBook) []byte {
	hash := book.ConfigHash()
	return hash[:]
}

// foundEnsemble begins an ensemble with this disk as its only voter. A killed attempt leaves no entry, so the next
// start founds another ensemble.
func (b *bootstrap) foundEnsemble() error {
	id := newEnsembleID()
	err := b.record.storeCopying(false) // it has no data of an ensemble that it may have begun to join
	if err == nil {
		err = b.record.storeFoundedAlone(id, len(b.addressBook.OnePerMember()) == 1)
	}
	if err == nil {
		err = writeEnsembleID(b.disk.Stable(), id)
	}
	if err == nil {
		err = b.disk.Stable().SetTerm(1)
	}
	if err == nil {
		err = b.disk.Log().StoreLog(&raft.Log{
			Index: disk.BootstrapIndex, Term: 1, Type: raft.LogConfiguration,
			Data: raft.EncodeConfiguration(wire.RaftConfiguration([]wire.Peer{b.status.selfPeer()})),
		})
	}
	if err != nil {
		return fmt.Errorf("quorum: begin an ensemble: %w", err)
	}
	b.addressBook.SetEnsembleID(id)
	b.status.setWaitingFor("")
	b.logger.Info("a new ensemble begins; this member is its first voter", "ensemble", fmt.Sprintf("%x", id[:4]), "disk",
		b.status.selfPeer().DiskID)
	return nil
}

// announceWhileUnknown sends Hello to all other members while this disk is not in raft's configuration, or knows no
// leader: the leader may not know yet that the disk exists.
func (b *bootstrap) announceWhileUnknown(ctx context.Context, r *raft.Raft) {
	var lost []wire.Peer
	takesPart := false // logged already
	pause := firstHelloPause
	if b.disk.HasData() {
		pause = helloInterval // a leader that knows this disk contacts it first
	}
	for ; ; pause = min(2*pause, helloInterval) {
		if !sleepContext(ctx, pause) {
			return
		}
		if b.record.copying.Load() && b.status.hasCaughtUp() {
			if err := b.record.storeCopying(false); err != nil {
				b.endMember(err)
				return
			}
		}
		if votes := b.status.isVoter(); !takesPart && b.status.hasCaughtUp() &&
			(votes || !b.serverList.wantsVote(b.status.selfPeer().ID)) {
			takesPart = true
			b.logger.Info("this member takes part in the ensemble", "votes", votes, "index", r.AppliedIndex())
		}
		if b.status.isConfigured() && b.status.LeaderID() != 0 {
			lost = nil
			b.status.setWaitingFor("")
			continue
		}
		replies := b.hellos.sendAll(ctx)
		before := lost
		lost = b.lostVotersBlockingElection(replies)
		missing, err := b.beginAgain(replies, lost)
		if err != nil {
			b.endMember(err)
			return
		}
		b.reportLostMajority(replies, lost, before, missing)
	}
}

func newEnsembleID() (id wire.EnsembleID) {
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the program instead
	return id
}
