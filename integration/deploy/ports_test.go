package deploy

import (
	"bufio"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// usual are the ports as docs/security.md names them. In this test other ports stand for them.
var usual = []string{"2181", "2888", "3888", "8080", "2281"}

// scanned is a configuration that we ship. Its member runs on free ports, at an address of this machine
// that stands for its own.
type scanned struct {
	t       *testing.T
	binary  string
	own     string            // the member's address
	members int               // in the process
	ports   map[string]string // by the usual ones
}

// The member's ports are those that docs/security.md lists, in each configuration that we ship, and each is
// open where it says so.
func TestPortsAreListed(t *testing.T) {
	needs.Check(t, needs.Usual)
	binary, err := process.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	configurations := map[string]func(s scanned) *exec.Cmd{
		"`rollcall serve` with `dataDir` and `clientPort` alone": func(s scanned) *exec.Cmd { return s.serve("clientPort=2181\n") },
		"`rollcall serve` with `clientPort` and server lines": func(s scanned) *exec.Cmd {
			return s.serve("clientPort=2181\ninitLimit=10\nsyncLimit=5\nserver.1=zoo1:2888:3888\nserver.2=zoo2:2888:3888\nserver.3=zoo3:2888:3888\n")
		},
		"`rollcall up`, each member": func(s scanned) *exec.Cmd {
			return exec.Command(s.binary, "up", "-data", filepath.Join(s.t.TempDir(), "up"), "-port", s.ports["2181"])
		},
		"the packages, and the unit for systemd": func(s scanned) *exec.Cmd { return s.serve(text(s.t, "../../deploy/packages/zoo.cfg")) },
		"`deploy/compose.yaml`, in each container": func(s scanned) *exec.Cmd {
			cmd := s.serve("")
			cmd.Args = slices.DeleteFunc(cmd.Args, func(a string) bool { return strings.HasSuffix(a, "zoo.cfg") })
			cmd.Env = append(os.Environ(), "ZOO_CONF_DIR="+s.t.TempDir())
			for name, value := range composed(s.t).Services["zoo1"].Environment {
				if strings.HasSuffix(name, "_FILE") {
					value = s.secret()
				}
				cmd.Env = append(cmd.Env, name+"="+s.fit(value))
			}
			return cmd
		},
		"`deploy/kubernetes`, in each pod": func(s scanned) *exec.Cmd {
			_, cfg := manifests(s.t)
			return s.serve(strings.Replace(cfg, "serverIdFromHostname=true\n", "", 1))
		},
		"`deploy/chart` with `tls.clients.plain=false`, in each pod": func(s scanned) *exec.Cmd { // tools/chart.TestTLS has its lines
			_, cfg := manifests(s.t)
			cfg = strings.NewReplacer("serverIdFromHostname=true\n", "", "members.line=rollcall-{ordinal}.rollcall-members:2888:3888;2181\n", "", ";2181", "").Replace(cfg)
			return s.serve(cfg + "secureClientPort=2281\nssl.clientAuth=none\nssl.keyStore.location=" + s.certificate() + "\n")
		},
	}
	listed := listedPorts(t)
	for _, name := range slices.Sorted(maps.Keys(configurations)) {
		t.Run(name, func(t *testing.T) {
			want, ok := listed[name]
			if !ok {
				t.Fatal("docs/security.md does not have it")
			}
			s := scanned{t: t, binary: binary, own: fmt.Sprintf("127.83.%d.1", os.Getpid()%250+1), members: 1, ports: map[string]string{}}
			for i, port := range freePorts(t, len(usual)) {
				s.ports[usual[i]] = strconv.Itoa(port)
			}
			if strings.HasPrefix(name, "`rollcall up`") {
				s.ports, s.members = upPorts(t), 3
			}
			s.scan(configurations[name](s), want)
		})
	}
	for name := range listed {
		if configurations[name] == nil {
			t.Errorf("docs/security.md has %q, which this test does not scan", name)
		}
	}
	for name, service := range composed(t).Services {
		for _, port := range service.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") || !strings.HasSuffix(port, ":2181") {
				t.Errorf("compose.yaml publishes %s of %s; only 2181 is to be, on 127.0.0.1", port, name)
			}
		}
	}
}

// upPorts returns free ports of the first member of `rollcall up`. They depend on this process, as those of
// freePorts do, but they have to be apart by fixed numbers. Those of the other members, which follow them, are free too.
func upPorts(t *testing.T) map[string]string {
	t.Helper()
	const first, last = 20_000, 29_000 // the last ports are below those that the kernel hands out
	from := os.Getpid() * 7 % (last - first)
	distances := []int{0, 1000, 2000, 3000}
	for i := range last - first {
		base := first + (from+i)%(last-first)
		ports := map[string]string{}
		for j, above := range distances {
			if free(base+above, 3) {
				ports[usual[j]] = strconv.Itoa(base + above)
			}
		}
		if len(ports) == len(distances) {
			return ports
		}
	}
	t.Fatal("no free ports")
	return nil
}

// free reports whether nothing listens on n loopback ports.
func free(port, n int) bool {
	for i := range n {
		l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port+i))
		if err != nil || l.Close() != nil {
			return false
		}
	}
	return true
}

// compose is what this test needs of compose.yaml.
type compose struct {
	Services map[string]struct {
		Environment map[string]string
		Ports       []string
	}
}

