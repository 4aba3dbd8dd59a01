package target

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"rollcall/internal/durable"
	"rollcall/lab/child"
)

// ProcessConfig configures an ensemble of processes that a drill starts itself.
type ProcessConfig struct {
	Journal *Journal // required; Processes does not close it
	Dir     string   // in which a new directory for the ensemble is made; "": the system's for temporary files
	Size    int      // members; 0: 3; at most MaxSize
	Binary  string   // of Rollcall; "": the running one
	Other   string   // binary of Rollcall for Upgrade; "": members cannot be upgraded
	// ZooKeeper starts Debian's ZooKeeper instead of Rollcall. Binary is used for MoveIn alone then.
	ZooKeeper bool
	// Beside lets another ensemble of the same journal run.
	Beside bool
	// Restore is a backup with whose nodes Rollcall's members begin. Its sessions have ended. "": they begin without data.
	Restore string
	// Certificates lets Rollcall's members prove themselves by certificates instead of a secret, and serve clients over TLS
	// at Member.Secure, too.
	Certificates bool
	// Disks puts each member's data on a small disk of its own, which can be broken. CheckDisks reports whether that is possible.
	Disks    bool
	Tick     time.Duration // tickTime, in whole milliseconds; 0: DefaultTick
	Lines    string        // more lines of zoo.cfg, each with its line end
	Patience time.Duration // how long the members may take until they serve; 0: DefaultPatience
}

const (
	// DefaultTick is so short that a drill does not wait long for sessions to expire, which takes two ticks or more.
	DefaultTick = 500 * time.Millisecond
	// DefaultPatience is far longer than members take to start, also on a busy machine.
	DefaultPatience = time.Minute
	// MaxSize is more than any ensemble has voters.
	MaxSize = 9
)

// Processes is an ensemble of processes on this machine, on loopback. They end with this process. Not safe for
// concurrent use.
type Processes struct {
	faults
	cfg     ProcessConfig
	program program
	dir     string
	token   string // path of the file with the administrators' token; "": none
	proofs  proofs
	members []*member
	setup   []int    // entries of what has to be undone at the end, in the order in which it was made
	network *network // nil: the members are on loopback
}

// program is the software of an ensemble.
type program struct {
	argv     func(binary, config string) []string
	binary   string // of members without one of their own
	rollcall bool
}

// member is one member. Its directory outlives its process.
type member struct {
	Member
	id      int
	ip      net.IP
	ports   ports
	binary  string // for its next start; "": program.binary
	config  string // path of zoo.cfg
	data    string // path of dataDir
	disk    string // path where its own disk is mounted; "": it has none
	log     string // path of its output
	setup   []int  // those of Processes.setup that are its own
	process *process
}

// ports are those of one member, on its own address.
type ports struct{ clients, secure, quorum, election, http int }

// process is a member's process.
type process struct {
	cmd    *exec.Cmd
	signal func(os.Signal) error // of cmd
	entry  int                   // of the journal
	done   <-chan struct{}       // closed when it has ended and was waited for
}

// endLimit bounds the wait for a member's end after a signal. It writes its memory to the disk, which takes seconds on
// a slow disk.
const endLimit = time.Minute

// NewProcesses starts members on loopback, and returns when all serve.
func NewProcesses(ctx context.Context, cfg ProcessConfig) (*Processes, error) {
	t := &Processes{cfg: cfg}
	return t.startEnsemble(ctx, func(context.Context) error { return t.useLoopback() })
}

// NewNamespaces starts members, each of which has a network namespace of its own, and returns when all serve. A bridge
// connects them with each other and with this machine. CheckNamespaces reports whether that is possible.
func NewNamespaces(ctx context.Context, cfg ProcessConfig) (*Processes, error) {
	if err := CheckNamespaces(); err != nil {
		return nil, err
	}
	t := &Processes{cfg: cfg, network: &network{}}
	return t.startEnsemble(ctx, t.connectMembers)
}

func rollcallProgram(binary string) (program, error) {
	if binary == "" {
		running, err := os.Executable()
		if err != nil {
			return program{}, fmt.Errorf("which binary runs is not known: %w; name one", err)
		}
		binary = running
	}
	return program{func(binary, config string) []string { return []string{binary, "serve", config} }, binary, true}, nil
}

