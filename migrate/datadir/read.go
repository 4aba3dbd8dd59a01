package datadir

import (
	"errors"
	"fmt"
	"slices"

	"rollcall/zk/jute"
)

// Read reads the state in a server's directory. Of several servers of an ensemble, it reads the one that
// ZooKeeper would elect: the one with the highest epoch, and then the highest zxid.
func Read(directories []Directory, options Options) (*State, *Report, error) {
	switch len(directories) {
	case 0:
		return nil, nil, errors.New("datadir: no directory to read")
	case 1:
		return readDirectory(directories[0], options)
	}
	chosen, why, accepted, notes, err := chooseDirectory(directories, options)
	if err != nil {
		return nil, nil, err
	}
	s, report, err := readDirectory(directories[chosen], options)
	if err != nil {
		return nil, nil, err
	}
	s.Epoch = max(s.Epoch, accepted)
	report.ChoiceReason = why
	report.Notes = append(report.Notes, notes...)
	return s, report, nil
}

// directoryReader reads one directory.
type directoryReader struct {
	options Options
	files   *dirFiles
	state   *State
	report  *Report
	// The snapshots that could not be read. The logs must have all transactions up to their zxids.
	snapshotDamages  []*Damage
	invalidSnapshots []dataFile
	// highestPartialZxid is the zxid of the last transaction of which the snapshot has a part.
	highestPartialZxid int64
	// digestDamage is set while the tree differs from the digest of a transaction.
	digestDamage *Damage
}

func readDirectory(f Directory, options Options) (*State, *Report, error) {
	files, err := f.listFiles()
	if err != nil {
		return nil, nil, err
	}
	r := &directoryReader{options: options, files: files, report: &Report{Directory: f, Notes: files.notes}}
	if err := r.readNewestSnapshot(); err != nil {
		return nil, nil, err
	}
	if err := r.replayLogs(); err != nil {
		return nil, nil, err
	}
	if err := r.finishState(); err != nil {
		return nil, nil, err
	}
	return r.state, r.report, nil
}

// acceptLossIfAllowed adds d to the losses with Options.AsZooKeeper, and returns it otherwise.
func (r *directoryReader) acceptLossIfAllowed(d *Damage) error {
	if !r.options.AsZooKeeper {
		return d
	}
	r.report.Losses = append(r.report.Losses, d.Error())
	return nil
}

func (r *directoryReader) addNote(format string, values ...any) {
	r.report.Notes = append(r.report.Notes, fmt.Sprintf(format, values...))
}

// readNewestSnapshot reads the newest valid snapshot.
func (r *directoryReader) readNewestSnapshot() error {
	for _, file := range r.files.snapshots {
		state, snap, err := readSnapshot(file.path, file.zxid, r.options.CheckRoom)
		if err == nil {
			r.useSnapshot(state, snap)
			return nil
		}
		var d *Damage
		if !errors.As(err, &d) {
			return err
		}
		r.snapshotDamages = append(r.snapshotDamages, d)
		r.invalidSnapshots = append(r.invalidSnapshots, file)
		r.addNote("this snapshot is not valid, and an older one is used, as ZooKeeper does: %v", d)
	}
	if len(r.snapshotDamages) > 0 {
		d := *r.snapshotDamages[0]
		d.Problem = "no snapshot is valid; the newest is not because of this: " + d.Problem
		d.Remedy = useOtherMember
		return &d
	}
	if !r.options.TrustEmpty {
		return &Damage{
			File: r.files.logs[0].path,
			Problem: "there are logs, but no snapshot. ZooKeeper does not start from that either, unless " +
				"snapshot.trust.empty is set",
			Remedy: "if the logs are complete, which is so for a new server of 3.4, add --trust-empty, which begins with " +
				"an empty tree; otherwise " + useOtherMember,
		}
	}
	r.state = NewState()
	for _, path := range []string{"/", "/zookeeper", "/zookeeper/quota"} {
		if err := r.state.Add(Node{Path: path, Data: []byte{}, ACL: r.state.shareACL(jute.OpenACL)}); err != nil {
			return err
		}
	}
	return nil
}

func (r *directoryReader) useSnapshot(s *State, snap *snapshotInfo) {
	r.state, r.highestPartialZxid = s, snap.highestZxid
	r.report.Snapshot, r.report.SnapshotZxid = snap.file, snap.zxid
	if snap.digestZxid == 0 || snap.digestZxid != snap.zxid {
		return // there is none, or it is of a later state
	}
	s.digest.computeFor(s)
	if !s.digest.equalsValue(snap.digest) {
		r.digestDamage = &Damage{
			File: snap.file, Zxid: snap.zxid,
			Problem: "the tree does not have the digest in the snapshot", Remedy: useOtherMember,
		}
		return
	}
	r.report.Digests++
}

