package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// mutant is a fault of one line that some test must notice.
type mutant struct {
	name     string
	file     string // relative to the repository's root
	old, new string // old occurs once
	pkg, run string // a package, and which of its tests must notice
}

const (
	here      = "./integration"
	attacked  = "./integration/hostile"
	within200 = "^TestSchedules$"

	wholePackage = "."
)

var mutants = append([]mutant{
	{
		"owner unchecked", "znode/session.go",
		"case session.Owner != ownerOf(t.txn):", "case session.Owner != ownerOf(t.txn) && false:",
		here, "TestMovedSessionWithStuckWrite",
	},
	{
		"old attach accepted", "znode/session.go",
		"if req.GetSince() != old.Since && old.Owner.Member != t.txn.GetMember() {", "if false {",
		here, "TestOldAttachAfterTheHeal",
	},
	{
		"old handshake tried again", "server/handshake.go",
		" && time.Since(h.begun) < c.srv.cfg.Tick/2:", ":",
		here, "TestHalfOpenAttachDoesNotTakeTheSessionBack",
	},
	{
		"expiry of a session that came back", "znode/session.go",
		"if !ok || session.Since > req.GetSince() {", "if !ok {",
		"./znode", "TestExpireAndAttach",
	},
	{
		"session made for a client that has gone", "follower/outbox.go",
		"if r.lane.closed && isHandshake(r.txn) {", "if false {",
		here, "TestCreateOfAClientThatHasGone",
	},
	{
		"vouching for longer than the leader waits", "follower/leases.go",
		"{ return timeout - timeout/10 }", "{ return 2 * timeout }",
		here, "TestNobodyVouchesForTheExpired",
	},
	{
		"vouching unchecked", "server/stream/output.go",
		"if !f.permitted(time.Now()) {", "if false {",
		"./server", wholePackage,
	},
	{
		"leader proves to itself that it leads", "leader/proof.go",
		"return answers > voters/2", "return answers > 0",
		"./leader", wholePackage,
	},
	{
		"request for another member passed to raft", "quorum/wire/serve.go",
		"err = rc.checkSpeaker(in.from, command)", "err = nil",
		"./quorum/wire", "TestImpostorIsRefused",
	},
	{
		"message for another member passed on", "member/identity.go",
		"case sender == nil || sender(message) == from:", "case true:",
		"./member", "TestMemberSpeaksForItselfOnly",
	},
	{
		"verdict believed without a majority", "follower/verdict.go",
		"case theirs > len(voters)/2:", "case theirs > 0:",
		"./follower", "TestVerdictNeedsAMajority",
	},
	{
		"leader taken for dead at one refusal", "quorum/evidence.go",
		"refusals     = 2", "refusals     = 1",
		"./quorum", "TestNoEvidence",
	},
	{
		"leader taken for lost at the end of any connection", "quorum/wire/serve.go",
		"brokenOff(err) && in.from != \"\" && !rc.conns.from(in.from) {", "brokenOff(err) && in.peer != 0 {",
		"./quorum/wire", "TestLastConnectionIsLost",
	},
	{
		"stands on evidence as often as there is some", "quorum/evidence.go",
		"time.Since(stood) < evidencePause*n.election", "time.Since(stood) < 0",
		"./quorum", "TestForgedEvidenceIsBounded",
	},
	{
		"stands on evidence after it has voted", "quorum/evidence.go",
		"n.mayTake() == nil && n.leaderless(r, l)", "n.mayTake() == nil",
		"./quorum", "TestDeadLeaderIsReplacedAtOnce",
	},
	{
		"one of two voters stands on evidence", "quorum/evidence.go",
		"const fewest = 3", "const fewest = 2",
		"./quorum", "TestOneOfTwoDoesNotStand",
	},
	{
		"outbox not cleared by a snapshot", "follower/observer.go",
		"f.out.forget(cursor)", "_ = cursor",
		here, "TestSnapshotInstalledUnderClients",
	},
	{
		"cursor ignored", "znode/members.go",
		" || txn.GetSeq() != r.cursor+1 {", " {",
		here, within200,
	},
	{
		"close without its ephemerals", "znode/sweep.go",
		"for i, path := range t.state.owned(id, limit) {", "for i, path := range t.state.owned(id, limit)[:0] {",
		here, within200,
	},
	{
		"operations of a multi count as one in an entry", "leader/batch.go",
		"ops: znode.Weigh(", "ops: 1 + 0*znode.Weigh(",
		"./leader", "TestOperationsOfAMultiCount",
	},
	{
		"heavy writes sent without bound", "follower/outbox.go",
		"case o.sentHeavy >= maxHeavy:", "case false:",
		"./follower", "TestHeavyWritesTogether",
	},
	{
		"writes share by number, not by weight", "follower/classes.go",
		"	class.start += uint64(weight)\n", "	class.start++\n",
		"./follower", "TestClassesShareByWeight",
	},
	{
		"multis of any length", "server/request.go",
		"jute.CountMulti(r.body) > c.srv.cfg.Limits.MaxMultiOps {\n\t\tc.srv.cfg.Audit", "false {\n\t\tc.srv.cfg.Audit",
		"./server", "TestMultiLimit",
	},
	{
		"every session of an entry has a budget of its own", "znode/sweep.go",
		"	b.left -= nodes\n", "",
		"./znode", "TestSessionsOfAnEntryShareABudget",
	},
	{
		"no rest between the expiries of a storm", "leader/batch.go",
		"if batch.removes {", "if false {",
		"./leader", "TestMassExpiryIsPaced",
	},
	{
		"close answered before all its ephemerals are gone", "server/request.go",
		"if res.Later {", "if false {",
		here, "TestSweepGoesOnUnderTheNextLeader",
	},
	{
		"nothing sent again", "follower/link.go",
		"	f.out.rewind()\n", "",
		here, within200,
	},
	{
		"no lease in a new term", "sessiontracker/table.go",
		"		t.shard(s.ID).queue.Put(s, s.Timeout)\n", "		t.shard(s.ID).queue.Put(s, 0)\n",
		here, within200,
	},
	{
		"cursor lost in the snapshot", "znode/sections.go",
		"p.u64(m.Cursor)", "p.u64(0)",
		here, within200,
	},
	{
		"sync answered with what is applied anyway", "follower/syncs.go",
		"round{index: index, waiters: s.asked}", "round{index: 0, waiters: s.asked}",
		here, "TestSyncOnALaggingMember",
	},
	{
		"events behind the next write", "znode/transaction.go",
		"	t.watches.fire(t.state.zxid, &t.state.term.Rules)\n	t.rememberDeletes()\n", "	t.rememberDeletes()\n",
		here, within200,
	},
	{
		"ephemeral of another session closed", "znode/sweep.go",
		"for i, path := range t.state.owned(id, limit) {", "for i, path := range t.state.owned(id-1, limit) {",
		here, within200,
	},
	{
		"writes of a connection in any order", "follower/outbox.go",
		"	l := o.lane(txn.Conn)\n", "	l := o.lane(uint64(len(txn.Body)))\n",
		here, within200,
	},
	{
		"a lost term's entries counted as applied", "follower/outbox.go",
		"o.next = max(o.next, first)", "o.next = max(o.next, o.seq)",
		here, within200,
	},
	{
		"acknowledged before it is on the disk", "quorum/disk/stores.go",
		`func() error { return s.LogStore.StoreLogs(logs) })`, `func() error { go s.LogStore.StoreLogs(logs); return nil })`,
		here, "TestTornWrites",
	},
	{
		"applied before the leader's disk has it", "quorum/fsm.go",
		"f.failed || !f.await(logs[len(logs)-1].Index)", "f.failed",
		here, "TestLeaderLosesItsQueue",
	},
	{
		"followers told before the leader's disk has it", "quorum/wire/transport.go",
		"t.cfg.Durable(req.PrevLogEntry + uint64(len(req.Entries)))", "req.PrevLogEntry + uint64(len(req.Entries))",
		here, "TestLeaderLosesItsQueue",
	},
	{
		"sync answered with what the leader's disk lacks", "quorum/status.go",
		"return n.disk.Durable(n.raftValue(0, (*raft.Raft).CommitIndex))", "return n.raftValue(0, (*raft.Raft).CommitIndex)",
		"./quorum", "TestLeaderStoresBesides",
	},
	{
		"follower's entries stored later", "quorum/disk/queue.go",
		"return q.leads != nil && q.leads()", "return q.leads != nil",
		"./quorum/disk", "TestQueueIsFirst",
	},
	{
		"configuration stored later", "quorum/disk/queue.go",
		"if l.Type == raft.LogConfiguration || l.Type == raft.LogNoop {", "if l == nil {",
		"./quorum/disk", "TestQueueIsFirst",
	},
	{
		"term written before the entries of the last one", "quorum/disk/stores.go",
		"	s.settle()\n", "",
		"./quorum", "TestDeposedLeaderStoresItsQueueFirst",
	},
	{
		"log shortened before its end is written", "quorum/disk/queue.go",
		"	q.settle()\n	return q.logStore.DeleteRange(first, last)", "	return q.logStore.DeleteRange(first, last)",
		"./quorum/disk", "TestQueueIsFirst",
	},
	{
		"lost end of the log unseen", "quorum/disk/wallist.go",
		"if err == nil && last < durable {", "if false {",
		"./quorum/disk", "^TestDamagedWAL$",
	},
	{
		"mark of another segment believed", "quorum/disk/walmark.go",
		"if m.segment != segment+1 {\n\t\treturn 0", "if m.segment == 0 {\n\t\treturn 0",
		"./quorum/disk", "^TestWALMarkLags$",
	},
	{
		"changed vote unseen", "quorum/disk/bolt.go",
		"case now.values != m.values:", "case false:",
		"./quorum/disk", "^TestDamagedBolt$",
	},
	{
		"full disk called damage", "quorum/disk/logkind.go",
		"errors.Is(err, os.ErrNotExist), full(err):", "errors.Is(err, os.ErrNotExist):",
		"./quorum/disk", "^TestWALFullDisk$",
	},
	{
		"gRPC opens a stream anew", "member/peers.go",
		"_ = s.Context()", "_ = s",
		"./member", "TestUnseenStreamEnds",
	},
	{
		"snapshot received in raft's main loop", "quorum/wire/serve.go",
		"rc.install(r, install, io.LimitReader(in.r, install.Size))", "rc.pass(raft.RPC{Command: install, Reader: io.LimitReader(in.r, install.Size)}, nil)",
		"./quorum", "TestLeaderDiesSendingSnapshot|TestSnapshotIsInstalled",
	},
	{
		"log deleted for a snapshot that nobody has read", "quorum/disk/mend.go",
		"		err = verifyStored(s, &snap, verify)\n", "",
		"./quorum/disk", "TestMend",
	},
	{
		"snapshot's metadata believed without their checksum", "quorum/disk/snapshotfiles.go",
		"case string(sum) != metaSum(line):", "case string(sum) == \"\":",
		"./quorum/disk", "TestSnapshotBitFlips",
	},
	{
		"checksum between members unchecked", "quorum/wire/checksum.go",
		"if c.sumIn != sum {", "if c.sumIn != sum && n == 0 {",
		"./quorum/wire", "TestEveryFlippedBitIsNoticed",
	},
	{
		"length of a record between members unchecked", "quorum/wire/checksum.go",
		"here != there || n > maxRecord", "n > maxRecord",
		"./quorum/wire", "TestEveryFlippedBitIsNoticed",
	},
	{
		"received snapshot handed over unread", "quorum/wire/receive.go",
		"if err := rc.cfg.Inspect(s, req); err != nil {", "if err := rc.cfg.Inspect(s, req); err != nil && req == nil {",
		"./quorum", "TestBadSnapshotIsRefused",
	},
	{
		"entry of an old term applied", "znode/apply.go",
		"case entry.GetTerm() != term || term != s.term.Term || entry.GetNonce() != s.term.Nonce:", "case entry.GetTerm() != term:",
		"./znode", wholePackage,
	},
	{
		"commit index unclamped", "quorum/wire/transport.go",
		"if req.LeaderCommitIndex <= proved {", "if true {",
		"./quorum/wire", "Clamp|Commit|Pipeline",
	},
	{
		"a later leader's commit counts for a server without a vote", "quorum/wire/nonvoter.go",
		"if r.CurrentTerm() != term {", "if false {",
		"./quorum", "TestNonvoterGetsNothingOfADeposedLeader",
	},
	{
		"entries of an earlier term carry a later term's commit", "quorum/wire/pipeline.go",
		"; term == req.Term {", "; term > 0 {",
		"./quorum/wire", "TestNoCommitNotice",
	},
	{
		"frame with any number of entries", "quorum/wire/frames.go",
		"if n > m.elements {", "if n > 255 {",
		"./quorum/wire", "TestFramesRefused",
	},
	{
		"segments removed late while the log is opened", "quorum/disk/remover.go",
		"if !r.started {", "if false {",
		"./quorum/disk", "TestRemover",
	},
	{
		"sender of frames kept unchecked", "quorum/wire/serve.go",
		"; ok && err == nil {\n\t\t\tin.sender", "; ok {\n\t\t\tin.sender",
		"./quorum/wire", "TestSenderIsKeptShort",
	},
	{
		"refused notice ignored", "quorum/wire/serve.go",
		"case c.form == unanswered && (failed != nil || appended == nil || !appended.Success):", "case false:",
		"./quorum/wire", "TestRefusedNoticeEndsConnection",
	},
	{
		"commits after a pause told late", "quorum/wire/notices.go",
		"now.Sub(n.last) < noticeDelay", "now.After(n.last)",
		"./quorum/wire", "TestNoticeWaitsForEntries",
	},
	{
		"the members whose clients wait told late", "quorum/wire/notices.go",
		"t.tell(func(member uint32) bool { return slices.Contains(first, member) })", "",
		"./quorum", "TestOriginAppliesFirst",
	},
	{
		"late notices never sent", "quorum/wire/notices.go",
		"t.tell(func(uint32) bool { return true })", "",
		"./quorum/wire", "TestNoticeWaitsForEntries",
	},
	{
		"late notices sent once", "quorum/wire/notices.go",
		"n.waiting, n.prompt = false, promptCommits", "n.prompt = promptCommits",
		"./quorum/wire", "TestNoticesWaitInVain",
	},
	{
		"notices wait after a wait in vain", "quorum/wire/notices.go",
		"n.waiting, n.prompt = false, promptCommits", "n.waiting = false",
		"./quorum/wire", "TestNoticesWaitInVain",
	},
	{
		"entry of several members names the first", "leader/batch.go",
		"case !slices.Contains(members, txn.Member):", "case len(members) == 0:",
		"./leader", "TestEntryNamesItsSenders",
	},
	{
		"request with any number of entries", "quorum/wire/message.go",
		"case isList && n > m.elements:", "case isList && n < 0:",
		"./quorum/wire", "TestReadRefuses",
	},
	{
		"table time unclamped", "sessiontracker/table.go",
		"min(now.Sub(c.base), t.step+t.slack())", "now.Sub(c.base)",
		"./sessiontracker", wholePackage,
	},
	{
		"late check loses no time", "sessiontracker/table.go",
		"		c.base = now\n", "",
		"./sessiontracker", wholePackage,
	},
	{
		"touch batch forgotten when it is sent", "sessiontracker/touchmap.go",
		"	return slices.Clone(m.unacked)\n", "	b := m.unacked\n	m.unacked = nil\n	return b\n",
		"./sessiontracker", wholePackage,
	},
	{
		"expiry without a round of its own", "leader/expire.go",
		"if now.Before(r.ends) && !l.allAnswered(r.asked, now) {", "if false {",
		"./leader", wholePackage,
	},
	{
		"refused proposal ignored", "leader/batch.go",
		"		if err := entry.Error(); err != nil {\n", "		if err := entry.Error(); false {\n",
		"./leader", "^TestRefusedProposalEndsTerm$",
	},
	{
		"old stream read on", "leader/batch.go",
		"return !q.closed && q.streams[f.member] == f }", "return !q.closed }",
		"./leader", wholePackage,
	},
	{
		"read overtakes the connection's writes", "server/request.go",
		"	if c.replies.queue.n > 0 || r.parts || long || !c.replies.affords(r) {\n", "	if r.parts || long {\n",
		"./server", wholePackage,
	},
	{
		"acknowledgement counts before its index is applied", "follower/acks.go",
		" && f.acks[0].commit <= f.applied.Load() {", " {",
		"./follower", wholePackage,
	},
	{
		"ping of an old term answered", "follower/pings.go",
		"case ping.Term < term:", "case false:",
		"./follower", wholePackage,
	},
	{
		"stalled leader speaks on", "quorum/disk/stall.go",
		"if oldest.begun.IsZero() || time.Since(oldest.begun) < o.limit {", "if true {",
		here, "TestStalledLeader",
	},
	{
		"clients of a stalled member left where they are", "member/stall.go",
		"			m.server.CutAll()", "",
		here, "TestStalledLeader",
	},
	{
		"watchdog takes the next term", "member/terms.go",
		"t.current.CompareAndSwap(current, nil)", "_ = current; t.current.Store(nil)",
		"./member", "TestLateStall",
	},
	{
		"entry of another term applied", "znode/apply.go",
		"case entry.GetTerm() != term || term != s.term.Term || entry.GetNonce() != s.term.Nonce:", "case false:",
		here, "TestOldEntryInNewTerm",
	},
	{
		"entry of an ended term applied within raft's", "znode/apply.go",
		" || entry.GetNonce() != s.term.Nonce:", ":",
		here, "TestTwoTermsInOneOfRaft",
	},
	{
		"change of leadership forgotten", "member/terms.go",
		"				stop = nil\n			}\n", "				stop = nil\n				for len(t.m.node.Leadership()) > 0 {\n					<-t.m.node.Leadership()\n				}\n			}\n",
		here, "TestLostAndGainedBetweenTwoLooks",
	},
	{
		"announcement of any other run", "znode/members.go",
		" || r.boot != req.GetReplaces() {", " {",
		"./znode", "TestAnnounce",
	},
	{
		"announcement counted again", "znode/members.go",
		"if r.boot == txn.GetBoot() || r.boot != req.GetReplaces() {", "if false {",
		here, "TestRepeatedAnnouncement",
	},
	{
		"refusal waits for its commit", "follower/acks.go",
		"if !a.heeded && a.through != 0 &&", "if false &&",
		here, "TestShorterTimeoutElsewhere",
	},
	{
		"refused touch acknowledged", "leader/ping.go",
		"a.refused = l.cfg.Sessions.TouchAll(m.id, at, batch.Sessions, batch.TimeoutsMs, a.refused)", "l.cfg.Sessions.TouchAll(m.id, at, batch.Sessions, batch.TimeoutsMs, nil)",
		here, "TestRefusedTouchInABatch",
	},
	{
		"checks by the wall clock", "leader/expire.go",
		"l.look(&r, l.cfg.Monotonic.Now())", "l.look(&r, l.cfg.Clock.Now())",
		here, "TestWallClocksJump",
	},
	{
		"all due at once in a new term", "sessiontracker/table.go",
		"		t.shard(s.ID).queue.Put(s, s.Timeout)\n", "		t.shard(s.ID).queue.Put(s, 0)\n",
		here, "TestAllPaused",
	},
	{
		"empty member begins alone", "quorum/start.go",
		"case n.alone():", "case true:",
		here, "TestTwoWipedOfThree|TestWipedMemberDoesNotElectALaggard",
	},
	{
		"digest of what is each member's own", "znode/digest.go",
		"p = add(p, uint64(life.owner))", "p = add(p, uint64(life.owner)+n.gen)",
		here, within200,
	},
	{
		"damage forgotten by a restart", "quorum/damage.go",
		"n.disk.Stable().Set(keyDamage, []byte(why))", "error(nil)",
		here, "TestDamagedFollower",
	},
	{
		"damaged leader speaks on", "quorum/node.go",
		"Stalled:  n.silent,", "Stalled:   n.Stalled,",
		"./quorum", "TestDamaged",
	},
	{
		"kill of a session that moved on", "znode/session.go",
		"if !ok || session.Since != req.GetSince() {", "if !ok {",
		here, "TestKillOfASessionThatMovesOn",
	},
	{
		"kill asked for once", "follower/kill.go",
		"if !retry.wait(ctx, t) {", "if !retry.wait(ctx, t) || true {",
		here, "TestKillAndAChangeOfLeader",
	},
	{
		"time that never goes back", "znode/apply.go",
		"s.now = entry.GetTimeMs()\n\t\ts.running.budget.begin()", "s.now = max(s.now, entry.GetTimeMs())\n\t\ts.running.budget.begin()",
		"./znode", "TestTimeFollowsTheStamp",
	},
	{
		"reaper by a clock that has jumped", "leader/reap.go",
		"if _, agreed := l.clockFault(); !agreed {", "if false {",
		"./leader", "TestReaperIsHeld",
	},
	{
		"heartbeats unanswered while a snapshot is installed", "quorum/wire/receive.go",
		"for !rc.installs(r, req.Term) {", "for r != nil {",
		"./quorum", "TestLongInstall",
	},
	{
		"requests of any length together", "quorum/wire/serve.go",
		"for c.bytes > maxRequests {", "for false {",
		"./quorum/wire", "TestRequestsTogether",
	},
	{
		"member that is down given up", "quorum/wire/transport.go",
		"	case !heartbeat(req):\n", "	case false:\n",
		here, "TestReturningMemberServes",
	},
	{
		"requests held while leadership is handed over", "quorum/handover.go",
		"	n.handing.Add(1) // raft", "	n.handing.Add(0) // raft",
		"./quorum", "TestNoHoldDuringHandOver",
	},
	{
		"configuration checked by raft's decoder alone", "quorum/wire/check.go",
		"checkBounds(b, configurationBounds); err != nil {", "error(nil); err != nil {",
		"./quorum/wire", "TestCheckRequest",
	},
	{
		"half of the members are a majority", "leader/compare.go",
		"if int(n) > len(voters)/2 {", "if int(n) >= len(voters)/2 {",
		"./leader", wholePackage,
	},
	{
		"large write weighs as little as a small one", "follower/classes.go",
		"max((size+bytesPerUnit-1)/bytesPerUnit, ", "max(min(size, 1), ",
		attacked, "TestFloodOfLargeWrites",
	},
	{
		"watchers told without end", "znode/watch.go",
		"w.steps <= maxFireSteps {", "true {",
		"./znode", "TestFireStepsOfAnEntry",
	},
	{
		"long text of a quota read", "znode/quota.go",
		"if len(data) > maxQuotaText {", "if false {",
		"./znode", "TestQuotaOfALongText",
	},
	{
		"lists of a request not added up", "server/bounds.go",
		"e.lists += size", "e.lists = size",
		"./server", "TestWritesWeighTheirLists",
	},
	{
		"list counted for each node that has it", "znode/tree.go",
		"if a.nodes++; a.nodes == 1 {", "if a.nodes++; true {",
		"./znode", "TestDataQuota",
	},
	{
		"first frame as long as any other", "server/stream/read.go",
		"return cfg.MaxFirst", "return cfg.MaxFrame",
		"./server", "TestLongFirstFrame",
	},
	{
		"time without a leader counts as time without a link", "follower/probe.go",
		"if t := f.leadership(); f.cfg.RaftLeader() != t.Leader {", "if t := f.leadership(); false {",
		here, "TestUnreadBytesCountWhenTheyAreRead",
	},
	{
		"observers prove that a leader leads", "leader/proof.go",
		"if !m.Voter {", "if false {",
		"./leader", "TestVotersProve",
	},
	{
		"proof by a later leader's configuration", "leader/proof.go",
		"if l.cfg.RaftTerm() != l.cfg.Term {", "if false {",
		"./leader", "TestNoProofByALaterConfiguration",
	},
	{
		"servers that answer the leader named by a member", "leader/reconfigure.go",
		"txns[i].Reached = l.cfg.Present(txn)", "_ = l.cfg.Present(txn)",
		"./leader", "TestReachedIsTheLeaders",
	},
	{
		"leader that cannot lead stays", "leader/fitness.go",
		"if 2*deaf <= len(reached)+1 && (deaf == 0 || !unproved) {", "if true {",
		here, "TestLeaderWithoutItsPort",
	},
	{
		"clients taken while a drain hands over", "member/drain.go",
		"m.server.RefuseNew() // a client", "// a client",
		"./member", "TestDrainTakesNoClientWhileItHandsOver",
	},
	{
		"leadership handed round in circles", "member/succession.go",
		"if !ended.IsZero() && now.Sub(ended) < rest {", "if false {",
		here, "TestNobodyCanDoBetter",
	},
	{
		"forgotten connection kept", "member/peers.go",
		"	if newest {\n		_ = conn.Close()", "	if false {\n		_ = conn.Close()",
		here, "TestForgottenFlows",
	},
	{
		"strangers take the places of members", "quorum/wire/greeting.go",
		"if g.member != member {", "if false {",
		"./quorum/wire", "TestMembersHavePlacesOfTheirOwn",
	},
	{
		"large reads do not wait for the budget", "server/stream/account.go",
		"if n < AccountStep {", "if n >= 0 {",
		"./server", "Budget",
	},
	{
		"overrun budget closes nobody", "server/stream/budget.go",
		"over := b.used.Load() - b.most; over > 0 {", "over := b.used.Load() - b.most; over > 1<<40 {",
		"./server", "Budget",
	},
	{
		"overrun budget closes those that hold little first", "server/stream/budget.go",
		"idle && held > share}", "idle && held > 0*share}",
		"./server", "TestBudgetOverrun",
	},
	{
		"readers closed for those that take nothing", "server/stream/budget.go",
		"if held > above && (idle || !stalled) {", "if held > above {",
		"./server", "TestBudgetSparesReaders",
	},
	{
		"apply lists long directories", "server/reply.go",
		"if applying && r.aside && !r.parts {", "if false {",
		"./server", "TestLongLists",
	},
	{
		"records go to the log unread", "server/operations.go",
		"{take: (*request).write, record: readDelete}", "{take: (*request).submit}",
		"./server", "TestEveryOpcode",
	},
	{
		"write overtakes a list that apply has left", "server/queue.go",
		"q.moves > 0 || q.asides > 0 ||", "q.moves > 0 ||",
		"./server", "TestLongLists",
	},
	{
		"change over HTTP without credentials", "admin/access.go",
		"case c == changes && has < roleAdmin:", "case false:",
		"./admin", "TestEveryEndpointIsGuarded",
	},
	{
		"another site's name for this member", "admin/access.go",
		"case !a.knowsHost(r.Host):", "case false:",
		"./admin", "TestEveryEndpointIsGuarded",
	},
	{
		"connections for HTTP without a bound", "admin/bounded.go",
		"if len(b.conns) >= b.most {", "if false {",
		"./admin", "TestSilentConnectionsKeepNobodyOut",
	},
	{
		"credentials for a port that is only guessed", "cli/discover.go",
		"	if !credentials {\n", "	if true {\n",
		"./cli", "TestCredentialsGoNowhereElse",
	},
	{
		"proof not bound to the TLS connection", "quorum/trust/proof.go",
		"	b = append(b, e.keying...)\n", "",
		"./quorum/trust", "TestRelay",
	},
	{
		"proof of one end good for the other", "quorum/trust/proof.go",
		"	b = append(b, by...)\n", "",
		"./quorum/trust", "TestFalseMember|TestProofNamesBothEnds",
	},
	{
		"connections of a removed secret kept", "quorum/trust/open.go",
		"case !g.secrets.has(c.secret):", "case false:",
		"./quorum/trust", "TestReload",
	},
	{
		"certificate of another host believed", "quorum/trust/certificates.go",
		"return g.keys.Verify(s.chain, s.usage, hosts...)", "return g.keys.Verify(s.chain, s.usage, hosts[:0]...)",
		"./quorum/trust", "TestCertificates",
	},
	{
		"revoked certificate good on open connections", "quorum/trust/open.go",
		"return g.verify(c.shown, member)", "return nil",
		"./quorum/trust", "TestRevoked",
	},
	{
		"handshake begins without a token", "quorum/trust/guard.go",
		"err = begin()", "_ = begin()",
		"./quorum/wire", "TestHandshakeFindsNoToken",
	},
	{
		"strangers take the tokens of members", "quorum/wire/door.go",
		"case known && !d.members.has(addr, now):", "case known && !d.strangers.has(strangersRate, now):",
		"./quorum/wire", "TestStrangersEmptyNoMembersBucket",
	},
	{
		"server comes in with a vote", "quorum/membership.go",
		"		p.Observer = true\n", "",
		"./quorum", "TestOneChangeAfterTheOther",
	},
	{
		"new voter must have the log of this moment", "quorum/membership.go",
		"Longest(f.n.election, f.logEnds[0])", "Longest(f.n.election, ends)",
		"./quorum", "TestPromotionUnderLoad",
	},
	{
		"two voters after a recovery of five", "quorum/membership.go",
		"1+len(ready) <= len(voters)/2 {", "len(voters) < 0 {",
		"./quorum", "TestRecoverFiveByAndBy",
	},
	{
		"voter leaves before another one votes in its place", "quorum/membership.go",
		"case len(wire.Voters(s.have)) <= len(wire.Voters(s.want)) && !f.mayShrink(s, h):", "case false:",
		"./quorum", "TestVoterWaitsForItsReplacement",
	},
	{
		"half of the voters leave for others that are down", "quorum/membership.go",
		"(all <= 2 || remain > all/2) && (", "remain <= all && (",
		"./quorum", "TestVotersLeaveWithoutReplacement",
	},
	{
		"voter leaves those that are no majority", "quorum/membership.go",
		"case !s.majority(h):", "case false:",
		"./quorum", "TestNextChange",
	},
	{
		"leader leaves without a hand-over", "quorum/membership.go",
		"if h.ID == f.n.cfg.Self && !h.Observer {", "if false {",
		"./quorum", "TestLeaderThatGoesHandsOver",
	},
	{
		"leader hands over to one that is to leave", "quorum/handover.go",
		"if len(staying) > 0 {", "if false {",
		"./quorum", "TestLeaderThatGoesHandsOver",
	},
	{
		"address given to two servers", "quorum/membership.go",
		"if h.Addr == p.Addr && h.ID != p.ID {", "if false {",
		"./quorum", "TestNextChange",
	},
	{
		"removed member answers with an old list", "member/servers.go",
		"r := m.list()\n	if r == nil {\n		return nil, false", "r := m.roster.Load()\n	if r == nil {\n		return nil, false",
		"./member", "TestListsThatOthersTellOf",
	},
	{
		"gRPC of a voter outside the list not known", "quorum/wire/peer.go",
		"address += \"/\" + p.Grpc", "address += \"\"",
		"./quorum/wire", "TestServerNames",
	},
	{
		"list that others have told of not stored", "member/servers.go",
		"if r := m.list(); r != nil && m.inEnsemble()", "if r := m.roster.Load(); r != nil && m.inEnsemble()",
		here, "TestJoinerThatKnowsOnlyRemovedMembers",
	},
	{
		"hearsay says who was removed", "member/removed.go",
		" || reply.GetHearsay() || ", " || ",
		"./member", "TestWhenAMemberWasRemoved",
	},
	{
		"leaving voter keeps its clients", "member/removed.go",
		"	for since := (time.Time{}); ; {\n		version := m.unlisted()\n", "	for since := (time.Time{}); ; {\n		version := m.removed()\n",
		here, "TestClientOfAVoterThatLeaves",
	},
	{
		"voter held against the voter's own configuration", "quorum/wire/serve.go",
		"\tcase *raft.RequestVoteRequest:\n\t\tnameVoter(r, &req.RPCHeader)\n", "\tcase *raft.RequestVoteRequest:\n",
		"./quorum", "TestVoterUnknownToAnother",
	},
	{
		"emptied disk keeps its name", "quorum/disk/id.go",
		"_, _ = rand.Read(b[:]) // never", "b[idSize-1], _ = 1, rand.Reader // never",
		"./quorum", "TestCopiedConfigurationGivesNoVote",
	},
	{
		"disk without the log votes", "quorum/membership.go",
		"case !slices.Contains(s.caught, h.ServerID()):", "case false:",
		"./quorum", "TestNextChange",
	},
	{
		"disk that answers loses its place", "quorum/membership.go",
		"case slices.ContainsFunc(mine, s.reaches):", "case false:",
		"./quorum", "TestNextChange",
	},
	{
		"ensemble begun by any member", "quorum/start.go",
		"first.ID != n.cfg.Self {", "first.ID == 0 {",
		"./quorum", "TestWhoBegins",
	},
	{
		"ensemble begun before all have replied", "quorum/start.go",
		"if len(silent) == 0 || n.cfg", "if true || n.cfg",
		"./quorum", "TestWhoBegins",
	},
	{
		"term opened before most voters vote", "member/terms.go",
		"!listed && !t.m.node.Founded(", "!listed && t.m.node.Founded(",
		"./member", "TestNoTermBeforeMostVote",
	},
	{
		"request for a lost disk taken by another one", "quorum/wire/hello.go",
		"case meant != 0 && meant != own:", "case false:",
		"./quorum/wire", "TestStreamTCP",
	},
	{
		"list followed before an entry of the term is applied", "quorum/membership.go",
		"if !f.listKnown(ctx, f.r.CurrentTerm()) {", "if false {",
		"./quorum", "TestNewLeaderDoesNotFollowAnOldList",
	},
	{
		"server moves to a process that has not its disk", "quorum/membership.go",
		"case s.disk(h.ID) != h.Disk:", "case false:",
		"./quorum", "TestNextChange",
	},
}, syncMutants...)

