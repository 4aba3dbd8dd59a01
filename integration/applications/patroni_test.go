package applications

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

const (
	clusters = 5
	// stopped is the time for which the ensemble's leader is paused.
	stopped = 45 * time.Second
	// after is the time for which the clusters are watched after the leader continues. It is two turns of Patroni's
	// loop.
	after = 20 * time.Second
	// postgres is the directory in which Debian keeps the programs of PostgreSQL 15.
	postgres = "/usr/lib/postgresql/15/bin"
)

// Five Patroni clusters keep their leader keys in one ensemble, whose leader is stopped for
// 45 s. With Rollcall no primary is demoted.
func TestPatroni(t *testing.T) {
	needs.Check(t, needs.Nightly)
	require(t, "java", "/usr/share/java/zookeeper.jar", "patroni", postgres+"/postgres", "unshare", "setpriv")
	byTurns(t, func(t *testing.T, s system) {
		before := load(t)
		e := s.start(t)
		var primaries []*cluster
		for n := range clusters {
			primaries = append(primaries, startServer(t, clientAddresses(e), fmt.Sprintf("cluster%d", n+1), 1))
		}
		for _, c := range primaries {
			c.awaitPrimary(t)
		}
		time.Sleep(calm)
		var watches []func() []sighting
		for _, c := range primaries {
			watches = append(watches, c.watch(t))
		}

		leader := e.Settle()
		if err := leader.Process.Stop(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(stopped)
		if err := leader.Process.Continue(); err != nil {
			t.Fatal(err)
		}
		e.Settle()
		time.Sleep(after)
		demoted := 0
		for i, c := range primaries {
			c.awaitPrimary(t)
			if wasDemoted(statuses(watches[i]())) {
				demoted++
			}
		}
		t.Logf("Patroni on %s: leader stopped for %v: %d of %d primaries demoted, load %s to %s",
			s.name, stopped, demoted, clusters, before, load(t))
		if s.binary == rollcall && demoted > 0 {
			t.Errorf("%d primaries were demoted, want none", demoted)
		}
	})
}

// cluster is a server of a Patroni cluster. If the cluster has no other, it is the primary.
type cluster struct {
	name string
	api  string // URL of Patroni's REST API
}

// startServer runs Patroni for a server of a cluster until the test ends. Patroni runs PostgreSQL. Its settings are the
// defaults but for addresses and directories, and memory.
func startServer(t *testing.T, servers []string, scope string, number int) *cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "rollcall-patroni-") // a short path, which another user may enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	api, sql := process.FreePort(t), process.FreePort(t)
	var hosts []string
	for _, address := range servers {
		hosts = append(hosts, strconv.Quote(address))
	}
	name := fmt.Sprintf("%s-%d", scope, number)
	config := filepath.Join(dir, "patroni.yml")
	write(t, config, fmt.Sprintf(patroniConfig, scope, name, api, sql, dir, postgres, strings.Join(hosts, ", ")))
	printed, err := os.Create(filepath.Join(dir, "printed"))
	if err != nil {
		t.Fatal(err)
	}
	defer printed.Close() // the process has its own descriptor
	cmd := exec.Command("unshare", append(unshareArgs(t, dir), "patroni", config)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, printed, printed
	process.Start(t, "Patroni of "+name, cmd, func() string { return lastOf(printed.Name()) })
	return &cluster{name: name, api: fmt.Sprintf("http://%v/patroni", api)}
}

