package quorum

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// The keys of the record in the stable store.
var (
	// keyEnsemble has the ensemble id of this member: 32 bytes. A member without data may have the id of an
	// ensemble that it has begun to join. That id has no effect.
	keyEnsemble = []byte("RollcallEnsemble")
	// keyCopying marks a disk that has not yet copied all of its leader's data. It does not affect votes. The
	// state of such a disk is an old one, so Recover and Replay reject it.
	keyCopying = []byte("RollcallCopying")
	// keyDamage has the reason for which this member's state cannot be trusted. Only emptying the directory or a
	// recovery removes it.
	keyDamage = []byte("RollcallDamage")
	// keyFoundedAlone has the id of the ensemble that this disk has founded without data and without another member. It
	// says nothing once this member is of another ensemble, or has had another member: see FoundedAlone.
	keyFoundedAlone = []byte("RollcallFoundedAlone")
	// keySelfJoin has a SelfJoinState: 8 bytes.
	keySelfJoin = []byte("RollcallSelfJoin")
	// keyServerList has the ensemble's newest server list that the caller has stored.
	keyServerList = []byte("RollcallList")
)

var errDamagedState = errors.New("quorum: this member's state is damaged")

// SelfJoinState says what a disk may do without an operator. It is about members that come by themselves.
type SelfJoinState uint64

const (
	// LeftToOperators is the state of a disk that has had a vote, or that was added by an operator: it does nothing by itself.
	LeftToOperators SelfJoinState = iota
	// OutsideByItself is the state of a disk that has asked to come in, or has left, without an operator. It may ask to come in.
	OutsideByItself
	// InWithoutVote is the state of a disk that has come in without an operator, and has had no vote since. It wants one.
	InWithoutVote
)

// Record holds the stored information beside raft's state: the ensemble, its server list, whether this disk is
// still copying, what it may do by itself, and damage. It is safe for concurrent use.
type Record struct {
	disk             *disk.Data
	addressBook      *wire.AddressBook      // has the ensemble
	copying          atomic.Bool            // it began without data, and has not caught up yet
	foundedAlone     atomic.Bool            // see FoundedAlone
	damageReason     atomic.Pointer[string] // see StoreDamage; nil: none
	selfJoin         atomic.Uint64          // a SelfJoinState
	storedServerList []byte                 // see StoredServerList
}

// loadStored reads the record at the start. A member without data is copying, unless it runs alone.
func (c *Record) loadStored(alone bool) error {
	return errors.Join(c.loadDamage(), c.loadEnsembleID(), c.loadCopying(alone), c.loadFoundedAlone(),
		c.loadSelfJoin(), c.loadServerList())
}

// EnsembleID returns the id of this member's ensemble. It is known once there are data, or when this member joins
// an ensemble.
func (c *Record) EnsembleID() (id [32]byte, known bool) {
	e := c.addressBook.EnsembleID()
	return e, e != wire.EnsembleID{}
}

// storeJoinedEnsemble stores the ensemble id of this member, before anything of the ensemble gets into the log.
func (c *Record) storeJoinedEnsemble(id wire.EnsembleID) error {
	err := writeEnsembleID(c.disk.Stable(), id)
	if err == nil {
		err = c.storeCopying(true)
	}
	if err != nil {
		return err
	}
	c.addressBook.SetEnsembleID(id)
	return nil
}

func (c *Record) loadEnsembleID() error {
	if !c.disk.HasData() {
		return nil
	}
	stored, err := c.disk.Stable().Value(keyEnsemble)
	switch {
	case err != nil:
		return err
	case len(stored) != len(wire.EnsembleID{}):
		return fmt.Errorf("quorum: the stored ensemble is %w: %d bytes instead of %d", disk.ErrDamaged, len(stored),
			len(wire.EnsembleID{}))
	}
	c.addressBook.SetEnsembleID(wire.EnsembleID(stored))
	return nil
}

func writeEnsembleID(stable *disk.Stable, id wire.EnsembleID) error {
	return stable.SetValue(keyEnsemble, id[:])
}

func (c *Record) storeCopying(copying bool) error {
	var v uint64
	if copying {
		v = 1
	}
	if err := c.disk.Stable().SetUint64(keyCopying, v); err != nil {
		return fmt.Errorf("quorum: write state: %w", err)
	}
	c.copying.Store(copying)
	return nil
}

// IsCopying reports whether this disk is recorded as one that has not caught up yet. A member that loses its leader before that is
// recorded otherwise joins again, although IsJoining has been false.
func (c *Record) IsCopying() bool { return c.copying.Load() }

func (c *Record) loadCopying(alone bool) error {
	copying, err := readCopyingMark(c.disk.Stable())
	c.copying.Store(copying || !c.disk.HasData() && !alone)
	return err
}

