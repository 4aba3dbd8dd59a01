package admin

import (
	"bufio"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"rollcall/operator/api"
)

const (
	versionLine = "Zookeeper version: 3.9.5-rollcall-0.1.0-dev, built on 11/02/2026 08:04 UTC\n"
	figureLines = "Latency min/avg/max: 0/0.6938/12\nReceived: 746\nSent: 806\nConnections: 1\nOutstanding: 2\nZxid: 0x2000001e9\n"
	sentence    = "This ZooKeeper instance is not currently serving requests\n"
)

// These are conformance cases 328 to 342. Replies are compared character by character.
func TestAnswer(t *testing.T) {
	const first = "0x1000012f99a0001"
	const second = "0x2000012f99a0001"
	const one = " /10.0.0.1:46396[5](queued=2,recved=8,sent=9"
	const two = " /[::1]:4[1](queued=0,recved=1,sent=1"
	const own = " /10.0.0.2:46440[0](queued=0,recved=1,sent=0)\n"
	const ephemerals = "ephemeral nodes dump:\nSessions with Ephemerals (2):\n" + first + ":\n\t/e1\n\t/e2\n" + second + ":\n\t/f\n"
	const clients = "Connections dump:\nConnections Sets (1)/(3):\n3 expire at Fri Nov 20 02:43:30 UTC 2026:\n" +
		"\tip: /10.0.0.1:46396 sessionId: " + first + "\n\tip: /[::1]:4 sessionId: " + second + "\n\tip: /10.0.0.2:46440 sessionId: 0x0\n"
	const conf = "clientPort=2181\ndataDirSize=510\ndataLogSize=1000\n"
	tests := []struct {
		name, role string
		whitelist  string
		word, want string
	}{
		{name: "case 329 srvr by default", role: "follower", word: "srvr", want: versionLine + figureLines + "Mode: follower\nNode count: 11\n"},
		{name: "case 329 srvr cannot be taken off", role: "standalone", whitelist: "ruok", word: "srvr", want: versionLine + figureLines + "Mode: standalone\nNode count: 11\n"},
		{name: "case 329 ruok by default", role: "follower", word: "ruok", want: "ruok is not executed because it is not in the whitelist.\n"},
		{name: "case 329 stat by default", role: "follower", word: "stat", want: "stat is not executed because it is not in the whitelist.\n"},
		{name: "case 329 isro by default", role: "follower", word: "isro", want: "isro is not executed because it is not in the whitelist.\n"},
		{name: "case 329 blanks trimmed", role: "follower", whitelist: " mntr, ruok ", word: "ruok", want: "imok"},
		{name: "case 328 ruok", role: "follower", whitelist: "*", word: "ruok", want: "imok"},
		{name: "case 331 unknown", role: "follower", whitelist: "*", word: "abcd"},
		{name: "case 331 a star is no word", role: "follower", whitelist: "*", word: "*   "},
		{name: "case 334 srvr on a leader", role: "leader", word: "srvr", want: versionLine + figureLines + "Mode: leader\nNode count: 11\nProposal sizes last/min/max: 48/36/88\n"},
		{name: "case 335 stat", role: "follower", whitelist: "*", word: "stat", want: versionLine + "Clients:\n" + one + ")\n" + two + ")\n" + own + "\n" + figureLines + "Mode: follower\nNode count: 11\n"},
		{name: "case 336 cons", role: "follower", whitelist: "*", word: "cons", want: one + ",sid=" + first +
			",lop=GETC,est=1795142600000,to=15000,lcxid=0x7,lzxid=0x20000000a,lresp=1283859,llat=2,minlat=0,avglat=1,maxlat=4)\n" + two + ",sid=" + second +
			",lop=NA,est=1795142600000,to=4000,lzxid=0x0,lresp=0,llat=0,minlat=0,avglat=0,maxlat=0)\n" + own + "\n"},
		{name: "case 337 gtmk", role: "follower", whitelist: "*", word: "gtmk", want: "306"},
		{name: "case 337 stmk", role: "follower", whitelist: "*", word: "stmk\x00\x00\x00\x00\x00\x00\x01\x02", want: "258"},
		{name: "case 338 srst", role: "follower", whitelist: "*", word: "srst", want: "Server stats reset.\n"},
		{name: "crst", role: "follower", whitelist: "*", word: "crst", want: "Connection stats reset.\n"},
		{name: "case 339 wchs", role: "follower", whitelist: "*", word: "wchs", want: "2 connections watching 2 paths\nTotal watches:3\n"},
		{name: "case 339 wchc", role: "follower", whitelist: "*", word: "wchc", want: second + "\n\t/a\n\t/b\n" + first + "\n\t/a\n\n"},
		{name: "case 339 wchp", role: "follower", whitelist: "*", word: "wchp", want: "/a\n\t" + second + "\n\t" + first + "\n/b\n\t" + second + "\n\n"},
		{name: "case 340 dump on a leader", role: "leader", whitelist: "*", word: "dump", want: "SessionTracker dump:\nSession Sets (2)/(2):\n" +
			"1 expire at Fri Nov 20 02:43:29 UTC 2026:\n\t" + second + "\n1 expire at Fri Nov 20 02:43:30 UTC 2026:\n\t" + first + "\n" + ephemerals + clients},
		{name: "case 340 dump on a follower", role: "follower", whitelist: "*", word: "dump", want: "SessionTracker dump:\nGlobal Sessions(2):\n" +
			first + "\t15000ms\n" + second + "\t4000ms\n" + ephemerals + clients},
		{name: "conf in an ensemble", role: "follower", whitelist: "*", word: "conf", want: conf + "membership: \nserver.1=a:2888:3888:participant\nversion=0"},
		{name: "conf standalone", role: "standalone", whitelist: "*", word: "conf", want: conf},
		{name: "dirs", role: "follower", whitelist: "*", word: "dirs", want: "datadir_size: 510\nlogdir_size: 1000\n"},
		{name: "hash", role: "follower", whitelist: "*", word: "hash"},
		{name: "isro", role: "follower", whitelist: "*", word: "isro", want: "rw"},
		{name: "case 312 isro in read-only mode", role: api.RoleReadOnly, whitelist: "*", word: "isro", want: "ro"},
		{name: "srvr in read-only mode", role: api.RoleReadOnly, word: "srvr", want: versionLine + "READ-ONLY mode; serving only read-only clients\n" + figureLines + "Mode: read-only\nNode count: 11\n"},
		{name: "stat in read-only mode", role: api.RoleReadOnly, whitelist: "*", word: "stat", want: versionLine + "READ-ONLY mode; serving only read-only clients\nClients:\n" + one + ")\n" + two + ")\n" + own + "\n" + figureLines + "Mode: read-only\nNode count: 11\n"},
		{name: "case 333 not serving, ruok", whitelist: "*", word: "ruok", want: "imok"},
		{name: "case 333 not serving, isro", whitelist: "*", word: "isro", want: "null"},
		{name: "not serving, gtmk", whitelist: "*", word: "gtmk", want: "306"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, _ := newTestWords(t, tt.role, strings.Split(tt.whitelist, ",")...)
			if got := w.replyTo(t, tt.word); got != tt.want {
				t.Errorf("%q is answered\n%s\nwant\n%s", tt.word, got, tt.want)
			}
			if w.IsCommand(tt.word[:4]) == strings.HasPrefix(tt.name, "case 331") {
				t.Errorf("Known(%q) = %t", tt.word, w.IsCommand(tt.word[:4]))
			}
		})
	}
}

