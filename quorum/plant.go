package quorum

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"time"

	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// Planting holds the parameters of Plant.
type Planting struct {
	Dir, LogDir string       // as in Config
	LogKind     disk.LogKind // as in Config
	Self        uint32       // the id that the member will have
	Peers       []wire.Peer  // all members of the new ensemble, Self included
	Machine     Machine      // an empty one; only Verify is used

	// Index and Term are those of the last entry that the state contains. The first leader leads in a
	// later term. Index is above disk.BootstrapIndex, and Term is at most MaxPlantedTerm.
	Index, Term uint64
	// State writes the state, as a snapshot of Machine. It returns the number of the planting, which is not
	// 0 and is derived from the state: members that were planted with different numbers form no ensemble.
	State func(w io.Writer) (number uint64, err error)

	SegmentBytes int          // as in Config
	Logger       *slog.Logger // default: discard
}

// MaxPlantedTerm leaves room for a million elections: a zxid has the term in its upper 32 bits, and is
// never negative.
const MaxPlantedTerm = 1<<31 - 1<<20

// keyPlanted is the key in the stable store for data that were planted. Its value has the index and the
// term of the planted state.
var keyPlanted = []byte("RollcallPlanted")

func (p *Planting) check() error {
	if err := wire.CheckPeers(p.Self, p.Peers); err != nil {
		return err
	}
	switch {
	case p.Dir == "" || p.Machine == nil || p.State == nil:
		return errors.New("quorum: Dir, Machine and State are required")
	case p.Index <= disk.BootstrapIndex:
		return fmt.Errorf("quorum: index %d of a planting is not above %d", p.Index, disk.BootstrapIndex)
	case p.Term < 1 || p.Term > MaxPlantedTerm:
		return fmt.Errorf("quorum: term %d of a planting is not between 1 and %d", p.Term, uint64(MaxPlantedTerm))
	case p.LogKind != "" && !p.LogKind.Known():
		return fmt.Errorf("quorum: log store %q is neither %s nor %s", p.LogKind, disk.LogBolt, disk.LogWAL)
	}
	return nil
}

// Plant fills the empty folders of one member of a new ensemble with a state. Every member of the ensemble
// is planted with the same state and the same number; members that have no data join later, as after the
// loss of a disk. It is all or nothing: see disk.Plant.
//
// After any member of the ensemble has started, no member may be planted again: it would have forgotten its
// votes. It starts with empty folders instead, and joins.
func Plant(p Planting) (err error) {
	defer func() { err = disk.Explain(err, false) }()
	if err := p.check(); err != nil {
		return err
	}
	logger := cmp.Or(p.Logger, slog.New(slog.DiscardHandler))
	return disk.Plant(disk.Config{
		Member: p.Self, Servers: wire.Canonical(p.Peers), Dir: p.Dir, LogDir: p.LogDir, LogKind: p.LogKind,
		SegmentBytes: p.SegmentBytes, Logger: logger, RaftLog: newRaftLog(logger),
	}, p.fill)
}

// fill writes the stores.
func (p *Planting) fill(d *disk.Data) error {
	stable := d.Stable()
	if err := stable.Set(keyPlanted, binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, p.Index), p.Term)); err != nil {
		return fmt.Errorf("quorum: write state: %w", err)
	}
	if err := stable.SetTerm(p.Term); err != nil {
		return fmt.Errorf("quorum: write term: %w", err)
	}
	sink, err := d.Snapshots().Create(1, p.Index, p.Term, wire.Configuration(p.Peers), disk.BootstrapIndex, nil)
	if err != nil {
		return fmt.Errorf("quorum: create snapshot: %w", err)
	}
	number, err := p.State(sink)
	if err == nil && number == 0 {
		err = errors.New("the number of the planting is 0")
	}
	if err != nil {
		return errors.Join(fmt.Errorf("quorum: write snapshot: %w", err), sink.Cancel())
	}
	if err := sink.Close(); err != nil {
		return fmt.Errorf("quorum: store snapshot: %w", err)
	}
	if err := d.VerifyNewest(p.Machine.Verify); err != nil {
		return fmt.Errorf("quorum: the state that was written: %w", err)
	}
	if err := writeEnsemble(stable, wire.EnsembleID{}); err != nil {
		return err
	}
	return writeRecovery(stable, p.Peers, number)
}

// planted has the index and the term of the state with which a member was planted. It is zero if the member
// was not planted, or has later entries.
type planted struct{ index, term uint64 }