// unshareArgs returns the arguments of unshare that give Patroni its own namespaces for processes, mounts and shared
// memory. PostgreSQL leaves Patroni's process group, but ends with the namespaces. PostgreSQL does not run as root. If
// the test runs as root, it therefore starts PostgreSQL as the user of Debian's package, and makes that user the owner
// of dir.
func unshareArgs(t *testing.T, dir string) []string {
	t.Helper()
	args := []string{"--pid", "--ipc", "--mount-proc", "--fork", "--kill-child"}
	if os.Getuid() != 0 {
		return append([]string{"--user", "--map-current-user"}, args...)
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, err := strconv.Atoi(who.Uid)
	if err != nil {
		t.Fatal(err)
	}
	gid, err := strconv.Atoi(who.Gid)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	return append(args, "setpriv", "--reuid", who.Uid, "--regid", who.Gid, "--clear-groups", "--pdeathsig", "KILL")
}

const patroniConfig = `scope: %[1]s
name: %[2]s
restapi: {listen: "%[3]v", connect_address: "%[3]v"}
zookeeper: {hosts: [%[7]s]}
bootstrap:
  dcs: {ttl: 30, loop_wait: 10, retry_timeout: 10}
  initdb: [{encoding: UTF8}, {locale: C}]
postgresql:
  listen: "%[4]v"
  connect_address: "%[4]v"
  data_dir: %[5]s/data
  bin_dir: %[6]s
  pgpass: %[5]s/pgpass
  authentication:
    superuser: {username: postgres, password: test}
    replication: {username: replicator, password: test}
  pg_hba: ["host all all 127.0.0.0/8 trust", "host replication all 127.0.0.0/8 trust"]
  parameters: {shared_buffers: 16MB, max_connections: 20, dynamic_shared_memory_type: mmap, unix_socket_directories: ""}
`

// patroniStatus is a part of the reply of Patroni's REST API about its server.
type patroniStatus struct {
	State    string `json:"state"`
	Role     string `json:"role"`
	Timeline int    `json:"timeline"`
}

// sighting is a reply of Patroni, and the time of its request.
type sighting struct {
	patroniStatus
	asked time.Time
}

// statuses returns the replies of a history.
func statuses(history []sighting) (all []patroniStatus) {
	for _, s := range history {
		all = append(all, s.patroniStatus)
	}
	return all
}

// status queries Patroni. The result is zero if there is no reply.
func (c *cluster) status(ctx context.Context) (s patroniStatus) {
	ctx, cancel := context.WithTimeout(ctx, queryLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.api, http.NoBody)
	if err != nil {
		return s
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return s
	}
	defer response.Body.Close()
	if json.NewDecoder(response.Body).Decode(&s) != nil {
		return patroniStatus{}
	}
	return s
}

// awaitPrimary waits until the cluster's server is a primary that takes writes.
func (c *cluster) awaitPrimary(t *testing.T) {
	t.Helper()
	await(t, c.name+" has a primary", recovery, func() bool {
		s := c.status(t.Context())
		return s.State == "running" && s.Role == "master" && s.Timeline > 0
	})
}

// watch polls the server's status every glance until the function that it returns is called, or the test ends. That
// function polls once more, and returns all replies in order.
func (c *cluster) watch(t *testing.T) (stop func() []sighting) {
	t.Helper()
	var history []sighting
	see := func(ctx context.Context) {
		asked := time.Now()
		history = append(history, sighting{c.status(ctx), asked})
	}
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ; ctx.Err() == nil; time.Sleep(glance) {
			see(ctx)
		}
	}()
	return func() []sighting {
		end()
		<-done
		see(t.Context())
		return history
	}
}

// wasDemoted reports whether the primary of a cluster was demoted, by the successive replies of its servers. A server
// that gives no reply, or no timeline, may still be a primary. Each promotion begins a new timeline, so a promotion
// between two replies shows in that, even if the former primary still reports that it is one.
func wasDemoted(history []patroniStatus) bool {
	first := 0
	for _, s := range history {
		switch {
		case s == patroniStatus{}:
		case s.Role != "master":
			return true
		case s.Timeline == 0: // PostgreSQL did not answer Patroni
		case first == 0:
			first = s.Timeline
		case s.Timeline != first:
			return true
		}
	}
	return false
}

// A history shows a demotion by a reply of a server that is no primary, or by a promotion.
func TestWasDemoted(t *testing.T) {
	var (
		silent   = patroniStatus{}
		unknown  = patroniStatus{"unknown", "master", 0}
		primary  = patroniStatus{"running", "master", 1}
		promoted = patroniStatus{"running", "master", 2}
		replica  = patroniStatus{"running", "replica", 1}
		starting = patroniStatus{"starting", "replica", 0}
	)
	for _, tt := range []struct {
		name    string
		history []patroniStatus
		want    bool
	}{
		{"the primary stays", []patroniStatus{primary, primary, primary}, false},
		{"the primary does not answer for a while", []patroniStatus{silent, primary, silent, primary}, false},
		{"PostgreSQL does not answer for a while", []patroniStatus{unknown, primary, unknown, primary}, false},
		{"demoted, and promoted again", []patroniStatus{primary, replica, starting, promoted}, true},
		{"demoted for a moment", []patroniStatus{primary, replica, primary}, true},
		{"demoted and starting", []patroniStatus{primary, starting}, true},
		{"promoted between two answers", []patroniStatus{primary, silent, promoted}, true},
		{"promoted while the former primary still serves", []patroniStatus{primary, promoted, primary}, true},
	} {
		if got := wasDemoted(tt.history); got != tt.want {
			t.Errorf("%s: demoted %t, want %t", tt.name, got, tt.want)
		}
	}
}
