package process

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"rollcall/lab/child"
	"rollcall/lab/target"
)

// Ensemble is one or more members as processes. Use it from one goroutine at a time.
type Ensemble struct {
	Members []*Member
	t       *testing.T
	cfg     Config
	dir     string
}

// Member is one member. Its directory outlives its process.
type Member struct {
	ID      int
	Clients string   // its address for clients
	Line    string   // its server line, without the client part
	Config  string   // the path of its zoo.cfg
	Data    string   // its directory
	Log     string   // the path of its output
	Audit   string   // the path of its audit log, if Config.Audited
	Binary  string   // the binary for its next start; "": Config.Binary
	Env     []string // more environment variables for its next start, each NAME=value
	Process *Process // the last process; nil before the first start
}

// Config configures an Ensemble.
type Config struct {
	Binary    string        // rollcall; see Build
	Flags     []string      // of rollcall serve
	Env       []string      // more environment variables, each NAME=value
	Size      int           // number of members
	Grows     bool          // one member alone is an ensemble, which others can join, and not a standalone server
	Observers int           // how many of them have no vote; they have the highest ids
	Tick      time.Duration // tickTime
	Lines     string        // more lines of zoo.cfg, each with its line end
	Audited   bool          // each member has an audit log in Member.Audit
	Patience  time.Duration // how long members may take until they serve; default: Patience
	Prepare   func(*Member) // called for each member before its first start; nil: nothing
}

// StartEnsemble starts the members and waits until they serve, and until none of them joins. A member that joins makes no
// backup, and cannot be recovered. If another one is killed, those that are left elect no leader until it has caught up.
func StartEnsemble(t *testing.T, cfg Config) *Ensemble {
	t.Helper()
	e := &Ensemble{t: t, cfg: cfg, dir: t.TempDir()}
	for i := range cfg.Size {
		e.Members = append(e.Members, e.NewMember(i+1))
	}
	for _, m := range e.Members {
		e.writeConfig(m)
		if cfg.Prepare != nil {
			cfg.Prepare(m)
		}
		e.Start(m)
	}
	e.Settle()
	e.Joined()
	return e
}

// NewMember returns a member with addresses of its own. It has no directory yet, and no process.
func (e *Ensemble) NewMember(id int) *Member {
	e.t.Helper()
	ports, role := freePorts(e.t, nextAddress(), 3), ""
	if id > e.cfg.Size-e.cfg.Observers && id <= e.cfg.Size {
		role = ":observer"
	}
	return &Member{
		ID: id, Clients: ports[0].String(), Line: fmt.Sprintf("server.%d=%v:%d%s", id, ports[1], ports[2].Port, role),
		Config: filepath.Join(e.dir, fmt.Sprintf("zoo%d.cfg", id)),
		Data:   filepath.Join(e.dir, fmt.Sprintf("data%d", id)),
		Log:    filepath.Join(e.dir, fmt.Sprintf("member%d.log", id)),
		Audit:  filepath.Join(e.dir, fmt.Sprintf("audit%d.log", id)),
	}
}

// Add starts a new member with an empty directory. Its server list has the present members and itself. The
// others learn of it only by a reconfig.
func (e *Ensemble) Add(m *Member) {
	e.t.Helper()
	e.Members = append(e.Members, m)
	e.writeConfig(m)
	e.Start(m)
}

// Remove stops a member with SIGTERM and takes it out of Members. A reconfig must have removed it before.
func (e *Ensemble) Remove(m *Member) {
	e.t.Helper()
	e.Members = slices.DeleteFunc(e.Members, func(other *Member) bool { return other == m })
	e.stopMember(m)
}

