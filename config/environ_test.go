package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Case 384: without variables, a member has the same settings as ZooKeeper's official image.
func TestDockerDefaults(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	env := []string{"ZOO_CONF_DIR=" + t.TempDir(), "ZOO_DATA_DIR=" + dir, "PATH=/bin", "ZOO_TICK_TIME="}
	cfg, warnings, err := Load("", env, Flags{})
	if err != nil {
		t.Fatal(err)
	}
	if !cfg.Standalone || cfg.MyID != 1 || cfg.Tick != 2*time.Second || cfg.InitLimit != 5 || cfg.SyncLimit != 2 ||
		cfg.ClientAddr != "0.0.0.0:2181" || cfg.Dir != dir || cfg.LogDir != dir || cfg.Limits.MaxClientConns != 60 {
		t.Errorf("Load = %+v", cfg)
	}
	if got := texts(warnings); !strings.HasPrefix(got, "environment: one server line") || strings.Contains(got, "\n") {
		t.Errorf("warnings: %s", got)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("Load created the data directory")
	}
	if err := cfg.SaveMyID(); err != nil {
		t.Fatal(err)
	}
	checkMyID(t, dir, "1\n")
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 {
		t.Errorf("in the data directory: %v", left)
	}
}

func checkMyID(t *testing.T, dir, want string) {
	t.Helper()
	if got, err := os.ReadFile(filepath.Join(dir, "myid")); err != nil || string(got) != want {
		t.Errorf("myid: %q, %v, want %q", got, err, want)
	}
}

func TestDockerDefaultDirectory(t *testing.T) {
	cfg, _, err := Load("", []string{"ZOO_CONF_DIR=" + t.TempDir()}, Flags{})
	if err != nil || cfg.Dir != "/data" {
		t.Errorf("dataDir %s, %v, want /data", cfg.Dir, err)
	}
}

// Case 384: an existing myid is not overwritten, and it overrides ZOO_MY_ID.
func TestDockerKeepsMyID(t *testing.T) {
	dir, _ := inDir(t, map[string]string{"myid": "3"})
	env := []string{
		"ZOO_CONF_DIR=" + dir, "ZOO_DATA_DIR=" + dir, "ZOO_MY_ID=2",
		"ZOO_SERVERS=server.1=a:1:2;2181  server.2=b:1:2;2181\tserver.3=c:1:2;2183",
	}
	cfg, warnings, err := Load("", env, Flags{})
	if err != nil || cfg.MyID != 3 || cfg.ClientAddr != "0.0.0.0:2183" || cfg.Standalone {
		t.Fatalf("Load = %+v, %v", cfg, err)
	}
	if got := texts(warnings); !strings.Contains(got, "ZOO_MY_ID: it is 2, and ") {
		t.Errorf("warnings: %s", got)
	}
	if err := cfg.SaveMyID(); err != nil {
		t.Fatal(err)
	}
	checkMyID(t, dir, "3")
}