// readPlanted returns the state with which this member was planted, if it has nothing else.
func (n *Node) readPlanted() (p planted, err error) {
	v, err := n.disk.Stable().Value(keyPlanted)
	if err != nil {
		return p, fmt.Errorf("quorum: read state: %w", err)
	}
	if len(v) != 16 {
		return p, nil
	}
	first, err := n.disk.Log().FirstIndex()
	if err != nil {
		return p, fmt.Errorf("quorum: read log: %w", err)
	}
	newest, err := n.disk.Newest()
	if err != nil {
		return p, err
	}
	if index := binary.BigEndian.Uint64(v); first == 0 && newest == index {
		p = planted{index, binary.BigEndian.Uint64(v[8:])}
	}
	return p, nil
}

// tookPart reports whether this member has voted, or heard of a leader, since it was planted.
func (n *Node) tookPart() (bool, error) {
	term, err := n.disk.Stable().Term()
	if err != nil {
		return false, fmt.Errorf("quorum: read state: %w", err)
	}
	return term > n.planted.term, nil
}

// awaitPlanted makes a member that has nothing but its planted state wait until a majority of the voters has the
// same state. Unless Config.NewEnsemble is set, it also waits until all voters answer, because one that does not
// might have gone on. Members with different states therefore form no ensemble: at most one of the states has
// a majority, and raft does not run on a member with another one. If the others have gone on already, this
// member may have been planted a second time, and may have forgotten votes and entries. It then joins as a
// member that has lost its data does.
func (n *Node) awaitPlanted(ctx context.Context) (start, error) {
	if took, err := n.tookPart(); took || err != nil {
		return startRunning, err
	}
	var waiting string
	for {
		v := n.evaluatePlanted(n.askAll(ctx))
		if v.start == startJoining && v.waiting == "" {
			var err error
			if v.waiting, err = n.adoptTerm(v); err != nil {
				return 0, err
			}
		}
		if v.waiting == "" {
			return v.start, nil
		}
		if v.waiting != waiting && ctx.Err() == nil {
			waiting = v.waiting
			n.logger.Warn("this member has the state that its folder was filled with, and waits", "for", waiting)
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(askInterval):
		}
	}
}

// evaluatePlanted applies the rules to the answers of one round. Only voters make a majority. An observer that has
// gone on shows that the ensemble has begun.
func (n *Node) evaluatePlanted(answers map[uint32]*proto.HelloReply) verdict {
	ahead := maps.Clone(answers)
	maps.DeleteFunc(ahead, func(_ uint32, a *proto.HelloReply) bool {
		return !a.GetHasData() || a.GetRecovery() != n.Recovery() || a.GetLastIndex() <= n.planted.index
	})
	if len(ahead) > 0 {
		return n.evaluateBegun(ahead)
	}
	all := len(wire.Voters(n.cfg.Peers))
	var v verdict
	var rivals []wire.Peer
	var silent []string
	same := 0
	for _, peer := range wire.Sorted(n.cfg.Peers) {
		a, answered := answers[peer.ID]
		switch {
		case peer.Observer:
		case peer.ID == n.cfg.Self:
			same++
		case !answered:
			silent = append(silent, fmt.Sprintf("member %d (%s)", peer.ID, peer.Addr))
		case !a.GetHasData():
		case a.GetRecovery() != n.Recovery():
			rivals = append(rivals, peer)
		case a.GetLastIndex() < n.planted.index: // it starts, and has not read its log yet: it may have gone on
			silent = append(silent, fmt.Sprintf("member %d (%s)", peer.ID, peer.Addr))
		default:
			same++
		}
	}
	switch {
	case same > all/2 && (len(silent) == 0 || n.cfg.NewEnsemble):
	case same > all/2:
		v.waiting = fmt.Sprintf("all voters, which must be there when the ensemble first starts; silent: %s", list(silent))
	case len(rivals) > 0:
		v.waiting = fmt.Sprintf("a majority with the same state: %s have another one. Fill the folders of all members with the same state", list(wire.Canonical(rivals)))
	default:
		v.waiting = fmt.Sprintf("a majority with the same state: %d of %d voters have it", same, all)
	}
	return v
}

// evaluateBegun applies the rules to the answers of members that have gone on from the planted state: this member
// joins them, by the configuration that they have now.
func (n *Node) evaluateBegun(ahead map[uint32]*proto.HelloReply) verdict {
	v := n.evaluate(ahead)
	if v.start != startJoining || v.waiting != "" {
		v.waiting = "voters of the ensemble, which has begun without this member: " + cmp.Or(v.waiting, "none is known")
	}
	v.start = startJoining
	return v
}