// writeConfig writes a member's zoo.cfg, with the server lines of all members, and its id.
func (e *Ensemble) writeConfig(m *Member) {
	e.t.Helper()
	lines := e.cfg.Lines
	if !strings.Contains(lines, AnyHTTP) {
		lines += "admin.enableServer=false\n"
	}
	if e.cfg.Audited {
		lines += "audit.enable=true\naudit.file=" + m.Audit + "\n"
	}
	if e.cfg.Grows {
		lines += "standaloneEnabled=false\n"
	}
	for _, other := range e.Members {
		if len(e.Members) > 1 || e.cfg.Grows {
			lines += other.Line + "\n"
		}
	}
	host, port, _ := strings.Cut(m.Clients, ":")
	e.writeFile(m.Config, fmt.Sprintf(`tickTime=%d
initLimit=10
syncLimit=5
dataDir=%s
clientPortAddress=%s
clientPort=%s
4lw.commands.whitelist=*
%s`, e.cfg.Tick.Milliseconds(), m.Data, host, port, lines))
	e.writeFile(filepath.Join(m.Data, "myid"), fmt.Sprintln(m.ID))
}

// Reconfigure writes the zoo.cfg of every member again, with the server lines of the present members. A process reads it
// at its next start.
func (e *Ensemble) Reconfigure() {
	e.t.Helper()
	for _, m := range e.Members {
		e.writeConfig(m)
	}
}

func (e *Ensemble) writeFile(path, text string) {
	e.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		e.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		e.t.Fatal(err)
	}
}

