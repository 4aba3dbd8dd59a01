package peers

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of docs/compatibility.md")

// suite is a set of tests of others, with what is known of it: a row of the table in docs/compatibility.md.
type suite struct {
	name    string
	origin  string // the package that has the tests
	version string // of that package
	passed  int
	leftOut []exception
	flaky   []exception // tests that pass or fail by chance, which do not count
	notRun  []exception // classes and tests
}

// exception is the reason for which tests do not pass. tests is the name of one, or of several, with * for any
// characters.
type exception struct{ tests, why string }

// The suites, in the order of the table.
var (
	kazoo = suite{
		name: "kazoo", origin: "`python3-kazoo` of Debian", version: "2.8.0-2", passed: 474,
		leftOut: []exception{
			{"TestReconfig.test_add_remove_observer", "adds a server at 0.0.0.0, where no member could reach it: -8, before anything changes"},
			{"TestReadOnlyMode.test_read_only", "waits 6 s for read-only mode; a client of the last server keeps its connection for as long as its lease runs. It also fails on Debian's ZooKeeper 3.8.0"},
			{"TestSASLGSSAPIAuthentication.*", "kazoo skips it unless its environment names a Kerberos server; `integration` has the logins of kazoo by Kerberos"},
			{"TestBuildEnvironment.test_zookeeper_version", "kazoo skips it outside its own CI: it is about the version number that the CI asked for"},
		},
	}
	goZooKeeper = suite{name: "go-zookeeper", origin: "Go module `github.com/go-zookeeper/zk`", version: "v1.0.4", passed: 47}
	tooz        = suite{
		name: "tooz", origin: "`python3-tooz` of Debian", version: "3.1.0-3", passed: 73,
		leftOut: []exception{
			{"TestAPI.test_get_lock_locking_exclusive_and_shared", "tooz skips it: its driver for ZooKeeper has no shared locks"},
			{"TestAPI.test_get_lock_locking_shared_and_exclusive", "the same"},
			{"TestAPI.test_get_shared_lock*", "the same"},
			{"TestAPI.test_get_lock_release_broken", "tooz skips it: its driver for ZooKeeper cannot break locks"},
			{"TestAPI.test_timeout", "tooz skips it: the driver's sessions are not its timeouts"},
			{"TestAPI.test_watch_join_group_disappear", "tooz skips it: the driver cannot destroy groups"},
		},
	}
	taskflow = suite{name: "taskflow", origin: "`python3-taskflow` of Debian", version: "5.0.0-3", passed: 35}
	vitess   = suite{
		name: "Vitess' zk2topo", origin: "Go module `vitess.io/vitess`", version: "v0.21.3", passed: 2,
		leftOut: []exception{
			{"TestZk2Topo", "passes 17 steps, until it skips itself: Vitess' own ZooKeeper driver cannot List, so its last two steps do not run"},
		},
	}
	zooKeeperC = suite{
		name: "ZooKeeper's C client", origin: "source package `zookeeper` of Debian", version: "3.8.0-11+deb12u2", passed: 127,
		leftOut: []exception{
			{"mt.*ReconfigServer", "its servers have the number 0, which no member has, and it compares versions with ZooKeeper's first zxids"},
			{"mt.Zookeeper_SASLAuth.testServerRequireClientSASL", "asks for SASL without any user: a member does not start with that"},
			{"mt.Zookeeper_SASLAuth.testClientSASLReadOnly", "one of three servers starts alone, in read-only mode: a member serves nobody until it has once had a leader"},
			{"mt.Zookeeper_readOnly.*", "the same"},
		},
		notRun: []exception{
			{"mt.Zookeeper_simpleSystem.testHangingClient", "ends the process now and then, on Debian's ZooKeeper 3.8.0, too: its watcher reads while it closes the session"},
		},
	}
	zooKeeperJava = suite{
		name: "ZooKeeper's Java client", origin: "source package `zookeeper` of Debian", version: "3.8.0-11+deb12u2", passed: 508,
		leftOut: []exception{
			{"ACLTest.testAcls", "counts the ACLs in the server's JVM"},
			{"BufferSizeTest.testCreatesReqs", "sets jute.maxbuffer when its server runs"},
			{"BufferSizeTest.testStartupFailure*", "starts with ZooKeeper's files"},
			{"ClientTest.testPathValidation", "sets a flag in the server's JVM"},
			{"ChrootClientTest.testPathValidation", "the same"},
			{"ClientSkipACLTest.testPathValidation", "the same"},
			{"ClientSSLTest.testSecureStandaloneServer", "its myid is -1: a member takes a number from 1 to 255 only"},
			{"CreateContainerTest.*Deletion*", "calls the sweeper of containers and TTL nodes in the server's JVM"},
			{"CreateContainerTest.testFalseEmpty", "calls the sweeper of containers and TTL nodes in the server's JVM"},
			{"CreateContainerTest.testMaxNeverUsedInterval", "calls the sweeper of containers and TTL nodes in the server's JVM"},
			{"CreateContainerTest.testMulti*", "calls the sweeper of containers and TTL nodes in the server's JVM"},
			{"CreateTTLTest.testCreate*", "calls the sweeper of containers and TTL nodes in the server's JVM"},
			{"CreateTTLTest.testModifying", "calls the sweeper of containers and TTL nodes in the server's JVM"},
			{"CreateTTLTest.testMulti", "calls the sweeper of containers and TTL nodes in the server's JVM"},
			{"EnsembleAuthTest.emptyAuth", "names of the scheme ensemble without ensembleAuthName: ZooKeeper then takes all"},
			{"EnsembleAuthTest.passAuthCSV", "the value of its property has spaces, with which SERVER_JVMFLAGS would be split"},
			{"FourLetterWordsWhiteListTest.*SomeCommands", "changes the list in the server's JVM"},
			{"FourLetterWordsWhiteListTest.*ExplicitList", "changes the list in the server's JVM"},
			{"FourLetterWordsWhiteListTest.*InvalidConfiguration", "changes the list in the server's JVM"},
			{"ReadOnlyModeTest.testGlobalSessionInRO", "no new session without localSessionsEnabled: a member in read-only mode takes one from every client that asks for it"},
			{"ReadOnlyModeTest.testSeekForRwServer", "suspends a thread of the server's JVM"},
			{"QuorumTest.testLeaderShutdown", "closes the connections of the leader in its JVM"},
			{"QuorumTest.testSessionMove", "ZooKeeper skips it"},
			{"ReconfigFailureCasesTest.testIncrementalReconfigInvokedOnHiearchicalQS", "groups of voters, which are not served"},
			{"ReconfigFailureCasesTest.testObserverToParticipantConversionFails", "one of four servers stays down: a new ensemble begins when all its members run"},
			{"ReconfigTest.testRemove*One*", "reads from a removed server, which closes its clients' connections here"},
			{"ReconfigTest.testPortChange*", "the new port of a server for clients: a member takes its ports from its own server line, when it starts"},
			{"ReconfigTest.testBulkReconfig", "new addresses of five servers at once: -13 until a majority listens there"},
			{"ReconfigTest.testQuorumSystemChange", "groups of voters, which are not served"},
			{"ReconfigTest.testInitialConfigHasPositiveVersion", "compares the version of the first list with ZooKeeper's first zxid"},
			{"ReconfigTest.testJMX*", "looks for JMX beans"},
			{"RemoveWatchesTest.testRemoveAll*OnAPath*", "looks for the watches in the server's JVM"},
			{"QuorumDigestAuthTest.testValidCredentialsWithMultiAddresses", "several addresses for a server, which are not served"},
			{"SaslAuthDesignatedClientTest.testReadAccessUser", "sets letAnySaslUserDoX in the server's JVM"},
			{"SaslSuperUserTest.testOtherSuperIsSuper", "sets superUser.1 when its server runs"},
			{"SessionTest.testMinMaxSessionTimeout", "changes the limits of the server in its JVM"},
			{"SessionTest.testMaximumCnxnPerIP", "the same"},
			{"SessionUpgradeTest.testLocalSessions*", "local sessions: every session is global"},
			{"WatcherTest.testWatcherCount", "counts the watches in the server's JVM"},
			{"ZKUtilTest.testUnreadableFileInput", "a file that nobody may read: root may. It also fails on Debian's ZooKeeper 3.8.0"},
			{"ZooKeeperQuotaTest.testDelete*Quota", "reads a metric in the server's JVM"},
			{"ZooKeeperQuotaTest.testSetQuotaWhen*HardQuota*", "reads a metric in the server's JVM"},
			{"ZooKeeperQuotaTest.testSetQuotaWhen*ExceedBytesQuota", "reads a metric in the server's JVM"},
			{"ZooKeeperQuotaTest.testSetQuotaWhenSetQuotaLessThan*", "reads a metric in the server's JVM"},
		},
		flaky: []exception{
			{"PersistentWatcherTest.testDefaultWatcher", "does not count, for it is a race of the test: the event of its connection may come late"},
			{"QuorumAuthUpgradeTest.testRollingUpgrade", "does not count, for it empties the disk of a server when the one it emptied before serves, with a vote or not yet"},
			{"ZooKeeperTest.testDeleteRecursiveFail", "does not count, for it is a race of ZooKeeper's client: ZKUtil may return before it has noted the error"},
		},
		notRun: []exception{
			{"audit.*", "looks into the server's JVM, or needs no server"},
			{"cli.*", "looks into the server's JVM, or needs no server"},
			{"client.*", "looks into the server's JVM, or needs no server"},
			{"common.*", "looks into the server's JVM, or needs no server"},
			{"server.Invalid*", "has ZooKeeper's files of data or of the server list"},
			{"server.persistence.*", "has ZooKeeper's files of data or of the server list"},
			{"server.PurgeTxnTest", "has ZooKeeper's files of data or of the server list"},
			{"server.*Digest*", "has ZooKeeper's files of data or of the server list"},
			{"server.TxnLog*", "has ZooKeeper's files of data or of the server list"},
			{"server.quorum.Reconfig*", "has ZooKeeper's files of data or of the server list"},
			{"server.quorum.*Snap*", "has ZooKeeper's files of data or of the server list"},
			{"test.EmptiedSnapshotRecoveryTest", "has ZooKeeper's files of data or of the server list"},
			{"test.GetProposalFromTxnTest", "has ZooKeeper's files of data or of the server list"},
			{"test.InvalidSnapshotTest", "has ZooKeeper's files of data or of the server list"},
			{"test.LoadFromLog*", "has ZooKeeper's files of data or of the server list"},
			{"test.LogChopperTest", "has ZooKeeper's files of data or of the server list"},
			{"test.OOMTest", "has ZooKeeper's files of data or of the server list"},
			{"test.QuorumZxidSyncTest", "has ZooKeeper's files of data or of the server list"},
			{"test.RestoreCommittedLogTest", "has ZooKeeper's files of data or of the server list"},
			{"test.TruncateTest", "has ZooKeeper's files of data or of the server list"},
			{"test.ZkDatabaseCorruptionTest", "has ZooKeeper's files of data or of the server list"},
			{"server.MultiOpSessionUpgradeTest", "local sessions: every session is global"},
			{"server.quorum.SessionUpgradeQuorumTest", "local sessions: every session is global"},
			{"test.DuplicateLocalSessionUpgradeTest", "local sessions: every session is global"},
			{"test.LocalSession*", "local sessions: every session is global"},
			{"server.quorum.auth.*Kerberos*", "needs a library for a key distribution center that Debian does not have"},
			{"server.quorum.auth.MiniKdcTest", "needs a library for a key distribution center that Debian does not have"},
			{"test.SaslKerberosAuthOverSSLTest", "needs a library for a key distribution center that Debian does not have"},
			{"server.quorum.QuorumSSLTest", "starts two of three servers: a new ensemble begins when all its members run"},
			{"server.*", "looks into the server's JVM, or needs no server"},
			{"util.*", "looks into the server's JVM, or needs no server"},
			{"ClientCanonicalizeTest", "looks into the server's JVM, or needs no server"},
			{"ClientCnxnSocketTest", "looks into the server's JVM, or needs no server"},
			{"Multi*Test", "looks into the server's JVM, or needs no server"},
			{"PortAssignmentTest", "looks into the server's JVM, or needs no server"},
			{"ServerConfigTest", "looks into the server's JVM, or needs no server"},
			{"test.AtomicFileOutputStreamTest", "looks into the server's JVM, or needs no server"},
			{"test.ConnectStringParserTest", "looks into the server's JVM, or needs no server"},
			{"test.CreateModeTest", "looks into the server's JVM, or needs no server"},
			{"test.EventTypeTest", "looks into the server's JVM, or needs no server"},
			{"test.FLE*", "looks into the server's JVM, or needs no server"},
			{"test.FollowerResyncConcurrencyTest", "looks into the server's JVM, or needs no server"},
			{"test.KeeperStateTest", "looks into the server's JVM, or needs no server"},
			{"test.LeaderSessionTrackerTest", "looks into the server's JVM, or needs no server"},
			{"test.NIOConnectionFactoryFdLeakTest", "looks into the server's JVM, or needs no server"},
			{"test.NonRecoverableErrorTest", "looks into the server's JVM, or needs no server"},
			{"test.OSMXBeanTest", "looks into the server's JVM, or needs no server"},
			{"test.ObserverMasterTest", "looks into the server's JVM, or needs no server"},
			{"test.QuorumMajorityTest", "looks into the server's JVM, or needs no server"},
			{"test.QuotasTest", "looks into the server's JVM, or needs no server"},
			{"test.ResponseCacheTest", "looks into the server's JVM, or needs no server"},
			{"test.SaslAuthDesignatedServerTest", "looks into the server's JVM, or needs no server"},
			{"test.SaslClientTest", "looks into the server's JVM, or needs no server"},
			{"test.SessionTrackerCheckTest", "looks into the server's JVM, or needs no server"},
			{"test.StandaloneTest", "looks into the server's JVM, or needs no server"},
			{"test.StaticHostProviderTest", "looks into the server's JVM, or needs no server"},
			{"test.StatsTrackTest", "looks into the server's JVM, or needs no server"},
			{"test.StringUtilTest", "looks into the server's JVM, or needs no server"},
			{"test.ThrottledOp*", "looks into the server's JVM, or needs no server"},
			{"test.UnsupportedAddWatcherTest", "looks into the server's JVM, or needs no server"},
			{"test.WatchedEventTest", "looks into the server's JVM, or needs no server"},
			{"test.X509AuthTest", "looks into the server's JVM, or needs no server"},
			{"test.N*Suite*", "runs classes of this list again, with ZooKeeper's two kinds of sockets for servers"},
			{"test.HierarchicalQuorumTest", "groups of voters, which are not served"},
			{"test.ObserverHierarchicalQuorumTest", "groups of voters, which are not served"},
			{"test.QuorumOracleMajTest", "an oracle for two servers, which is not served"},
			{"test.KeyAuthClientTest", "logins by a Java class"},
			{"test.ClientPortBindTest", "listens at an address with a zone, such as `::1%lo`"},
			{"test.SaslAuthRequiredFailNoSASLTest", "asks for SASL without any user: a member does not start with that"},
		},
	}
	suites = []suite{kazoo, goZooKeeper, tooz, taskflow, vitess, zooKeeperC, zooKeeperJava}
)

