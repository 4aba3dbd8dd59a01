package cases

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/zk/jute"
)

// operating is the part of group S that needs connections: four-letter commands. Package admin tests the exact text of
// their replies. Package server tests case 343, which needs a connection that can be closed on one side. Package config
// tests case 347.
var operating = []row{
	{number: 328, name: "ruok", where: everywhere, run: wordRuok},
	{number: 329, name: "white list", where: everywhere, run: wordDefault, options: cluster.Options{
		Adjust: func(cfg *member.Config) { cfg.CommandWhitelist = nil },
	}},
	{number: 330, name: "every word", where: everywhere, run: everyWord},
	{number: 331, name: "no word", where: everywhere, run: noWord},
	{number: 332, name: "not serving", where: three, run: wordsNotServing},
	{number: 333, name: "not serving, but alive", where: three, run: wordsAlive},
	{number: 334, name: "mode", where: everywhere, run: wordMode},
	{number: 335, name: "stat", where: everywhere, run: wordStat},
	{number: 336, name: "cons", where: everywhere, run: wordCons},
	{number: 337, name: "trace mask", where: everywhere, run: wordMask},
	{number: 338, name: "srst", where: everywhere, run: wordReset},
	{number: 339, name: "watches", where: everywhere, run: wordWatches},
	{number: 340, name: "dump", where: everywhere, run: wordDump},
	{number: 341, name: "mntr", where: everywhere, run: wordMntr},
	{number: 342, name: "envi", where: everywhere, run: wordEnvi},
}

// checkReply checks the whole reply to a four-letter command.
func (s *stage) checkReply(word, want string) {
	s.Helper()
	if got := s.sendCommand(s.at, word); got != want {
		s.Errorf("%q is answered %q, want %q", word, got, want)
	}
}

// role returns the name of the role of the member that a case is tried at.
func (s *stage) role() string {
	switch s.place {
	case standalone:
		return "standalone"
	case leader:
		return "leader"
	}
	return "follower"
}

const notServing = "This ZooKeeper instance is not currently serving requests\n"

func wordRuok(s *stage) {
	s.checkReply("ruok", "imok")
	s.checkReply("ruok\nand more", "imok")
}

func wordDefault(s *stage) {
	if got := s.sendCommand(s.at, "srvr"); !strings.HasPrefix(got, "Zookeeper version: 3.9.5-") {
		s.Errorf("srvr: %q", got)
	}
	for _, word := range []string{"ruok", "stat", "mntr", "isro"} {
		s.checkReply(word, word+" is not executed because it is not in the whitelist.\n")
	}
}

func everyWord(s *stage) {
	for _, word := range strings.Fields("conf cons crst dirs dump envi gtmk hash isro mntr ruok srst srvr stat stmk01234567 wchc wchp wchs") {
		if got := s.sendCommand(s.at, word); got == "" && word != "hash" || strings.Contains(got, "whitelist") || got == notServing {
			s.Errorf("%s: %q", word, got)
		}
	}
}

func noWord(s *stage) { s.checkReply("abcd", "") }

// alone stops the two other members, and waits until the remaining one knows it.
func (s *stage) alone() {
	s.Helper()
	s.Kill(s.other())
	s.Kill(s.third())
	s.Wait("a member without a leader", time.Minute, func() bool { return s.Member(s.at).Role() == "" })
}

func wordsNotServing(s *stage) {
	s.alone()
	for _, word := range strings.Fields("conf cons crst dirs dump hash mntr srst srvr stat wchc wchp wchs") {
		s.checkReply(word, notServing)
	}
	s.company()
}

func wordsAlive(s *stage) {
	s.alone()
	s.checkReply("ruok", "imok")
	s.checkReply("isro", "null")
	s.checkReply("gtmk", "306")
	if got := s.sendCommand(s.at, "envi"); !strings.HasPrefix(got, "Environment:\n") {
		s.Errorf("envi: %q", got)
	}
	s.company()
}

// company starts the members that alone has stopped.
func (s *stage) company() {
	s.Boot(s.other())
	s.Boot(s.third())
	s.Ready()
	s.checkReply("isro", "rw")
}

var sizesLine = regexp.MustCompile(`(?m)^Proposal sizes last/min/max: (\d+)/(\d+)/(\d+)$`)

func wordMode(s *stage) {
	want := "Mode: " + s.role() + "\n"
	k := s.open(s.at, usual)
	k.create("/a", jute.Ephemeral)
	got := s.sendCommand(s.at, "srvr")
	sizes := sizesLine.FindStringSubmatch(got)
	if !strings.Contains(got, want) || (sizes != nil) != (s.place == leader) {
		s.Fatalf("srvr: %q, want %q", got, want)
	}
	if s.place != leader {
		return
	}
	k.set("/a", strings.Repeat("x", 5000))
	k.set("/a", "x")
	s.quiesce()
	after := sizesLine.FindStringSubmatch(s.sendCommand(s.at, "srvr"))
	if after == nil {
		s.Fatalf("srvr no longer shows the sizes that it showed before: %q", got)
	}
	last, _ := strconv.Atoi(after[1])
	most, _ := strconv.Atoi(after[3])
	if after[2] != sizes[2] || most < 5000 || most > 5200 || last > 200 {
		s.Errorf("proposal sizes %v, before a write of 5,000 bytes and a small one %v", after, sizes)
	}
}