// Start starts a member's process on the data of its last run, if there was one.
func (e *Ensemble) Start(m *Member) {
	e.t.Helper()
	log, err := os.OpenFile(m.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		e.t.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the process has a descriptor of its own
	cmd := exec.Command(cmp.Or(m.Binary, e.cfg.Binary), append(append([]string{"serve"}, e.cfg.Flags...), m.Config)...)
	cmd.Env = append(append(os.Environ(), e.cfg.Env...), m.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	m.Process = Start(e.t, fmt.Sprintf("member %d", m.ID), cmd, func() string {
		if m.Process.Cmd != cmd {
			return "what the last one shows"
		}
		return child.Tail(m.Log, tailBytes)
	})
}

// Empty removes everything but the id from the directory of a member that is down.
func (e *Ensemble) Empty(m *Member) {
	e.t.Helper()
	if err := os.RemoveAll(m.Data); err != nil {
		e.t.Fatal(err)
	}
	e.writeFile(filepath.Join(m.Data, "myid"), fmt.Sprintln(m.ID))
}

// Settle waits until every running member serves and one of them leads, and returns the leader.
func (e *Ensemble) Settle() *Member {
	e.t.Helper()
	var leader *Member
	err := pollWithin(e.t.Context(), cmp.Or(e.cfg.Patience, Patience), "members serve under one leader", func() bool {
		leader = nil
		for _, m := range e.Members {
			if !m.Process.IsRunning() {
				continue
			}
			switch mode := m.Mode(); {
			case mode == "follower" || mode == "observer":
			case (mode == "leader" || mode == "standalone") && leader == nil:
				leader = m
			default:
				return false
			}
		}
		return leader != nil
	})
	if err != nil {
		e.t.Fatal(err)
	}
	return leader
}

// Joined waits until no running member joins. A member that starts a moment after the others joins, and takes
// part in no election for four election timeouts.
func (e *Ensemble) Joined() {
	e.t.Helper()
	Joined(e.t, cmp.Or(e.cfg.Patience, Patience), e.Members)
}

// Joined waits until no running member joins. The test fails if that takes longer than patience.
func Joined(t *testing.T, patience time.Duration, members []*Member) {
	t.Helper()
	err := pollWithin(t.Context(), patience, "members have caught up", func() bool {
		for _, m := range members {
			text, err := os.ReadFile(m.Log)
			if err != nil {
				t.Fatal(err)
			}
			if m.Process.IsRunning() && Joins(string(text)) {
				return false
			}
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Joins reports whether a member is joining by the last line of its log about that.
func Joins(log string) bool {
	return strings.LastIndex(log, joinsLine) > strings.LastIndex(log, joinedLine)
}

// These are of quorum's log.
const (
	joinsLine  = "this member joins the ensemble; it votes once it has the log"
	joinedLine = "this member takes part in the ensemble"
)

// KillAll kills every member with SIGKILL, all at once.
func (e *Ensemble) KillAll() { KillAll(e.Members) }

// KillAll kills some members with SIGKILL, all at once.
func KillAll(members []*Member) {
	for _, m := range members {
		m.Process.ExpectEnd()
		_ = m.Process.Cmd.Process.Kill() // all at once; Kill below waits for each
	}
	for _, m := range members {
		m.Process.Kill()
	}
}

// StopAll stops every member with SIGTERM. Each must exit with status 0.
func (e *Ensemble) StopAll() {
	e.t.Helper()
	for _, m := range e.Members {
		if err := m.Process.SendSignal(syscall.SIGTERM); err != nil {
			e.t.Fatal(err)
		}
	}
	for _, m := range e.Members {
		e.awaitExit(m)
	}
}

func (e *Ensemble) stopMember(m *Member) {
	e.t.Helper()
	if err := m.Process.SendSignal(syscall.SIGTERM); err != nil {
		e.t.Fatal(err)
	}
	e.awaitExit(m)
}

// awaitExit waits until a member that received SIGTERM has ended with status 0.
func (e *Ensemble) awaitExit(m *Member) {
	e.t.Helper()
	if status, err := m.Process.ExitStatus(e.t.Context()); err != nil || status != 0 {
		e.t.Fatalf("member %d after SIGTERM: exit status %d, %v; want 0", m.ID, status, err)
	}
}

// ClientAddresses returns the members' addresses for clients, beginning with that of first.
func (e *Ensemble) ClientAddresses(first *Member) []string {
	addrs := []string{first.Clients}
	for _, m := range e.Members {
		if m != first {
			addrs = append(addrs, m.Clients)
		}
	}
	return addrs
}

var modeLine = regexp.MustCompile(`(?m)^Mode: (\w+)$`)

// Mode returns the member's role from srvr; "" while it does not serve.
func (m *Member) Mode() string {
	match := modeLine.FindStringSubmatch(m.FourLetterWord("srvr"))
	if match == nil {
		return ""
	}
	return match[1]
}

// httpAddress finds where a member serves HTTP in the line of its log about its start.
var httpAddress = regexp.MustCompile(`msg="member starts".* http=(\S+)`)

// HTTP returns the member's address for HTTP. Config.Lines must have AnyHTTP.
func (m *Member) HTTP() (string, error) {
	text, err := os.ReadFile(m.Log)
	if err != nil {
		return "", err
	}
	found := httpAddress.FindAllSubmatch(text, -1)
	if found == nil {
		return "", fmt.Errorf("%s does not say where member %d serves HTTP", m.Log, m.ID)
	}
	return string(found[len(found)-1][1]), nil
}

// AnyHTTP are lines of zoo.cfg with which a member serves HTTP on a port that the system chooses.
const AnyHTTP = "admin.serverPort=0\n"

// FourLetterWord returns the reply to a four-letter command, or "" if it did not come in time.
func (m *Member) FourLetterWord(word string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	text, err := target.Word(ctx, m.Clients, word)
	if err != nil {
		return ""
	}
	return text
}

// addressesUsed counts the addresses that nextAddress has returned.
var addressesUsed atomic.Uint32

// nextAddress returns a loopback address that nothing else on this machine is likely to use.
// Members must find the same ports free when they start again, and the kernel gives ports of
// 127.0.0.1 to any program that connects somewhere.
func nextAddress() net.IP {
	pid := os.Getpid()
	return net.IPv4(127, byte(128|pid>>8&127), byte(pid), byte(1+(addressesUsed.Add(1)-1)%254))
}

// FreePort returns an address for a server that the test may start again and again: see
// nextAddress.
func FreePort(t testing.TB) *net.TCPAddr {
	t.Helper()
	return freePorts(t, nextAddress(), 1)[0]
}

// freePorts returns n ports of ip on which nothing listens.
func freePorts(t testing.TB, ip net.IP, n int) []*net.TCPAddr {
	t.Helper()
	var ports []*net.TCPAddr
	for range n {
		l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: ip})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }() // at the end, so that all ports differ
		ports = append(ports, l.Addr().(*net.TCPAddr))
	}
	return ports
}

// CopyData copies a member's files from its data directory to a new one. The socket of a member that runs is none of them.
func CopyData(to, from string) error {
	const own = "rollcall"
	return os.CopyFS(filepath.Join(to, own), os.DirFS(filepath.Join(from, own)))
}
