package peers

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rollcall/integration/needs"
)

func TestZooKeeperJava(t *testing.T) {
	r := newRun(t, zooKeeperJava, needs.ZooKeeperJava)
	source := filepath.Join(r.zooKeeperSource(t), "zookeeper-server", "src", "test")
	tests := filepath.Join(source, "java")
	if out, err := exec.Command(program(t, "zookeeper/adapt-java-tests"), tests).CombinedOutput(); err != nil {
		t.Fatalf("%s cannot be adapted: %v\n%s", r.suite.name, err, out)
	}
	r.checkJavaTests(t, tests)
	options := []string{"-proc:none", "-nowarn", "-d", filepath.Join(source, "classes"), "-cp", javaPath(), "-sourcepath", tests}
	standIns := glob(t, filepath.Join(tests, "org", "apache", "zookeeper", "server", "*ServerCnxnFactory.java"))
	if out, err := exec.Command("javac", slices.Concat(options, standIns, sourceFiles(tests))...).CombinedOutput(); err != nil {
		t.Fatalf("%s cannot be built: %v\n%s", r.suite.name, err, tail(out))
	}
	r.play(t, r.jUnit(source))
}

// javaTests are the classes of ZooKeeper's tests that run, below org.apache.zookeeper. The row has the reasons for all others.
var javaTests = strings.Fields(`
	ClientCnxnSocketFragilityTest ClientReconnectTest ClientRequestTimeoutTest CustomHostProviderTest
	EnforceAuthenticationTest GetAllChildrenNumberTest GetEphemeralsTest RemoveWatchesCmdTest RemoveWatchesTest SaslAuthTest
	ZKUtilTest ZooKeeperTest common.TimeTest server.CreateContainerTest server.CreateTTLTest
	server.ZooKeeperServerMaxCnxnsTest server.quorum.ReconfigFailureCasesTest server.quorum.auth.QuorumAuthUpgradeTest
	server.quorum.auth.QuorumDigestAuthTest test.ACLCountTest test.ACLRootTest test.ACLTest test.AsyncHammerTest
	test.AsyncOpsTest test.AsyncTest test.AuthSHA2Test test.AuthSHA3Test test.AuthTest test.BufferSizeTest
	test.ChrootAsyncTest test.ChrootClientTest test.ChrootTest test.ClientHammerTest test.ClientRetryTest test.ClientSSLTest
	test.ClientSkipACLTest test.ClientTest test.CreateTest test.DigestAuthDisabledTest test.DisconnectedWatcherTest
	test.EnforceQuotaTest test.EnsembleAuthTest test.FourLetterWordsQuorumTest test.FourLetterWordsTest
	test.FourLetterWordsWhiteListTest test.GetChildren2Test test.MaxCnxnsTest test.MultiAsyncTransactionTest
	test.MultiOperationTest test.NullDataTest test.ObserverLETest test.ObserverQuorumHammerTest test.ObserverTest
	test.PersistentRecursiveWatcherTest test.PersistentWatcherACLTest test.PersistentWatcherTest test.QuorumHammerTest
	test.QuorumQuotaTest test.QuorumRestartTest test.QuorumTest test.QuorumUtilTest test.ReadOnlyModeTest
	test.ReconfigExceptionTest test.ReconfigMisconfigTest test.ReconfigTest test.RecoveryTest test.RepeatStartupTest
	test.SSLAuthTest test.SaslAuthDesignatedClientTest test.SaslAuthFailDesignatedClientTest test.SaslAuthFailTest
	test.SaslAuthMissingClientConfigTest test.SaslAuthRequiredFailWrongSASLTest test.SaslAuthRequiredTest
	test.SaslDigestAuthOverSSLTest test.SaslSuperUserTest test.ServerCnxnTest test.SessionInvalidationTest test.SessionTest
	test.SessionTimeoutTest test.SessionUpgradeTest test.StatTest test.SyncCallTest test.WatchEventWhenAutoResetTest
	test.WatcherFuncTest test.WatcherTest test.ZooKeeperQuotaTest
`)