// Case 330: every command gets a reply, and hash an empty one. Case 332: a member that is not serving reports that,
// except to the commands that do not need the ensemble.
func TestEveryWord(t *testing.T) {
	names := strings.Fields("conf cons crst dirs dump envi gtmk ruok stmk srst srvr stat wchc wchp wchs mntr isro hash")
	if got := slices.Sorted(maps.Keys(fourLetterCommands)); !slices.Equal(got, slices.Sorted(slices.Values(names))) {
		t.Errorf("words %v", got)
	}
	serving, _ := newTestWords(t, "leader", "*")
	down, f := newTestWords(t, "", "*")
	for _, name := range names {
		if got := serving.replyTo(t, name+"12345678"); got == "" && name != "hash" || strings.Contains(got, sentence) {
			t.Errorf("case 330 %s: %q", name, got)
		}
		anyway := slices.Contains([]string{"ruok", "envi", "gtmk", "stmk", "isro"}, name)
		if got := down.replyTo(t, name+"12345678"); (got == sentence) == anyway || got == "" {
			t.Errorf("case 332 %s: %q", name, got)
		}
	}
	if len(f.resets) > 0 {
		t.Errorf("the statistics of a member that is not serving were reset: %v", f.resets)
	}
}

// A reset command resets the statistics that it names. The trace mask is kept.
func TestWordsWithEffects(t *testing.T) {
	w, f := newTestWords(t, "leader", "*")
	w.replyTo(t, "srst")
	w.replyTo(t, "crst")
	if !slices.Equal(f.resets, []string{"server", "connections"}) {
		t.Errorf("reset: %v", f.resets)
	}
	w.replyTo(t, "stmk\xff\xff\xff\xff\xff\xff\xff\xfe")
	if got := w.replyTo(t, "gtmk"); got != "-2" {
		t.Errorf("trace mask %s", got)
	}
	var b strings.Builder
	if err := w.WriteReply("stmk", strings.NewReader("1234567"), &b); err == nil || b.Len() > 0 {
		t.Errorf("stmk with seven bytes: %q, %v", b.String(), err)
	}
	f.disk = os.ErrPermission
	for _, word := range []string{"conf", "dirs"} {
		if got := w.replyTo(t, word); got != "the data directory cannot be read: permission denied\n" {
			t.Errorf("%s: %q", word, got)
		}
	}
}

