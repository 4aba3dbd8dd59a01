package applications

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

const (
	kills = 5
	// down is the time for which a killed leader stays away.
	down = 5 * time.Second
	// calm is the time for which the ensemble and the inserters are left alone between two faults.
	calm = 5 * time.Second
	// recovery is the limit for all that ClickHouse must do by itself after a fault.
	recovery = 3 * time.Minute
)

// Two replicas of a ReplicatedMergeTree table take inserts. Meanwhile the ensemble's leader is
// killed five times, and then each member is restarted in turn, the leader last. No acknowledged
// insert is lost, and both replicas are active again.
func TestClickHouse(t *testing.T) {
	needs.Check(t, needs.Nightly)
	require(t, "java", "/usr/share/java/zookeeper.jar", "clickhouse-server")
	byTurns(t, func(t *testing.T, s system) {
		before := load(t)
		e := s.start(t)
		replicas := startReplicas(t, clientAddresses(e))
		inserters := startInserters(t, replicas)
		goOn(t, inserters)

		var killed, restarted gaps
		for range kills {
			killed = append(killed, longestGap(t, inserters, func() { kill(t, e) }))
		}
		for _, m := range leaderLast(e) {
			restarted = append(restarted, longestGap(t, inserters, func() { restart(t, e, m) }))
		}
		acknowledged := 0
		for _, i := range inserters {
			acknowledged += i.stop()
		}
		checkReplicas(t, replicas, inserters)
		t.Logf("ClickHouse on %s: longest time without an insert: leader killed %v, rolling restart %v; %d inserts acknowledged, load %s to %s",
			s.name, killed, restarted, acknowledged, before, load(t))
	})
}

// kill ends the leader by SIGKILL, starts it again and waits until all members serve.
func kill(t *testing.T, e *process.Ensemble) {
	t.Helper()
	leader := e.Settle()
	leader.Process.Kill()
	time.Sleep(down)
	e.Start(leader)
	e.Settle()
}

// leaderLast returns the members in the order in which an operator restarts them.
func leaderLast(e *process.Ensemble) (order []*process.Member) {
	leader := e.Settle()
	for _, m := range e.Members {
		if m != leader {
			order = append(order, m)
		}
	}
	return append(order, leader)
}

// restart ends a member by SIGTERM, starts it at once and waits until all members serve.
func restart(t *testing.T, e *process.Ensemble, m *process.Member) {
	t.Helper()
	if err := m.Process.SendSignal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Process.ExitStatus(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.Start(m)
	e.Settle()
}

// checkReplicas waits until each replica has every acknowledged insert and sees both replicas active. After an insert with an
// unknown outcome a replica may show that row twice, so each row counts once.
func checkReplicas(t *testing.T, replicas []replica, inserters []*inserter) {
	t.Helper()
	var want strings.Builder
	for _, i := range inserters {
		fmt.Fprintf(&want, "%d\t%d\n", i.id, i.countAcknowledged())
	}
	for _, r := range replicas {
		var state, rows string
		var err error
		for end := time.Now().Add(recovery); ; time.Sleep(glance) {
			state, err = r.query(t.Context(), "SELECT total_replicas, active_replicas, is_readonly FROM system.replicas")
			if err == nil {
				rows, err = r.query(t.Context(), "SELECT inserter, uniqExact(n) FROM inserts GROUP BY inserter ORDER BY inserter")
			}
			if err == nil && state == "2\t2\t0\n" && rows == want.String() {
				break
			}
			if time.Now().After(end) {
				t.Errorf("%s: replicas, active ones, read-only: %q; inserter, different rows: %q, %v; want %q and %q",
					r.name, state, rows, err, "2\t2\t0\n", want.String())
				break
			}
		}
	}
}

// replica is a ClickHouse server.
type replica struct {
	name string
	url  string
}

// createTable turns off ClickHouse's own limits on many small inserts. After a replica has lost its
// session, no parts are merged until that session has expired, and the test would measure these
// limits.
const createTable = `CREATE TABLE inserts (inserter UInt8, n UInt32)
ENGINE = ReplicatedMergeTree('/clickhouse/inserts', '{replica}') ORDER BY (inserter, n)
SETTINGS parts_to_delay_insert = 10000, parts_to_throw_insert = 10000`

// startReplicas runs two servers on an ensemble until the test ends, and makes the table on both.
func startReplicas(t *testing.T, servers []string) (replicas []replica) {
	t.Helper()
	for _, name := range []string{"replica1", "replica2"} {
		replicas = append(replicas, startReplica(t, servers, name))
	}
	for _, r := range replicas {
		await(t, r.name+" serves", recovery, func() bool {
			_, err := r.query(t.Context(), "SELECT 1")
			return err == nil
		})
		if _, err := r.query(t.Context(), createTable); err != nil {
			t.Fatal(err)
		}
	}
	return replicas
}

// startReplica runs one server until the test ends. Its settings are the defaults but for
// addresses and directories.
func startReplica(t *testing.T, servers []string, name string) replica {
	t.Helper()
	dir := t.TempDir()
	var nodes strings.Builder
	for _, address := range servers {
		host, port, _ := net.SplitHostPort(address) // it was joined
		fmt.Fprintf(&nodes, "<node><host>%s</host><port>%s</port></node>", host, port)
	}
	web, tcp, between := process.FreePort(t), process.FreePort(t), process.FreePort(t)
	config := filepath.Join(dir, "config.xml")
	write(t, config, fmt.Sprintf(serverConfig, web.IP, tcp.IP, between.IP, web.Port, tcp.Port, between.Port, between.IP, dir, nodes.String(), name))
	write(t, filepath.Join(dir, "users.xml"), usersConfig)
	printed, err := os.Create(filepath.Join(dir, "printed"))
	if err != nil {
		t.Fatal(err)
	}
	defer printed.Close() // the process has its own descriptor
	cmd := exec.Command("clickhouse-server", "--config-file="+config)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, printed, printed
	process.Start(t, "ClickHouse "+name, cmd, func() string { return lastOf(printed.Name()) })
	return replica{name, fmt.Sprintf("http://%v/", web)}
}

const serverConfig = `<yandex>
<logger><level>information</level><console>1</console></logger>
<listen_host>%s</listen_host><listen_host>%s</listen_host><listen_host>%s</listen_host>
<http_port>%d</http_port><tcp_port>%d</tcp_port>
<interserver_http_port>%d</interserver_http_port><interserver_http_host>%s</interserver_http_host>
<path>%[8]s/data/</path><tmp_path>%[8]s/tmp/</tmp_path>
<users_config>users.xml</users_config><default_profile>default</default_profile><default_database>default</default_database>
<mark_cache_size>67108864</mark_cache_size>
<zookeeper>%[9]s</zookeeper>
<macros><replica>%[10]s</replica></macros>
</yandex>
`

const usersConfig = `<yandex>
<profiles><default></default></profiles>
<users><default><password></password><networks><ip>127.0.0.0/8</ip></networks><profile>default</profile><quota>default</quota></default></users>
<quotas><default></default></quotas>
</yandex>
`

// query returns the output of a statement.
func (r replica) query(ctx context.Context, statement string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, queryLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"?query="+url.QueryEscape(statement), http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return string(text), err
}

// queryLimit is the time that a statement may take: longer than ClickHouse waits for ZooKeeper.
const queryLimit = 30 * time.Second
