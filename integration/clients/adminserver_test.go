package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// adminJars are the files of Debian's packages that ZooKeeper's AdminServer needs besides the
// server itself.
var adminJars = []string{
	"zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-simple", "netty-all", "metrics-core", "snappy-java", "commons-cli",
	"jetty9-server", "jetty9-servlet", "jetty9-util", "jetty9-util-ajax", "jetty9-http", "jetty9-io", "jetty9-security",
	"servlet-api", "jackson-core", "jackson-databind", "jackson-annotations",
}

// adminReady is the time that a server may take to start: a Java machine on a busy computer.
const adminReady = time.Minute

// adminTarget is an ensemble, with the addresses of its members for clients and for HTTP.
type adminTarget struct{ clients, http []string }

// startAdminZooKeeper runs servers of Debian's ZooKeeper with their AdminServers.
func startAdminZooKeeper(t *testing.T, size int) adminTarget {
	t.Helper()
	needs.Check(t, needs.ZooKeeper)
	var classPath []string
	for _, jar := range adminJars {
		path := filepath.Join("/usr/share/java", jar+".jar")
		classPath = append(classPath, path)
	}
	var z adminTarget
	var servers strings.Builder
	for id := 1; id <= size; id++ {
		client, quorum, election := process.FreePort(t), process.FreePort(t), process.FreePort(t)
		z.clients = append(z.clients, client.String())
		z.http = append(z.http, process.FreePort(t).String())
		if size > 1 {
			fmt.Fprintf(&servers, "server.%d=%v:%d:participant;%v\n", id, quorum, election.Port, client)
		}
	}
	for i := range size {
		dir := t.TempDir()
		clientHost, clientPort, _ := strings.Cut(z.clients[i], ":")
		host, port, _ := strings.Cut(z.http[i], ":")
		cfg := filepath.Join(dir, "zoo.cfg")
		text := fmt.Sprintf("tickTime=1000\ninitLimit=10\nsyncLimit=5\ndataDir=%s\nclientPortAddress=%s\nclientPort=%s\nadmin.serverAddress=%s\nadmin.serverPort=%s\n%s",
			dir, clientHost, clientPort, host, port, servers.String())
		for name, text := range map[string]string{cfg: text, filepath.Join(dir, "myid"): fmt.Sprint(i + 1)} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		process.Start(t, fmt.Sprintf("ZooKeeper %d", i+1), java(strings.Join(classPath, ":"), "org.apache.zookeeper.server.quorum.QuorumPeerMain", cfg),
			func() string { return "nothing that matters here" })
	}
	return z
}

// startAdminRollcall runs members of the binary, which choose their ports for HTTP.
func startAdminRollcall(t *testing.T, size int) adminTarget {
	t.Helper()
	e := process.StartEnsemble(t, process.Config{
		Binary: rollcall, Size: size, Tick: time.Second,
		Lines: noElections + process.AnyHTTP + "DigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4=\n",
	})
	var z adminTarget
	for _, m := range e.Members {
		addr, err := m.HTTP()
		if err != nil {
			t.Fatal(err)
		}
		z.clients, z.http = append(z.clients, m.Clients), append(z.http, addr)
	}
	return z
}

// get returns the reply to a request as text. With POST it sends the super user's credentials.
func (z adminTarget) get(ctx context.Context, i int, method, path string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+z.http[i]+path, nil)
	if err != nil {
		return "", err
	}
	if method == http.MethodPost {
		r.Header.Set("Authorization", "digest super:secret")
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	return string(text), err
}

