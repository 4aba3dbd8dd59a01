package moves

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// page is the runbook whose commands TestMovingInPage runs.
const page = "../../docs/moving-in.md"

// The names that the page has for what a site has elsewhere.
const (
	pageConfig = "/etc/zookeeper/conf/zoo.cfg"
	pageData   = "/var/lib/zookeeper"
	pageMember = "/etc/rollcall/zoo.cfg"
	pageState  = "/var/lib/rollcall"
	pageBack   = "/srv/out/back"
)

// step is one command of the page, with the output that it shows.
type step struct {
	line   string
	output []string
}

var (
	commandLine = regexp.MustCompile(`^( +)(?:\$ (?:runuser -u rollcall -- )?((?:rollcall|sed|cp) .+)|(systemctl .+))$`)
	furthest    = regexp.MustCompile(`, up to index (\d+) of term (\d+), `)
	number      = regexp.MustCompile(`\b(?:0x)?[0-9a-f]*[0-9][0-9a-f]*\b|\b[0-9a-f]{16}\b`)
)

// steps reads the commands of the page, in order.
func steps(t *testing.T) (all []step) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	margin := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if m := commandLine.FindStringSubmatch(line); m != nil {
			margin = m[1]
			all = append(all, step{line: m[2] + m[3]})
		} else if rest, ok := strings.CutPrefix(line, margin); ok && margin != "" && rest != "" {
			all[len(all)-1].output = append(all[len(all)-1].output, rest)
		} else {
			margin = ""
		}
	}
	return all
}

// shape returns the lines of an output without numbers and notes, which differ from one run to the next.
func shape(lines []string) (all []string) {
	for _, line := range lines {
		line = number.ReplaceAllString(line, "N")
		line = regexp.MustCompile(`\b(log|transaction|digest|session|ephemeral node)s\b`).ReplaceAllString(line, "$1")
		line = regexp.MustCompile(`/srv/zoo\d`).ReplaceAllString(line, "/srv/zooN")
		line = regexp.MustCompile(`chosen: .*`).ReplaceAllString(line, "chosen: …")
		line = regexp.MustCompile(`snapshot\.\w+`).ReplaceAllString(line, "snapshot.N")
		if !strings.HasPrefix(line, "  note: ") && line != "" {
			all = append(all, line)
		}
	}
	return all
}

// play runs a command of the page for one server, and checks that its output matches the page.
func (s *site) play(st step, m *server, directories []string) {
	s.t.Helper()
	s.shown(st, s.played(st, m, directories))
}

// played runs a command of the page for one server, and returns its output, with the names of the page.
func (s *site) played(st step, m *server, directories []string) string {
	s.t.Helper()
	var pairs []string
	for i, directory := range directories {
		pairs = append(pairs, fmt.Sprintf("/srv/zoo%d", i+1), directory)
	}
	pairs = append(pairs, pageConfig, m.Config, pageData, m.Data, pageMember, m.member, pageState, s.state(m), pageBack, s.backOf(m))
	line := strings.NewReplacer(pairs...).Replace(st.line)
	cmd := exec.CommandContext(s.t.Context(), "sh", "-ec", line)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(rollcall)+":"+os.Getenv("PATH"), "ROLLCALL_ADMIN="+m.admin)
	text, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", line, err, text)
	}
	out := string(text)
	for i := 0; i < len(pairs); i += 2 {
		out = strings.ReplaceAll(out, pairs[i+1], pairs[i])
	}
	return out
}