// replayLogs applies all transactions after the snapshot.
func (r *directoryReader) replayLogs() error {
	if err := r.files.checkHasLogs(r.options.NoLogs); err != nil {
		return err
	}
	logs := r.files.logsAfter(r.state.Zxid)
	for i, log := range logs {
		if err := r.replayLog(log, i == len(logs)-1); err != nil {
			return err
		}
	}
	return nil
}

func (r *directoryReader) replayLog(file dataFile, newest bool) error {
	log, err := openLog(file.path, newest)
	if err != nil {
		return err
	}
	if log == nil {
		r.addNote("%s: the log is empty, as a crash leaves it; it is not read, as in ZooKeeper", file.path)
		return nil
	}
	defer log.closeFile()
	log.checkRoom = r.options.CheckRoom
	r.report.Logs = append(r.report.Logs, file.path)
	last := file.zxid - 1 // in this log
	for {
		start := log.offset()
		rec, err := log.nextRecord()
		if log.roomError != nil {
			return fmt.Errorf("%s: %w", log.path, log.roomError)
		}
		if err != nil {
			return err
		}
		if rec == nil {
			return r.checkLogEnd(log, start, last)
		}
		t, err := r.state.decodeTxn(rec.body)
		if err != nil {
			d := log.damageAt(start, err.Error())
			d.Zxid = t.zxid
			return d
		}
		if err := r.replayTxn(log, rec, &t, last); err != nil {
			return err
		}
		last = t.zxid
	}
}

func (r *directoryReader) checkLogEnd(log *logReader, start, last int64) error {
	note, err := log.checkEnding(start, last)
	var d *Damage
	if errors.As(err, &d) && d.Remedy == useOtherOrForce {
		return r.acceptLossIfAllowed(d)
	}
	if note != "" {
		r.addNote("%s", note)
	}
	return err
}

// replayTxn checks that t follows the previous transaction, and applies it unless the snapshot has it. last is the
// previous zxid in the log.
func (r *directoryReader) replayTxn(log *logReader, rec *record, t *txn, last int64) error {
	if t.zxid <= last {
		return &Damage{
			File: log.path, Offset: rec.offset, Zxid: t.zxid,
			Problem: fmt.Sprintf("a transaction comes after %s, but is older", zxidText(last)), Remedy: useOtherMember,
		}
	}
	r.invalidSnapshots = slices.DeleteFunc(r.invalidSnapshots, func(f dataFile) bool { return f.zxid == t.zxid })
	if t.zxid <= r.state.Zxid {
		return nil
	}
	if !canFollow(t.zxid, r.state.Zxid) {
		d := &Damage{
			File: log.path, Offset: rec.offset, Zxid: t.zxid,
			Problem: fmt.Sprintf("the transactions between %s and this one are missing", zxidText(r.state.Zxid)),
			Remedy:  useOtherOrForce,
		}
		if err := r.acceptLossIfAllowed(d); err != nil {
			return err
		}
	}
	r.state.applyTxn(t)
	r.report.Transactions++
	if t.hasDigest {
		r.compareDigest(log, rec, t)
	}
	return nil
}

// canFollow reports whether zxid may be the next one after last: the next of its epoch, or the first of a later one. A
// standalone server's counter overflows into the epoch.
func canFollow(zxid, last int64) bool {
	return zxid == last+1 || Epoch(zxid) > Epoch(last) && epochCounter(zxid) == 1
}

// compareDigest compares the tree with the digest of t. ZooKeeper sometimes writes a wrong digest, and the tree differs
// while it has parts of later transactions from the snapshot. So a difference counts only if no later digest matches.
func (r *directoryReader) compareDigest(log *logReader, rec *record, t *txn) {
	if t.zxid < r.highestPartialZxid {
		return
	}
	if d := &r.state.digest; !d.enabled {
		d.computeFor(r.state)
	}
	switch {
	case r.state.digest.equalsValue(t.digest):
		r.report.Digests++
		r.digestDamage = nil
	case r.digestDamage == nil:
		r.digestDamage = &Damage{
			File: log.path, Offset: rec.offset, Zxid: t.zxid,
			Problem: "from this transaction on, the tree does not have the digests in the log", Remedy: useOtherOrForce,
		}
	}
}