const javaDirectory = "/usr/share/java"

// zooKeeper returns Debian's ZooKeeper, with the options that Debian's own tests of it use for a small server.
func zooKeeper() (program, error) {
	jars := []string{"zookeeper", "slf4j-simple", "snappy-java"}
	for _, part := range []string{
		"buffer", "codec", "common", "handler", "resolver", "transport", "transport-native-epoll",
		"transport-native-unix-common",
	} {
		jars = append(jars, "netty-"+part)
	}
	for i, jar := range jars {
		jars[i] = filepath.Join(javaDirectory, jar+".jar")
	}
	java, err := javaOf(jars[0])
	if err != nil {
		return program{}, err
	}
	return program{func(java, config string) []string {
		return []string{
			java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", "-Xshare:auto",
			"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", strings.Join(jars, ":"),
			"org.apache.zookeeper.server.quorum.QuorumPeerMain", config,
		}
	}, java, false}, nil
}

// CheckZooKeeper returns nil if members can run Debian's ZooKeeper, and otherwise what is missing, in words for the user.
func CheckZooKeeper() error {
	_, err := zooKeeper()
	return err
}

// javaOf returns the path of Java, if a jar is there, too.
func javaOf(jar string) (string, error) {
	if _, err := os.Stat(jar); err != nil {
		return "", fmt.Errorf("%w: a drill on ZooKeeper needs Debian's package: apt-get install zookeeper", err)
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return "", fmt.Errorf("%w: a drill on ZooKeeper needs Java: apt-get install default-jre-headless", err)
	}
	return java, nil
}

// startEnsemble prepares an ensemble and starts it. place gives the members their addresses. If something fails, everything is
// undone.
func (t *Processes) startEnsemble(ctx context.Context, place func(context.Context) error) (*Processes, error) {
	if err := t.validateConfig(); err != nil {
		return nil, err
	}
	t.journal = t.cfg.Journal
	t.methods = map[Kind]faultMethod{
		Kill: {t.canEnd, t.planEnd(syscall.SIGKILL)}, Shut: {t.canEnd, t.planEnd(syscall.SIGTERM)},
		Wipe: {t.canEnd, t.planWipe}, Stop: {nil, t.planStop},
	}
	t.unsupported = maps.Clone(lacksOfProcesses)
	if t.program.rollcall {
		operators{t}.addOperatorFaults()
	} else {
		maps.Copy(t.unsupported, lacksOfZooKeeper)
		t.methods[MoveIn] = faultMethod{operators{t}.canMoveIn, operators{t}.planMoveIn}
	}
	if t.network != nil {
		networkFaults{t}.registerMethods()
	}
	if t.cfg.Disks {
		diskFaults{t}.registerMethods()
	}
	if err := t.prepareAndStart(ctx, place); err != nil {
		return nil, errors.Join(err, t.Close(context.WithoutCancel(ctx)))
	}
	return t, nil
}

// validateConfig returns an error about the configuration, and sets defaults.
func (t *Processes) validateConfig() error {
	c := &t.cfg
	c.Size, c.Tick, c.Patience = cmp.Or(c.Size, 3), cmp.Or(c.Tick, DefaultTick), cmp.Or(c.Patience, DefaultPatience)
	switch {
	case c.Journal == nil:
		return errors.New("target: Journal is required")
	case c.Size < 1 || c.Size > MaxSize:
		return fmt.Errorf("%d members: must be 1 to %d", c.Size, MaxSize)
	case c.Tick < time.Millisecond:
		return fmt.Errorf("a tick of %v: must be at least 1ms", c.Tick)
	}
	if c.Disks {
		if err := CheckDisks(); err != nil {
			return err
		}
	}
	var err error
	if c.ZooKeeper {
		t.program, err = zooKeeper()
	} else {
		t.program, err = rollcallProgram(c.Binary)
	}
	if !c.Beside {
		err = errors.Join(err, c.Journal.CheckClean())
	}
	return err
}

