package datadir

import (
	"errors"
	"fmt"
	"slices"

	"rollcall/zk/jute"
)

// Read reads the state of the directory of a server, or of the one of several servers of an ensemble that
// ZooKeeper would elect: it has the highest epoch, and then the highest zxid.
func Read(directories []Directory, options Options) (*State, *Report, error) {
	switch len(directories) {
	case 0:
		return nil, nil, errors.New("zkdata: no directory to read")
	case 1:
		return readDirectory(directories[0], options)
	}
	chosen, why, accepted, notes, err := choose(directories, options)
	if err != nil {
		return nil, nil, err
	}
	s, report, err := readDirectory(directories[chosen], options)
	if err != nil {
		return nil, nil, err
	}
	s.Epoch = max(s.Epoch, accepted)
	report.Why = why
	report.Notes = append(report.Notes, notes...)
	return s, report, nil
}

// reader reads one directory.
type reader struct {
	options Options
	files   *files
	state   *State
	report  *Report
	// Snapshots that could not be read. The logs must have everything up to their zxids.
	broken []*Damage
	needed []dataFile
	// highest is the highest transaction of which the snapshot has a trace.
	highest int64
	// wrong is set while the tree does not have the digest that a transaction had.
	wrong *Damage
}

func readDirectory(f Directory, options Options) (*State, *Report, error) {
	files, err := f.list()
	if err != nil {
		return nil, nil, err
	}
	r := &reader{options: options, files: files, report: &Report{Directory: f, Notes: files.notes}}
	if err := r.readSnapshot(); err != nil {
		return nil, nil, err
	}
	if err := r.readLogs(); err != nil {
		return nil, nil, err
	}
	if err := r.finish(); err != nil {
		return nil, nil, err
	}
	return r.state, r.report, nil
}

// lose returns d, unless ZooKeeper's own way is asked for.
func (r *reader) lose(d *Damage) error {
	if !r.options.AsZooKeeper {
		return d
	}
	r.report.Losses = append(r.report.Losses, d.Error())
	return nil
}

// note adds a note to the report.
func (r *reader) note(format string, values ...any) {
	r.report.Notes = append(r.report.Notes, fmt.Sprintf(format, values...))
}

