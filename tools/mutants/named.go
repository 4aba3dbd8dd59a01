package main

import "slices"

// named has faults that a sample would miss, and for each of them the test that must notice it. A sample draws at all other
// lines on which a promise depends.
var named = slices.Concat(unlikely, syncFaults(), recipeFaults)

// unlikely has faults that samples do not judge: no sample has their kind, the tests of their lines are too slow for one, or their
// package gets none.
var unlikely = []namedMutant{
	{
		"verdict believed without a majority", "follower/divergence.go",
		"case theirs > len(voters)/2:", "case theirs > 0:",
		"follower", "TestVerdictNeedsAMajority",
	},
	{
		"one of two voters stands", "quorum/failuredetector.go",
		"const fewest = 3", "const fewest = 2",
		"quorum", "TestOneOfTwoDoesNotStand",
	},
	{
		"a pause of one's own counts as silence of the leader", "quorum/silencewatch.go",
		"w.tolerance.notePause(now, took-w.step())\n\treturn w.step()", "w.tolerance.notePause(now, took-w.step())\n\treturn took",
		"integration", "TestAllPauseTogether",
	},
	{
		"a leader's lease leaves no time for pauses", "quorum/timeouts.go",
		"return heartbeat + heartbeat*2/3", "return heartbeat",
		"integration", "TestLeaderPausesForAMoment",
	},
	{
		"a paused leader judges before it reads", "quorum/log.go",
		"if msg == lostContactMessage && r.awaitBacklog != nil {", "if r.awaitBacklog == nil {",
		"integration", "TestLongerPausesAreLearned",
	},
	{
		"a change of the leader teaches patience", "quorum/silencewatch.go",
		"if term == w.term {", "if term >= w.term {",
		"integration", "TestReplacementsTeachNoPatience",
	},
	{
		"outbox not cleared by a snapshot", "follower/observer.go",
		"f.outbox.forgetThrough(cursor)", "_ = cursor",
		"integration", "TestSnapshotInstalledUnderClients",
	},
	{
		"no lease in a new term", "sessiontracker/table.go",
		"\t\tt.shardOf(s.ID).queue.PutUnheard(s, s.Timeout)\n", "\t\tt.shardOf(s.ID).queue.Put(s, 0)\n",
		"integration", "TestAllPaused",
	},
	{
		"ephemeral of another session closed", "znode/sweep.go",
		"for i, path := range t.state.tree.ephemeralPaths(id, limit) {", "for i, path := range t.state.tree.ephemeralPaths(id-1, limit) {",
		"integration", "TestSchedules/seed=",
	},
	{
		"commit shown that the leader's disk lacks", "quorum/status.go",
		"return s.disk.Durability().LimitToSettled(s.raftValue((*raft.Raft).CommitIndex))", "return s.raftValue((*raft.Raft).CommitIndex)",
		"quorum", "TestAnyMajorityOfDisksCommits",
	},
	{
		"sync answered with what the leader's disk lacks", "quorum/status.go",
		"return s.disk.Durability().LimitToSettled(s.LastIndex())", "return s.LastIndex()",
		"quorum", "TestAnyMajorityOfDisksCommits",
	},
	{
		"sync answered with what the leader has counted", "quorum/status.go",
		"return s.disk.Durability().LimitToSettled(s.LastIndex())", "return s.CommitIndex()",
		"integration", "TestSyncSeesWhatAFollowerCommitted",
	},
	{
		"log of an earlier start believed", "quorum/disk/logmark.go",
		"	case e.start > now.start:\n", "	case e.start > now.start && false:\n",
		"quorum/disk", "TestPartsOfTwoDays",
	},
	{
		"log of another member believed", "quorum/disk/logmark.go",
		"	case e.logID != now.logID:\n", "	case e.logID != now.logID && false:\n",
		"quorum/disk", "TestLogOfAnotherDay",
	},
	{
		"earlier raft.db believed", "quorum/disk/known.go",
		"		case k.start > end.start:\n", "		case k.start > end.start && false:\n",
		"quorum/disk", "TestPartsOfTwoDays",
	},
	{
		"log makes way for its own snapshot", "quorum/disk/repair.go",
		"	case taken:\n", "	case taken && false:\n",
		"quorum/disk", "TestLogBeforeSnapshot",
	},
	{
		"lost snapshot not missed", "quorum/disk/logmark.go",
		"	if e.snapshot <= data {\n", "	if e.snapshot <= data || true {\n",
		"quorum/disk", "TestSnapshotIsGone",
	},
	{
		"raft.db of another member believed", "quorum/disk/known.go",
		"	case k.logID != end.logID:\n", "	case k.logID != end.logID && false:\n",
		"quorum/disk", "TestLogOfAnotherDay",
	},
	{
		"log that no file outside knows opened", "quorum/disk/known.go",
		"		if whole {\n", "		if whole && false {\n",
		"quorum/disk", "TestKnownEndIsGone",
	},
	{
		"missing mark of the log not missed", "quorum/disk/logmark.go",
		"	case errors.Is(err, fs.ErrNotExist) && required:\n", "	case errors.Is(err, fs.ErrNotExist) && required && false:\n",
		"quorum/disk", "TestKnownEndIsGone",
	},
	{
		"received snapshot counts as taken", "quorum/disk/known.go",
		"return err == nil && m.Taken", "return err == nil || m.Taken",
		"quorum/disk", "TestLogBeforeSnapshot",
	},
	{
		"full disk not waited for", "quorum/disk/segmentlog.go",
		"	if isDiskFull(err) && l.remover.waitUntilEmpty() {\n", "	if isDiskFull(err) && false {\n",
		"quorum/disk", "TestSegmentOnFullDisk",
	},
	{
		"configuration read before the acknowledgements", "quorum/wire/acks.go",
		"	a.mu.Lock()\n	defer a.mu.Unlock()\n	if term != a.term {\n", "	c := latest()\n	latest = func() raft.Configuration { return c }\n	a.mu.Lock()\n	defer a.mu.Unlock()\n	if term != a.term {\n",
		"quorum/wire", "TestConfigurationIsReadAfterTheAcks",
	},
	{
		"disk that writes once in a while is back", "member/diskaway.go",
		"		r.soundChecks = 0\n", "		_ = 0\n",
		"member", "TestDiskReturns",
	},
	{
		"number above its bound taken", "proto/bounds.go",
		"wire == protowire.VarintType && size > f.most", "wire == protowire.VarintType && size > f.most && false",
		"proto", "TestNumbersAtTheirBounds",
	},
	{
		"list above its bound taken", "proto/bounds.go",
		"lengths[number] > field.mostOf", "lengths[number] > field.mostOf && false",
		"proto", "TestListsAtTheirBounds",
	},
	{
		"number behind an unknown field unchecked", "proto/bounds.go",
		"m[number] == nil {\n			continue\n", "m[number] == nil {\n			return nil\n",
		"proto", "TestUnusualNumbers",
	},
	{
		"lease from the flush", "follower/leases.go",
		"max(l.validUntil, heard+leaseSpan", "max(l.validUntil, b.SentAt.Sub(s.timeBase)+leaseSpan",
		"follower", "TestRenewer",
	},
	{
		"data not masked", "quorum/disk/record.go",
		"uint64(seed)<<32 | uint64(^seed)", "0 * uint64(seed)",
		"quorum/disk", "TestWrongBitIsNotTorn",
	},
	{
		"batch after a damaged one unseen", "quorum/disk/torn.go",
		"ok && r.batch > end {", "ok && r.batch > end && false {",
		"quorum/disk", "TestDamagedSegments",
	},
	{
		"torn batch overwritten", "quorum/disk/segmentlog.go",
		"	if torn {\n", "	if torn && false {\n",
		"quorum/disk", "TestSegmentLogModel",
	},
	{
		"gRPC opens a stream anew", "member/peers.go",
		"_ = s.Context()", "_ = s",
		"member", "TestUnseenStreamEnds",
	},
	{
		"snapshot received in raft's main loop", "quorum/wire/serve.go",
		"rc.receiveAndInstall(r, install, io.LimitReader(in.r, install.Size))", "rc.callRaft(raft.RPC{Command: install, Reader: io.LimitReader(in.r, install.Size)}, nil)",
		"quorum", "TestSnapshotIsInstalled",
	},
	{
		"refused notice ignored", "quorum/wire/serve.go",
		"case form == withoutReply && (failed != nil || appended == nil || !appended.Success):", "case false:",
		"quorum/wire", "TestRefusedNoticeEndsConnection",
	},
	{
		"early commit beyond the leader's disk", "quorum/wire/earlycommit.go",
		"index := t.cfg.Durability.LimitToDurable(last.PrevLogEntry)", "index := last.PrevLogEntry",
		"quorum/wire", "TestEarlyCommit",
	},
	{
		"copies of a former term counted", "quorum/wire/acks.go",
		"if req.Term > a.term {", "if a.last == nil {",
		"quorum/wire", "TestDurableAcks",
	},
	{
		"copies of servers without a vote counted", "quorum/wire/acks.go",
		"case s.Suffrage != raft.Voter:", "case s.ID == self && s.Suffrage != raft.Voter:",
		"quorum/wire", "TestDurableAcks",
	},
	{
		"leader's queued copy counted as durable", "quorum/wire/acks.go",
		"own := cfg.Durability.LimitToDurable(r.LastIndex())", "own := r.LastIndex()",
		"quorum", "TestAnyMajorityOfDisksCommits",
	},
	{
		"follower acknowledges before its disk", "quorum/wire/durablereplies.go",
		"return index == 0 || rc.cfg.Durability.LimitToSettled(index) == index", "return true",
		"quorum", "TestAnyMajorityOfDisksCommits",
	},
	{
		"word taken for a commit of a majority", "quorum/wire/durablereplies.go",
		"majority = in.majority", "_ = in",
		"quorum", "TestAnyMajorityOfDisksCommits",
	},
	{
		"snapshot above the durable log", "quorum/fsm.go",
		"if !s.fsm.disk.AwaitDurable(of.Index) {", "if false {",
		"quorum", "TestSnapshotWaitsForTheLog",
	},
	{
		"read index of the leader's disk alone", "quorum/status.go",
		"return s.disk.Durability().LimitToSettled(s.LastIndex())", "return s.disk.Durability().LimitToDurable(s.LastIndex())",
		"quorum", "TestAnyMajorityOfDisksCommits",
	},
	{
		"touch batch forgotten when it is sent", "sessiontracker/touchmap.go",
		"\treturn slices.Clone(m.unackedBatches)\n", "\tb := m.unackedBatches\n\tm.unackedBatches = nil\n\treturn b\n",
		"sessiontracker", "TestTouchMap",
	},
	{
		"watchdog takes the next term", "member/terms.go",
		"t.currentLeader.CompareAndSwap(current, nil)", "_ = current; t.currentLeader.Store(nil)",
		"member", "TestLateStallSparesTheNextTerm",
	},
	{
		"announcement of any other run", "znode/members.go",
		" || r.incarnation != req.GetReplaces() {", " {",
		"znode", "TestAnnounce",
	},
	{
		"announcement counted again", "znode/members.go",
		"if r.incarnation == txn.GetIncarnation() || r.incarnation != req.GetReplaces() {", "if false {",
		"integration", "TestRepeatedAnnouncement",
	},
	{
		"checks by the wall clock", "leader/expire.go",
		"l.stepExpiry(&r, l.cfg.Monotonic.Now())", "l.stepExpiry(&r, l.cfg.WallClock.Now())",
		"integration", "TestWallClocksJump",
	},
	{
		"entry before a request looked for in the log only", "quorum/wire/receive.go",
		"if req.PrevLogEntry > applied {", "if true {",
		"quorum", "TestConflictRightAfterASnapshot",
	},
	{
		"digest of what is each member's own", "znode/digest.go",
		"uint64(life.owner), uint64(life.ttlMs)", "uint64(life.owner)+n.gen, uint64(life.ttlMs)",
		"integration", "TestSchedules/seed=",
	},
	{
		"write that was sent called withdrawn", "follower/outbox.go",
		"return o.lanes[conn] == nil", "return true",
		"follower", "TestWithdraw",
	},
	{
		"first frame as long as any other", "server/stream/read.go",
		"return cfg.MaxFirstFrame", "return cfg.MaxFrame",
		"server", "TestLongFirstFrame",
	},
	{
		"forgotten connection kept", "member/peers.go",
		"	if conn != nil {\n		_ = conn.Close()", "	if false {\n		_ = conn.Close()",
		"integration", "TestForgottenFlows",
	},
	{
		"overrun budget closes those that hold little first", "server/stream/budget.go",
		"idle && held > share}", "idle && held > 0*share}",
		"server", "TestBudgetOverrun",
	},
	{
		"strangers take the tokens of members", "quorum/wire/handshakelimiter.go",
		"case known && !d.memberBuckets.hasToken(addr, now):", "case known && !d.strangersBucket.hasToken(strangersRate, now):",
		"quorum/wire", "TestStrangersEmptyNoMembersBucket",
	},
	{
		"leaving voter keeps its clients", "member/removed.go",
		"\tfor since := (time.Time{}); ; {\n\t\tversion := w.unlistedVersion()\n", "	for since := (time.Time{}); ; {\n		version := w.removedVersion()\n",
		"integration", "TestClientOfAVoterThatLeaves",
	},
	{
		"emptied disk keeps its name", "quorum/disk/id.go",
		"_, _ = rand.Read(b[:]) // never", "b[idSize-1], _ = 1, rand.Reader // never",
		"quorum", "TestCopiedConfigurationGivesNoVote",
	},
	{
		"mark of the log not synced", "quorum/disk/logmark.go",
		"err != nil || !sync {", "err != nil || true {",
		"integration/power", "TestAllLosePower",
	},
	{
		"terms and votes not synced", "quorum/disk/bolt.go",
		"raftboltdb.Options{Path: f.path,", "raftboltdb.Options{NoSync: true, Path: f.path,",
		"integration/power", "TestAllLosePower",
	},
	{
		"line of a required audit log not synced", "operator/audit/file.go",
		"(w.syncWrites || first)", "first",
		"integration/power", "TestAuditLosesPower",
	},
	{
		"credentials for a port that is only guessed", "cli/discover.go",
		"	if !credentials {\n", "	if true {\n",
		"cli", "TestCredentialsGoNowhereElse",
	},
	{
		"newcomer asked at another port", "member/hello.go",
		"s.QuorumAddr(), id)", "s.ElectionAddr(), id)",
		"member", "TestNewcomerIsAskedOnAConnectionOfItsOwn",
	},
	{
		"right held after its release", "client/right.go",
		"if r.over.Err() != nil {\n\t\treturn false\n\t}\n\tif !r.c.Held()", "if !r.c.Held()",
		"integration/recipes/schedules", "TestRandomFaults/seed=",
	},
}

