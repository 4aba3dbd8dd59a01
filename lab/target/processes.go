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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"rollcall/lab/child"
)

// ProcessConfig configures an ensemble of processes that this one starts.
type ProcessConfig struct {
	Journal *Journal // required; Processes does not close it
	Dir     string   // in which a new directory for the ensemble is made; "": the system's for temporary files
	Size    int      // members; 0: 3; at most MaxSize
	// Observers is the number of further members, which have no vote: at most MaxSize.
	Observers int
	Program   Program // "": Rollcall
	// Binary is the path of Rollcall, or of the floor; "": the running program. With ZooKeeper, Rollcall makes certificates and moves in.
	Binary string
	Other  string   // binary of Rollcall for Upgrade; "": members cannot be upgraded
	Java   []string // options of Java for ZooKeeper; nil: smallServer
	// Jars is a directory with the jars of another version of ZooKeeper and of all that it needs. "": Debian's package.
	Jars string
	// Beside lets another ensemble of the same journal run.
	Beside bool
	// Restore is a backup with whose nodes Rollcall's members begin. Its sessions have ended. "": they begin without data.
	Restore string
	Proof   Proof // of Rollcall's members to each other; 0: BySecret
	// Secure lets the members serve clients over TLS at Member.Secure, too. Both sides show certificates.
	Secure bool
	// NoAdmin leaves out Rollcall's HTTP API. Faults by operators are not possible then.
	NoAdmin bool
	// Sessions starts each process in a session of its own, so that the kernel divides the processors evenly between the members.
	Sessions bool
	// Disks puts each member's data on a small disk of its own, which can be broken. CheckDisks reports whether that is possible.
	Disks bool
	// Memory limits the memory of each member, in bytes: the kernel kills a member that needs more. 0: no limit. CheckMemory reports
	// whether that is possible.
	Memory   int64
	Tick     time.Duration // tickTime, in whole milliseconds; 0: DefaultTick
	Lines    string        // more lines of zoo.cfg, each with its line end
	Patience time.Duration // how long the members may take until they serve; 0: DefaultPatience
}

const (
	// DefaultTick is so short that a drill does not wait long for sessions to expire, which takes two ticks or more.
	DefaultTick = 500 * time.Millisecond
	// DefaultPatience is far longer than members take to start, also on a busy machine.
	DefaultPatience = time.Minute
	// MaxSize is more than any ensemble has voters, or observers.
	MaxSize = 9
)

// Processes is an ensemble of processes on this machine. They end with this process. Not safe for concurrent use.
type Processes struct {
	faults
	cfg      ProcessConfig
	launcher launcher
	dir      string
	token    string // path of the file with the administrators' token; "": none
	proofs   proofs
	members  []*member
	setup    []int    // entries of what has to be undone at the end, in the order in which it was made
	network  *network // nil: the members are on loopback, or at places of the caller
}

// member is one member. Its directory outlives its process.
type member struct {
	Member
	id       int
	ip       net.IP
	ports    ports
	space    string // the network namespace of its process; "": that of this one
	binary   string // for its next start; "": ProcessConfig.Binary
	config   string // path of zoo.cfg
	data     string // path of dataDir
	group    string // path of the cgroup of its processes; "": that of this one
	disk     string // path where its own disk is mounted; "": it has none
	log      string // path of its output
	setup    []int  // those of Processes.setup that are its own
	observer bool   // it has no vote
	process  *process
}

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
	return t.startEnsemble(ctx, func(context.Context) error { return useLoopback(t.members) })
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

