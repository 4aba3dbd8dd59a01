package applications

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rollcall/lab/process"
)

// rollcall is the binary under test, built once per run.
var rollcall string

func TestMain(m *testing.M) { os.Exit(process.Main(m, &rollcall, build)) }

func build(dir string) (string, error) { return process.Build(dir) }

// Both ensembles have the settings of ZooKeeper's sample configuration.
const (
	members = 3
	tick    = 2 * time.Second
)

// patience is the time that the members may take until they serve. Three JVMs that start at once, beside other programs
// that keep the processors busy, may take longer than process.Patience.
const patience = 3 * time.Minute

// heap is the heap of each ZooKeeper server.
const heap = "512m"

// jars are the parts of Debian's packages that ZooKeeper's server needs.
var jars = []string{
	"zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-simple", "netty-all", "metrics-core", "snappy-java", "commons-cli",
}

// system is an ensemble's software: Rollcall or ZooKeeper.
type system struct {
	name   string
	binary string // takes the arguments of rollcall serve
}

// start runs an ensemble until the test ends, and returns when it serves.
func (s system) start(t *testing.T) *process.Ensemble {
	t.Helper()
	return process.StartEnsemble(t, process.Config{Binary: s.binary, Size: members, Tick: tick, Patience: patience})
}

// clientAddresses returns the members' addresses for clients.
func clientAddresses(e *process.Ensemble) (all []string) {
	for _, m := range e.Members {
		all = append(all, m.Clients)
	}
	return all
}

// bothSystems returns ZooKeeper and Rollcall.
func bothSystems(t *testing.T) []system {
	t.Helper()
	var path []string
	for _, jar := range jars {
		path = append(path, filepath.Join("/usr/share/java", jar+".jar"))
	}
	script := filepath.Join(t.TempDir(), "zookeeper")
	text := fmt.Sprintf("#!/bin/sh\nexec java -Xms%s -Xmx%s -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp %s org.apache.zookeeper.server.quorum.QuorumPeerMain \"$2\"\n",
		heap, heap, strings.Join(path, ":"))
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return []system{{"ZooKeeper", script}, {"Rollcall", rollcall}}
}

// byTurns calls play with each system ROLLCALL_ROUNDS times, or once. The system that comes first changes from round to
// round.
func byTurns(t *testing.T, play func(t *testing.T, s system)) {
	t.Helper()
	both := bothSystems(t)
	for round := range process.Setting(t, "ROLLCALL_ROUNDS", 1, 1) {
		for i := range both {
			s := both[(i+round)%len(both)]
			t.Run(fmt.Sprintf("%d/%s", round+1, s.name), func(t *testing.T) { play(t, s) })
		}
	}
}

// require fails the test if a file of a Debian package is missing. It names the command that
// installs all packages that the tests here need.
func require(t *testing.T, files ...string) {
	t.Helper()
	for _, file := range files {
		if _, err := exec.LookPath(file); err == nil {
			continue
		}
		if _, err := os.Stat(file); err != nil {
			t.Fatalf("%v: sudo apt-get install -y --no-install-recommends zookeeper clickhouse-server patroni postgresql", err)
		}
	}
}

// await checks a condition until it holds, and fails the test after limit. what names the
// condition.
func await(t *testing.T, what string, limit time.Duration, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !holds(); time.Sleep(glance) {
		if time.Now().After(end) {
			t.Fatalf("%s: not so within %v", what, limit)
		}
	}
}

// glance is the interval at which await checks.
const glance = 100 * time.Millisecond

// load returns the machine's load average over one minute.
func load(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		t.Fatal(err)
	}
	one, _, _ := strings.Cut(string(text), " ")
	return one
}

// write makes a file that contains text.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// lastOf returns the end of a file.
func lastOf(path string) string {
	const limit = 16 << 10
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-limit):])
}