func (t *Processes) prepareAndStart(ctx context.Context, place func(context.Context) error) error {
	if err := t.makeDirectory(); err != nil {
		return err
	}
	for i := range t.cfg.Size {
		m, err := t.newMember(ctx, i+1)
		if err != nil {
			return err
		}
		t.members, t.names = append(t.members, m), append(t.names, m.Name)
	}
	if err := place(ctx); err != nil {
		return err
	}
	if err := (prover{operators{t}}).makeCredentials(ctx); err != nil {
		return err
	}
	for _, m := range t.members {
		if err := t.writeFiles(m); err != nil {
			return err
		}
	}
	if t.cfg.Restore != "" {
		if err := (operators{t}).runCommand(ctx, t.members[0], "backup", "restore", "--sessions", "close", t.cfg.Restore, t.members[0].config); err != nil {
			return err
		}
	}
	for _, m := range t.members {
		if err := t.startMember(m); err != nil {
			return err
		}
	}
	return t.AwaitServing(ctx)
}

// newMember makes the directory of a member.
func (t *Processes) newMember(ctx context.Context, id int) (*member, error) {
	name := strconv.Itoa(id)
	path := filepath.Join(t.dir, name)
	m := &member{
		id: id, Member: Member{Name: name}, config: filepath.Join(path, "zoo.cfg"),
		data: filepath.Join(path, "data"), log: filepath.Join(path, "log"),
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		return nil, err
	}
	return m, t.makeData(ctx, m)
}

// AwaitServing returns when all members serve under one leader. If one ends by itself, its error has the end of what it printed.
func (t *Processes) AwaitServing(ctx context.Context) error {
	return t.awaitUnlessEnded(ctx, t.members, func(ctx context.Context) error { return AwaitHealthy(ctx, t.Members()) })
}

// awaitUnlessEnded returns when ready does, unless one of the members ends by itself before.
func (t *Processes) awaitUnlessEnded(ctx context.Context, members []*member, ready func(context.Context) error) error {
	ctx, stop := context.WithTimeout(ctx, t.cfg.Patience)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, m := range members {
		if m.process == nil {
			return fmt.Errorf("member %s is down", m.Name)
		}
		go func(p *process) {
			select {
			case <-p.done:
				cancel(fmt.Errorf("member %s ended: %v; %s", m.Name, p.cmd.ProcessState, m.tailOfLog()))
			case <-ctx.Done():
			}
		}(m.process)
	}
	return ready(ctx)
}

// tailOfLog returns the end of a member's log, for an error.
func (m *member) tailOfLog() string {
	return fmt.Sprintf("the end of %s: %s", m.log, strings.TrimSpace(child.Tail(m.log, maxOutput)))
}

// makeDirectory makes the directory of the ensemble, which another process can remove.
func (t *Processes) makeDirectory() error {
	parent := t.cfg.Dir
	if parent == "" {
		parent = os.TempDir()
	}
	parent, err := filepath.Abs(parent)
	if err != nil {
		return err
	}
	mark := rand.Text()
	dir := filepath.Join(parent, "rollcall-drill-"+mark[:8])
	if err := t.journalPart("the directory "+dir, Step{Remove: dir, Mark: mark}); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	t.dir = dir
	return os.WriteFile(filepath.Join(dir, drillMark), []byte(mark), 0o600)
}

// journalPart writes an entry about a part of the ensemble, before it is made.
func (t *Processes) journalPart(what string, undo ...Step) error {
	e, err := t.journal.Add(what, nil, func(int) []Step { return undo })
	if err == nil {
		t.setup = append(t.setup, e.ID)
	}
	return err
}

// addFor writes an entry about a part of a member, before it is made.
func (t *Processes) addFor(m *member, what string, undo ...Step) error {
	err := t.journalPart(what, undo...)
	if err == nil {
		m.setup = append(m.setup, t.setup[len(t.setup)-1])
	}
	return err
}

// The ports of members that have an address of their own. The kernel gives none of them to a client.
var fixedPorts = ports{clients: 2181, secure: 2281, quorum: 2888, election: 3888, http: 8080}

// useLoopback gives each member an address of loopback. On Linux each has one of its own, with fixed ports: members must
// find them free when they start again, and the kernel gives others of 127.0.0.1 to any program that connects.
func (t *Processes) useLoopback() error {
	if runtime.GOOS != "linux" {
		for _, m := range t.members {
			if err := m.atFreePorts(); err != nil {
				return err
			}
		}
		return nil
	}
	const networks = 1 << 14 // 127.64.x.y: each ensemble takes the members of one network of 256 addresses
	for try := range networks {
		n := (os.Getpid() + try) % networks
		free := true
		for _, m := range t.members {
			m.setAddresses(net.IPv4(127, byte(64+n>>8), byte(n), byte(m.id)), fixedPorts)
			free = free && m.portsFree()
		}
		if free {
			return nil
		}
	}
	return errors.New("no address of loopback has free ports for the members: end other ensembles")
}

