package peers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"rollcall/integration/needs"
)

func TestKazoo(t *testing.T) {
	r := newRun(t, kazoo, needs.KazooTests)
	r.wantVersion(t, debianVersion(t, "python3-kazoo"))
	r.env = append(r.env, "PATH="+r.standIn(t, "java")+":"+os.Getenv("PATH"), "ZOOKEEPER_VERSION=3.8.0", "ZOOKEEPER_CLASSPATH=none")
	r.play(t, r.pytest(nil, "kazoo.tests"))
}

func TestGoZooKeeper(t *testing.T) {
	r := newRun(t, goZooKeeper)
	dir := moduleDir(t, "github.com/go-zookeeper/zk", r.suite.version)
	r.env = append(r.env, "ZOOKEEPER_BIN_PATH="+r.standIn(t, "zkServer.sh"), "ZK_VERSION=3.9.5")
	r.play(t, r.goTest(dir, "."))
}

func TestTooz(t *testing.T) {
	r := newRun(t, tooz, needs.Tooz)
	r.wantVersion(t, debianVersion(t, "python3-tooz"))
	r.env = append(r.env, "TOOZ_TEST_URL=zookeeper://127.0.0.1:2181")
	r.play(t, r.pytest(r.besideMember(t), "-k", "not Zake and not IPC and not File", "tooz.tests.test_coordination", "tooz.tests.test_partitioner"))
}

func TestTaskflow(t *testing.T) {
	r := newRun(t, taskflow, needs.Taskflow)
	r.wantVersion(t, debianVersion(t, "python3-taskflow"))
	r.play(t, r.pytest(r.besideMember(t), "-k", "not Zake", "taskflow.tests.unit.jobs.test_zk_job", "taskflow.tests.unit.persistence.test_zk_persistence"))
}

func TestVitess(t *testing.T) {
	r := newRun(t, vitess)
	dir := moduleDir(t, "vitess.io/vitess", r.suite.version)
	root := t.TempDir()
	if err := os.Symlink(r.standIn(t, "zksrv.sh"), filepath.Join(root, "bin")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "config"), filepath.Join(root, "config")); err != nil {
		t.Fatal(err)
	}
	r.env = append(r.env, "VTROOT="+root, "VTDATAROOT="+t.TempDir())
	r.play(t, r.goTest(dir, "./go/vt/topo/zk2topo"))
}

// debianVersion returns the version of an installed package.
func debianVersion(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("dpkg-query", "-W", "-f", "${Version}", name).Output()
	if err != nil {
		t.Fatalf("version of %s: %v", name, err)
	}
	return string(out)
}

// moduleDir gets a module and returns its directory.
func moduleDir(t *testing.T, module, version string) string {
	t.Helper()
	get := exec.Command("go", "mod", "download", "-json", module+"@"+version)
	get.Dir = t.TempDir() // no module of ours names it
	out, err := get.CombinedOutput()
	if err != nil {
		t.Fatalf("%s@%s cannot be fetched: %v\n%s", module, version, err, out)
	}
	_, rest, _ := strings.Cut(string(out), `"Dir": "`)
	dir, _, found := strings.Cut(rest, `"`)
	if !found {
		t.Fatalf("%s@%s has no directory:\n%s", module, version, out)
	}
	return dir
}