func composed(t *testing.T) (c compose) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text(t, "../../deploy/compose.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// serve returns `rollcall serve` with a configuration that is made to fit this machine.
func (s scanned) serve(cfg string) *exec.Cmd {
	s.t.Helper()
	dir := s.t.TempDir()
	path := filepath.Join(dir, "zoo.cfg")
	for name, content := range map[string]string{path: s.fit(cfg), filepath.Join(dir, "data", "myid"): "1\n"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	return exec.Command(s.binary, "serve", "-data", filepath.Join(dir, "data"), "-set", "admin.serverPort="+s.ports["8080"], path)
}

// These are the parts of a configuration that another machine has: addresses of members, ports, and files
// with secrets.
var (
	variable   = regexp.MustCompile(`\$\{[A-Z_0-9]+:-([^}]*)\}`)
	serverLine = regexp.MustCompile(`server\.(\d)=[^:\s]+:2888:3888`)
	secretLine = regexp.MustCompile(`(?m)^(admin\.tokenFile|ensembleSecretFile)=.*$`)
	clientPort = regexp.MustCompile(`(clientPort=|;)2181`)
	securePort = regexp.MustCompile(`(secureClientPort=)2281`)
)

// fit returns the text of a configuration with the addresses, ports and files of this machine.
func (s scanned) fit(text string) string {
	s.t.Helper()
	text = variable.ReplaceAllString(text, "$1")
	text = serverLine.ReplaceAllStringFunc(text, func(line string) string {
		id := serverLine.FindStringSubmatch(line)[1]
		return fmt.Sprintf("server.%s=%s%s:%s:%s", id, strings.TrimSuffix(s.own, "1"), id, s.ports["2888"], s.ports["3888"])
	})
	text = clientPort.ReplaceAllString(text, "${1}"+s.ports["2181"])
	text = securePort.ReplaceAllString(text, "${1}"+s.ports["2281"])
	return secretLine.ReplaceAllString(text, "$1="+s.secret())
}

// secret returns a file with a secret or a token.
func (s scanned) secret() string {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("a-secret-that-is-long-enough-for-everything\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// certificate returns a file with a key and its certificate.
func (s scanned) certificate() string {
	s.t.Helper()
	dir := filepath.Join(s.t.TempDir(), "certs")
	if out, err := exec.Command(s.binary, "certs", "--out", dir, "member").CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	return filepath.Join(dir, "member.pem")
}

// scan starts a member and compares the ports that it opens with those that are listed.
func (s scanned) scan(cmd *exec.Cmd, want map[string]string) {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "log")
	log, err := os.Create(path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	p := process.Start(s.t, "rollcall", cmd, func() string { return text(s.t, path) })
	var got map[string]string
	last := time.Time{}
	complete := func() bool {
		open := s.open(cmd.Process.Pid)
		if !maps.Equal(open, got) {
			got, last = open, time.Now()
		}
		return maps.Equal(got, want) && time.Since(last) > 10*look // no other port opens after them
	}
	if err := process.Until(s.t.Context(), "the member has opened its ports", complete); err != nil {
		s.t.Errorf("open are %v, docs/security.md lists %v (%v)", got, want, err)
	}
	p.Kill()
}

// open returns where a process listens, by the usual ports. A port that is none of the configuration's is
// there by its number.
func (s scanned) open(pid int) map[string]string {
	s.t.Helper()
	sockets := map[string]bool{} // inodes
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil { // it may have been closed
			sockets[strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")] = true
		}
	}
	all := map[string]string{}
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			return nil // the process has ended
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if len(fields) < 10 || !sockets[fields[9]] || fields[3] != "0A" && strings.HasPrefix(table, "tcp") { // 0A: it listens
				continue
			}
			addr, port := decoded(fields[1])
			name := table + " " + port
			for usual, p := range s.ports {
				if strings.HasPrefix(table, "tcp") && s.has(p, port) {
					name = usual
				}
			}
			if where := s.where(addr); all[name] == "" || all[name] == where {
				all[name] = where
			} else {
				all[name] += " and " + where
			}
		}
	}
	return all
}

// has reports whether a port is the first one of its kind, or of another member of the same process, which
// has the next one.
func (s scanned) has(first, port string) bool {
	from, _ := strconv.Atoi(first)
	p, _ := strconv.Atoi(port)
	return p >= from && p < from+s.members
}

// where says what an address is, as docs/security.md does.
func (s scanned) where(addr netip.Addr) string {
	switch {
	case addr.IsUnspecified():
		return "every address"
	case addr.String() == "127.0.0.1":
		return "127.0.0.1"
	case addr.String() == s.own:
		return "its own address"
	}
	return addr.String()
}

// decoded returns an address and a port as the tables in /proc/net have them: the bytes of each four in the
// order of this machine, which is the reverse.
func decoded(field string) (addr netip.Addr, port string) {
	text, hexPort, _ := strings.Cut(field, ":")
	var b []byte
	for i := 0; i+8 <= len(text); i += 8 {
		n, _ := strconv.ParseUint(text[i:i+8], 16, 32)
		b = append(b, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
	}
	addr, _ = netip.AddrFromSlice(b)
	n, _ := strconv.ParseUint(hexPort, 16, 16)
	return addr.Unmap(), strconv.FormatUint(n, 10)
}

// listedPorts returns, for each configuration in docs/security.md, where each usual port is open.
func listedPorts(t *testing.T) map[string]map[string]string {
	t.Helper()
	listed := map[string]map[string]string{}
	_, section, found := strings.Cut(text(t, "../../docs/security.md"), "\n| Configuration | 2181 | 2888 | 3888 | 8080 | 2281 |\n")
	if !found {
		t.Fatal("docs/security.md has no table of the ports of each configuration")
	}
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if !strings.HasPrefix(line, "|") {
			break
		}
		if len(cells) != len(usual)+1 {
			continue
		}
		ports := map[string]string{}
		for i, cell := range cells[1:] {
			if cell = strings.TrimSuffix(cell, " |"); cell != "closed" {
				ports[usual[i]] = cell
			}
		}
		listed[strings.TrimPrefix(cells[0], "| ")] = ports
	}
	return listed
}