// A reply ends when writing it fails, however much is left. The next command still gets its reply.
func TestAnswerEndsEarly(t *testing.T) {
	w, f := newTestWords(t, "leader", "*")
	for _, word := range []string{"cons", "stat", "wchc"} {
		f.endless = true
		if err := w.WriteReply(word, strings.NewReader(""), &fullWriter{left: 1 << 10}); !errors.Is(err, errFull) {
			t.Errorf("%s with endless lists: %v", word, err)
		}
		f.endless = false
	}
	for _, word := range []string{"cons", "dump", "stat", "wchc", "wchp", "mntr"} {
		out := &fullWriter{left: 30}
		if err := w.WriteReply(word, strings.NewReader(""), out); !errors.Is(err, errFull) {
			t.Errorf("%s: %v", word, err)
		}
		if out.left > 0 || out.asked > 4 {
			t.Errorf("%s: %d writes, %d bytes of room left", word, out.asked, out.left)
		}
		if got := w.replyTo(t, word); len(got) < 40 {
			t.Errorf("%s after that: %q", word, got)
		}
	}
}

// Case 341: collectors read mntr as names and values with a tab between them. Each name is there
// once.
func TestMntr(t *testing.T) {
	line := regexp.MustCompile(`^zk_(\w+)\t(.+)$`)
	for role, state := range map[string]string{"leader": "leading - broadcast", "follower": "following - broadcast", "observer": "observing - broadcast", "standalone": ""} {
		w, _ := newTestWords(t, role, "mntr")
		text := w.replyTo(t, "mntr")
		values := map[string]string{}
		for i, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
			m := line.FindStringSubmatch(l)
			if m == nil || values[m[1]] != "" || i == 0 && m[1] != "version" || i == 1 && m[1] != "server_state" {
				t.Fatalf("%s: line %d: %q", role, i+1, l)
			}
			values[m[1]] = m[2]
			if _, err := strconv.ParseFloat(m[2], 64); err != nil && i > 2 {
				t.Errorf("%s: %q is not a number", role, l)
			}
		}
		want := map[string]string{
			"version": "3.9.5-rollcall-0.1.0-dev, built on 11/02/2026 08:04 UTC", "server_state": role, "peer_state": state,
			"avg_latency": "0.6938", "max_latency": "12", "packets_received": "746", "outstanding_requests": "2", "znode_count": "11",
			"watch_count": "5", "ephemerals_count": "3", "approximate_data_size": "44", "uptime": "90000", "global_sessions": "2",
			"connection_drop_probability": "0.0", "last_client_response_size": "-1", "cnt_updatelatency": "4", "sum_updatelatency": "10",
			"avg_updatelatency": "2.5", "p50_updatelatency": "2", "p999_updatelatency": "5", "avg_fsynctime": "0.0", "p50_fsynctime": "",
		}
		for _, name := range []string{"learners", "followers", "synced_followers", "pending_syncs", "leader_uptime", "last_proposal_size", "quorum_size", "synced_observers"} {
			want[name] = ""
		}
		if role != "standalone" {
			want["quorum_size"], want["synced_observers"] = "3", "1"
		}
		if role == "leader" {
			maps.Copy(want, map[string]string{
				"learners": "3", "followers": "3", "synced_followers": "1", "pending_syncs": "0", "leader_uptime": "60000", "last_proposal_size": "48",
			})
		}
		for name, value := range want {
			if values[name] != value {
				t.Errorf("%s: zk_%s is %q, want %q", role, name, values[name], value)
			}
		}
		if n, err := strconv.Atoi(values["open_file_descriptor_count"]); err != nil || n < 3 || n > 10_000 {
			t.Errorf("%s: %q open files", role, values["open_file_descriptor_count"])
		}
	}
}