var briefLine = regexp.MustCompile(`^ /(\S+)\[[0-9a-f]+\]\(queued=\d+,recved=\d+,sent=\d+\)$`)

func wordStat(s *stage) {
	s.open(s.at, usual)
	s.open(s.at, usual)
	got := s.sendCommand(s.at, "stat")
	head, rest, ok := strings.Cut(got, "\nClients:\n")
	clients, figures, ok2 := strings.Cut(rest, "\n\n")
	if !ok || !ok2 || !strings.HasPrefix(head, "Zookeeper version: ") || !strings.HasPrefix(figures, "Latency min/avg/max: ") {
		s.Fatalf("stat: %q", got)
	}
	lines := strings.Split(clients, "\n")
	for _, line := range lines {
		if !briefLine.MatchString(line) {
			s.Errorf("line %q", line)
		}
	}
	if len(lines) != 3 || !strings.HasSuffix(lines[2], "[0](queued=0,recved=1,sent=0)") {
		s.Errorf("two sessions and the word: %q", lines)
	}
}

func wordCons(s *stage) {
	k := s.open(s.at, usual)
	r := k.create("/a", jute.Persistent)
	k.stat("/a")
	time.Sleep(time.Second)
	k.want(0, jute.OpPing, nil)
	s.quiesce()
	got := s.sendCommand(s.at, "cons")
	m := regexp.MustCompile(`^ /\S+\[1\]\(queued=0,recved=4,sent=4,sid=0x(\w+),lop=PING,est=\d+,to=10000,lcxid=0x2,lzxid=0x(\w+),` +
		`lresp=\d+,llat=0,minlat=0,avglat=\d+,maxlat=\d+\)\n /\S+\[0\]\(queued=0,recved=1,sent=0\)\n\n$`).FindStringSubmatch(got)
	if m == nil || m[1] != fmt.Sprintf("%x", uint64(k.id())) || m[2] != fmt.Sprintf("%x", r.Zxid) {
		s.Errorf("cons: %q, want session %v and zxid %#x", got, k.id(), r.Zxid)
	}
	s.checkReply("crst", "Connection stats reset.\n")
	if got := s.sendCommand(s.at, "cons"); !strings.Contains(got, fmt.Sprintf("(queued=0,recved=0,sent=0,sid=0x%x,lop=NA,", uint64(k.id()))) {
		s.Errorf("cons after crst: %q", got)
	}
}

func wordMask(s *stage) {
	s.checkReply("gtmk", "306")
	s.checkReply("stmk\x00\x00\x00\x00\x00\x00\x01\x32", "306")
	s.checkReply("stmk\x00\x00\x00\x00\x00\x00\x01\x00", "256")
}

var receivedLine = regexp.MustCompile(`(?m)^Received: (\d+)$`)

func (s *stage) received() int {
	s.Helper()
	n, err := strconv.Atoi(receivedLine.FindStringSubmatch(s.sendCommand(s.at, "srvr"))[1])
	if err != nil {
		s.Fatal(err)
	}
	return n
}

func wordReset(s *stage) {
	k := s.open(s.at, usual)
	for range 50 {
		k.stat("/")
	}
	if n := s.received(); n < 51 {
		s.Errorf("%d packets received, want 51 and the word", n)
	}
	s.checkReply("srst", "Server stats reset.\n")
	if n := s.received(); n != 1 {
		s.Errorf("%d packets received since the reset, want the word", n)
	}
}

func wordWatches(s *stage) {
	a, b := s.open(s.at, usual), s.open(s.at, usual)
	other := s.open(s.other(), usual)
	a.create("/x", jute.Persistent)
	s.quiesce()
	s.must(a.watchData("/x"), jute.OK)
	s.must(a.watchExists("/y"), jute.NoNode)
	s.must(b.watchExists("/y"), jute.NoNode)
	s.must(b.watchExists("/z"), jute.NoNode)
	s.must(b.watchChildren("/x"), jute.OK) // a watch on children only: not listed
	if s.place != standalone {
		s.must(other.watchData("/x"), jute.OK) // on another member
	}
	ida, idb := fmt.Sprintf("0x%x", uint64(a.id())), fmt.Sprintf("0x%x", uint64(b.id()))
	s.checkReply("wchs", "2 connections watching 3 paths\nTotal watches:4\n")
	s.checkReply("wchc", ida+"\n\t/x\n\t/y\n"+idb+"\n\t/y\n\t/z\n\n")
	s.checkReply("wchp", "/x\n\t"+ida+"\n/y\n\t"+ida+"\n\t"+idb+"\n/z\n\t"+idb+"\n\n")
	a.set("/x", "y")
	s.quiesce()
	s.checkReply("wchs", "2 connections watching 2 paths\nTotal watches:3\n")
	b.drop()
	s.Wait("the end of a connection", time.Minute, func() bool { return strings.HasPrefix(s.sendCommand(s.at, "wchs"), "1 ") })
	s.checkReply("wchc", ida+"\n\t/y\n\n")
}