// startEnsemble prepares an ensemble and starts it. place gives the members their addresses. If something fails, everything is
// undone.
func (t *Processes) startEnsemble(ctx context.Context, place func(context.Context) error) (*Processes, error) {
	var err error
	if t.launcher, err = t.cfg.complete(); err != nil {
		return nil, err
	}
	t.journal = t.cfg.Journal
	t.methods = map[Kind]faultMethod{
		Kill: {t.canEnd, t.planEnd(syscall.SIGKILL)}, Shut: {t.canEnd, t.planEnd(syscall.SIGTERM)},
		Wipe: {t.canEnd, t.planWipe}, Stop: {nil, t.planStop},
	}
	t.unsupported = maps.Clone(lacksOfProcesses)
	if t.launcher.rollcall && !t.cfg.NoAdmin {
		operators{t}.addOperatorFaults()
	} else {
		maps.Copy(t.unsupported, lacksWithoutOperators)
	}
	if t.cfg.Program == ZooKeeper {
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

// complete sets defaults, and returns what starts the members, or an error about the configuration.
func (c *ProcessConfig) complete() (launcher, error) {
	c.Size, c.Tick, c.Patience = cmp.Or(c.Size, 3), cmp.Or(c.Tick, DefaultTick), cmp.Or(c.Patience, DefaultPatience)
	switch {
	case c.Journal == nil:
		return launcher{}, errors.New("target: Journal is required")
	case c.Size < 1 || c.Size > MaxSize:
		return launcher{}, fmt.Errorf("%d members: must be 1 to %d", c.Size, MaxSize)
	case c.Observers < 0 || c.Observers > MaxSize:
		return launcher{}, fmt.Errorf("%d observers: must be 0 to %d", c.Observers, MaxSize)
	case c.Program == Floor && (c.Secure || c.Observers > 0):
		return launcher{}, errors.New("the floor has neither TLS nor observers")
	case c.Tick < time.Millisecond:
		return launcher{}, fmt.Errorf("a tick of %v: must be at least 1ms", c.Tick)
	}
	if c.Disks {
		if err := CheckDisks(); err != nil {
			return launcher{}, err
		}
	}
	if c.Memory != 0 {
		if c.Memory < MinMemory {
			return launcher{}, fmt.Errorf("%d bytes of memory for a member: must be at least %d", c.Memory, MinMemory)
		}
		if err := CheckMemory(); err != nil {
			return launcher{}, err
		}
	}
	l, err := c.selectLauncher()
	if !c.Beside {
		err = errors.Join(err, c.Journal.CheckClean())
	}
	return l, err
}

func (t *Processes) prepareAndStart(ctx context.Context, place func(context.Context) error) error {
	if err := t.makeDirectory(); err != nil {
		return err
	}
	for i := range t.cfg.Size + t.cfg.Observers {
		m, err := t.newMember(ctx, i+1)
		if err != nil {
			return err
		}
		m.observer = i >= t.cfg.Size
		t.members, t.names = append(t.members, m), append(t.names, m.Name)
	}
	if err := place(ctx); err != nil {
		return err
	}
	if t.cfg.Program == Floor {
		for _, m := range t.members[1:] {
			m.Clients = ""
		}
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
	if err := t.makeGroup(m); err != nil {
		return nil, err
	}
	return m, t.makeData(ctx, m)
}

// AwaitServing returns when all members serve under one leader. If one ends by itself, its error has the end of what it printed.
func (t *Processes) AwaitServing(ctx context.Context) error {
	serving := slices.DeleteFunc(t.Members(), func(m Member) bool { return m.Clients == "" })
	return t.awaitUnlessEnded(ctx, t.members, func(ctx context.Context) error { return AwaitHealthy(ctx, serving) })
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
	argv := insideGroup(m.group, insideNamespace(m.space, t.launcher.argv(t, m)...)...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, filepath.Dir(m.config)
	start := child.Start
	if t.cfg.Sessions {
		start = child.StartSession
	}
	c, err := start("member "+m.Name, cmd)
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

// SetLines replaces ProcessConfig.Lines for the next starts of all members.
func (t *Processes) SetLines(lines string) error {
	t.cfg.Lines = lines
	var failed []error
	for _, m := range t.members {
		failed = append(failed, t.writeFiles(m))
	}
	return errors.Join(failed...)
}

// Kill kills a member with SIGKILL, and returns when its process has ended. It is no fault: Repair and Heal do not start the
// member again, and Restart does.
func (t *Processes) Kill(ctx context.Context, name string) error {
	m, err := t.mustFind(name)
	if err != nil {
		return err
	}
	return t.endMember(ctx, m, syscall.SIGKILL)
}

// Restart starts a member. If its process still runs, it is killed first. Restart returns before the member serves: see
// AwaitServing.
func (t *Processes) Restart(ctx context.Context, name string) error {
	m, err := t.mustFind(name)
	if err != nil {
		return err
	}
	return restartMember(ctx, t, m)
}

// RunCommand runs a command of Rollcall on a member's machine, as an administrator. It returns when the command has ended.
func (t *Processes) RunCommand(ctx context.Context, name string, args ...string) error {
	m, err := t.mustFind(name)
	if err != nil {
		return err
	}
	if t.token == "" {
		return fmt.Errorf("rollcall %s: the members serve no operators", strings.Join(args, " "))
	}
	return operators{t}.runCommand(ctx, m, args...)
}

// Pid returns the id of a member's process; 0: it has none.
func (t *Processes) Pid(name string) int {
	m := t.findMember(name)
	if m == nil || m.process == nil {
		return 0
	}
	return m.process.cmd.Process.Pid
}

// SetBinary sets the program for the next starts of a member. "" stands for that of
// ProcessConfig.
func (t *Processes) SetBinary(name, binary string) error {
	m, err := t.mustFind(name)
	if err == nil {
		m.binary = binary
	}
	return err
}

// mustFind returns a member, or an error about its name.
func (t *Processes) mustFind(name string) (*member, error) {
	m := t.findMember(name)
	if m == nil {
		return nil, fmt.Errorf("there is no member %q; the members are %q", name, t.names)
	}
	return m, nil
}

func (t *Processes) findMember(name string) *member {
	if i := slices.Index(t.names, name); i >= 0 {
		return t.members[i]
	}
	return nil
}

// Close implements Target. The directory of the ensemble is removed.
func (t *Processes) Close(ctx context.Context) error {
	failed := []error{diskFaults{t}.undoAll(ctx)} // a process on a frozen disk cannot end
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