// syncs are calls that sync files and directories. Only tests in integration/power, which trace the system calls of a process,
// notice that one is left out.
//
// Syncs that a later sync makes up for before anything is promised are not there: of the directory of a new log (segmentlog.go), of
// the directory above a new data directory if a start was killed in between (directory.go), of the directory with a member's
// number, and of the directory of an audit log that is opened. The first lines of an audit log matter only to a loss of power in
// the first moments of a file.
var syncs = []struct {
	name, file   string
	before, call string // before has what stands before the call, if the file has the call twice
	test         string
}{
	{"batch of the log not synced", "quorum/disk/segmentlog.go", "err := ", "syncData(last.file)", "TestAllLosePower"},
	{"end of the log not synced at a start", "quorum/disk/segmentlog.go", "Join(", "syncData(last.file)", "TestStartSyncsWhatItFinds"},
	{"names of the log not synced at a start", "quorum/disk/segmentlog.go", "", "durable.SyncDirectory(l.dir)", "TestStartSyncsWhatItFinds"},
	{"size of a segment not synced", "quorum/disk/segment.go", "", "file.Sync()", "TestAllLosePower"},
	{"name of a segment not synced", "quorum/disk/segment.go", "", "durable.SyncDirectory(dir)", "TestAllLosePower"},
	{"name of a removed segment not synced", "quorum/disk/remover.go", "", "durable.SyncDirectory(r.dir)", "TestMemberAloneLosesPower"},
	{"replaced file not synced", "quorum/disk/directory.go", "", "file.Sync()", "TestAllLosePower"},
	{"name of a replaced file not synced", "quorum/disk/directory.go", "", "durable.SyncDirectory(filepath.Dir(path))", "TestAllLosePower"},
	{"mark of a restore not synced", "quorum/disk/incomplete.go", "", "file.Sync()", "TestMarksAreDurable"},
	{"name of the mark of a restore not synced", "quorum/disk/incomplete.go", "if err == nil {\n\t\terr = ", "durable.SyncDirectory(f.dir)", "TestMarksAreDurable"},
	{"end of the mark of a restore not synced", "quorum/disk/incomplete.go", "os.ErrNotExist) {\n\t\terr = ", "durable.SyncDirectory(f.dir)", "TestMarksAreDurable"},
	{"snapshot not synced", "quorum/disk/snapshotfiles.go", "", "k.file.Sync()", "TestAllLosePower"},
	{"name of a snapshot not synced", "quorum/disk/snapshotfiles.go", "", "durable.SyncDirectory(k.store.dir)", "TestAllLosePower"},
	{"name of a made directory not synced", "internal/durable/durable.go", "", "SyncDirectory(filepath.Dir(dir))", "TestNewDirectoryLosesPower"},
	{"number of a member not synced", "config/myid.go", "", "f.Sync()", "TestNewDirectoryLosesPower"},
	{"token of rollcall up not synced", "cmd/rollcall/upfiles.go", "", "f.Sync()", "TestNewDirectoryLosesPower"},
	{"backup not synced", "operator/backup/save.go", "", "p.Sync()", "TestCommandsLosePower"},
	{"name of a backup not synced", "operator/backup/save.go", "", "durable.SyncDirectory(p.dir)", "TestCommandsLosePower"},
	{"file for ZooKeeper not synced", "migrate/datadir/write.go", "", "f.Sync()", "TestCommandsLosePower"},
	{"names of files for ZooKeeper not synced", "migrate/datadir/write.go", "", "durable.SyncDirectory(partial)", "TestCommandsLosePower"},
	{"name of an export not synced", "migrate/datadir/write.go", "", "durable.SyncDirectory(dir)", "TestCommandsLosePower"},
	{"dump not synced", "cli/dump.go", "", "f.Sync()", "TestCommandsLosePower"},
	{"name of a dump not synced", "cli/dump.go", "", "durable.SyncDirectory(filepath.Dir(name))", "TestCommandsLosePower"},
	{"key not synced", "cmd/rollcall/certs.go", "", "file.Sync()", "TestCommandsLosePower"},
	{"name of a key not synced", "cmd/rollcall/certs.go", "", "durable.SyncDirectory(filepath.Dir(f.path))", "TestCommandsLosePower"},
	{"name of an audit log not synced", "operator/audit/file.go", "&& first {\n\t\terr = ", "durable.SyncDirectory(filepath.Dir(w.path))", "TestAuditLosesPower"},
	{"end of an audit log not synced", "operator/audit/file.go", "Join(", "w.f.Sync()", "TestAuditLosesPower"},
}

// syncFaults returns the faults that leave out one of the syncs, as if it had succeeded.
func syncFaults() (faults []namedMutant) {
	for _, s := range syncs {
		faults = append(faults, namedMutant{s.name, s.file, s.before + s.call, s.before + "error(nil)", "integration/power", s.test})
	}
	return faults
}