// shown checks that a command printed what the page shows, if it shows something.
func (s *site) shown(st step, out string) {
	s.t.Helper()
	if got, want := shape(strings.Split(out, "\n")), shape(st.output); len(want) > 0 && !slices.Equal(got, want) {
		s.t.Errorf("%s prints\n%s\nas the page shows it\n%s\nwant\n%s", st.line, out, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// state returns the directory for the state of a member.
func (s *site) state(m *server) string { return filepath.Join(s.dir, fmt.Sprintf("state%d", m.ID)) }

// back returns the directory from which ZooKeeper comes back.
func (s *site) back() string { return filepath.Join(s.dir, "back") }

// backOf returns the directory into which a member is exported.
func (s *site) backOf(m *server) string { return filepath.Join(s.dir, fmt.Sprintf("export%d", m.ID)) }

// install makes the directory and the place of the zoo.cfg that a package of Rollcall brings to each machine.
func (s *site) install() {
	s.t.Helper()
	for _, m := range s.servers {
		m.member = filepath.Join(s.dir, fmt.Sprintf("rollcall%d.cfg", m.ID))
		if err := os.Mkdir(s.state(m), 0o700); err != nil {
			s.t.Fatal(err)
		}
	}
}

// openAdmin gives each member a port for operators. The servers of ZooKeeper have none here, because all would take the same one.
func (s *site) openAdmin() {
	s.t.Helper()
	for _, m := range s.servers {
		text, err := os.ReadFile(m.member)
		if err != nil {
			s.t.Fatal(err)
		}
		port := process.FreePort(s.t)
		m.admin = "http://" + port.String()
		open := fmt.Sprintf("admin.serverAddress=%v\nadmin.serverPort=%d\n", port.IP, port.Port)
		write(s.t, m.member, strings.Replace(string(text), "admin.enableServer=false\n", open, 1))
	}
}

// export runs the page's export for each member, and takes the one whose data go furthest.
func (s *site) export(st step) {
	s.t.Helper()
	var best struct {
		at  [2]int // term and index
		out string
		m   *server
	}
	for _, m := range s.servers {
		out := s.played(st, m, nil)
		found := furthest.FindStringSubmatch(out)
		if found == nil {
			s.t.Fatalf("an export says no index and term:\n%s", out)
		}
		index, _ := strconv.Atoi(found[1]) // digits
		term, _ := strconv.Atoi(found[2])
		if at := [2]int{term, index}; best.m == nil || slices.Compare(at[:], best.at[:]) > 0 {
			best.at, best.out, best.m = at, out, m
		}
	}
	s.shown(st, best.out)
	if err := os.Rename(s.backOf(best.m), s.back()); err != nil {
		s.t.Fatal(err)
	}
}

// The commands of docs/moving-in.md, run on three servers of ZooKeeper with different tails: one dies early. The
// members have what the servers had, node by node and field by field, and so has ZooKeeper on the way back. Twenty
// clients with ephemeral nodes and locks lose no session on either way.
func TestMovingInPage(t *testing.T) {
	needs.Check(t, needs.Kazoo)
	needs.Check(t, needs.Usual)
	all := steps(t)
	s := newSite(t, 3, false)
	s.install()
	s.startZooKeeper()
	acked, held := fillUnderLoad(t, s)
	live := s.servers[0].Clients
	before := dumpOf(t, live)
	var played []string
	for _, st := range all {
		words := strings.Fields(st.line)
		verb := words[0]
		if verb == "rollcall" || verb == "systemctl" {
			verb += " " + words[1]
		}
		if strings.Contains(st.line, " --check ") {
			verb += " --check"
		}
		played = append(played, verb)
		switch verb {
		case "rollcall import": // the others copy it
			s.play(st, s.servers[0], s.directories())
		case "sed", "cp", "rollcall config", "rollcall status", "rollcall sessions":
			for _, m := range s.servers {
				s.play(st, m, s.directories())
			}
			if verb == "sed" {
				s.openAdmin()
			}
		case "rollcall import --check":
			s.play(st, s.servers[0], s.copied().directories())
			same(t, before, dumpOf(t, live)) // nothing has changed
		case "systemctl disable":
			if strings.HasSuffix(st.line, "zookeeper") {
				s.kill()
			} else {
				s.stop()
			}
		case "rollcall export":
			s.export(st)
			s.comeBack()
		case "systemctl enable":
			if strings.HasSuffix(st.line, "rollcall") {
				s.startRollcall()
			} else {
				s.startZooKeeper()
			}
			for _, m := range s.servers {
				same(t, before, dumpOf(t, m.Clients))
			}
			kept(t, s, acked)
			held.fine()
			goesOn(t, s)
			before = dumpOf(t, live)
		default:
			t.Fatalf("the page has a command that this test does not know: %s", st.line)
		}
	}
	held.leave()
	want := []string{
		"sed", "cp", "rollcall config", "rollcall import --check", "systemctl disable", "rollcall import", "systemctl enable", "rollcall status", "rollcall sessions",
		"systemctl disable", "rollcall export", "systemctl enable",
	}
	if !slices.Equal(played, want) {
		t.Errorf("the page has the commands %q, want %q", played, want)
	}
}

// fillUnderLoad fills a site of three servers under load, kills one of them, and continues. It returns the acknowledged writes,
// and the clients that hold nodes and locks.
func fillUnderLoad(t *testing.T, s *site) (acked map[string]string, held *holders) {
	t.Helper()
	fill(t, open(t, s.servers[0].Clients))
	writes := startLoad(t, s, 1)
	held = startHolders(t, s, clients)
	writes.under(t)
	s.servers[2].Process.Kill() // whether it leads or follows
	s.serves()
	more := startLoad(t, s, 2)
	held.fine()
	acked = writes.awaitEnd()
	for path, data := range more.awaitEnd() {
		acked[path] = data
	}
	return acked, held
}

// comeBack gives every server a dataDir with what was exported.
func (s *site) comeBack() {
	s.t.Helper()
	for _, m := range s.servers {
		dir := filepath.Join(s.dir, fmt.Sprintf("back%d", m.ID))
		if err := os.CopyFS(dir, os.DirFS(s.back())); err != nil {
			s.t.Fatal(err)
		}
		write(s.t, filepath.Join(dir, "myid"), fmt.Sprintln(m.ID))
		text, err := os.ReadFile(m.Config)
		if err != nil {
			s.t.Fatal(err)
		}
		var kept []string
		for _, line := range strings.Split(string(text), "\n") {
			if !strings.HasPrefix(line, "dataLogDir=") {
				kept = append(kept, strings.Replace(line, "dataDir="+m.Data, "dataDir="+dir, 1))
			}
		}
		write(s.t, m.Config, strings.Join(kept, "\n"))
		m.Data, m.logs = dir, ""
	}
}