// readSnapshot reads the newest valid snapshot.
func (r *reader) readSnapshot() error {
	for _, file := range r.files.snapshots {
		state, snap, err := readSnapshot(file.path, file.zxid, r.options.Room)
		if err == nil {
			r.begin(state, snap)
			return nil
		}
		var d *Damage
		if !errors.As(err, &d) {
			return err
		}
		r.broken = append(r.broken, d)
		r.needed = append(r.needed, file)
		r.note("this snapshot is not valid, and an older one is used, as ZooKeeper does: %v", d)
	}
	if len(r.broken) > 0 {
		d := *r.broken[0]
		d.What = "no snapshot is valid; the newest is not because of this: " + d.What
		d.Remedy = useOther
		return &d
	}
	if !r.options.TrustEmpty {
		return &Damage{File: r.files.logs[0].path, What: "there are logs, but no snapshot. ZooKeeper does not start from that either, unless snapshot.trust.empty is set", Remedy: "if the logs are complete, which is so for a new server of 3.4, add --trust-empty, which begins with an empty tree; otherwise " + useOther}
	}
	r.state = NewState()
	for _, path := range []string{"/", "/zookeeper", "/zookeeper/quota"} {
		if err := r.state.Add(Node{Path: path, Data: []byte{}, ACL: r.state.share(jute.OpenACL)}); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) begin(s *State, snap *snapshot) {
	r.state, r.highest = s, snap.highest
	r.report.Snapshot, r.report.SnapshotZxid = snap.file, snap.zxid
	if snap.digestZxid == 0 || snap.digestZxid != snap.zxid {
		return // there is none, or it is of a later state
	}
	s.digest.start(s)
	if !s.digest.matches(snap.digest) {
		r.wrong = &Damage{File: snap.file, Zxid: snap.zxid, What: "the tree does not have the digest that the snapshot says", Remedy: useOther}
		return
	}
	r.report.Digests++
}

// readLogs applies all transactions after the snapshot.
func (r *reader) readLogs() error {
	if err := r.files.checkLogs(r.options.NoLogs); err != nil {
		return err
	}
	logs := r.files.logsFrom(r.state.Zxid)
	for i, log := range logs {
		if err := r.readLog(log, i == len(logs)-1); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) readLog(file dataFile, newest bool) error {
	log, err := openLog(file.path, newest)
	if err != nil {
		return err
	}
	if log == nil {
		r.note("%s: the log is empty, as a crash leaves it; it is not read, as in ZooKeeper", file.path)
		return nil
	}
	defer log.close()
	log.room = r.options.Room
	r.report.Logs = append(r.report.Logs, file.path)
	last := file.zxid - 1 // in this log
	for {
		start := log.offset()
		rec, err := log.next()
		if log.full != nil {
			return fmt.Errorf("%s: %w", log.file, log.full)
		}
		if err != nil {
			return err
		}
		if rec == nil {
			return r.endLog(log, start, last)
		}
		t, err := r.state.decodeTxn(rec.body)
		if err != nil {
			d := log.damage(start, err.Error())
			d.Zxid = t.zxid
			return d
		}
		if err := r.readTxn(log, rec, &t, last); err != nil {
			return err
		}
		last = t.zxid
	}
}

// endLog judges the end of a log.
func (r *reader) endLog(log *logReader, start, last int64) error {
	note, err := log.ending(start, last)
	var d *Damage
	if errors.As(err, &d) && d.Remedy == useOtherOr {
		return r.lose(d)
	}
	if note != "" {
		r.note("%s", note)
	}
	return err
}

// readTxn checks that t follows what is before it, and applies it unless the snapshot has it. last is
// the zxid before it in its log.
func (r *reader) readTxn(log *logReader, rec *record, t *txn, last int64) error {
	if t.zxid <= last {
		return &Damage{File: log.file, Offset: rec.offset, Zxid: t.zxid, What: fmt.Sprintf("a transaction comes after %s, but is older", zxidText(last)), Remedy: useOther}
	}
	r.needed = slices.DeleteFunc(r.needed, func(f dataFile) bool { return f.zxid == t.zxid })
	if t.zxid <= r.state.Zxid {
		return nil
	}
	if !follows(t.zxid, r.state.Zxid) {
		d := &Damage{File: log.file, Offset: rec.offset, Zxid: t.zxid, What: fmt.Sprintf("the transactions between %s and this one are missing", zxidText(r.state.Zxid)), Remedy: useOtherOr}
		if err := r.lose(d); err != nil {
			return err
		}
	}
	r.state.apply(t)
	r.report.Transactions++
	if t.digested {
		r.compare(log, rec, t)
	}
	return nil
}

// follows reports whether a transaction may be the next one after last: the next of its epoch, or the
// first of a later one. A standalone server counts on into the epoch.
func follows(zxid, last int64) bool {
	return zxid == last+1 || Epoch(zxid) > Epoch(last) && counter(zxid) == 1
}

// compare compares the tree with the digest of t. ZooKeeper writes a wrong digest now and then, and
// the tree differs while the snapshot's traces of later transactions are in it. So a difference counts
// only if no later digest is equal.
func (r *reader) compare(log *logReader, rec *record, t *txn) {
	if t.zxid < r.highest {
		return
	}
	if d := &r.state.digest; !d.on {
		d.start(r.state)
	}
	switch {
	case r.state.digest.matches(t.digest):
		r.report.Digests++
		r.wrong = nil
	case r.wrong == nil:
		r.wrong = &Damage{File: log.file, Offset: rec.offset, Zxid: t.zxid, What: "from this transaction on, the tree does not have the digests that the log says", Remedy: useOtherOr}
	}
}

// finish checks the state, and does what ZooKeeper does when it has read everything.
func (r *reader) finish() error {
	s := r.state
	if s.nodes["/"] == nil {
		return &Damage{File: r.report.Snapshot, What: "the root is missing", Remedy: useOther}
	}
	for _, check := range []func() *Damage{r.checkBroken, r.checkTraces, func() *Damage { return r.wrong }} {
		if d := check(); d != nil {
			if err := r.lose(d); err != nil {
				return err
			}
		}
	}
	if d := r.checkACLs(); d != nil {
		return d
	}
	s.digest = digest{}
	s.Epoch = max(r.files.current, r.files.accepted, Epoch(s.Zxid))
	if r.options.TTL353 {
		s.readTTL353()
	}
	r.removeOrphans()
	s.countUsage()
	return nil
}

// checkBroken checks that the logs had the transactions that are in the snapshots that are not valid.
func (r *reader) checkBroken() *Damage {
	for i, file := range r.needed {
		if file.zxid <= r.state.Zxid && counter(file.zxid) == 0 || file.zxid <= r.report.SnapshotZxid {
			continue
		}
		d := *r.broken[i]
		d.What = fmt.Sprintf("this snapshot is not valid, and no log has the transaction %s that is in it: %s", zxidText(file.zxid), d.What)
		d.Remedy = useOtherOr
		return &d
	}
	return nil
}

// checkTraces checks that the logs go on to the last transaction of which the snapshot has a trace.
func (r *reader) checkTraces() *Damage {
	if r.highest <= r.state.Zxid || counter(r.highest) == 0 {
		return nil
	}
	return &Damage{File: r.report.Snapshot, Zxid: r.highest, What: fmt.Sprintf("the snapshot has a part of this transaction, but the logs end at %s", zxidText(r.state.Zxid)), Remedy: useOtherOr}
}

// checkACLs checks that all nodes have an ACL.
func (r *reader) checkACLs() (d *Damage) {
	r.state.each(func(n *Node) {
		if n.ACL == nil {
			d = &Damage{File: r.report.Snapshot, What: fmt.Sprintf("the node %.100q has the ACL number %d, which is not in the file", n.Path, n.missing), Remedy: useOther}
		}
	})
	return d
}

// readTTL353 reads the owners that 3.5.3 gave to TTL nodes.
func (s *State) readTTL353() {
	s.each(func(n *Node) {
		if s.Kind(n) != Ephemeral || n.Owner&^mask353 != mark353 || n.Owner&mask353 > ttlMask {
			return
		}
		if _, ok := s.Sessions[jute.SessionID(n.Owner)]; !ok {
			s.disown(n)
			n.Owner = TTLOwner(n.Owner & mask353)
		}
	})
}

// disown takes n out of its owner's nodes.
func (s *State) disown(n *Node) {
	if owned := s.owned[n.Owner]; owned != nil {
		if delete(owned, n); len(owned) == 0 {
			delete(s.owned, n.Owner)
		}
	}
}

// removeOrphans removes ephemeral nodes whose session is not there, as ZooKeeper does when it starts.
func (r *reader) removeOrphans() {
	var owners []int64
	for owner, nodes := range r.state.owned {
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
		if owner&^mask353 == mark353 {
			hint = ". If they are TTL nodes of ZooKeeper 3.5.3, which needs emulate353TTLNodes, add --ttl-353 and read again"
		}
		r.note("session %v is not there; its %d ephemeral nodes are removed, as ZooKeeper does%s", jute.SessionID(owner), len(r.state.owned[owner]), hint)
		r.state.deleteOwned(owner, r.state.Zxid)
	}
}
