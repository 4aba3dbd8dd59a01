package config

import "fmt"

// readOnlyKey is ZooKeeper's name of the key.
const readOnlyKey = "readonlymode.enabled"

// checkReadOnlyMode checks the read-only mode against other keys.
func (d *rawConfig) checkReadOnlyMode() error {
	switch {
	case !d.config.ReadOnlyMode:
	case d.config.LinearizableReads:
		return fmt.Errorf("%s: %s=true and readConsistency=linearizable: a read without a leader may be stale; leave one "+
			"of the two out", d.whereSet(readOnlyKey), readOnlyKey)
	case d.config.Standalone:
		d.addWarning(d.whereSet(readOnlyKey), "%s has no effect on a standalone server: it is its own leader", readOnlyKey)
	}
	return nil
}
