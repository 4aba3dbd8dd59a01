package main

// named has faults in lines on which a promise depends, and for each of them the test that must notice it.
//
// In the end come the syncs of files and directories. Not there are those that a later sync makes up for before anything is
// promised: of the directory of a new log (segmentlog.go), of the directory above a new data directory if a start was killed in between
// (directory.go), of the directory with a member's number, and of the directory of an audit log that is opened. The first
// lines of an audit log matter only to a loss of power in the first moments of a file.
var named = []namedMutant{
	{
		"owner unchecked", "znode/session.go",
		"case session.Owner != ownerOfTxn(t.txn):", "case session.Owner != ownerOfTxn(t.txn) && false:",
		"integration", "TestMovedSessionWithStuckWrite",
	},
	{
		"old attach accepted", "znode/session.go",
		"if req.GetOwnerIndex() != old.OwnerIndex && old.Owner.Member != t.txn.GetMember() {", "if false {",
		"integration", "TestOldAttachAfterTheHeal",
	},
	{
		"old handshake tried again", "server/handshake.go",
		" && time.Since(h.startedAt) < c.srv.cfg.Tick/2:", ":",
		"integration", "TestHalfOpenAttachDoesNotTakeTheSessionBack",
	},
	{
		"expiry of a session that came back", "znode/session.go",
		"if !ok || session.OwnerIndex > req.GetOwnerIndex() {", "if !ok {",
		"znode", "TestExpireAndAttach",
	},
	{
		"session made for a client that has gone", "follower/outbox.go",
		"if r.lane.connClosed && isHandshake(r.txn) {", "if false {",
		"integration", "TestCreateOfAClientThatHasGone",
	},
	{
		"vouching for longer than the leader waits", "follower/leases.go",
		"{ return timeout - timeout/10 }", "{ return 2 * timeout }",
		"integration", "TestNobodyVouchesForTheExpired",
	},
	{
		"vouching unchecked", "server/stream/output.go",
		"if !f.awaitPermit(time.Now()) {", "if false {",
		"server", "TestNothingLeavesUnvouched",
	},
	{
		"leader proves to itself that it leads", "leader/proof.go",
		"return replies > voters/2", "return replies > 0",
		"leader", "TestVotersProve",
	},
	{
		"request for another member passed to raft", "quorum/wire/serve.go",
		"err = rc.checkAndSetSender(in.serverID, command)", "err = nil",
		"quorum/wire", "TestImpostorIsRefused",
	},
	{
		"message for another member passed on", "member/identity.go",
		"case sender == nil || sender(message) == from:", "case true:",
		"member", "TestMemberSpeaksForItselfOnly",
	},
	{
		"verdict believed without a majority", "follower/divergence.go",
		"case theirs > len(voters)/2:", "case theirs > 0:",
		"follower", "TestVerdictNeedsAMajority",
	},
	{
		"leader taken for dead at one refusal", "quorum/failuredetector.go",
		"if refused == requiredRefusals {", "if refused > 0 {",
		"quorum", "TestNoFalseDetection",
	},
	{
		"leader taken for lost at the end of any connection", "quorum/wire/serve.go",
		"isClosedByPeer(err) && in.serverID != \"\" && !rc.peerConns.hasConnFrom(in.serverID) {", "isClosedByPeer(err) && in.peerID != 0 {",
		"quorum/wire", "TestLastConnectionIsLost",
	},
	{
		"stands after every detection", "quorum/failuredetector.go",
		"time.Since(lastStood) < standCooldown*d.electionTimeout", "time.Since(lastStood) < 0",
		"quorum", "TestFalseDetectionsAreBounded",
	},
	{
		"stands after it has voted", "quorum/failuredetector.go",
		"d.mayAcceptLeadership() == nil && d.stillLeaderless(r, l)", "d.mayAcceptLeadership() == nil",
		"quorum", "TestDeadLeaderIsReplacedAtOnce",
	},
	{
		"one of two voters stands", "quorum/failuredetector.go",
		"const fewest = 3", "const fewest = 2",
		"quorum", "TestOneOfTwoDoesNotStand",
	},
	{
		"outbox not cleared by a snapshot", "follower/observer.go",
		"f.outbox.forgetThrough(cursor)", "_ = cursor",
		"integration", "TestSnapshotInstalledUnderClients",
	},
	{
		"cursor ignored", "znode/members.go",
		" || txn.GetSeq() != r.lastSeq+1 {", " {",
		"integration", "TestSchedules/seed=",
	},
	{
		"operations of a multi count as one in an entry", "leader/batch.go",
		"ops: znode.TxnWeight(", "ops: 1 + 0*znode.TxnWeight(",
		"leader", "TestOperationsOfAMultiCount",
	},
	{
		"heavy writes sent without bound", "follower/inflight.go",
		"case f.heavyWeight >= maxHeavy:", "case false:",
		"follower", "TestHeavyWritesTogether",
	},
	{
		"writes share by number, not by weight", "follower/fairqueue.go",
		"\tclass.virtualStart += uint64(weight)\n", "\tclass.virtualStart++\n",
		"follower", "TestClassesShareByWeight",
	},
	{
		"multis of any length", "server/request.go",
		"jute.CountMultiOps(r.body) > c.srv.cfg.Limits.MaxMultiOps {\n\t\tc.srv.cfg.Audit", "false {\n\t\tc.srv.cfg.Audit",
		"server", "TestMultiLimit",
	},
	{
		"every session of an entry has a budget of its own", "znode/sweep.go",
		"\tb.remaining -= nodes\n", "",
		"znode", "TestSessionsOfAnEntryShareABudget",
	},
	{
		"no rest between the expiries of a storm", "leader/batch.go",
		"if e.hasRemovals {", "if false {",
		"leader", "TestMassExpiryIsPaced",
	},
	{
		"close answered before all its ephemerals are gone", "server/request.go",
		"if res.NodesLeft {", "if false {",
		"integration", "TestSweepGoesOnUnderTheNextLeader",
	},
	{
		"nothing sent again", "follower/link.go",
		"\tf.out.resendUnapplied()\n", "",
		"integration", "TestSchedules/seed=",
	},
	{
		"no lease in a new term", "sessiontracker/table.go",
		"\t\tt.shardOf(s.ID).queue.Put(s, s.Timeout)\n", "\t\tt.shardOf(s.ID).queue.Put(s, 0)\n",
		"integration", "TestAllPaused",
	},
	{
		"cursor lost in the snapshot", "znode/sections.go",
		"p.putUint64(m.LastSeq)", "p.putUint64(0)",
		"integration", "TestSchedules/seed=",
	},
	{
		"sync answered with what is applied anyway", "follower/syncs.go",
		"syncRound{term: t, index: reply.Index, conns", "syncRound{term: t, conns",
		"integration", "TestSyncOnALaggingMember",
	},
	{
		"events behind the next write", "znode/transaction.go",
		"\tt.watches.firePending(t.state.zxid, &t.state.term.Rules)\n\tt.keepClientDeletes()\n", "\tt.keepClientDeletes()\n",
		"integration", "TestSchedules/seed=",
	},
	{
		"ephemeral of another session closed", "znode/sweep.go",
		"for i, path := range t.state.ephemeralPaths(id, limit) {", "for i, path := range t.state.ephemeralPaths(id-1, limit) {",
		"integration", "TestSchedules/seed=",
	},
	{
		"writes of a connection in any order", "follower/outbox.go",
		"\tl := o.ensureLane(txn.Conn)\n", "\tl := o.ensureLane(uint64(len(txn.Body)))\n",
		"integration", "TestSchedules/seed=",
	},
	{
		"a lost term's entries counted as applied", "follower/inflight.go",
		"f.nextToSend = max(f.nextToSend, first)", "f.nextToSend = max(f.nextToSend, f.lastNumber)",
		"integration", "TestSchedules/seed=",
	},
	{
		"acknowledged before it is on the disk", "quorum/disk/stores.go",
		`func() error { return s.LogStore.StoreLogs(logs) })`, `func() error { go s.LogStore.StoreLogs(logs); return nil })`,
		"integration", "TestTornWrites",
	},
	{
		"applied before the leader's disk has it", "quorum/fsm.go",
		"f.failed || !f.awaitDurable(logs[len(logs)-1].Index)", "f.failed",
		"integration", "TestLeaderLosesItsQueue",
	},
	{
		"followers told before the leader's disk has it", "quorum/wire/transport.go",
		"t.cfg.LimitToDurable(req.PrevLogEntry + uint64(len(req.Entries)))", "req.PrevLogEntry + uint64(len(req.Entries))",
		"integration", "TestLeaderLosesItsQueue",
	},
	{
		"commit shown that the leader's disk lacks", "quorum/status.go",
		"return s.disk.LimitToDurable(s.raftValue((*raft.Raft).CommitIndex))", "return s.raftValue((*raft.Raft).CommitIndex)",
		"quorum", "TestLeaderStoresBesides",
	},
	{
		"sync answered with what the leader's disk lacks", "quorum/status.go",
		"return s.disk.LimitToDurable(s.LastIndex())", "return s.LastIndex()",
		"quorum", "TestLeaderStoresBesides",
	},
	{
		"sync proved by a disk without a vote", "leader/membership.go",
		"s.ID == other.ID && s.Disk == other.Disk", "s.ID == other.ID",
		"leader", "TestSyncOfASecondVoter",
	},
	{
		"sync proved by a leader's disk without a vote", "leader/membership.go",
		"s.ID == m.cfg.Self && s.Disk == m.cfg.Disk", "s.ID == m.cfg.Self",
		"leader", "TestSyncOfASecondVoter",
	},
	{
		"sync proved by a member in a later term", "follower/syncs.go",
		"if !s.leadership.mayStillLead(t) {", "if false {",
		"follower", "TestSyncWaits",
	},
	{
		"sync proved by half of the voters", "leader/membership.go",
		"return both > voters/2", "return both >= voters/2",
		"leader", "TestSyncOfASecondVoter",
	},
	{
		"sync waits for an index that is lost", "follower/syncs.go",
		" || r.term.ctx.Err() != nil", "",
		"follower", "TestSyncIndexIsLost",
	},
	{
		"sync answered with what the leader has counted", "quorum/status.go",
		"return s.disk.LimitToDurable(s.LastIndex())", "return s.CommitIndex()",
		"integration", "TestSyncSeesWhatAFollowerCommitted",
	},
	{
		"follower's entries stored later", "quorum/disk/queue.go",
		"return q.raftLeads != nil && q.raftLeads()", "return q.raftLeads != nil",
		"quorum/disk", "TestQueueIsFirst",
	},
	{
		"configuration stored later", "quorum/disk/queue.go",
		"if l.Type == raft.LogConfiguration || l.Type == raft.LogNoop {", "if l == nil {",
		"quorum/disk", "TestQueueIsFirst",
	},
	{
		"term written before the entries of the last one", "quorum/disk/stable.go",
		"\ts.drainQueueOrExit()\n", "",
		"quorum", "TestDeposedLeaderStoresItsQueueFirst",
	},
	{
		"vote in the term of an earlier one", "quorum/disk/stable.go",
		"\t\ts.pendingVoteTerm = nil\n", "",
		"quorum/disk", "TestVoteWithoutTerm",
	},
	{
		"log shortened before its end is written", "quorum/disk/queue.go",
		"\tq.drainOrExit()\n\treturn q.logStore.DeleteRange(first, last)", "	return q.logStore.DeleteRange(first, last)",
		"quorum/disk", "TestQueueIsFirst",
	},
	{
		"lost end of the log unseen", "quorum/disk/logmark.go",
		"case m.segment == now.segment && m.index > now.index:", "case false:",
		"quorum/disk", "TestDamagedSegments",
	},
	{
		"lost segment of the log unseen", "quorum/disk/logmark.go",
		"case m.segment > now.segment:", "case false:",
		"quorum/disk", "TestDamagedSegments",
	},
	{
		"mark of another segment believed", "quorum/disk/logmark.go",
		"case m.segment == now.segment && m.index", "case m.segment <= now.segment && m.index",
		"quorum/disk", "TestSegmentLogModel",
	},
	{
		"damaged batch taken for a torn one", "quorum/disk/torn.go",
		"if isZero(b[at:next]) {", "if true {",
		"quorum/disk", "TestDamagedSegments",
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
		"record's place unchecked", "quorum/disk/segment.go",
		"case r.before != s.last, r.batch != batch,", "case false,",
		"quorum/disk", "TestDamagedSegments",
	},
	{
		"end of a full segment unchecked", "quorum/disk/segment.go",
		"s.next() != next.base || s.lastEntry != next.before; {", "s.next() != next.base; {",
		"quorum/disk", "TestDamagedSegments",
	},
	{
		"segment of another log read", "quorum/disk/segmentlog.go",
		"case s.logID != last.logID || s.number", "case s.number",
		"quorum/disk", "TestDamagedSegments",
	},
	{
		"missing segment unseen", "quorum/disk/segmentlog.go",
		"if err == nil && need > last.newestFront {", "if false {",
		"quorum/disk", "TestDamagedSegments",
	},
	{
		"front of the log forgotten", "quorum/disk/segment.go",
		"		c.newestFront = r.index\n", "",
		"quorum/disk", "TestSegmentLogModel",
	},
	{
		"payload of an entry unchecked", "quorum/disk/record.go",
		"return p, crc32.Checksum(p, castagnoliTable) == r.payloadChecksum", "return p, true",
		"quorum/disk", "TestDamagedSegments",
	},
	{
		"header of a segment unchecked", "quorum/disk/segment.go",
		"if h.checksum != crc32.Checksum(b[:at], castagnoliTable) {", "if false {",
		"quorum/disk", "TestDamagedSegments",
	},
	{
		"size of a segment unchecked", "quorum/disk/segment.go",
		"case h.size != info.Size():", "case false:",
		"quorum/disk", "TestDamagedSegments",
	},
	{
		"mark's checksum unchecked", "quorum/disk/logmark.go",
		"if binary.BigEndian.Uint32(b[at:]) != crc32.Checksum(b[:at], castagnoliTable) {", "if at < 0 {",
		"quorum/disk", "TestDamagedSegments",
	},
	{
		"written after a failed write", "quorum/disk/segmentlog.go",
		"	if l.failed == nil {\n", "	if true {\n",
		"quorum/disk", "TestWriteFails",
	},
	{
		"log continued with a gap", "quorum/disk/segmentlog.go",
		"next != 0 && next != logs[0].Index {", "false {",
		"quorum/disk", "TestSegmentLog",
	},
	{
		"changed vote unseen", "quorum/disk/bolt.go",
		"case now.valuesChecksum != m.valuesChecksum:", "case false:",
		"quorum/disk", "TestDamagedBolt",
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
		"log deleted for a snapshot that nobody has read", "quorum/disk/repair.go",
		"\t\terr = verifySnapshot(s, &snap, verify)\n", "",
		"quorum/disk", "TestRepair",
	},
	{
		"snapshot's metadata believed without their checksum", "quorum/disk/snapshotfiles.go",
		"case string(sum) != metaChecksumLine(line):", "case string(sum) == \"\":",
		"quorum/disk", "TestSnapshotBitFlips",
	},
	{
		"checksum between members unchecked", "quorum/wire/checksum.go",
		"if c.receivedChecksum != sum {", "if c.receivedChecksum != sum && n == 0 {",
		"quorum/wire", "TestEveryFlippedBitIsNoticed",
	},
	{
		"length of a record between members unchecked", "quorum/wire/checksum.go",
		"here != there || n > maxRecordSize", "n > maxRecordSize",
		"quorum/wire", "TestEveryFlippedBitIsNoticed",
	},
	{
		"received snapshot handed over unread", "quorum/wire/receive.go",
		"if err := rc.cfg.VerifySnapshot(s, req); err != nil {", "if err := rc.cfg.VerifySnapshot(s, req); err != nil && req == nil {",
		"quorum", "TestBadSnapshotIsRefused",
	},
	{
		"entry of an old term applied", "znode/apply.go",
		"case entry.GetTerm() != term || term != s.term.Term || entry.GetNonce() != s.term.Nonce:", "case entry.GetTerm() != term:",
		"znode", "TestTerms",
	},
	{
		"commit index unclamped", "quorum/wire/transport.go",
		"if req.LeaderCommitIndex <= proved {", "if true {",
		"quorum/wire", "TestCommitIsClamped",
	},
	{
		"a later leader's commit counts for a server without a vote", "quorum/wire/nonvoter.go",
		"if r.CurrentTerm() != term {", "if false {",
		"quorum", "TestNonvoterGetsNothingOfADeposedLeader",
	},
	{
		"entries of an earlier term carry a later term's commit", "quorum/wire/pipeline.go",
		"; term == req.Term {", "; term > 0 {",
		"quorum/wire", "TestNoCommitNotice",
	},
	{
		"frame with any number of entries", "quorum/wire/frames.go",
		"if n > m.maxElements {", "if n > 255 {",
		"quorum/wire", "TestFramesRefused",
	},
	{
		"sender of frames kept unchecked", "quorum/wire/serve.go",
		"; ok && err == nil {\n\t\t\tin.frameSender", "; ok {\n\t\t\tin.frameSender",
		"quorum/wire", "TestSenderIsKeptShort",
	},
	{
		"refused notice ignored", "quorum/wire/serve.go",
		"case c.form == withoutReply && (failed != nil || appended == nil || !appended.Success):", "case false:",
		"quorum/wire", "TestRefusedNoticeEndsConnection",
	},
	{
		"late notices never sent", "quorum/wire/notices.go",
		"[]bool{true, false}", "[]bool{true}",
		"quorum/wire", "TestAllAreToldAtOnce",
	},
	{
		"a commit told twice", "quorum/wire/notices.go",
		"return !p.hasSent(index)", "return true",
		"quorum/wire", "TestCommitWakesNobodyTwice",
	},
	{
		"word beyond the leader's disk", "quorum/wire/word.go",
		"index := t.cfg.LimitToDurable(last.PrevLogEntry)", "index := last.PrevLogEntry",
		"quorum/wire", "TestWord",
	},
	{
		"word for an entry of an earlier term", "quorum/wire/word.go",
		"last.PrevLogTerm != req.Term || ", "",
		"quorum/wire", "TestWord",
	},
	{
		"word while a configuration is not committed", "quorum/wire/word.go",
		" || !t.cfg.ConfigurationCommitted()", "",
		"quorum/wire", "TestWord",
	},
	{
		"word of a term that is over", "quorum/wire/word.go",
		"if r.CurrentTerm() != req.Term {", "if false {",
		"quorum/wire", "TestWord",
	},
	{
		"word of a leader without a vote", "quorum/wire/word.go",
		"one != other && isVoter(c, one) &&", "one != other &&",
		"quorum/wire", "TestTwoAreMajority",
	},
	{
		"word to a server without a vote", "quorum/wire/word.go",
		"isVoter(c, other) && ", "",
		"quorum/wire", "TestTwoAreMajority",
	},
	{
		"word among more than three voters", "quorum/wire/word.go",
		" && countVoters(c) <= maxWordVoters", "",
		"quorum/wire", "TestTwoAreMajority",
	},
	{
		"followers not told when the leader's disk is done", "quorum/disk/queue.go",
		"\t\tq.onWritten()\n", "",
		"integration", "TestRoundTrips",
	},
	{
		"entry of several members names the first", "leader/batch.go",
		"case !slices.Contains(members, txn.Member):", "case len(members) == 0:",
		"leader", "TestEntryNamesItsSenders",
	},
	{
		"request with any number of entries", "quorum/wire/message.go",
		"case isList && n > m.maxElements:", "case isList && n < 0:",
		"quorum/wire", "TestReadRefuses",
	},
	{
		"table time unclamped", "sessiontracker/table.go",
		"min(now.Sub(c.lastStepAt), t.step+t.lateAllowance())", "now.Sub(c.lastStepAt)",
		"sessiontracker", "TestTouchBetweenSteps",
	},
	{
		"late check loses no time", "sessiontracker/table.go",
		"\t\tc.lastStepAt = now\n", "",
		"sessiontracker", "TestAdvanceIsOneStep",
	},
	{
		"touch batch forgotten when it is sent", "sessiontracker/touchmap.go",
		"\treturn slices.Clone(m.unackedBatches)\n", "\tb := m.unackedBatches\n\tm.unackedBatches = nil\n\treturn b\n",
		"sessiontracker", "TestTouchMap",
	},
	{
		"expiry without a round of its own", "leader/expire.go",
		"if now.Before(r.endsAt) && !l.pinger.allReplied(r.pingNumber, now) {", "if false {",
		"leader", "TestExpiryAsksFirst",
	},
	{
		"refused proposal ignored", "leader/batch.go",
		"	if err := e.Error(); err != nil {\n", "	if err := e.Error(); false {\n",
		"leader", "TestRefusedProposalEndsTerm",
	},
	{
		"old stream read on", "leader/batch.go",
		"return !q.closed && q.streams[f.member] == f }", "return !q.closed }",
		"leader", "TestNewStreamEndsOld",
	},
	{
		"read overtakes the connection's writes", "server/request.go",
		"\tif c.replies.queue.n > 0 || r.inParts || long || !c.replies.claimBudget(r) {\n", "\tif r.inParts || long {\n",
		"server", "TestOrder",
	},
	{
		"acknowledgement counts before its index is applied", "follower/acks.go",
		" || q.pending[0].commit > applied {", " {",
		"follower", "TestAck",
	},
	{
		"ping of an old term answered", "follower/leadership.go",
		"case ping.Term < term:", "case false:",
		"follower", "TestWhoMayPing",
	},
	{
		"stalled leader speaks on", "quorum/disk/stall.go",
		"if oldest.startedAt.IsZero() || time.Since(oldest.startedAt) < o.stallLimit {", "if true {",
		"integration", "TestStalledLeader",
	},
	{
		"clients of a stalled member left where they are", "member/stall.go",
		"\t\t\th.server.DropAll()", "",
		"integration", "TestStalledLeader",
	},
	{
		"watchdog takes the next term", "member/terms.go",
		"t.currentLeader.CompareAndSwap(current, nil)", "_ = current; t.currentLeader.Store(nil)",
		"member", "TestLateStallSparesTheNextTerm",
	},
	{
		"entry of an ended term applied within raft's", "znode/apply.go",
		" || entry.GetNonce() != s.term.Nonce:", ":",
		"integration", "TestTwoTermsInOneOfRaft",
	},
	{
		"change of leadership forgotten", "member/terms.go",
		"				stop = nil\n			}\n", "\t\t\t\tstop = nil\n\t\t\t\tfor len(t.m.node.LeadershipChanges()) > 0 {\n\t\t\t\t\t<-t.m.node.LeadershipChanges()\n\t\t\t\t}\n\t\t\t}\n",
		"integration", "TestLostAndGainedBetweenTwoLooks",
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
		"refusal waits for its commit", "follower/acks.go",
		"if !a.refusalsCut && a.through != 0 &&", "if false &&",
		"integration", "TestShorterTimeoutElsewhere",
	},
	{
		"refused touch acknowledged", "leader/ping.go",
		"a.refusedSessions = p.cfg.Sessions.TouchAll(m.id, at, batch.Sessions, batch.TimeoutsMs, a.refusedSessions)", "p.cfg.Sessions.TouchAll(m.id, at, batch.Sessions, batch.TimeoutsMs, nil)",
		"integration", "TestRefusedTouchInABatch",
	},
	{
		"checks by the wall clock", "leader/expire.go",
		"l.stepExpiry(&r, l.cfg.Monotonic.Now())", "l.stepExpiry(&r, l.cfg.WallClock.Now())",
		"integration", "TestWallClocksJump",
	},
	{
		"empty member begins alone", "quorum/bootstrap.go",
		"case b.runsAlone:", "case true:",
		"integration", "TestTwoWipedOfThree",
	},
	{
		"configuration withheld from a voter that had no vote in it", "quorum/wire/nonvoter.go",
		"return votes || ", "return votes && req.Entries[0].Type != raft.LogConfiguration || ",
		"integration", "TestVoterWithoutTheLastConfigurations",
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
		"damage forgotten by a restart", "quorum/record.go",
		"c.disk.Stable().SetValue(keyDamage, []byte(reason))", "error(nil)",
		"integration", "TestDamagedFollower",
	},
	{
		"damaged leader speaks on", "quorum/node.go",
		"n.mayLead, IsStableLeader:", "n.StallError, IsStableLeader:",
		"quorum", "TestDamagedMemberOnlyVotes",
	},
	{
		"kill of a session that moved on", "znode/session.go",
		"case session.OwnerIndex != req.GetOwnerIndex():", "case false:",
		"integration", "TestKillOfASessionThatMovesOn",
	},
	{
		"write that was sent called withdrawn", "follower/outbox.go",
		"return o.lanes[conn] == nil", "return true",
		"follower", "TestWithdraw",
	},
	{
		"time that never goes back", "znode/apply.go",
		"s.timeMs = entry.GetTimeMs()\n\t\ts.runningTxn.budget.refill()", "s.timeMs = max(s.timeMs, entry.GetTimeMs())\n\t\ts.runningTxn.budget.refill()",
		"znode", "TestTimeFollowsTheStamp",
	},
	{
		"reaper by a clock that has jumped", "leader/reap.go",
		"if _, agreed := r.clocks.clockFault(); !agreed {", "if false {",
		"leader", "TestReaperIsHeldByOthers",
	},
	{
		"heartbeats unanswered while a snapshot is installed", "quorum/wire/receive.go",
		"for !rc.isInstalling(r, req.Term) {", "for r != nil {",
		"quorum", "TestLongInstallKeepsTheLeader",
	},
	{
		"requests of any length together", "quorum/wire/serve.go",
		"for c.requestBytes > maxRequestMemory {", "for false {",
		"quorum/wire", "TestRequestsTogether",
	},
	{
		"member that is down given up", "quorum/wire/transport.go",
		"\tcase !isHeartbeat(req):\n", "	case false:\n",
		"integration", "TestReturningMemberServes",
	},
	{
		"requests held while leadership is handed over", "quorum/transfer.go",
		"\tt.inProgress.Add(1) // raft", "\tt.inProgress.Add(0) // raft",
		"quorum", "TestNoHoldDuringHandOver",
	},
	{
		"configuration checked by raft's decoder alone", "quorum/wire/check.go",
		"checkBounds(b, configurationBounds); err != nil {", "error(nil); err != nil {",
		"quorum/wire", "TestCheckRequest",
	},
	{
		"half of the members are a majority", "leader/compare.go",
		"if int(n) > len(voters)/2 {", "if int(n) >= len(voters)/2 {",
		"leader", "TestVerdictWithoutAMajority",
	},
	{
		"large write weighs as little as a small one", "follower/fairqueue.go",
		"max((size+bytesPerUnit-1)/bytesPerUnit, ", "max(min(size, 1), ",
		"follower", "TestWeigh",
	},
	{
		"watchers told without end", "znode/watch.go",
		"w.entrySteps <= maxFireSteps {", "true {",
		"znode", "TestFireStepsOfAnEntry",
	},
	{
		"long text of a quota read", "znode/quota.go",
		"if len(data) > maxQuotaText {", "if false {",
		"znode", "TestQuotaOfALongText",
	},
	{
		"lists of a request not added up", "server/bounds.go",
		"e.listBytes += size", "e.listBytes = size",
		"server", "TestWritesWeighTheirLists",
	},
	{
		"list counted for each node that has it", "znode/tree.go",
		"if a.nodeCount++; a.nodeCount == 1 {", "if a.nodeCount++; true {",
		"znode", "TestDataQuota",
	},
	{
		"first frame as long as any other", "server/stream/read.go",
		"return cfg.MaxFirstFrame", "return cfg.MaxFrame",
		"server", "TestLongFirstFrame",
	},
	{
		"time without a leader counts as time without a link", "follower/leadership.go",
		"if t := l.currentTerm(); l.raftLeader() != t.Leader {", "if t := l.currentTerm(); false {",
		"integration", "TestUnreadBytesCountWhenTheyAreRead",
	},
	{
		"observers prove that a leader leads", "leader/proof.go",
		"if !m.Voter {", "if false {",
		"leader", "TestVotersProve",
	},
	{
		"proof by a later leader's configuration", "leader/membership.go",
		"if m.cfg.RaftTerm() != m.cfg.Term {", "if false {",
		"leader", "TestNoProofByALaterConfiguration",
	},
	{
		"servers that answer the leader named by a member", "leader/stamp.go",
		"txns[i].ReachableServers = cfg.ReachableServers(txn)", "_ = cfg.ReachableServers(txn)",
		"leader", "TestReachedIsTheLeaders",
	},
	{
		"leader that cannot lead stays", "leader/health.go",
		"if 2*deaf <= len(reached)+1 && (deaf == 0 || !unproved) {", "if true {",
		"integration", "TestLeaderWithoutItsPort",
	},
	{
		"clients taken while a drain hands over", "member/drain.go",
		"d.server.RejectNew() // a client", "// a client",
		"member", "TestDrainTakesNoClientWhileItHandsOver",
	},
	{
		"leadership handed round in circles", "member/transfertargets.go",
		"if !ended.IsZero() && now.Sub(ended) < rest {", "if false {",
		"integration", "TestNobodyCanDoBetter",
	},
	{
		"forgotten connection kept", "member/peers.go",
		"	if conn != nil {\n		_ = conn.Close()", "	if false {\n		_ = conn.Close()",
		"integration", "TestForgottenFlows",
	},
	{
		"strangers take the places of members", "quorum/wire/greeting.go",
		"if g.fromMember != member {", "if false {",
		"quorum/wire", "TestMembersHavePlacesOfTheirOwn",
	},
	{
		"large reads do not wait for the budget", "server/stream/account.go",
		"if n < MinAccountChange {", "if n >= 0 {",
		"server", "TestBudgetOfReplies",
	},
	{
		"overrun budget closes nobody", "server/stream/budget.go",
		"over := b.usedBytes.Load() - b.limit; over > 0 {", "over := b.usedBytes.Load() - b.limit; over > 1<<40 {",
		"server", "TestBudgetOverrun",
	},
	{
		"overrun budget closes those that hold little first", "server/stream/budget.go",
		"idle && held > share}", "idle && held > 0*share}",
		"server", "TestBudgetOverrun",
	},
	{
		"readers closed for those that take nothing", "server/stream/budget.go",
		"if held > above && (idle || !stalled) {", "if held > above {",
		"server", "TestBudgetSparesReaders",
	},
	{
		"apply lists long directories", "server/reply.go",
		"if applying && r.tooSlowForApply && !r.inParts {", "if false {",
		"server", "TestLongListsAreNotApplysWork",
	},
	{
		"records go to the log unread", "server/operations.go",
		"{handle: (*request).handleWrite, decodeRecord: decodeDelete}", "{handle: (*request).submitToLog}",
		"server", "TestEveryOpcode",
	},
	{
		"write overtakes a list that apply has left", "server/queue.go",
		"q.numReconfigs > 0 || q.numTooSlow > 0 ||", "q.numReconfigs > 0 ||",
		"server", "TestLongListsAreNotApplysWork",
	},
	{
		"change over HTTP without credentials", "operator/admin/access.go",
		"case c == changeAccess && has < roleAdmin:", "case false:",
		"operator/admin", "TestEveryEndpointIsGuarded",
	},
	{
		"another site's name for this member", "operator/admin/access.go",
		"case !a.knowsHost(r.Host):", "case false:",
		"operator/admin", "TestEveryEndpointIsGuarded",
	},
	{
		"connections for HTTP without a bound", "operator/admin/bounded.go",
		"if len(b.conns) >= b.maxConns {", "if false {",
		"operator/admin", "TestSilentConnectionsKeepNobodyOut",
	},
	{
		"credentials for a port that is only guessed", "cli/discover.go",
		"	if !credentials {\n", "	if true {\n",
		"cli", "TestCredentialsGoNowhereElse",
	},
	{
		"proof not bound to the TLS connection", "quorum/trust/proof.go",
		"\tb = append(b, e.keyingMaterial...)\n", "",
		"quorum/trust", "TestRelay",
	},
	{
		"proof of one end good for the other", "quorum/trust/proof.go",
		"	b = append(b, by...)\n", "",
		"quorum/trust", "TestFalseMember",
	},
	{
		"connections of a removed secret kept", "quorum/trust/open.go",
		"case !g.secrets.contains(c.provedSecret):", "case false:",
		"quorum/trust", "TestReload",
	},
	{
		"certificate of another host believed", "quorum/trust/certificates.go",
		"return g.keys.Verify(s.certificateChain, s.usage, hosts...)", "return g.keys.Verify(s.certificateChain, s.usage, hosts[:0]...)",
		"quorum/trust", "TestCertificates",
	},
	{
		"revoked certificate good on open connections", "quorum/trust/open.go",
		"return g.verifyCertificate(c.shownCertificate, member)", "return nil",
		"quorum/trust", "TestRevoked",
	},
	{
		"handshake begins without a token", "quorum/trust/guard.go",
		"err = begin()", "_ = begin()",
		"quorum/wire", "TestHandshakeFindsNoToken",
	},
	{
		"strangers take the tokens of members", "quorum/wire/handshakelimiter.go",
		"case known && !d.memberBuckets.hasToken(addr, now):", "case known && !d.strangersBucket.hasToken(strangersRate, now):",
		"quorum/wire", "TestStrangersEmptyNoMembersBucket",
	},
	{
		"server comes in with a vote", "quorum/membership.go",
		"		p.Observer = true\n", "",
		"quorum", "TestOneChangeAfterTheOther",
	},
	{
		"new voter must have the log of this moment", "quorum/membership.go",
		"LongestLogs(m.electionTimeout, m.sampledLogEnds[0])", "LongestLogs(m.electionTimeout, ends)",
		"quorum", "TestPromotionUnderLoad",
	},
	{
		"two voters after a recovery of five", "quorum/membership.go",
		"1+len(ready) <= len(voters)/2 {", "len(voters) < 0 {",
		"quorum", "TestRecoverFiveByAndBy",
	},
	{
		"voter leaves before another one votes in its place", "quorum/membership.go",
		"case len(wire.VoterIDs(s.configured)) <= len(wire.VoterIDs(s.wanted)) && !m.mayShrinkVoters(s, h):", "case false:",
		"quorum", "TestVoterWaitsForItsReplacement",
	},
	{
		"half of the voters leave for others that are down", "quorum/membership.go",
		"(all <= 2 || remain > all/2) && (", "remain <= all && (",
		"quorum", "TestVotersLeaveWithoutReplacement",
	},
	{
		"voter leaves those that are no majority", "quorum/membership.go",
		"case !s.hasMajorityWithout(h):", "case false:",
		"quorum", "TestNextChange",
	},
	{
		"leader leaves without a hand-over", "quorum/membership.go",
		"if h.ID == s.self.ID && !h.Observer {", "if false {",
		"quorum", "TestLeaderThatGoesHandsOver",
	},
	{
		"leader hands over to one that is to leave", "quorum/transfer.go",
		"if len(staying) > 0 {", "if false {",
		"quorum", "TestLeaderThatGoesHandsOver",
	},
	{
		"address given to two servers", "quorum/membership.go",
		"if h.Addr == p.Addr && h.ID != p.ID {", "if false {",
		"quorum", "TestNextChange",
	},
	{
		"removed member answers with an old list", "member/servers.go",
		"r := l.newestList()\n\tif r == nil {\n\t\treturn nil, false", "r := l.appliedList.Load()\n\tif r == nil {\n\t\treturn nil, false",
		"member", "TestListsThatOthersTellOf",
	},
	{
		"gRPC of a voter outside the list not known", "quorum/wire/peer.go",
		"address += \"/\" + p.GRPCAddr", "address += \"\"",
		"quorum/wire", "TestServerNames",
	},
	{
		"hearsay says who was removed", "member/removed.go",
		" || reply.GetHearsay() || ", " || ",
		"member", "TestWhenAMemberWasRemoved",
	},
	{
		"leaving voter keeps its clients", "member/removed.go",
		"\tfor since := (time.Time{}); ; {\n\t\tversion := w.unlistedVersion()\n", "	for since := (time.Time{}); ; {\n		version := w.removedVersion()\n",
		"integration", "TestClientOfAVoterThatLeaves",
	},
	{
		"voter held against the voter's own configuration", "quorum/wire/serve.go",
		"\tcase *raft.RequestVoteRequest:\n\t\treplaceCandidateByVoter(r, &req.RPCHeader)\n", "\tcase *raft.RequestVoteRequest:\n",
		"quorum", "TestVoterUnknownToAnother",
	},
	{
		"emptied disk keeps its name", "quorum/disk/id.go",
		"_, _ = rand.Read(b[:]) // never", "b[idSize-1], _ = 1, rand.Reader // never",
		"quorum", "TestCopiedConfigurationGivesNoVote",
	},
	{
		"disk without the log votes", "quorum/membership.go",
		"case !slices.Contains(s.caughtUp, h.ServerID()):", "case false:",
		"quorum", "TestNextChange",
	},
	{
		"disk that answers loses its place", "quorum/membership.go",
		"case slices.ContainsFunc(current, s.isReached):", "case false:",
		"quorum", "TestNextChange",
	},
	{
		"ensemble begun by any member", "quorum/bootstrap.go",
		"first.ID != b.status.selfPeer().ID {", "first.ID == 0 {",
		"quorum", "TestWhoBegins",
	},
	{
		"ensemble begun before all have replied", "quorum/bootstrap.go",
		"if len(silent) == 0 || b.foundByMajority", "if true || b.foundByMajority",
		"quorum", "TestWhoBegins",
	},
	{
		"term opened before most voters vote", "member/terms.go",
		"!listed && !t.m.node.Status().HasFoundingMajority(", "!listed && t.m.node.Status().HasFoundingMajority(",
		"member", "TestNoTermBeforeMostVote",
	},
	{
		"two founders with one number serve", "quorum/status.go",
		"(!foundedByAll || len(listed) == 1", "(true || len(listed) == 1",
		"quorum", "TestTwoFoundersDoNotBothServe",
	},
	{
		"request for a lost disk taken by another one", "quorum/wire/hello.go",
		"case meant != 0 && meant != own:", "case false:",
		"quorum/wire", "TestStreamTCP",
	},
	{
		"list followed before an entry of the term is applied", "quorum/membership.go",
		"if !m.ensureListIsCurrent(ctx, m.raft.CurrentTerm()) {", "if false {",
		"quorum", "TestNewLeaderDoesNotFollowAnOldList",
	},
	{
		"server moves to an address from which no reply came", "quorum/membership.go",
		"if !slices.Equal(want, m.serverList.wantedServers()) {", "if false {",
		"quorum", "TestReplyFromALaterAddress",
	},
	{
		"server moves to a process that has not its disk", "quorum/membership.go",
		"case s.repliedDisk(h.ID) != h.DiskID:", "case false:",
		"quorum", "TestNextChange",
	},
	{
		"batch of the log not synced", "quorum/disk/segmentlog.go",
		"	if err := syncData(last.file); err != nil {\n		return err\n	}\n	firstBatch", "	firstBatch",
		"integration/power", "TestAllLosePower",
	},
	{
		"end of the log not synced at a start", "quorum/disk/segmentlog.go",
		"errors.Join(syncData(last.file), durable.SyncDirectory(l.dir))", "durable.SyncDirectory(l.dir)",
		"integration/power", "TestStartSyncsWhatItFinds",
	},
	{
		"names of the log not synced at a start", "quorum/disk/segmentlog.go",
		"errors.Join(syncData(last.file), durable.SyncDirectory(l.dir))", "syncData(last.file)",
		"integration/power", "TestStartSyncsWhatItFinds",
	},
	{
		"size of a segment not synced", "quorum/disk/segment.go",
		"		err = file.Sync()\n", "		err = nil\n",
		"integration/power", "TestAllLosePower",
	},
	{
		"name of a segment not synced", "quorum/disk/segment.go",
		"		err = durable.SyncDirectory(dir)\n", "		err = nil\n",
		"integration/power", "TestAllLosePower",
	},
	{
		"name of a removed segment not synced", "quorum/disk/remover.go",
		"if err := durable.SyncDirectory(r.dir); err != nil {", "if err := error(nil); err != nil {",
		"integration/power", "TestMemberAloneLosesPower",
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
		"replaced file not synced", "quorum/disk/directory.go",
		"\t\terr = file.Sync()\n", "\t\terr = nil\n",
		"integration/power", "TestAllLosePower",
	},
	{
		"name of a replaced file not synced", "quorum/disk/directory.go",
		"return durable.SyncDirectory(filepath.Dir(path))", "return nil",
		"integration/power", "TestAllLosePower",
	},
	{
		"mark of a restore not synced", "quorum/disk/incomplete.go",
		"errors.Join(err, file.Sync(), file.Close())", "errors.Join(err, file.Close())",
		"integration/power", "TestMarksAreDurable",
	},
	{
		"name of the mark of a restore not synced", "quorum/disk/incomplete.go",
		"\tif err == nil {\n\t\terr = durable.SyncDirectory(f.dir)\n", "\tif err == nil {\n\t\terr = nil\n",
		"integration/power", "TestMarksAreDurable",
	},
	{
		"end of the mark of a restore not synced", "quorum/disk/incomplete.go",
		"os.ErrNotExist) {\n\t\terr = durable.SyncDirectory(f.dir)\n", "os.ErrNotExist) {\n\t\terr = nil\n",
		"integration/power", "TestMarksAreDurable",
	},
	{
		"snapshot not synced", "quorum/disk/snapshotfiles.go",
		"errors.Join(k.file.Sync(), k.file.Close())", "k.file.Close()",
		"integration/power", "TestAllLosePower",
	},
	{
		"name of a snapshot not synced", "quorum/disk/snapshotfiles.go",
		"return durable.SyncDirectory(k.store.dir)", "return nil",
		"integration/power", "TestAllLosePower",
	},
	{
		"name of a made directory not synced", "internal/durable/durable.go",
		"return SyncDirectory(filepath.Dir(dir))", "return nil",
		"integration/power", "TestNewDirectoryLosesPower",
	},
	{
		"number of a member not synced", "config/myid.go",
		"errors.Join(err, f.Sync(), f.Close())", "errors.Join(err, f.Close())",
		"integration/power", "TestNewDirectoryLosesPower",
	},
	{
		"token of rollcall up not synced", "cmd/rollcall/upfiles.go",
		"\t\terr = f.Sync()\n", "\t\terr = nil\n",
		"integration/power", "TestNewDirectoryLosesPower",
	},
	{
		"backup not synced", "operator/backup/save.go",
		"errors.Join(p.Sync(), p.Close())", "p.Close()",
		"integration/power", "TestCommandsLosePower",
	},
	{
		"name of a backup not synced", "operator/backup/save.go",
		"\treturn durable.SyncDirectory(p.dir)\n", "\t_ = durable.SyncDirectory\n\treturn nil\n",
		"integration/power", "TestCommandsLosePower",
	},
	{
		"file for ZooKeeper not synced", "migrate/datadir/write.go",
		"\t\terr = f.Sync()\n", "\t\terr = nil\n",
		"integration/power", "TestCommandsLosePower",
	},
	{
		"names of files for ZooKeeper not synced", "migrate/datadir/write.go",
		"if err := durable.SyncDirectory(partial); err != nil {", "if err := error(nil); err != nil {",
		"integration/power", "TestCommandsLosePower",
	},
	{
		"name of an export not synced", "migrate/datadir/write.go",
		"return durable.SyncDirectory(dir)", "return nil",
		"integration/power", "TestCommandsLosePower",
	},
	{
		"dump not synced", "cli/dump.go",
		"\t\terr = f.Sync()\n", "\t\terr = nil\n",
		"integration/power", "TestCommandsLosePower",
	},
	{
		"name of a dump not synced", "cli/dump.go",
		"\treturn durable.SyncDirectory(filepath.Dir(name))\n", "\t_ = durable.SyncDirectory\n\treturn nil\n",
		"integration/power", "TestCommandsLosePower",
	},
	{
		"key not synced", "cmd/rollcall/certs.go",
		"\t\terr = file.Sync()\n", "\t\terr = nil\n",
		"integration/power", "TestCommandsLosePower",
	},
	{
		"name of a key not synced", "cmd/rollcall/certs.go",
		"\treturn durable.SyncDirectory(filepath.Dir(f.path))\n", "\t_ = durable.SyncDirectory\n\treturn nil\n",
		"integration/power", "TestCommandsLosePower",
	},
	{
		"line of a required audit log not synced", "operator/audit/file.go",
		"(w.syncWrites || first)", "first",
		"integration/power", "TestAuditLosesPower",
	},
	{
		"term begun while the disk stalls", "member/terms.go",
		"t.m.node.StallError() == nil && t.m.node.Record().DamageReason()", "t.m.node.Record().DamageReason()",
		"member", "TestNoTermWhileTheDiskStalls",
	},
	{
		"list kept when a snapshot has none", "member/hooks.go",
		"h.m.serverLists.appliedList.Store(nil)", "_ = h",
		"member", "TestSnapshotReplacesTheList",
	},
	{
		"newcomer asked at another port", "member/hello.go",
		"s.QuorumAddr(), id)", "s.ElectionAddr(), id)",
		"member", "TestNewcomerIsAskedOnAConnectionOfItsOwn",
	},
	{
		"name of an audit log not synced", "operator/audit/file.go",
		"\tif err == nil && first {\n", "\tif err == nil && first && false {\n",
		"integration/power", "TestAuditLosesPower",
	},
	{
		"end of an audit log not synced", "operator/audit/file.go",
		"errors.Join(w.f.Sync(), w.f.Close())", "w.f.Close()",
		"integration/power", "TestAuditLosesPower",
	},
	{
		"contender that is not the first gets the right", "client/internal/contender/turn.go",
		"if !position.mustWait() {", "if !position.mustWait() || position.ahead < 2 {",
		"integration/recipes/schedules", "TestRandomFaults/seed=",
	},
	{
		"all contenders wait for the first", "client/internal/contender/turn.go",
		"compareNames(name, p.predecessor) > 0", "compareNames(name, p.predecessor) < 0",
		"integration/recipes/schedules", "TestOneWakePerRelease",
	},
	{
		"contender that gives up leaves its node", "client/internal/contender/contender.go",
		"{ go func() { _ = x.deleteNodes() }() }", "{ _ = x.deleteNodes }",
		"integration/recipes/schedules", "TestRandomFaults/seed=",
	},
	{
		"guarded write not checked", "client/right.go",
		"CheckOp(r.path, AnyVersion)}", "CheckOp(\"/\", AnyVersion)}",
		"integration/recipes/schedules", "TestLostAndLate/mutex",
	},
	{
		"right held for longer than the session lives", "client/session/right.go",
		"end := sent + timeout - margin", "end := sent + 2*timeout + margin",
		"integration/recipes/schedules", "TestRandomFaults/seed=",
	},
	{
		"all rights with one token", "client/right.go",
		"token: token", "token: 1 + 0*token",
		"integration/recipes/schedules", "TestRandomFaults/seed=",
	},
	{
		"release not repeated", "client/right.go",
		"case errors.Is(err, ErrConnectionLost), errors.Is(err, ErrSuspended):\n\t\t\tcontinue\n\t\tcase errors.Is(err, ErrReadOnly):", "case errors.Is(err, ErrConnectionLost), errors.Is(err, ErrSuspended):\n\t\t\treturn nil\n\t\tcase errors.Is(err, ErrReadOnly):",
		"integration/recipes/schedules", "TestRandomFaults/seed=",
	},
	{
		"counted twice after a lost reply", "client/internal/receipt/receipt.go",
		"if stat.Version == node.version {", "if node.version = stat.Version; true {",
		"integration/recipes/schedules", "TestLostAndLate/counter",
	},
	{
		"double barrier left without the others", "client/barrier/double.go",
		"return b.awaitEnd(ctx, m.round)", "return nil",
		"integration/recipes/schedules", "TestRandomFaults/seed=",
	},
	{
		"barrier that lets everyone through", "client/barrier/barrier.go",
		"if err == nil && watch == nil {", "if err == nil {",
		"integration/recipes/schedules", "TestRandomFaults/seed=",
	},
	{
		"more holders than permits", "client/lock/semaphore.go",
		"if ahead < permits {", "if ahead <= permits {",
		"integration/recipes/schedules", "TestRandomFaults/seed=",
	},
	{
		"member that does not come back", "client/group/presence.go",
		"\t\t\terr = p.createNode(ctx)\n", "\t\t\terr = client.ErrClosed\n",
		"integration/recipes/schedules", "TestLostAndLate",
	},
	{
		"right held after its release", "client/right.go",
		"return r.over.Err() == nil && r.c.Held()", "return r.c.Held()",
		"integration/recipes/schedules", "TestRandomFaults/seed=",
	},
}
