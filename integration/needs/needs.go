// Package needs says what a test needs beside Go. A test that lacks something is skipped, and says in one line what is missing and
// how to get it. It fails instead if the environment variable ROLLCALL_TESTS is all, as in make test, or nightly.
//
// A test has one of three forms. The short one is that of go test -short, the usual one that of go test, and the nightly one
// that of make nightly, which sets ROLLCALL_TESTS=nightly.
package needs

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Need is something that a test needs.
type Need struct {
	what    string
	get     string // how to get it
	there   func() bool
	isAForm bool // it is a form of the tests, and its absence never a failure
}

// What tests need. Programs and libraries of others are those of Debian's packages, which ci/deps.sh installs.
var (
	ZooKeeper  = Need{what: "ZooKeeper", get: apt("zookeeper"), there: all(program("java"), file("/usr/share/java/zookeeper.jar"))}
	Kazoo      = Need{what: "kazoo", get: apt("python3-kazoo"), there: file("/usr/lib/python3/dist-packages/kazoo/client.py")}
	KazooTests = Need{what: "kazoo and what its tests import", get: apt("python3-kazoo python3-pytest python3-mock python3-gevent python3-eventlet python3-objgraph python3-pure-sasl"), there: imports("kazoo.tests", "pytest", "mock", "gevent", "eventlet", "objgraph", "puresasl")}
	Tooz       = Need{what: "tooz and what its tests import", get: apt("python3-tooz python3-pytest python3-fixtures python3-testtools"), there: imports("tooz.tests", "pytest", "fixtures", "testtools")}
	Taskflow   = Need{what: "taskflow and what its tests import", get: apt("python3-taskflow python3-pytest python3-fixtures python3-testtools python3-oslotest python3-zake"), there: imports("taskflow.tests", "pytest", "fixtures", "testtools", "oslotest", "zake")}
	OwnNetwork = Need{what: "network namespaces", get: "run it as root, or allow user namespaces; " + apt("iproute2 util-linux"), there: runs("unshare", "--map-root-user", "--net", "--mount", "ip", "link", "set", "lo", "up")}
	PureSASL   = Need{what: "pure-sasl for Python", get: apt("python3-pure-sasl"), there: file("/usr/lib/python3/dist-packages/puresasl/client.py")}
	CClient    = Need{what: "a C compiler and ZooKeeper's C client", get: apt("gcc libc6-dev libzookeeper-mt-dev"), there: all(program("gcc"), file("/usr/include/zookeeper/zookeeper.h"))}
	Curator    = Need{what: "Curator and a JDK", get: apt("libcurator-recipes-java default-jdk-headless"), there: all(program("javac"), file("/usr/share/java/curator-recipes.jar"))}
	Chromium   = Need{what: "a browser", get: apt("chromium"), there: program("chromium")}
	Prometheus = Need{what: "Prometheus", get: apt("prometheus"), there: all(program("prometheus"), program("promtool"))}
	OpenSSL    = Need{what: "openssl", get: apt("openssl"), there: program("openssl")}
	Systemd    = Need{what: "systemd", get: apt("systemd"), there: program("systemd-analyze")}
	Debian     = Need{what: "dpkg", get: "run it on Debian", there: program("dpkg")}
	Git        = Need{what: "git", get: apt("git"), there: program("git")}
	Namespaces = Need{what: "network namespaces and tun devices", get: "run it as root; " + apt("iproute2"), there: all(isRoot, file("/dev/net/tun"), program("ip"))}
	Disks      = Need{what: "network namespaces and disks of the members' own", get: apt("iproute2 nftables e2fsprogs util-linux") + ", and a kernel with loop devices", there: all(file("/dev/loop-control"), program("ip"), program("nft"), program("mkfs.ext4"), program("nsenter"))}
	Containers = Need{what: "a container engine that runs", get: "install docker, and start it", there: runs("docker", "version")}
	KDC        = Need{what: "a KDC of Kerberos", get: apt("krb5-kdc krb5-admin-server"), there: all(file("/usr/sbin/krb5kdc"), file("/usr/sbin/kadmin.local"))}
	Kinit      = Need{what: "kinit", get: apt("krb5-user"), there: program("kinit")}
	PyKerberos = Need{what: "kerberos for Python", get: apt("python3-kerberos"), there: imports("kerberos")}
)

