package disk

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// maxBeginningEntries limits the entries of a log that is searched for a transaction. An ensemble that begins has some tens:
// configurations, and the first entries of terms. A longer log counts as one with a transaction.
const maxBeginningEntries = 1024

// errHasTransaction is the error for renewing a disk with a transaction.
var errHasTransaction = errors.New("quorum: this disk has a transaction, and is never emptied")

// HasTransaction reports whether the disk has, or may have, a transaction of the state: a snapshot, or a command with
// content that its log has or had, committed or not. A disk without data has none. One that could not be read may have some.
// HasTransaction does not wait for the disk.
func (d *Data) HasTransaction() bool {
	return d.guardedLog.hadTransaction.Load() || d.hasSnapshot.Load()
}

// mayBeTransaction reports whether an entry makes its log one with a transaction.
func mayBeTransaction(l *raft.Log) bool {
	return l.Index > maxBeginningEntries || l.Type == raft.LogCommand && len(l.Data) > 0
}

func (s Stores) hasTransaction() (bool, error) {
	if newest, err := s.newestSnapshot(); newest != nil || err != nil {
		return newest != nil, err
	}
	first, last, err := s.logRange()
	if first > BootstrapIndex || last > maxBeginningEntries || err != nil {
		return err == nil, err
	}
	for at := first; at <= last && at > 0; at++ {
		if l, err := s.readEntry(at); err != nil || mayBeTransaction(&l) {
			return err == nil, err
		}
	}
	return false, nil
}

// keyRenewing marks a disk whose Renew has begun and not ended. Open repeats it: otherwise the log would be that of a disk
// which no configuration has, and the ensemble would count the former disk as lost.
var keyRenewing = []byte("RollcallRenewing")

// Renew makes this disk a new one without data: it draws another id, and removes the log. A disk with a transaction is left
// as it is. raft must have stopped, and the Data must be closed next. If Renew is interrupted, the next Open repeats it.
func (d *Data) Renew() error { return d.unguarded.renew() }

func (s Stores) renew() error {
	switch has, err := s.hasTransaction(); {
	case err != nil:
		return err
	case has:
		return errHasTransaction
	}
	first, last, err := s.logRange()
	if err != nil {
		return err
	}
	if err := s.markRenewing(1); err != nil {
		return err
	}
	if _, err := drawDiskID(s); err != nil {
		return err
	}
	if last > 0 {
		if err := s.Log.DeleteRange(first, last); err != nil {
			return fmt.Errorf("quorum: empty the log: %w", err)
		}
	}
	return s.markRenewing(0)
}

// finishRenewing repeats a Renew that was interrupted. A disk with a transaction is left as it is.
func (s Stores) finishRenewing() error {
	begun, err := s.Stable.GetUint64(keyRenewing)
	if isNotFound(err) || err == nil && begun == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("quorum: read state: %w", err)
	}
	if err := s.renew(); !errors.Is(err, errHasTransaction) {
		return err
	}
	return s.markRenewing(0)
}

func (s Stores) markRenewing(begun uint64) error {
	if err := s.Stable.SetUint64(keyRenewing, begun); err != nil {
		return fmt.Errorf("quorum: write state: %w", err)
	}
	return nil
}