// Case 342: kazoo reads the version from envi.
func TestEnvi(t *testing.T) {
	w, _ := newTestWords(t, "", "envi")
	text, ok := strings.CutPrefix(w.replyTo(t, "envi"), "Environment:\n")
	if !ok || !strings.HasPrefix(text, "zookeeper.version=3.9.5-") {
		t.Errorf("envi: %q", text)
	}
	for _, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if key, value, ok := strings.Cut(l, "="); !ok || key == "" || value == "" {
			t.Errorf("line %q", l)
		}
	}
}

// The commands environment and system_properties have what envi has.
func TestEnvironmentCommands(t *testing.T) {
	h, _ := newTestHTTP(t, "")
	get := func(name string) (fields map[string]any) {
		v := visit{method: "GET", path: "/commands/" + name, header: []string{"Authorization", "digest super:secret"}}
		if err := json.Unmarshal(v.to(h).Body.Bytes(), &fields); err != nil {
			t.Fatal(name, err)
		}
		return fields
	}
	environment, named := get("environment"), 0
	h.cfg.FourLetter.eachProperty(func(name, value string) {
		named++
		if _, there := environment[name]; !there {
			t.Errorf("environment has no %s, which is %s", name, value)
		}
	})
	if named < 10 {
		t.Errorf("envi has %d names", named)
	}
	properties := get("system_properties")
	for name, value := range environment {
		if value == nil || name == "command" { // every answer begins with the command's name and the error
			continue
		}
		kind, rest, _ := strings.Cut(name, ".")
		want := slices.Contains([]string{"java", "os", "user"}, kind) && !strings.HasPrefix(rest, "memory.") && value != unsetProperty
		if got, there := properties[name]; there != want || there && got != value {
			t.Errorf("system_properties has %s: %t, %v; want %t, %v", name, there, got, want, value)
		}
	}
	for _, name := range []string{"java.io.tmpdir", "os.name", "user.dir"} {
		if properties[name] == nil {
			t.Errorf("system_properties has no %s", name)
		}
	}
}

func TestNumber(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.0", time.Millisecond: "1.0", 1500 * time.Microsecond: "1.5", 12345678: "12.3457", 49: "0.0",
	} {
		if got := formatNumber(milliseconds(d), true); got != want {
			t.Errorf("%d ns are %s ms, want %s", d, got, want)
		}
	}
	if got := formatNumber(1234567890123, false); got != "1234567890123" {
		t.Errorf("a large count: %s", got)
	}
}