// members returns the number of the member with each role, once all of them serve.
func (z adminTarget) members(ctx context.Context, t *testing.T) map[string]int {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, adminReady)
	defer cancel()
	roles := map[string]int{}
	err := process.Until(ctx, "all members serve HTTP and clients", func() bool {
		clear(roles)
		for i := range z.http {
			var stats struct {
				Error any
				Stats struct {
					State string `json:"server_state"`
				} `json:"server_stats"`
			}
			text, err := z.get(ctx, i, "GET", "/commands/server_stats")
			if err != nil || json.Unmarshal([]byte(text), &stats) != nil || stats.Error != nil {
				return false
			}
			roles[stats.Stats.State] = i
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return roles
}

// occupy makes a session on a member with two ephemeral nodes and two watches.
func (z adminTarget) occupy(ctx context.Context, t *testing.T, i int) {
	t.Helper()
	c, err := dialGo(ctx, seat{name: "occupies", hosts: []string{z.clients[i]}}, longTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for _, path := range []string{"/e", "/e2"} {
		if _, err := c.Create(path, nil, zk.FlagEphemeral, world); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/e", "/nope"} {
		if _, _, _, err := c.ExistsW(path); err != nil {
			t.Fatal(err)
		}
	}
}

// shape replaces values by the names of their JSON types. Of an object whose keys are data it keeps
// one entry, which all others must equal.
func shape(t *testing.T, name string, value any) any {
	t.Helper()
	switch v := value.(type) {
	case map[string]any:
		of := map[string]any{}
		for key, field := range v {
			s := shape(t, key, field)
			if slices.Contains([]string{"expiry_time_to_session_ids", "session_id_to_ephemeral_paths", "session_id_to_watched_paths", "path_to_session_ids", "current_config"}, name) {
				if fmt.Sprint(s) == "[]" {
					continue // a time at which nobody expires
				}
				key = "*"
			}
			of[key] = s
		}
		return of
	case []any:
		if len(v) == 0 {
			return []any{}
		}
		return []any{shape(t, "", v[0])}
	case json.Number:
		if strings.Contains(v.String(), ".") {
			return "decimal"
		}
		return "integer"
	default:
		return fmt.Sprintf("%T", v)
	}
}

func (z adminTarget) shape(ctx context.Context, t *testing.T, i int, method, path string) map[string]any {
	t.Helper()
	text, err := z.get(ctx, i, method, path)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v in %s", path, err, text)
	}
	return shape(t, "", v).(map[string]any)
}

var linkedCommand = regexp.MustCompile(`<a href="(/commands/[a-z_]+)">([a-z_]+)</a>`)

// commands returns the names that the list of commands shows.
func (z adminTarget) commands(ctx context.Context, t *testing.T) (names []string) {
	t.Helper()
	text, err := z.get(ctx, 0, "GET", "/commands")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range linkedCommand.FindAllStringSubmatch(text, -1) {
		names = append(names, m[2])
	}
	return names
}

// changing are the commands for which Rollcall wants POST.
var changing = strings.Fields("connection_stat_reset crst observer_connection_stat_reset orst set_trace_mask stmk stat_reset srst")

// later are the commands that later versions of ZooKeeper have: 3.9 and 3.10.
var later = strings.Fields("restore shed_connections snapshot")

// aliases are ZooKeeper's other names of the commands.
var aliases = strings.Fields("conf config crst cons env envi gtmk icfg isro lead mntr orst obsr srvr stmk srst stat sysp wchs wchc wchp")

// Cases 344 to 346. Each command of the AdminServer replies with the fields of ZooKeeper 3.8.0, key by key and type by
// type, on a standalone server, a leader and a follower.
func TestAdminServer(t *testing.T) {
	needs.Check(t, needs.Usual)
	ctx, cancel := context.WithTimeout(t.Context(), 2*scenarioLimit)
	defer cancel()
	for _, size := range []int{1, 2} {
		theirs, ours := startAdminZooKeeper(t, size), startAdminRollcall(t, size)
		zk, rc := theirs.members(ctx, t), ours.members(ctx, t)
		if want, got := slices.Sorted(maps.Keys(zk)), slices.Sorted(maps.Keys(rc)); !slices.Equal(got, want) {
			t.Fatalf("members are %q, those of ZooKeeper %q", got, want)
		}
		if got, want := append(ours.commands(ctx, t), "last_snapshot"), append(theirs.commands(ctx, t), later...); !slices.Equal(sorted(got), sorted(want)) {
			t.Errorf("commands %q, ZooKeeper's are %q", got, want)
		}
		roles := slices.Sorted(maps.Keys(zk))
		theirs.occupy(ctx, t, zk[roles[0]])
		ours.occupy(ctx, t, rc[roles[0]])
		for _, role := range roles {
			common := slices.DeleteFunc(ours.commands(ctx, t), func(name string) bool { return slices.Contains(later, name) })
			for _, name := range slices.Concat(common, aliases, []string{"set_trace_mask?traceMask=5", "nosuch"}) {
				compareCommand(ctx, t, role, name, theirs, zk[role], ours, rc[role])
			}
		}
	}
}

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }

// compareCommand compares the replies of member i of ZooKeeper and of member j of Rollcall.
func compareCommand(ctx context.Context, t *testing.T, role, name string, theirs adminTarget, i int, ours adminTarget, j int) {
	t.Helper()
	method, path := http.MethodGet, "/commands/"+name
	if command, _, _ := strings.Cut(name, "?"); slices.Contains(changing, command) {
		method = http.MethodPost
	}
	want, got := theirs.shape(ctx, t, i, http.MethodGet, path), ours.shape(ctx, t, j, method, path)
	switch name {
	case "initial_configuration", "icfg": // null: docs/deviations.md
		got["initial_configuration"] = want["initial_configuration"]
	case "system_properties", "sysp": // some of them
		maps.DeleteFunc(want, func(key string, _ any) bool { return got[key] == nil })
	case "monitor", "mntr":
		// ZooKeeper does not measure what is Rollcall's own, and Rollcall not everything of ZooKeeper's.
		// docs/metrics.md says why.
		for key := range want {
			if got[key] == nil && !missesMetric(t, key) {
				t.Errorf("%s: %s: %s is missing, and docs/metrics.md does not say why", role, name, key)
			}
		}
		maps.DeleteFunc(want, func(key string, _ any) bool { return got[key] == nil })
		maps.DeleteFunc(got, func(key string, _ any) bool { return want[key] == nil })
		if len(got) < 60 {
			t.Errorf("%s: %s: %d metrics in common", role, name, len(got))
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %s:\n%v\nZooKeeper's:\n%v", role, name, got, want)
	}
}