// setAddresses sets a member's addresses.
func (m *member) setAddresses(ip net.IP, p ports) {
	m.ip, m.ports = ip, p
	m.Clients = net.JoinHostPort(ip.String(), strconv.Itoa(p.clients))
}

// atFreePorts gives a member ports of 127.0.0.1.
func (m *member) atFreePorts() error {
	p, err := freePorts()
	if err == nil {
		m.setAddresses(net.IPv4(127, 0, 0, 1), p)
	}
	return err
}

func (m *member) portsFree() bool {
	for _, port := range []int{m.ports.clients, m.ports.secure, m.ports.quorum, m.ports.election, m.ports.http} {
		l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: m.ip, Port: port})
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}

// freePorts returns five ports of 127.0.0.1 on which nothing listens now.
func freePorts() (ports, error) {
	var all []int
	for range 5 {
		l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			return ports{}, err
		}
		defer func() { _ = l.Close() }() // at the end, so that all differ
		all = append(all, l.Addr().(*net.TCPAddr).Port)
	}
	return ports{all[0], all[1], all[2], all[3], all[4]}, nil
}

// writeFiles writes a member's files.
func (t *Processes) writeFiles(m *member) error {
	var b strings.Builder
	fmt.Fprintf(&b, "tickTime=%d\ninitLimit=10\nsyncLimit=5\ndataDir=%s\nclientPortAddress=%s\nclientPort=%d\n"+
		"maxClientCnxns=0\n4lw.commands.whitelist=*\n%s", t.cfg.Tick.Milliseconds(), m.data, m.ip, m.ports.clients,
		t.cfg.Lines)
	if t.program.rollcall {
		lines, err := prover{operators{t}}.proofLines(m)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "admin.serverAddress=%s\nadmin.serverPort=%d\nadmin.tokenFile=%s\n%s", m.ip, m.ports.http, t.token, lines)
		m.Admin = "http://" + net.JoinHostPort(m.ip.String(), strconv.Itoa(m.ports.http))
	} else {
		b.WriteString("admin.enableServer=false\n")
	}
	for _, other := range t.members {
		if len(t.members) > 1 {
			fmt.Fprintf(&b, "server.%d=%s:%d:%d\n", other.id, other.ip, other.ports.quorum, other.ports.election)
		}
	}
	return errors.Join(os.WriteFile(m.config, []byte(b.String()), 0o600), m.writeID())
}