// mutate writes the file with the mutant in it, and returns both paths, absolute.
func (m mutant) mutate(dir string) (original, changed string, err error) {
	if original, err = filepath.Abs(filepath.Join("..", m.file)); err != nil {
		return "", "", err
	}
	text, err := os.ReadFile(original)
	if err != nil {
		return "", "", err
	}
	if n := strings.Count(string(text), m.old); m.old == "" || n != 1 {
		return "", "", fmt.Errorf("%s has %q %d times, want 1", m.file, m.old, n)
	}
	changed = filepath.Join(dir, filepath.Base(m.file))
	return original, changed, os.WriteFile(changed, []byte(strings.Replace(string(text), m.old, m.new, 1)), 0o600)
}

// Every mutant changes a line that exists.
func TestMutantsFit(t *testing.T) {
	for _, m := range mutants {
		if _, _, err := m.mutate(t.TempDir()); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// These limit how long a mutant and its tests may take. A timeout says nothing about the mutant,
// because the machine may be busy. 200 schedules take half a minute, and more on a busy machine.
const (
	mutantLimit = 5 * time.Minute
	testsLimit  = 4 * time.Minute

	// tries is how often a named test runs until it notices. Raft draws the time of elections at
	// random, and a member that votes although it must not is elected two times out of three.
	tries = 10
)

// Each mutant is noticed, by a named test or within 200 schedules. The tests are built again for
// each mutant, so this test runs only if ROLLCALL_MUTANTS is set: to 1 for all, to K/N for each N-th from index K on, or
// to part of a name.
func TestMutants(t *testing.T) {
	only := os.Getenv("ROLLCALL_MUTANTS")
	if only == "" {
		t.Skip("ROLLCALL_MUTANTS is not set; ci/test.sh mutants sets it")
	}
	var caught atomic.Int64
	t.Run("caught", func(t *testing.T) { // returns when all of them have
		for i, m := range mutants {
			if !m.picked(i, only) {
				continue
			}
			t.Run(m.name, func(t *testing.T) {
				t.Parallel() // as many at a time as there are processors: while one builds, another waits in its tests
				start := time.Now()
				by, err := m.hunt(t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				caught.Add(1)
				fmt.Printf("mutant caught: %s, by %s, in %v\n", m.name, by, time.Since(start).Round(time.Second))
			})
		}
	})
	fmt.Printf("%d of %d mutants caught\n", caught.Load(), len(mutants))
}

// picked reports whether ROLLCALL_MUTANTS picks the mutant at an index.
func (m mutant) picked(index int, only string) bool {
	var from, step int
	if n, _ := fmt.Sscanf(only, "%d/%d", &from, &step); n == 2 && step > 0 {
		return index%step == from
	}
	return only == "1" || strings.Contains(m.name, only)
}

// hunt runs the tests on a mutant and returns the first one that noticed it.
func (m mutant) hunt(dir string) (by string, err error) {
	original, changed, err := m.mutate(dir)
	if err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), mutantLimit)
	defer cancel()
	times := tries
	if m.run == within200 || m.run == wholePackage {
		times = 1
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-count="+strconv.Itoa(times), "-failfast", "-vet=off", "-ldflags=-s -w", "-gcflags=all=-N -l -dwarf=false", "-timeout="+testsLimit.String(), "-run", m.run, m.pkg)
	cmd.Dir = ".."
	// Code that is not optimised compiles in half the time, and binaries without symbols for debuggers link faster. The
	// overlay is in GOFLAGS and not an argument, because some tests build the binary that they run.
	cmd.Env = append(os.Environ(), "ROLLCALL_SCHEDULES=200", "ROLLCALL_MUTANTS=", "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+file)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return "", errors.New("nobody noticed")
	}
	if by = noticed(m.run, string(out)); by == "" {
		return "", fmt.Errorf("not judged: %w\n%s", err, out)
	}
	return by, nil
}

// noticed returns which test noticed a mutant, or "" if none did. Three results say nothing about
// the mutant: tests that do not end in time, code that does not build, and schedules that pass, but
// with totals below their floors.
func noticed(run, out string) (by string) {
	for line := range strings.Lines(out) {
		if _, rest, ok := strings.Cut(line, "--- FAIL: "); ok {
			by = strings.Fields(rest)[0] // the last one is the innermost
		}
	}
	if run == within200 && !strings.Contains(by, "/seed=") {
		by = ""
	}
	if by == "" && strings.Contains(out, "panic: ") && !strings.Contains(out, "panic: test timed out") {
		by = "a panic in " + run
	}
	return by
}

// These outputs of tests say something about a mutant, or nothing.
func TestNoticed(t *testing.T) {
	const (
		seed    = "--- FAIL: TestSchedules (1.00s)\n    --- FAIL: TestSchedules/seed=7 (0.10s)\n"
		floors  = "--- FAIL: TestSchedules (1.00s)\n"
		crash   = "panic: runtime error: index out of range\n"
		timeout = "panic: test timed out after 3m0s\n"
	)
	for _, tt := range []struct{ run, out, want string }{
		{within200, seed, "TestSchedules/seed=7"},
		{within200, floors, ""},
		{within200, crash, "a panic in " + within200},
		{within200, timeout, ""},
		{"TestTornWrites", "--- FAIL: TestTornWrites (0.10s)\n", "TestTornWrites"},
		{"TestTornWrites", timeout, ""},
		{"TestTornWrites", "--- FAIL: TestTornWrites (0.10s)\n" + timeout, "TestTornWrites"},
		{"TestTornWrites", crash, "a panic in TestTornWrites"},
		{wholePackage, timeout, ""},
		{"TestTornWrites", "FAIL rollcall/integration [build failed]\n", ""},
	} {
		if got := noticed(tt.run, tt.out); got != tt.want {
			t.Errorf("%s: %q is noticed by %q, want %q", tt.run, tt.out, got, tt.want)
		}
	}
}
