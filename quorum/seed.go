package quorum

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// SeedConfig holds the parameters of Seed.
type SeedConfig struct {
	DataDir, LogDir string       // as in Config
	Stores          disk.Stores  // as in Config; they are empty
	MemberID        uint32       // the id that the member will have
	Peers           []wire.Peer  // all members of the new ensemble, MemberID included
	StateMachine    StateMachine // an empty one; only Verify is used

	// Index and Term belong to the last entry that the state contains. The first leader leads in a later term.
	// Index must be above disk.BootstrapIndex, and Term at most MaxSeedTerm.
	Index, Term uint64
	// WriteState writes the state, as a snapshot of StateMachine.
	WriteState func(w io.Writer) error

	// Command is the command line to repeat after an error. Default: the commands that fill directories.
	Command      string
	SegmentBytes int          // as in Config
	Logger       *slog.Logger // default: discard
}

// MaxSeedTerm leaves space for a million elections: a zxid has the term in its upper 32 bits, and is never
// negative.
const MaxSeedTerm = 1<<31 - 1<<20

func (p *SeedConfig) check() error {
	if err := wire.CheckPeers(p.MemberID, p.Peers); err != nil {
		return err
	}
	self, _ := findPeer(p.Peers, p.MemberID)
	switch {
	case self.Observer:
		return fmt.Errorf("quorum: member %d has no vote in the server list, and an ensemble begins with a voter: fill "+
			"the directories of one", p.MemberID)
	case (p.DataDir == "") == (p.Stores == disk.Stores{}) || p.StateMachine == nil || p.WriteState == nil:
		return errors.New("quorum: StateMachine, WriteState, and either DataDir or Stores are required")
	case p.Index <= disk.BootstrapIndex:
		return fmt.Errorf("quorum: index %d of a seed is not above %d", p.Index, disk.BootstrapIndex)
	case p.Term < 1 || p.Term > MaxSeedTerm:
		return fmt.Errorf("quorum: term %d of a seed is not between 1 and %d", p.Term, uint64(MaxSeedTerm))
	}
	return nil
}

// Seed fills the empty directories of the first member of a new ensemble with a state. That disk is the only
// voter, and all others start with empty directories and copy the state. It is all or nothing: see disk.Seed.
func Seed(p SeedConfig) error {
	if err := p.check(); err != nil {
		return err
	}
	logger := cmp.Or(p.Logger, slog.New(slog.DiscardHandler))
	return disk.Seed(disk.Config{
		MemberID: p.MemberID, ServerList: wire.CanonicalLines(p.Peers), DataDir: p.DataDir, LogDir: p.LogDir,
		Stores: p.Stores, SegmentBytes: p.SegmentBytes, Logger: logger, RaftLogger: newRaftLogger(logger, nil),
	}, p.Command, p.writeStores)
}

func (p *SeedConfig) writeStores(d *disk.Data) error {
	if err := d.Stable().SetTerm(p.Term); err != nil {
		return fmt.Errorf("quorum: write term: %w", err)
	}
	self, _ := findPeer(p.Peers, p.MemberID)
	self.DiskID = d.ID()
	sink, err := d.Snapshots().Create(1, p.Index, p.Term, wire.RaftConfiguration([]wire.Peer{self}), disk.BootstrapIndex,
		nil)
	if err != nil {
		return fmt.Errorf("quorum: create snapshot: %w", err)
	}
	if err := p.WriteState(sink); err != nil {
		return errors.Join(fmt.Errorf("quorum: write snapshot: %w", err), sink.Cancel())
	}
	if err := sink.Close(); err != nil {
		return fmt.Errorf("quorum: store snapshot: %w", err)
	}
	if err := d.VerifyNewest(p.StateMachine.Verify); err != nil {
		return fmt.Errorf("quorum: the state that was written: %w", err)
	}
	return writeEnsembleID(d.Stable(), newEnsembleID())
}