// writeID writes the member's id into its data directory, durably: a disk that fails loses what was not synced.
func (m *member) writeID() error {
	f, err := os.OpenFile(filepath.Join(m.data, "myid"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(m.Name + "\n")
	return errors.Join(err, f.Sync(), f.Close(), durable.SyncDirectory(m.data), durable.SyncDirectory(filepath.Dir(m.data)))
}

// startMember starts a member's process. It returns before the member serves.
func (t *Processes) startMember(m *member) error {
	if m.process != nil {
		return fmt.Errorf("member %s runs already", m.Name)
	}
	log, err := os.OpenFile(m.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has a descriptor of its own
	argv := t.program.argv(cmp.Or(m.binary, t.program.binary), m.config)
	if t.network != nil {
		argv = append(t.network.commandPrefix(m), argv...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, filepath.Dir(m.config)
	c, err := child.Start("member "+m.Name, cmd)
	if err != nil {
		return err
	}
	p := &process{cmd: cmd, signal: cmd.Process.Signal, done: c.Done()}
	m.process = p
	started, err := startOf(cmd.Process.Pid)
	if err == nil {
		var e Entry
		e, err = t.journal.Add("the process of member "+m.Name, nil, func(int) []Step {
			return []Step{{Signal: syscall.SIGKILL, Pid: cmd.Process.Pid, Started: started}}
		})
		p.entry = e.ID
	}
	if err != nil {
		return errors.Join(err, t.endMember(context.Background(), m, syscall.SIGKILL))
	}
	return nil
}

// endMember ends a member's process with a signal, and waits until it has ended. One that has not ended within endLimit is
// killed, and then the error says so. If ctx ends before, the process may still run: see restart.
func (t *Processes) endMember(ctx context.Context, m *member, sig syscall.Signal) error {
	p := m.process
	if p == nil {
		return nil
	}
	late := p.endProcess(ctx, sig)
	if late != nil {
		late = fmt.Errorf("member %s: %w", m.Name, late)
		if ctx.Err() != nil || sig == syscall.SIGKILL {
			return late
		}
		late = fmt.Errorf("%w; so it was killed; %s", late, m.tailOfLog())
		if err := p.endProcess(ctx, syscall.SIGKILL); err != nil {
			return errors.Join(late, err)
		}
	}
	m.process = nil
	if p.entry == 0 {
		return late
	}
	return errors.Join(late, t.journal.Remove(p.entry))
}

// endProcess sends a signal to the process, and waits until it has ended, for at most endLimit.
func (p *process) endProcess(ctx context.Context, sig syscall.Signal) error {
	ctx, stop := context.WithTimeoutCause(ctx, endLimit, fmt.Errorf("the limit is %v", endLimit))
	defer stop()
	_ = p.signal(sig) // if it has ended by itself, no other process has its number before Wait has returned
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("process %d does not end after %v: %w", p.cmd.Process.Pid, sig, context.Cause(ctx))
	}
}

// restartMember starts a member that a fault has ended. If the fault was interrupted, its process ends first.
func restartMember(ctx context.Context, t *Processes, m *member) error {
	if err := t.endMember(ctx, m, syscall.SIGKILL); err != nil {
		return err
	}
	return t.startMember(m)
}

// Kind implements Target.
func (t *Processes) Kind() string {
	if t.network != nil {
		return "namespaces"
	}
	return "processes"
}

// Members implements Target.
func (t *Processes) Members() (all []Member) {
	for _, m := range t.members {
		all = append(all, m.Member)
	}
	return all
}

// TokenFile returns the path of the file with the token of administrators, or "" on ZooKeeper.
func (t *Processes) TokenFile() string { return t.token }

// Dir returns the directory of a member, with its zoo.cfg, its log and its data.
func (t *Processes) Dir(name string) string { return filepath.Join(t.dir, name) }

// SetBinary sets the program for the next starts of a member. "" stands for that of
// ProcessConfig.
func (t *Processes) SetBinary(name, binary string) error {
	m := t.findMember(name)
	if m == nil {
		return fmt.Errorf("there is no member %q; the members are %q", name, t.names)
	}
	m.binary = binary
	return nil
}

func (t *Processes) findMember(name string) *member {
	if i := slices.Index(t.names, name); i >= 0 {
		return t.members[i]
	}
	return nil
}

// Close implements Target. The directory of the ensemble is removed.
func (t *Processes) Close(ctx context.Context) error {
	failed := []error{t.undoDisks(ctx)} // a process on a frozen disk cannot end
	for _, m := range t.members {
		failed = append(failed, t.endMember(ctx, m, syscall.SIGKILL))
	}
	for _, b := range slices.Backward(slices.Clone(t.broken)) { // no member is started again
		err := runSteps(ctx, b.plan.undo)
		if err == nil {
			err = t.journal.Remove(b.id)
		}
		failed = append(failed, err)
	}
	t.broken = nil
	for _, id := range slices.Backward(t.setup) {
		failed = append(failed, t.undoSetup(ctx, id))
	}
	t.setup = nil
	return errors.Join(failed...)
}

func (t *Processes) undoSetup(ctx context.Context, id int) error {
	for _, e := range t.journal.Entries() {
		if e.ID == id {
			if err := runSteps(ctx, e.Undo); err != nil {
				return err
			}
			return t.journal.Remove(id)
		}
	}
	return nil
}

// undoDisks ends faults of disks.
func (t *Processes) undoDisks(ctx context.Context) error {
	var failed []error
	for _, b := range slices.Backward(t.broken) {
		if b.fault.Kind == Disk {
			failed = append(failed, runSteps(ctx, b.plan.undo))
		}
	}
	return errors.Join(failed...)
}