// checkJavaTests fails the test if a class neither runs nor has a reason in the row, or if one of both lists has a class too many.
func (r *run) checkJavaTests(t *testing.T, tests string) {
	t.Helper()
	root, used, there := filepath.Join(tests, "org", "apache", "zookeeper"), map[exception]bool{}, map[string]bool{}
	err := filepath.WalkDir(root, func(file string, _ fs.DirEntry, err error) error {
		name, isTest := strings.CutSuffix(strings.TrimPrefix(file, root+"/"), ".java")
		if err != nil || !isTest || !strings.HasSuffix(name, "Test") {
			return err
		}
		name = strings.ReplaceAll(name, "/", ".")
		if there[name] = true; slices.Contains(javaTests, name) {
			return nil
		}
		e, known := reasonIn(r.suite.notRun, name)
		if used[e] = true; !known {
			t.Errorf("%s does not run, and the row does not say why", name)
		}
		return nil
	})
	for _, e := range r.suite.notRun {
		if !used[e] {
			t.Errorf("no class that does not run is called %s", e.tests)
		}
	}
	for _, name := range javaTests {
		if !there[name] {
			t.Errorf("there is no class %s", name)
		}
	}
	if err != nil || t.Failed() {
		t.Fatal(err)
	}
}

// sourceFiles returns the files of javaTests.
func sourceFiles(tests string) (files []string) {
	for _, class := range javaTests {
		files = append(files, filepath.Join(tests, "org", "apache", "zookeeper", strings.ReplaceAll(class, ".", "/")+".java"))
	}
	return files
}

// javaPath returns the class path of ZooKeeper's tests.
func javaPath() string {
	jars := strings.Fields(`
		zookeeper zookeeper-jute slf4j-api logback-core logback-classic netty-buffer netty-codec netty-common netty-handler
		netty-resolver netty-transport snappy-java commons-cli commons-io commons-collections4 metrics-core bcprov
		mockito-core byte-buddy byte-buddy-agent objenesis hamcrest junit4 junit-jupiter-api junit-jupiter-engine
		junit-jupiter-params junit-vintage-engine junit-platform-commons junit-platform-engine junit-platform-launcher
		junit-platform-console junit-platform-reporting opentest4j apiguardian-api
	`)
	for i, jar := range jars {
		jars[i] = "/usr/share/java/" + jar + ".jar"
	}
	return strings.Join(jars, ":")
}

// jUnit returns a command that runs javaTests, which are built, each class in a process of its own as in ZooKeeper's own build.
func (r *run) jUnit(source string) command {
	return func(t *testing.T, only []string) (map[string]outcome, string) {
		t.Helper()
		byName, dirs := map[string]string{}, map[string]string{}
		for _, class := range javaTests {
			name := class[strings.LastIndex(class, ".")+1:]
			byName[name], dirs[name] = class, t.TempDir()
		}
		java := []string{
			"java", "-Xmx512m", "-cp", filepath.Join(source, "classes") + ":" + filepath.Join(source, "resources") + ":" + javaPath(),
			"-Dtest.data.dir=" + filepath.Join(source, "resources", "data"), "-Dzookeeper.admin.enableServer=false",
			"-Dzookeeper.4lw.commands.whitelist=*",
		}
		return inParts(partsOf(slices.Sorted(maps.Keys(byName)), only), func(name string) (map[string]outcome, string) {
			cmd := r.inOwnNetwork(slices.Concat(java, []string{
				"-Dbuild.test.dir=" + dirs[name], "org.junit.platform.console.ConsoleLauncher",
				"--select-class", "org.apache.zookeeper." + byName[name], "--reports-dir", dirs[name], "--disable-ansi-colors",
			})...)
			cmd.Dir = dirs[name]
			out, err := cmd.CombinedOutput()
			outcomes := map[string]outcome{}
			for _, report := range []string{"TEST-junit-jupiter.xml", "TEST-junit-vintage.xml"} {
				text, readErr := os.ReadFile(filepath.Join(dirs[name], report))
				own, parseErr := parseJUnit(text)
				err = errors.Join(err, readErr, parseErr)
				maps.Copy(outcomes, own)
			}
			if len(outcomes) == 0 {
				outcomes[name] = failed
			}
			return outcomes, fmt.Sprintf("%s\n%v", out, err)
		})
	}
}