// A myid that appears after Load has looked for it is not overwritten, either.
func TestSaveMyIDKeepsOther(t *testing.T) {
	dir := t.TempDir()
	cfg, _, err := Load("", []string{"ZOO_CONF_DIR=" + dir, "ZOO_DATA_DIR=" + dir}, Flags{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "myid"), []byte("9"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cfg.SaveMyID(); err != nil {
		t.Fatal(err)
	}
	checkMyID(t, dir, "9")
}

// Case 384: a zoo.cfg in the configuration directory overrides the variables. Only the number of the
// member may come from them, and only if ZOO_MY_ID is set.
func TestDockerFileWins(t *testing.T) {
	conf, _ := inDir(t, map[string]string{"zoo.cfg": "dataDir=DIR\ntickTime=1000\n" + three})
	env := []string{"ZOO_CONF_DIR=" + conf, "ZOO_TICK_TIME=9000", "ZOO_SERVERS=nonsense", "ZOO_DATA_DIR=/nowhere"}
	if _, _, err := Load("", env, Flags{}); err == nil || !strings.Contains(err.Error(), "myid is missing") {
		t.Errorf("Load without a number: %v", err)
	}
	cfg, warnings, err := Load("", append(env, "ZOO_MY_ID=2"), Flags{})
	if err != nil || cfg.Tick != time.Second || cfg.MyID != 2 || cfg.Dir != conf || len(warnings) > 0 {
		t.Errorf("Load = %+v, %v, %v", cfg, warnings, err)
	}
	if err := cfg.SaveMyID(); err != nil {
		t.Fatal(err)
	}
	checkMyID(t, conf, "2\n")

	// If the command line names a file, the environment is not a container's, and ZOO_MY_ID has no
	// effect.
	other, _ := inDir(t, map[string]string{"zoo.cfg": "dataDir=DIR\n" + three})
	if _, _, err := Load(filepath.Join(other, "zoo.cfg"), append(env, "ZOO_MY_ID=2"), Flags{}); err == nil {
		t.Error("ZOO_MY_ID had an effect although the command line names a file")
	}
}

// The number in ZOO_MY_ID is written to myid as it is, even if the server line has another one.
func TestDockerStandaloneOtherID(t *testing.T) {
	dir := t.TempDir()
	cfg, warnings, err := Load("", []string{"ZOO_CONF_DIR=" + dir, "ZOO_DATA_DIR=" + dir, "ZOO_MY_ID=2"}, Flags{})
	if err != nil || cfg.MyID != 1 || !strings.Contains(texts(warnings), "this is member 2, and the only server line is server.1") {
		t.Errorf("Load = %+v, %v, %v", cfg, warnings, err)
	}
	if err := cfg.SaveMyID(); err != nil {
		t.Fatal(err)
	}
	checkMyID(t, dir, "2\n")
}

func TestDockerVariables(t *testing.T) {
	dir := t.TempDir()
	env := []string{
		"ZOO_CONF_DIR=" + dir, "ZOO_DATA_DIR=" + dir, "ZOO_DATA_LOG_DIR=" + dir + "/log", "ZOO_TICK_TIME=500",
		"ZOO_INIT_LIMIT=7", "ZOO_SYNC_LIMIT=3", "ZOO_MAX_CLIENT_CNXNS=0", "ZOO_STANDALONE_ENABLED=false",
		"ZOO_ADMINSERVER_ENABLED=false", "ZOO_4LW_COMMANDS_WHITELIST=*", "ZOO_CFG_EXTRA=snapCount=12 tickTime=600",
		"ZOO_AUTOPURGE_PURGEINTERVAL=1", "ZOO_LOG4J_PROP=INFO,CONSOLE", "ZOO_TICKTIME=1", "ZOO_SERVICE_HOST=10.0.0.1", "ZOO_PORT_2181_TCP=x",
		"SERVER_JVMFLAGS=-Dzookeeper.maxCnxns=3 -Djute.maxbuffer=2000",
		"JVMFLAGS=-Xmx1g -Djute.maxbuffer=3000 -Dzookeeper.DigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4= -Dzookeeper.snapCount=99 -Dzookeeper.foo=1 -Dlog.level=2 -Dflag",
	}
	cfg, warnings, err := Load("", env, Flags{})
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(cfg.LogDir, cfg.Tick, cfg.InitLimit, cfg.SyncLimit, cfg.Limits.MaxClientConns, cfg.Standalone,
		cfg.CommandWhitelist, cfg.SnapCount, cfg.Limits.MaxConns, cfg.Limits.MaxBuffer, cfg.SuperDigest)
	want := fmt.Sprint(dir+"/log", 600*time.Millisecond, 7, 3, -1, false, []string{"*"}, 12, 3, 3000, "super:lK75jTNcA+U9vtVEw5vB51mj/w4=")
	if got != want {
		t.Errorf("Load: %s, want %s", got, want)
	}
	wantWarnings := `ZOO_LOG4J_PROP: no effect: logs go to standard error
ZOO_TICKTIME: unknown variable
ZOO_CFG_EXTRA: tickTime again, first in ZOO_TICK_TIME: this one counts
JVMFLAGS: unknown key foo
ZOO_AUTOPURGE_PURGEINTERVAL: autopurge.purgeInterval has no effect: old snapshots and log files are always removed`
	if got := texts(warnings); got != wantWarnings {
		t.Errorf("warnings:\n%s\nwant\n%s", got, wantWarnings)
	}
}

func TestDockerRefuses(t *testing.T) {
	for variable, want := range map[string]string{
		"ZOO_MY_ID=0":                    "ZOO_MY_ID=0: must be 1 to 255; in place of ZooKeeper's 0, it is the number of this member's server line",
		"ZOO_TICK_TIME=fast":             "ZOO_TICK_TIME: tickTime=fast: must be 1 to 3600000 (ms)",
		"ZOO_SERVERS=zoo1":               "ZOO_SERVERS: zoo1: must be server.N=HOST:PORT:PORT;PORT, or HOST:PORT:PORT::N as for Bitnami's image",
		"JVMFLAGS=-Djute.maxbuffer=100m": "JVMFLAGS: jute.maxbuffer=100m: must be 64 to 2147483647 (bytes); above 8388608 it counts as 8388608",
	} {
		_, _, err := Load("", []string{"ZOO_CONF_DIR=" + t.TempDir(), "ZOO_DATA_DIR=" + t.TempDir(), variable}, Flags{})
		if err == nil || err.Error() != want {
			t.Errorf("Load with %s: %v, want %s", variable, err, want)
		}
	}
}
