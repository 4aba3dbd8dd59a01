package datadir

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
)

// sumSeed is the seed of the transactions' hashes.
var sumSeed = maphash.MakeSeed()

// logSurvey describes the logs of a directory.
type logSurvey struct {
	epoch, zxid   int64 // ZooKeeper elects by these
	acceptedEpoch int64
	hasNoLogs     bool             // the directory has no log
	txnSums       map[int64]uint64 // hashes of the newest transactions, by zxid
}

// maxComparedTxns limits the transactions that are compared between two directories. Servers differ only in the newest
// ones.
const maxComparedTxns = 1 << 20

// checkHasLogs returns an error if there is a snapshot and no log, unless that is allowed.
func (fs *dirFiles) checkHasLogs(allowed bool) error {
	if allowed || len(fs.logs) > 0 || len(fs.snapshots) == 0 {
		return nil
	}
	return &Damage{
		File: fs.snapshots[0].path, Problem: "there is a snapshot, but no log beside it",
		Remedy: "name the dataLogDir too; if there is none and the server has no logs, add --no-logs",
	}
}

// chooseDirectory returns the index of the directory to read with the reason, the highest epoch that a server has
// accepted, and notes about transactions in which the directories differ. Damage that hides transactions is an error
// unless losses are accepted, because an older sound directory must not win unnoticed. For the same reason each
// directory must have logs.
func chooseDirectory(directories []Directory, options Options) (chosen int, why string, accepted int64, notes []string,
	err error,
) {
	var all []logSurvey
	for _, f := range directories {
		one, err := surveyDirectory(f, options)
		if err != nil {
			return 0, "", 0, nil, err
		}
		if one.hasNoLogs {
			notes = append(notes, fmt.Sprintf("%s has no log: what its server wrote after its newest snapshot, up to %s, "+
				"would be missing", f, zxidText(one.zxid)))
		}
		all = append(all, one)
		accepted = max(accepted, one.acceptedEpoch, one.epoch)
	}
	for i := range all {
		if best := &all[chosen]; all[i].epoch > best.epoch || all[i].epoch == best.epoch && all[i].zxid > best.zxid {
			chosen = i
		}
	}
	best := &all[chosen]
	why = fmt.Sprintf("it has the highest epoch, %d, and among those the highest zxid, %s", best.epoch,
		zxidText(best.zxid))
	for i := range all {
		if i == chosen {
			continue
		}
		why += fmt.Sprintf("; %s has %d and %s", directories[i], all[i].epoch, zxidText(all[i].zxid))
		if zxid, differs := best.firstDifference(&all[i]); differs {
			notes = append(notes, fmt.Sprintf("%s and %s have different transactions %s; the former's are used. If clients "+
				"have seen the other one, the servers had lost data before", directories[chosen], directories[i], zxidText(zxid)))
		}
	}
	return chosen, why, accepted, notes, nil
}

// firstDifference returns the first zxid under which one and other have different transactions.
func (one *logSurvey) firstDifference(other *logSurvey) (zxid int64, differs bool) {
	for z, sum := range one.txnSums {
		if its, ok := other.txnSums[z]; ok && its != sum && (!differs || z < zxid) {
			zxid, differs = z, true
		}
	}
	return zxid, differs
}

// surveyDirectory reads the logs of a directory after its newest snapshot, but applies nothing.
func surveyDirectory(f Directory, options Options) (logSurvey, error) {
	files, err := f.listFiles()
	if err == nil {
		err = files.checkHasLogs(options.NoLogs)
	}
	if err != nil {
		return logSurvey{}, err
	}
	one := logSurvey{acceptedEpoch: files.acceptedEpoch, hasNoLogs: len(files.logs) == 0, txnSums: map[int64]uint64{}}
	if len(files.snapshots) > 0 {
		one.zxid = files.snapshots[0].zxid
	}
	logs := files.logsAfter(one.zxid)
	for i, log := range logs {
		if err := one.surveyLog(log, i == len(logs)-1, options.AsZooKeeper); err != nil {
			return logSurvey{}, fmt.Errorf("%w (or leave this directory out)", err)
		}
	}
	one.epoch = max(files.currentEpoch, Epoch(one.zxid))
	return one, nil
}

func (one *logSurvey) surveyLog(file dataFile, newest, losses bool) error {
	log, err := openLog(file.path, newest)
	if err != nil || log == nil {
		return err
	}
	defer log.closeFile()
	last := file.zxid - 1 // in this log
	for {
		start := log.offset()
		rec, err := log.nextRecord()
		if err != nil {
			return err
		}
		if rec == nil {
			if _, err = log.checkEnding(start, last); losses {
				return nil
			}
			return err
		}
		zxid := int64(binary.BigEndian.Uint64(rec.body[zxidOffset:]))
		last = zxid
		one.zxid = max(one.zxid, zxid)
		if len(one.txnSums) == maxComparedTxns {
			clear(one.txnSums)
		}
		one.txnSums[zxid] = maphash.Bytes(sumSeed, rec.body)
	}
}

// zxidOffset is the offset of the zxid in the head of a transaction.
const zxidOffset = 8 + 4