const (
	page  = "../../docs/compatibility.md"
	head  = "| Suite | From | Version | Passed | Left out, and why |\n|---|---|---|---|---|\n"
	after = "\n## " // what follows the table, with an empty line between
)

// row returns the suite's row.
func (s suite) row() string {
	reasons := "none"
	if all := append(lines(s.leftOut), lines(s.flaky)...); len(all) > 0 {
		reasons = strings.Join(all, ".<br>")
	}
	return fmt.Sprintf("| %s | %s | %s | %d | %s |\n", s.name, s.origin, s.version, s.passed, reasons)
}

// listNotRun returns the text after the table about the suite: a list, or nothing.
func (s suite) listNotRun() string {
	if len(s.notRun) == 0 {
		return ""
	}
	return fmt.Sprintf("\nThese tests of %s do not run:\n\n* %s\n", s.name, strings.Join(lines(s.notRun), "\n* "))
}

// lines returns a line for each reason, with all names that have it in a row.
func lines(list []exception) (all []string) {
	var names []string
	for i, e := range list {
		names = append(names, "`"+e.tests+"`")
		if i+1 == len(list) || list[i+1].why != e.why {
			all, names = append(all, strings.Join(names, ", ")+": "+e.why), nil
		}
	}
	return all
}

// reason returns the reason for which a test does not pass, and reports whether it is known.
func (s suite) reason(test string) (exception, bool) { return reasonIn(s.leftOut, test) }

// reasonIn returns the first exception of a list that a name matches, and whether there is one.
func reasonIn(list []exception, name string) (exception, bool) {
	for _, e := range list {
		if ok, err := path.Match(e.tests, name); err == nil && ok {
			return e, true
		}
	}
	return exception{}, false
}

// The table in the docs matches the suites, and so does the text after it.
func TestTable(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := bytes.Cut(text, []byte(head))
	old, end, ends := bytes.Cut(rest, []byte(after))
	if !found || !ends {
		t.Fatalf("%s has no table with the head %q, and a title behind it", page, head)
	}
	var table strings.Builder
	for _, s := range suites {
		table.WriteString(s.row())
	}
	for _, s := range suites {
		table.WriteString(s.listNotRun())
	}
	want := table.String()
	if string(old) == want {
		return
	}
	if !*update {
		t.Fatalf("the table of %s is not that of the suites in table_test.go: go test ./integration/peers -run TestTable -update", page)
	}
	whole := string(before) + head + want + after + string(end)
	if err := os.WriteFile(page, []byte(whole), 0o644); err != nil {
		t.Fatal(err)
	}
}
