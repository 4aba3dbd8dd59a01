package moves

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// page is the runbook whose commands TestMovingInPage runs.
const page = "../../docs/moving-in.md"

// The names that the page has for what a site has elsewhere.
const (
	pageConfig = "/etc/zookeeper/conf/zoo.cfg"
	pageBack   = "/srv/back"
)

// step is one command of the page, with the output that it shows.
type step struct {
	line   string
	output []string
}

var (
	commandLine = regexp.MustCompile(`^( +)(?:\$ (rollcall .+)|(systemctl .+))$`)
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

// play runs a command of the page for one server, and checks that it prints what the page shows.
func (s *site) play(st step, m *server, folders []string) {
	s.t.Helper()
	var pairs []string
	for i, folder := range folders {
		pairs = append(pairs, fmt.Sprintf("/srv/zoo%d", i+1), folder)
	}
	pairs = append(pairs, pageConfig, m.Config, pageBack, s.back())
	line := strings.NewReplacer(pairs...).Replace(strings.TrimPrefix(st.line, "rollcall "))
	out := mustRun(s.t, strings.Fields(line)...)
	for i := 0; i < len(pairs); i += 2 {
		out = strings.ReplaceAll(out, pairs[i+1], pairs[i])
	}
	if got, want := shape(strings.Split(out, "\n")), shape(st.output); len(want) > 0 && !slices.Equal(got, want) {
		s.t.Errorf("%s prints\n%s\nas the page shows it\n%s\nwant\n%s", st.line, out, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// back returns the folder into which the page exports.
func (s *site) back() string { return filepath.Join(s.dir, "back") }

// The commands of docs/moving-in.md, run on three servers of ZooKeeper with different tails: one dies early. The
// members have what the servers had, node by node and field by field, and so has ZooKeeper on the way back. Twenty
// clients with ephemeral nodes and locks lose no session on either way.
func TestMovingInPage(t *testing.T) {
	all := steps(t)
	s := newSite(t, 3, false)
	s.startZooKeeper()
	acked, held := busy(t, s)
	live := s.servers[0].Clients
	before := dumpOf(t, live)
	var played []string
	for _, st := range all {
		verb := strings.Join(strings.Fields(st.line)[:2], " ")
		if strings.Contains(st.line, " --check ") {
			verb += " --check"
		}
		played = append(played, verb)
		switch verb {
		case "rollcall config", "rollcall import":
			for _, m := range s.servers {
				s.play(st, m, s.folders())
			}
		case "rollcall import --check":
			s.play(st, s.servers[0], s.copied().folders())
			same(t, before, dumpOf(t, live)) // nothing has changed
		case "systemctl stop":
			if strings.HasSuffix(st.line, "zookeeper") {
				s.kill()
			} else {
				s.stop()
			}
		case "rollcall export":
			s.play(st, s.servers[0], nil)
			s.comeBack()
		case "systemctl start":
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
		"rollcall config", "rollcall import --check", "systemctl stop", "rollcall import", "systemctl start",
		"systemctl stop", "rollcall export", "systemctl start",
	}
	if !slices.Equal(played, want) {
		t.Errorf("the page has the commands %q, want %q", played, want)
	}
}

// busy fills a site of three servers under load, kills one of them, and goes on. It returns what was acknowledged, and
// the clients that hold nodes and locks.
func busy(t *testing.T, s *site) (acked map[string]string, held *holders) {
	t.Helper()
	fill(t, open(t, s.servers[0].Clients))
	writes := startLoad(t, s, 1)
	held = startHolders(t, s, clients)
	s.servers[2].Process.Kill() // whether it leads or follows
	s.serves()
	more := startLoad(t, s, 2)
	held.fine()
	acked = writes.end()
	for path, data := range more.end() {
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