func wordDump(s *stage) {
	k, idle := s.open(s.at, usual), s.open(s.other(), 4*time.Second)
	ids := []string{fmt.Sprintf("0x%x", uint64(k.id())), fmt.Sprintf("0x%x", uint64(idle.id()))}
	k.create("/e", jute.Ephemeral)
	k.create("/e2", jute.Ephemeral)
	s.quiesce()
	got := s.sendCommand(s.at, "dump")
	wants := []string{"ephemeral nodes dump:\nSessions with Ephemerals (1):\n" + ids[0] + ":\n\t/e\n\t/e2\nConnections dump:\nConnections Sets ("}
	if s.role() == "follower" {
		wants = append(wants, "SessionTracker dump:\nGlobal Sessions(2):\n", ids[0]+"\t10000ms\n", ids[1]+"\t4000ms\n")
	} else {
		wants = append(wants, "SessionTracker dump:\nSession Sets (2)/(2):\n1 expire at ", ":\n\t"+ids[0]+"\n", ":\n\t"+ids[1]+"\n")
	}
	for _, want := range wants {
		if !strings.Contains(got, want) {
			s.Errorf("dump: %q, want %q in it", got, want)
		}
	}
	if !regexp.MustCompile(`\n\tip: /\S+ sessionId: ` + ids[0] + `\n`).MatchString(got) {
		s.Errorf("dump: %q, want the connection of %s", got, ids[0])
	}
	for _, at := range regexp.MustCompile(`expire at (.+):\n`).FindAllStringSubmatch(got, -1) {
		if _, err := time.Parse("Mon Jan 02 15:04:05 MST 2006", at[1]); err != nil {
			s.Error(err)
		}
	}
}

// mntr returns a member's metrics, by name.
func (s *stage) mntr() map[string]string {
	s.Helper()
	values := map[string]string{}
	for i, line := range strings.Split(strings.TrimSuffix(s.sendCommand(s.at, "mntr"), "\n"), "\n") {
		m := regexp.MustCompile(`^zk_(\w+)\t(\S.*)$`).FindStringSubmatch(line)
		if m == nil || i == 0 && m[1] != "version" {
			s.Fatalf("line %d: %q", i+1, line)
		}
		values[m[1]] = m[2]
	}
	return values
}

func wordMntr(s *stage) {
	if s.place == leader {
		s.Wait("two synced followers", time.Minute, func() bool { return s.mntr()["synced_followers"] == "2" })
	}
	before := s.mntr()
	k := s.open(s.at, usual)
	k.create("/e", jute.Ephemeral)
	s.must(k.watchChildren("/"), jute.OK)
	s.must(k.watchData("/e"), jute.OK)
	if s.place == leader {
		s.Kill(s.third())
	}
	time.Sleep(20 * tick)
	after := s.mntr()
	want := map[string]string{
		"server_state": s.role(), "global_sessions": "0", "watch_count": "0", "ephemerals_count": "0", "cnt_updatelatency": "1",
		"cnt_readlatency": "2", "outstanding_requests": "0", "stale_sessions_expired": "1", "num_alive_connections": "1",
		"connection_request_count": "1", "sessionless_connections_expired": "0",
	}
	if s.role() == "follower" {
		want["stale_sessions_expired"] = "0"
	}
	if s.place == leader {
		want["learners"], want["followers"], want["synced_followers"] = "1", "1", "1"
		if before["learners"] != "2" || before["synced_followers"] != "2" || before["quorum_size"] != "3" {
			s.Errorf("before a member was killed: %v", before)
		}
	}
	for name, value := range want {
		if after[name] != value {
			s.Errorf("zk_%s is %q, want %q", name, after[name], value)
		}
	}
	if up, err := strconv.Atoi(after["uptime"]); err != nil || up < int((20*tick).Milliseconds()) {
		s.Errorf("zk_uptime %q", after["uptime"])
	}
	for _, name := range []string{"synced_followers", "leader_uptime", "proposal_count"} {
		_, has := after[name]
		if has != (s.place == leader || name == "proposal_count") {
			s.Errorf("zk_%s: %q", name, after[name])
		}
	}
	if s.place == leader {
		s.Boot(s.third())
		s.Ready()
	}
}

func wordEnvi(s *stage) {
	if got := s.sendCommand(s.at, "envi"); !regexp.MustCompile(`(?m)^zookeeper\.version=\d+\.\d+\.\d+-`).MatchString(got) {
		s.Errorf("envi: %q", got)
	}
}
