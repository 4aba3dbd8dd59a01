package quorum

import (
	"errors"
	"fmt"
)

// keyDamage is the key in the stable store of the reason why this member's state cannot be trusted.
// Only emptying the directory or a recovery removes it.
var keyDamage = []byte("RollcallDamage")

var errDamagedState = errors.New("quorum: this member's state is damaged")

// SetDamage records that this member's state differs from that of the ensemble, and why. From now
// on this member is no candidate and sends nothing as a leader, so it stops leading. SetDamage
// stores the reason, so that it stays valid over restarts; only the first one is stored. The
// member's log is sound, so it still votes. The caller should hand over first. SetDamage waits for
// the disk.
func (n *Node) SetDamage(why string) error {
	if !n.damage.CompareAndSwap(nil, &why) {
		return nil
	}
	if err := n.disk.Stable().Set(keyDamage, []byte(why)); err != nil {
		return fmt.Errorf("quorum: write state: %w", err)
	}
	return nil
}

// Damage returns the reason given to SetDamage, or "" if no damage is known.
func (n *Node) Damage() string {
	if why := n.damage.Load(); why != nil {
		return *why
	}
	return ""
}

func (n *Node) readDamage() error {
	why, err := n.disk.Stable().Value(keyDamage)
	if err != nil {
		return fmt.Errorf("quorum: read state: %w", err)
	}
	if len(why) > 0 {
		text := string(why)
		n.damage.Store(&text)
	}
	return nil
}

// silent returns why this member must not lead or send anything as a leader, or nil if it may.
func (n *Node) silent() error {
	if n.damage.Load() != nil {
		return errDamagedState
	}
	return n.Stalled()
}
