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

// Planting holds the parameters of Plant.
type Planting struct {
	Dir, LogDir string       // as in Config
	Stores      disk.Stores  // as in Config; they are empty
	LogKind     disk.LogKind // as in Config
	Self        uint32       // the id that the member will have
	Peers       []wire.Peer  // all members of the new ensemble, Self included
	Machine     Machine      // an empty one; only Verify is used

	// Index and Term are those of the last entry that the state contains. The first leader leads in a
	// later term. Index is above disk.BootstrapIndex, and Term is at most MaxPlantedTerm.
	Index, Term uint64
	// State writes the state, as a snapshot of Machine.
	State func(w io.Writer) error

	// Command is the command line that an operator runs again after an error. Default: the commands that fill directories
	Command      string
	SegmentBytes int          // as in Config
	Logger       *slog.Logger // default: discard
}

// MaxPlantedTerm leaves room for a million elections: a zxid has the term in its upper 32 bits, and is
// never negative.
const MaxPlantedTerm = 1<<31 - 1<<20

func (p *Planting) check() error {
	if err := wire.CheckPeers(p.Self, p.Peers); err != nil {
		return err
	}
	self, _ := find(p.Peers, p.Self)
	switch {
	case self.Observer:
		return fmt.Errorf("quorum: member %d has no vote in the server list, and an ensemble begins with a voter: fill the directories of one", p.Self)
	case (p.Dir == "") == (p.Stores == disk.Stores{}) || p.Machine == nil || p.State == nil:
		return errors.New("quorum: Machine, State, and either Dir or Stores are required")
	case p.Index <= disk.BootstrapIndex:
		return fmt.Errorf("quorum: index %d of a planting is not above %d", p.Index, disk.BootstrapIndex)
	case p.Term < 1 || p.Term > MaxPlantedTerm:
		return fmt.Errorf("quorum: term %d of a planting is not between 1 and %d", p.Term, uint64(MaxPlantedTerm))
	case p.LogKind != "" && !p.LogKind.Known():
		return fmt.Errorf("quorum: log store %q is neither %s nor %s", p.LogKind, disk.LogBolt, disk.LogWAL)
	}
	return nil
}

// Plant fills the empty directories of the member that begins a new ensemble with a state. That disk is the only voter, and all
// others start with empty directories and copy the state. It is all or nothing: see disk.Plant.
func Plant(p Planting) error {
	if err := p.check(); err != nil {
		return err
	}
	logger := cmp.Or(p.Logger, slog.New(slog.DiscardHandler))
	return disk.Plant(disk.Config{
		Member: p.Self, Servers: wire.Canonical(p.Peers), Dir: p.Dir, LogDir: p.LogDir, Stores: p.Stores, LogKind: p.LogKind,
		SegmentBytes: p.SegmentBytes, Logger: logger, RaftLog: newRaftLog(logger),
	}, p.Command, p.fill)
}

// fill writes the stores.
func (p *Planting) fill(d *disk.Data) error {
	if err := d.Stable().SetTerm(p.Term); err != nil {
		return fmt.Errorf("quorum: write term: %w", err)
	}
	self, _ := find(p.Peers, p.Self)
	self.Disk = d.ID()
	sink, err := d.Snapshots().Create(1, p.Index, p.Term, wire.Configuration([]wire.Peer{self}), disk.BootstrapIndex, nil)
	if err != nil {
		return fmt.Errorf("quorum: create snapshot: %w", err)
	}
	if err := p.State(sink); err != nil {
		return errors.Join(fmt.Errorf("quorum: write snapshot: %w", err), sink.Cancel())
	}
	if err := sink.Close(); err != nil {
		return fmt.Errorf("quorum: store snapshot: %w", err)
	}
	if err := d.VerifyNewest(p.Machine.Verify); err != nil {
		return fmt.Errorf("quorum: the state that was written: %w", err)
	}
	return writeEnsemble(d.Stable(), drawEnsemble())
}
