package datadir

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
)

// sums makes sums of transactions.
var sums = maphash.MakeSeed()

// survey is what choose knows about a directory.
type survey struct {
	epoch, zxid int64 // by which ZooKeeper elects
	accepted    int64
	bare        bool             // the directory has no log
	sums        map[int64]uint64 // of the newest transactions, by zxid
}

// maxSums is how many transactions are compared between two directories. Servers differ in the newest ones,
// and have at most a few snapshots' worth of them.
const maxSums = 1 << 20

// checkLogs returns an error if there is a snapshot and no log, unless that is allowed.
func (fs *files) checkLogs(allowed bool) error {
	if allowed || len(fs.logs) > 0 || len(fs.snapshots) == 0 {
		return nil
	}
	return &Damage{File: fs.snapshots[0].path, What: "there is a snapshot, but no log beside it", Remedy: "name the dataLogDir too; if there is none and the server has no logs, add --no-logs"}
}

// choose returns which of several directories to read and why, the highest epoch that a server has
// accepted, and notes about transactions in which the directories differ. Damage that hides transactions is an error, unless
// losses are taken: a directory that is sound but older must not win unnoticed. For the same reason each directory must have logs.
func choose(directories []Directory, options Options) (chosen int, why string, accepted int64, notes []string, err error) {
	var all []survey
	for _, f := range directories {
		one, err := look(f, options)
		if err != nil {
			return 0, "", 0, nil, err
		}
		if one.bare {
			notes = append(notes, fmt.Sprintf("%s has no log: what its server wrote after its newest snapshot, up to %s, would be missing", f, zxidText(one.zxid)))
		}
		all = append(all, one)
		accepted = max(accepted, one.accepted, one.epoch)
	}
	for i := range all {
		if best := &all[chosen]; all[i].epoch > best.epoch || all[i].epoch == best.epoch && all[i].zxid > best.zxid {
			chosen = i
		}
	}
	best := &all[chosen]
	why = fmt.Sprintf("it has the highest epoch, %d, and among those the highest zxid, %s", best.epoch, zxidText(best.zxid))
	for i := range all {
		if i == chosen {
			continue
		}
		why += fmt.Sprintf("; %s has %d and %s", directories[i], all[i].epoch, zxidText(all[i].zxid))
		if zxid, differs := best.contradicts(&all[i]); differs {
			notes = append(notes, fmt.Sprintf("%s and %s have different transactions %s; those of the former are used. If clients have seen the other one, the servers had lost data before", directories[chosen], directories[i], zxidText(zxid)))
		}
	}
	return chosen, why, accepted, notes, nil
}

// contradicts returns the first zxid under which one and other have different transactions.
func (one *survey) contradicts(other *survey) (zxid int64, differs bool) {
	for z, sum := range one.sums {
		if its, ok := other.sums[z]; ok && its != sum && (!differs || z < zxid) {
			zxid, differs = z, true
		}
	}
	return zxid, differs
}

// look reads the logs of a directory after its newest snapshot, but applies nothing.
func look(f Directory, options Options) (survey, error) {
	files, err := f.list()
	if err == nil {
		err = files.checkLogs(options.NoLogs)
	}
	if err != nil {
		return survey{}, err
	}
	one := survey{accepted: files.accepted, bare: len(files.logs) == 0, sums: map[int64]uint64{}}
	if len(files.snapshots) > 0 {
		one.zxid = files.snapshots[0].zxid
	}
	logs := files.logsFrom(one.zxid)
	for i, log := range logs {
		if err := one.lookAt(log, i == len(logs)-1, options.AsZooKeeper); err != nil {
			return survey{}, fmt.Errorf("%w (or leave this directory out)", err)
		}
	}
	one.epoch = max(files.current, Epoch(one.zxid))
	return one, nil
}

// lookAt reads one log.
func (one *survey) lookAt(file dataFile, newest, losses bool) error {
	log, err := openLog(file.path, newest)
	if err != nil || log == nil {
		return err
	}
	defer log.close()
	last := file.zxid - 1 // in this log
	for {
		start := log.offset()
		rec, err := log.next()
		if err != nil {
			return err
		}
		if rec == nil {
			if _, err = log.ending(start, last); losses {
				return nil
			}
			return err
		}
		zxid := int64(binary.BigEndian.Uint64(rec.body[zxidAt:]))
		last = zxid
		one.zxid = max(one.zxid, zxid)
		if len(one.sums) == maxSums {
			clear(one.sums)
		}
		one.sums[zxid] = maphash.Bytes(sums, rec.body)
	}
}

// zxidAt is where the zxid is in the head of a transaction.
const zxidAt = 8 + 4