// finishState checks the state, and completes it as ZooKeeper does at its start.
func (r *directoryReader) finishState() error {
	s := r.state
	if s.nodes["/"] == nil {
		return &Damage{File: r.report.Snapshot, Problem: "the root is missing", Remedy: useOtherMember}
	}
	for _, check := range []func() *Damage{
		r.checkInvalidSnapshots, r.checkPartialTxns,
		func() *Damage { return r.digestDamage },
	} {
		if d := check(); d != nil {
			if err := r.acceptLossIfAllowed(d); err != nil {
				return err
			}
		}
	}
	if d := r.checkACLs(); d != nil {
		return d
	}
	s.digest = treeDigest{}
	s.Epoch = max(r.files.currentEpoch, r.files.acceptedEpoch, Epoch(s.Zxid))
	if r.options.TTL353 {
		s.convertTTL353()
	}
	r.removeOrphanEphemerals()
	s.writeQuotaUsage()
	return nil
}

// checkInvalidSnapshots checks that the logs had the transactions of the invalid snapshots.
func (r *directoryReader) checkInvalidSnapshots() *Damage {
	for i, file := range r.invalidSnapshots {
		if file.zxid <= r.state.Zxid && epochCounter(file.zxid) == 0 || file.zxid <= r.report.SnapshotZxid {
			continue
		}
		d := *r.snapshotDamages[i]
		d.Problem = fmt.Sprintf("this snapshot is not valid, and no log has the transaction %s that is in it: %s",
			zxidText(file.zxid), d.Problem)
		d.Remedy = useOtherOrForce
		return &d
	}
	return nil
}

// checkPartialTxns checks that the logs reach the last transaction of which the snapshot has a part.
func (r *directoryReader) checkPartialTxns() *Damage {
	if r.highestPartialZxid <= r.state.Zxid || epochCounter(r.highestPartialZxid) == 0 {
		return nil
	}
	return &Damage{
		File: r.report.Snapshot, Zxid: r.highestPartialZxid,
		Problem: fmt.Sprintf("the snapshot has a part of this transaction, but the logs end at %s", zxidText(r.state.Zxid)),
		Remedy:  useOtherOrForce,
	}
}

// checkACLs checks that all nodes have an ACL.
func (r *directoryReader) checkACLs() (d *Damage) {
	r.state.eachNode(func(n *Node) {
		if n.ACL == nil {
			d = &Damage{
				File:    r.report.Snapshot,
				Problem: fmt.Sprintf("the node %.100q has the ACL number %d, which is not in the file", n.Path, n.missingACL),
				Remedy:  useOtherMember,
			}
		}
	})
	return d
}

// convertTTL353 reads the owners that 3.5.3 gave to TTL nodes.
func (s *State) convertTTL353() {
	s.eachNode(func(n *Node) {
		if s.Kind(n) != Ephemeral || n.Owner&^ttlMask353 != ttlMark353 || n.Owner&ttlMask353 > ttlMask {
			return
		}
		if _, ok := s.Sessions[jute.SessionID(n.Owner)]; !ok {
			s.removeFromOwnerIndex(n)
			n.Owner = TTLOwner(n.Owner & ttlMask353)
		}
	})
}

func (s *State) removeFromOwnerIndex(n *Node) {
	if owned := s.nodesByOwner[n.Owner]; owned != nil {
		if delete(owned, n); len(owned) == 0 {
			delete(s.nodesByOwner, n.Owner)
		}
	}
}

// removeOrphanEphemerals removes ephemeral nodes without a session, as ZooKeeper does when it starts.
func (r *directoryReader) removeOrphanEphemerals() {
	var owners []int64
	for owner, nodes := range r.state.nodesByOwner {
		for n := range nodes {
			if _, ok := r.state.Sessions[jute.SessionID(owner)]; !ok && n.TTL() == 0 {
				owners = append(owners, owner)
			}
			break
		}
	}
	slices.Sort(owners)
	for _, owner := range owners {
		hint := ""
		if owner&^ttlMask353 == ttlMark353 {
			hint = ". If they are TTL nodes of ZooKeeper 3.5.3, which needs emulate353TTLNodes, add --ttl-353 and read again"
		}
		r.addNote("session %v is not there; its %d ephemeral nodes are removed, as ZooKeeper does%s", jute.SessionID(owner),
			len(r.state.nodesByOwner[owner]), hint)
		r.state.deleteOwned(owner, r.state.Zxid)
	}
}