// What ZooKeeper's own tests need. Their source is fetched, and built beside the ZooKeeper that is installed.
var (
	zooKeeperSource = Need{
		get:   "zookeeper dpkg-dev default-jdk-headless",
		there: all(file("/usr/share/java/zookeeper.jar"), program("dpkg-source"), program("java"), program("javac"), program("keytool")),
	}
	ZooKeeperC = Need{
		what: "what the tests of ZooKeeper's C client are built with",
		get: apt(zooKeeperSource.get + " gcc g++ make autoconf automake libtool pkg-config libcppunit-dev libssl-dev libsasl2-dev " +
			"libsasl2-modules openssl procps"),
		there: all(zooKeeperSource.there, program("gcc"), program("g++"), program("make"), program("autoreconf"), program("libtoolize"),
			program("pkg-config"), file("/usr/include/cppunit/Test.h"), file("/usr/include/openssl/ssl.h"), file("/usr/include/sasl/sasl.h"),
			program("openssl"), program("ps")),
	}
	ZooKeeperJava = Need{
		what: "what ZooKeeper's Java tests are built with",
		get:  apt(zooKeeperSource.get + " junit5 libmockito-java liblogback-java libcommons-collections4-java libbcprov-java"),
		there: all(zooKeeperSource.there, file("/usr/share/java/junit-platform-console.jar"), file("/usr/share/java/mockito-core.jar"),
			file("/usr/share/java/logback-classic.jar"), file("/usr/share/java/commons-collections4.jar"), file("/usr/share/java/bcprov.jar")),
	}
)

// Forms of the tests. Usual is missing in the short form, Nightly in all but the nightly one, and Root in those of other users.
var (
	Root    = Need{what: "root", get: "run it as root", there: isRoot, isAForm: true}
	Usual   = Need{what: "the usual form", get: "run it without -short", there: func() bool { return !testing.Short() }, isAForm: true}
	Nightly = Need{what: "the nightly form", get: "ROLLCALL_TESTS=nightly, as in make nightly", there: isNightly, isAForm: true}
)

// MemoryGroups are the kernel's groups of processes with a limit of memory. Not every machine lets its root make some, so they count as a form.
// check returns an error if this process cannot.
func MemoryGroups(check func() error) Need {
	return Need{what: "groups of memory", get: "run it as root where the cgroups can be written", there: func() bool { return check() == nil }, isAForm: true}
}

// Check ends the test, as one that was skipped or has failed, if something is missing.
func Check(t testing.TB, needs ...Need) {
	t.Helper()
	for _, n := range needs {
		switch {
		case n.there():
		case n.fails():
			t.Fatal(n)
		default:
			t.Skip(n)
		}
	}
}

// Main is for TestMain of a package whose tests all need the same. If something is missing, it ends the process.
func Main(needs ...Need) {
	flag.Parse()
	for _, n := range needs {
		if n.there() {
			continue
		}
		fmt.Println(n)
		if n.fails() {
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// String returns a line such as "needs a browser: apt-get install chromium".
func (n Need) String() string { return "needs " + n.what + ": " + n.get }

func (n Need) fails() bool {
	tests := os.Getenv("ROLLCALL_TESTS")
	return !n.isAForm && (tests == "all" || tests == "nightly")
}

// Amount returns how much of something a test plays in the present form.
func Amount(short, usual, nightly int) int {
	switch {
	case testing.Short():
		return short
	case isNightly():
		return nightly
	}
	return usual
}

func isRoot() bool { return os.Geteuid() == 0 }

func isNightly() bool { return os.Getenv("ROLLCALL_TESTS") == "nightly" }

func apt(packages string) string { return "apt-get install -y --no-install-recommends " + packages }

func all(there ...func() bool) func() bool {
	return func() bool { return !slices.ContainsFunc(there, func(is func() bool) bool { return !is() }) }
}

func program(name string) func() bool {
	return func() bool { _, err := exec.LookPath(name); return err == nil }
}

func file(path string) func() bool {
	return func() bool { _, err := os.Stat(path); return err == nil }
}

// imports reports whether Debian's Python can import these modules.
func imports(modules ...string) func() bool {
	return runs("/usr/bin/python3", "-B", "-c", "import "+strings.Join(modules, ", "))
}

func runs(name string, args ...string) func() bool {
	return func() bool { return exec.Command(name, args...).Run() == nil }
}