func readCopyingMark(stable *disk.Stable) (bool, error) {
	v, err := stable.GetUint64(keyCopying)
	if err != nil {
		return false, fmt.Errorf("quorum: read state: %w", err)
	}
	return v != 0, nil
}

// FoundedAlone reports whether this disk has founded this member's ensemble without data, and no other member was ever in
// it. So everything in it was written since. A recovered or imported ensemble is none that a disk has founded.
func (c *Record) FoundedAlone() bool { return c.foundedAlone.Load() }

// EndFoundedAlone records that another member is in the ensemble. It waits for the disk, but only the first time.
func (c *Record) EndFoundedAlone() error {
	if !c.foundedAlone.Load() {
		return nil
	}
	return c.storeFoundedAlone(wire.EnsembleID{}, false)
}

// storeFoundedAlone records whether this disk founds an ensemble alone.
func (c *Record) storeFoundedAlone(id wire.EnsembleID, alone bool) error {
	if !alone {
		id = wire.EnsembleID{}
	}
	if err := c.disk.Stable().SetValue(keyFoundedAlone, id[:]); err != nil {
		return fmt.Errorf("quorum: write state: %w", err)
	}
	c.foundedAlone.Store(alone)
	return nil
}

func (c *Record) loadFoundedAlone() error {
	stored, err := c.disk.Stable().Value(keyFoundedAlone)
	id, known := c.EnsembleID()
	c.foundedAlone.Store(known && bytes.Equal(stored, id[:]))
	return err
}

// SelfJoin returns what this disk may do without an operator. It does not wait.
func (c *Record) SelfJoin() SelfJoinState { return SelfJoinState(c.selfJoin.Load()) }

// StoreSelfJoin stores what this disk may do without an operator. It waits for the disk if that changes.
func (c *Record) StoreSelfJoin(s SelfJoinState) error {
	if c.SelfJoin() == s {
		return nil
	}
	if err := c.disk.Stable().SetUint64(keySelfJoin, uint64(s)); err != nil {
		return fmt.Errorf("quorum: write state: %w", err)
	}
	c.selfJoin.Store(uint64(s))
	return nil
}

// loadSelfJoin reads the SelfJoinState. A state of a later version counts as LeftToOperators.
func (c *Record) loadSelfJoin() error {
	v, err := c.disk.Stable().GetUint64(keySelfJoin)
	if err != nil {
		return fmt.Errorf("quorum: read state: %w", err)
	}
	if v <= uint64(InWithoutVote) {
		c.selfJoin.Store(v)
	}
	return nil
}

// errNotCaughtUp is the error for using the state of a disk outside of its ensemble that has not copied all of it.
var errNotCaughtUp = errors.New("quorum: this member had not caught up when it stopped; take the data of another one")

// checkCaughtUp returns errNotCaughtUp if a disk has not copied all of its leader's data. A disk that votes by its
// newest configuration has all of it, because only a disk with the log gets a vote: its process ended before it
// removed the mark.
func checkCaughtUp(data *disk.Data) error {
	copying, err := readCopyingMark(data.Stable())
	if err != nil || !copying {
		return err
	}
	configuration, err := data.NewestConfiguration()
	if err != nil {
		return err
	}
	votes := func(p wire.Peer) bool { return p.DiskID == data.ID() && !p.Observer }
	if !slices.ContainsFunc(wire.PeersIn(configuration), votes) {
		return errNotCaughtUp
	}
	return nil
}

// StoreDamage records that this member's state differs from the ensemble's. From now on this member is no candidate
// and sends nothing as a leader, so it stops leading. StoreDamage stores the first reason, which stays valid over
// restarts. The member's log is sound, so it still votes. The caller should hand over first. StoreDamage waits for
// the disk.
func (c *Record) StoreDamage(reason string) error {
	if !c.damageReason.CompareAndSwap(nil, &reason) {
		return nil
	}
	return c.disk.Stable().SetValue(keyDamage, []byte(reason))
}

// DamageReason returns the reason given to StoreDamage, or "" if no damage is known.
func (c *Record) DamageReason() string {
	if reason := c.damageReason.Load(); reason != nil {
		return *reason
	}
	return ""
}

func (c *Record) loadDamage() error {
	reason, err := c.disk.Stable().Value(keyDamage)
	if err != nil {
		return err
	}
	if len(reason) > 0 {
		text := string(reason)
		c.damageReason.Store(&text)
	}
	return nil
}

// StoreServerList stores the ensemble's server list for StoredServerList of the next process. It waits for the disk.
func (c *Record) StoreServerList(list []byte) error {
	return c.disk.Stable().SetValue(keyServerList, list)
}

// StoredServerList returns the server list that an earlier process of this member has stored, or nil.
func (c *Record) StoredServerList() []byte { return c.storedServerList }

func (c *Record) loadServerList() (err error) {
	c.storedServerList, err = c.disk.Stable().Value(keyServerList)
	return err
}
