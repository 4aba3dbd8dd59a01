package quorum

import (
	"errors"
	"fmt"
)

// keyDamage is where the stable store has why this member's state is not to be trusted.
// Only an empty folder is without it again, or one that was recovered.
var keyDamage = []byte("RollcallDamage")

var errDamagedState = errors.New("quorum: this member's state is damaged")

// SetDamage says that this member's state is not that of the ensemble, and why: from now on
// it is no candidate, sends nothing as a leader, and so leads no more. It stores the
// reason, which holds over restarts; a first one stays. Its log is as good as any: it still
// votes. Hand over first. It blocks as the disk does.
func (n *Node) SetDamage(why string) error {
	if !n.damage.CompareAndSwap(nil, &why) {
		return nil
	}
	if err := n.disk.Stable().Set(keyDamage, []byte(why)); err != nil {
		return fmt.Errorf("quorum: write state: %w", err)
	}
	return nil
}

// Damage returns what SetDamage was told, "" if this member's state is sound for all that
// is known.
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

// silent is why this member must say nothing as a leader, and not become one; nil if it may.
func (n *Node) silent() error {
	if n.damage.Load() != nil {
		return errDamagedState
	}
	return n.Stalled()
}
