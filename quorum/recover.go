package quorum

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// Recovery says what Recover is to make of a member's folder.
type Recovery struct {
	Dir, LogDir string  // as in Config
	Self        uint32  // the id it is to run under from now on
	Peers       []Peer  // the new server list, Self included
	Machine     Machine // an empty one; not to be used afterwards
	Logger      *slog.Logger
}

// ErrNoData is what Recover answers if there is nothing to recover from.
var ErrNoData = errors.New("quorum: no data to recover from")

// Recover rewrites a stopped member's folder so that it can start without the members it
// knew, under the old server list or a new one. It is the way out when a majority has lost
// its data, and the last one: entries that only lost members had are gone, although their
// clients were told that they were stored; entries that were never acknowledged may come
// true. If members of the former list live on, there are two ensembles.
//
// Afterwards Self is the only voter. The others are to start with empty folders: it takes
// them in (see Node.admitLoop). Only one member may be recovered. Interrupted, it can be
// repeated.
func Recover(rec Recovery) (err error) {
	if err := checkPeers(rec.Self, rec.Peers); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(rec.Dir, identityName)); err != nil {
		return fmt.Errorf("%w: %w", ErrNoData, err)
	}
	fs, err := lockFolders(rec.Dir, rec.LogDir)
	if err != nil {
		return err
	}
	defer func() {
		for _, f := range fs {
			err = errors.Join(err, f.close())
		}
	}()
	if err := checkWhole(fs); err != nil {
		return err
	}
	logger := newRaftLog(cmp.Or(rec.Logger, slog.New(slog.DiscardHandler)))
	stores, closer, err := openStores(rec.Dir, fs[len(fs)-1].dir, storeOf(fs), logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closer.Close()) }()
	if err := recoverStores(rec, stores, logger); err != nil {
		return err
	}
	id := identity{Member: rec.Self, Servers: canonical(rec.Peers), Apart: len(fs) > 1, Log: true}.as(storeOf(fs))
	for i := len(fs) - 1; i >= 0; i-- {
		if err := fs[i].write(id); err != nil {
			return err
		}
	}
	return nil
}

func recoverStores(rec Recovery, s Stores, logger hclog.Logger) error {
	if data, err := hasData(s); err != nil {
		return err
	} else if !data {
		return ErrNoData
	}
	if err := mend(s); err != nil {
		return err
	}
	running := func() bool { return false }
	stable := &stableStore{StableStore: s.Stable, guard: guard{running: running, ops: &operations{}}}
	if joining, err := stable.GetUint64(keyJoining); err != nil {
		return fmt.Errorf("quorum: read state: %w", err)
	} else if joining != 0 {
		return errors.New("quorum: this member had not caught up when it stopped; recover another one")
	}
	if err := checkReadable(s, snapshotPath(rec.Dir)); err != nil {
		return err
	}
	if err := renumber(stable, rec.Peers); err != nil {
		return err
	}
	if err := pardon(stable, logger); err != nil {
		return err
	}
	var failed error
	f := &fsm{
		machine: rec.Machine,
		fail:    func(err error) { failed = errors.Join(failed, err) },
		commits: func() {}, ops: &operations{}, figures: new(figures),
		running: func() bool { return true }, // what cannot be restored is not skipped
	}
	f.hurry.Store(true)
	conf := raft.DefaultConfig()
	conf.LocalID = Peer{ID: rec.Self}.serverID()
	conf.Logger = logger
	snaps := &snapshotStore{SnapshotStore: s.Snapshots, guard: guard{running: running, ops: &operations{}}, dir: snapshotPath(rec.Dir), stored: func() {}}
	_, trans := raft.NewInmemTransport("") // only encodes addresses
	self := rec.Peers[slices.IndexFunc(rec.Peers, func(p Peer) bool { return p.ID == rec.Self })]
	err := raft.RecoverCluster(conf, f, s.Log, stable, snaps, trans, configuration([]Peer{self}))
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("quorum: recover: %w", err)
	}
	return nil
}

// renumber gives the recovery a number, and what comes after it terms of its own.
func renumber(stable *stableStore, peers []Peer) error {
	var number [8]byte
	_, _ = rand.Read(number[:]) // never fails: crypto/rand ends the program instead
	if err := writeRecovery(stable, peers, binary.BigEndian.Uint64(number[:])|1); err != nil {
		return err
	}
	term, err := stable.GetUint64(keyTerm)
	if err == nil {
		err = stable.SetUint64(keyTerm, term+recoveryTerms)
	}
	if err != nil {
		return fmt.Errorf("quorum: raise term: %w", err)
	}
	return nil
}

// pardon forgets that this member's state was damaged: it is the best there is left.
func pardon(stable *stableStore, logger hclog.Logger) error {
	why, err := stable.Get(keyDamage)
	if notFound(err) || err == nil && len(why) == 0 {
		return nil
	}
	if err == nil {
		logger.Warn("the state of the member that is recovered was found to be damaged", "why", string(why))
		err = stable.Set(keyDamage, nil)
	}
	if err != nil {
		return fmt.Errorf("quorum: forget damage: %w", err)
	}
	return nil
}

// checkReadable refuses data whose newest snapshot cannot be read and is not made up for by
// the log.
func checkReadable(s Stores, dir string) error {
	newest, err := newestNamed(dir)
	if err != nil {
		return err
	}
	last, err := s.Log.LastIndex()
	if err != nil {
		return fmt.Errorf("quorum: read log: %w", err)
	}
	list, err := s.Snapshots.List()
	if err != nil {
		return fmt.Errorf("quorum: list snapshots: %w", err)
	}
	for _, meta := range list {
		if _, r, err := s.Snapshots.Open(meta.ID); err == nil {
			last = max(last, meta.Index)
			if err := r.Close(); err != nil {
				return fmt.Errorf("quorum: close snapshot: %w", err)
			}
			break
		}
	}
	if last < newest {
		return fmt.Errorf("quorum: data is %w: the snapshot of index %d cannot be read, what can be ends at %d", ErrDamaged, newest, last)
	}
	return nil
}