func TestNewWordsRefuses(t *testing.T) {
	for _, version := range []string{"", "1.0 beta", "1.0+dirty"} {
		if _, err := NewFourLetterCommands(FourLetterConfig{Version: version, Source: &fakeSource{}}); err == nil {
			t.Errorf("version %q was accepted", version)
		}
	}
	if _, err := NewFourLetterCommands(FourLetterConfig{Version: "1"}); err == nil {
		t.Error("a configuration without a source was accepted")
	}
}

// go-zookeeper's parser, which is the strictest one, reads srvr.
func TestGoClientReadsSrvr(t *testing.T) {
	for _, role := range []string{"leader", "follower", "standalone"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		w, source := newTestWords(t, role)
		source.health.InsecurePorts, source.health.NoMemory = "members are not authenticated", true
		source.silent = []string{"voter 4 is silent", "voter 5 is silent"}
		answer := w.replyTo(t, "srvr")
		if !strings.HasSuffix(answer, "\nProblem: short of memory: writes that add data are rejected\nProblem: voter 4 is silent\nProblem: voter 5 is silent\nSecurity: members are not authenticated\n") {
			t.Errorf("srvr does not end with the problems:\n%s", answer)
		}
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = bufio.NewReader(c).Peek(4)
			_, _ = c.Write([]byte(answer))
			_ = c.Close()
		}()
		stats, ok := zk.FLWSrvr([]string{l.Addr().String()}, 5*time.Second)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if !ok || stats[0].Error != nil {
			t.Fatalf("role %s: not parsed: %v", role, stats[0].Error)
		}
		if s := stats[0]; s.Mode.String() != role || s.NodeCount != 11 || s.Version != "3.9.5-rollcall-0.1.0-dev" || s.Received != 746 {
			t.Errorf("role %s: parsed as %+v", role, s)
		}
	}
}

// The replies contain the lines that collectors and scripts parse, in the expected form.
func TestCollectorsRead(t *testing.T) {
	w, _ := newTestWords(t, "leader", "*")
	for _, tt := range []struct{ who, word, pattern string }{
		{"zkServer.sh status", "srvr", `(?m)^Mode: leader$`},
		{"versions", "srvr", `\s\d+\.\d+\.\d+-`},
		{"Datadog", "stat", `Zookeeper version: (\d+)\.(\d+)\.(\d+)-(.+)\nClients:\n(?: /\S+\[\d+\]\(queued=\d+,recved=\d+,sent=\d+\)\n)+\n` +
			`Latency min/avg/max: ([\d.]+)/([\d.]+)/([\d.]+)\nReceived: (\d+)\nSent: (\d+)\nConnections: (\d+)\nOutstanding: (\d+)\nZxid: 0x([\da-f]+)\nMode: (\w+)\nNode count: (\d+)\n`},
		{"probes", "ruok", `^imok$`},
		{"kazoo", "envi", `(?m)^zookeeper\.version=(\d+\.\d+\.\d+)`},
		{"Telegraf, every line", "mntr", `^(?:zk_\w[\w.\-]*\s+[\w.\-]+[^\n]*\n)+$`},
	} {
		if got := w.replyTo(t, tt.word); !regexp.MustCompile(tt.pattern).MatchString(got) {
			t.Errorf("%s: %s says %q", tt.who, tt.word, got)
		}
	}
	text := "\n" + w.replyTo(t, "mntr")
	for _, key := range strings.Fields(`avg_latency min_latency max_latency packets_received packets_sent num_alive_connections
		outstanding_requests znode_count watch_count ephemerals_count approximate_data_size open_file_descriptor_count
		max_file_descriptor_count followers synced_followers pending_syncs fsync_threshold_exceed_count learners uptime
		global_sessions last_proposal_size min_proposal_size max_proposal_size quorum_size leader_uptime server_state`) {
		if !strings.Contains(text, "\nzk_"+key+"\t") {
			t.Errorf("zk_%s is missing", key)
		}
	}
}
