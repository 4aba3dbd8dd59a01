package target

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"rollcall/internal/secretfile"
)

// HookConfig is an ensemble of the user and the commands that break it. Its YAML form is in the examples: see Examples.
//
// A command is a script for sh. The member and the fault are in environment variables that begin with DRILL_, so no
// value becomes a part of the script:
//
//	DRILL_MEMBER, DRILL_HOST, DRILL_PORT   the member's name, and the host and port of its address for clients
//	DRILL_OTHERS                           the hosts of the other members, with blanks between them
//	DRILL_FROM, DRILL_FROM_HOSTS           of cut: the members that it is cut from, and their hosts
//	DRILL_ONE_WAY, DRILL_CLIENT            of cut: 1, or empty
//	DRILL_ONLY_PORT                        of cut: clients, peers, or empty
//	DRILL_DELAY_MS, DRILL_LOSS_PERCENT, DRILL_RATE  of slow (bytes per second); the delay is the step of clock too
//	DRILL_MODE                             of disk: stall or fail
//	DRILL_FAULT                            the kind of fault; heal can look at it
//
// and the variables of the member. A command runs within Timeout, and fails if its exit status is not 0. What repairs must
// do no harm if it is run twice.
//
// Another process may run what repairs, from another shell. So the journal keeps the working directory of NewHooks, and
// what it found in the variables that Environment names. Those that were not set are not set for the repair either.
type HookConfig struct {
	Members     []HookMember      `yaml:"members"`     // empty: from the connect string, with the names 1, 2, 3 in its order
	Timeout     time.Duration     `yaml:"timeout"`     // of each command; 0: DefaultHookTimeout
	Environment []string          `yaml:"environment"` // the variables of this process that the commands depend on
	Begin       string            `yaml:"begin"`       // goes before each command, such as one that finds a container
	Hooks       map[string]string `yaml:"hooks"`       // by name: a kind of fault, start, cont, heal or rollback
	Can         []string          `yaml:"can"`         // what cut, slow and disk can do besides the plain cut: see hookAbilities
}

// HookMember is one member of a HookConfig.
type HookMember struct {
	Name      string            `yaml:"name"`
	Clients   string            `yaml:"clients"`   // its address for clients, host:port
	Admin     string            `yaml:"admin"`     // URL of Rollcall's HTTP API; "": none
	TokenFile string            `yaml:"tokenFile"` // path of a file with a token that may read from Admin; "": none
	Vars      map[string]string `yaml:"vars"`      // more environment variables for the commands
}

const (
	// DefaultHookTimeout is the limit of a command. One over ssh takes about a second.
	DefaultHookTimeout = 30 * time.Second
	// maxHookBytes is the limit of a configuration. The examples have about 2 kB.
	maxHookBytes = 64 << 10
	// maxHookToken is more than a token may have, which is 4,096 bytes and the end of its line.
	maxHookToken = 8 << 10
	// maxHookMembers is more than any ensemble has.
	maxHookMembers = 100
	// defaultClientPort is ZooKeeper's.
	defaultClientPort = "2181"
)

// endsWith has the hook that repairs each kind of fault.
var endsWith = map[Kind]Kind{
	Kill: Start, Shut: Start, Wipe: Start, Stop: Cont, Cut: Heal, Slow: Heal, Forget: Heal,
	Disk: Heal, Fill: Heal, Clock: Heal, Upgrade: Rollback,
}

// lacksOfHooks has the reasons for which no hook can do the other acts of operators.
var lacksOfHooks = map[Kind]string{Add: ofOwn, Replace: ofOwn, Secret: ofOwn, Keys: ofOwn, Backup: ofOwn}

const ofOwn = "it is done to members that the drill starts itself: leave out --hosts and --hooks"

// hookAbilities are the values of HookConfig.Can: what the hook of a kind takes into account.
var hookAbilities = []string{"from", "one-way", "client", "port", "delay", "loss", "rate", "stall", "fail"}

//go:embed hooks/*.yaml
var exampleFiles embed.FS

// Examples returns the names of the hooks that are part of the program, such as "docker".
func Examples() (names []string) {
	files, _ := exampleFiles.ReadDir("hooks") // it is embedded
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), ".yaml"))
	}
	return names
}

// Example returns the YAML of the hooks with that name.
func Example(name string) ([]byte, error) {
	text, err := exampleFiles.ReadFile(path.Join("hooks", name+".yaml"))
	if err != nil {
		return nil, fmt.Errorf("there are no hooks with the name %q; there are %s", name, strings.Join(Examples(), ", "))
	}
	return text, nil
}

// LoadHooks reads a HookConfig: that of the example if nameOrPath is the name of one, or else a file. "" has no commands,
// so nothing can be broken. The members are those that it has, or those of connect, a ZooKeeper connect string. A
// chroot in it does not count. Both are an error, since they may name two ensembles.
func LoadHooks(nameOrPath, connect string) (HookConfig, error) {
	text, err := hookText(nameOrPath)
	if err != nil {
		return HookConfig{}, err
	}
	var c HookConfig
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return HookConfig{}, fmt.Errorf("hooks %s: %w", nameOrPath, err)
	}
	switch {
	case len(c.Members) == 0:
		c.Members = membersOf(connect)
	case connect != "":
		return HookConfig{}, fmt.Errorf("hooks %s name the members, such as %s, and so does --hosts: leave out --hosts, or the members",
			nameOrPath, c.Members[0].Clients)
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultHookTimeout
	}
	if err := c.validate(); err != nil {
		if nameOrPath == "" {
			return HookConfig{}, err
		}
		return HookConfig{}, fmt.Errorf("hooks %s: %w", nameOrPath, err)
	}
	return c, nil
}

func hookText(nameOrPath string) ([]byte, error) {
	if nameOrPath == "" {
		return nil, nil
	}
	if slices.Contains(Examples(), nameOrPath) {
		return Example(nameOrPath)
	}
	f, err := os.Open(nameOrPath)
	if err != nil {
		return nil, fmt.Errorf("hooks: %w; it must be a file, or one of %s", err, strings.Join(Examples(), ", "))
	}
	defer func() { _ = f.Close() }() // it is only read
	text, err := io.ReadAll(io.LimitReader(f, maxHookBytes+1))
	if err == nil && len(text) > maxHookBytes {
		err = fmt.Errorf("hooks: %s has more than %d bytes", nameOrPath, maxHookBytes)
	}
	return text, err
}

// membersOf returns the members that a connect string names.
func membersOf(connect string) (members []HookMember) {
	servers, _, _ := strings.Cut(connect, "/")
	for server := range strings.SplitSeq(servers, ",") {
		if server = strings.TrimSpace(server); server == "" {
			continue
		}
		if _, _, err := net.SplitHostPort(server); err != nil {
			server = net.JoinHostPort(strings.Trim(server, "[]"), defaultClientPort)
		}
		members = append(members, HookMember{Name: strconv.Itoa(len(members) + 1), Clients: server})
	}
	return members
}

// The names and hosts may go through a second shell, such as ssh's, so they have no character that means something to
// one.
var (
	plainName     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	plainHost     = regexp.MustCompile(`^[A-Za-z0-9:][A-Za-z0-9._:%-]*$`)
	plainVariable = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
)

// validate returns an error that names the fault in the configuration.
func (c HookConfig) validate() error {
	switch {
	case len(c.Members) == 0:
		return errors.New("no members are named: --hosts must name them all, as host:port,..., or members in the file of --hooks")
	case len(c.Members) > maxHookMembers:
		return fmt.Errorf("%d members; at most %d may be drilled", len(c.Members), maxHookMembers)
	case c.Timeout < 0:
		return fmt.Errorf("timeout is %v; it must be positive", c.Timeout)
	}
	names := map[string]bool{}
	for _, m := range c.Members {
		if err := m.validate(); err != nil {
			return err
		}
		if names[m.Name] {
			return fmt.Errorf("two members have the name %s", m.Name)
		}
		names[m.Name] = true
	}
	for name := range c.Hooks {
		if _, ok := endsWith[Kind(name)]; !ok && Kind(name) != Start && Kind(name) != Cont && Kind(name) != Heal && Kind(name) != Rollback {
			return fmt.Errorf("there is no hook %q; the hooks are kill, shut, wipe, start, stop, cont, cut, slow, forget, disk, "+
				"fill, clock, heal, upgrade and rollback", name)
		}
	}
	for _, name := range c.Environment {
		if !isOfUser(name) {
			return fmt.Errorf("environment has the variable %q; %s", name, variableRule)
		}
	}
	for _, ability := range c.Can {
		if !slices.Contains(hookAbilities, ability) {
			return fmt.Errorf("can has %q; it may have %s", ability, strings.Join(hookAbilities, ", "))
		}
	}
	return nil
}

func (m HookMember) validate() error {
	host, port, err := net.SplitHostPort(m.Clients)
	switch {
	case !plainName.MatchString(m.Name):
		return fmt.Errorf("the name of a member is %q; it may have letters, digits, dots, dashes and underscores", m.Name)
	case err != nil:
		return fmt.Errorf("clients of member %s is %q; it must be host:port", m.Name, m.Clients)
	case !plainHost.MatchString(host):
		return fmt.Errorf("the host of member %s is %q; it must be a host's name or an IP address", m.Name, host)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("the port of member %s is %q; it must be a number from 1 to 65535", m.Name, port)
	}
	if m.TokenFile != "" && m.Admin == "" {
		return fmt.Errorf("member %s has a tokenFile and no admin: name the URL of its HTTP API in admin, or leave out tokenFile", m.Name)
	}
	for name := range m.Vars {
		if !isOfUser(name) {
			return fmt.Errorf("member %s has the variable %q; %s", m.Name, name, variableRule)
		}
	}
	return nil
}

// readToken returns the token in TokenFile, or "" if there is none.
func (m HookMember) readToken() (string, error) {
	if m.TokenFile == "" {
		return "", nil
	}
	f, err := secretfile.ReadTrustedFile(m.TokenFile, maxHookToken)
	if err == nil {
		err = f.RejectExposed()
	}
	text := string(bytes.TrimSpace(f.Text))
	switch {
	case err != nil:
	case len(f.Text) > maxHookToken:
		err = fmt.Errorf("it has over %d bytes; it must have a token alone", maxHookToken)
	case text == "" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		err = errors.New("it must have a token alone, in one line of visible ASCII characters")
	}
	if err != nil {
		return "", fmt.Errorf("tokenFile %s of member %s: %w", m.TokenFile, m.Name, err)
	}
	return text, nil
}

// variableRule is the rule of isOfUser in words.
const variableRule = "its name must have capitals, digits and underscores, and must not begin with DRILL_"

// isOfUser reports whether a variable may have a name that is not the drill's own.
func isOfUser(name string) bool {
	return plainVariable.MatchString(name) && !strings.HasPrefix(name, "DRILL_")
}

// Hooks is an ensemble of the user, which commands of the user break. Not safe for concurrent use.
type Hooks struct {
	faults
	cfg     HookConfig
	members []Member
	word    func(ctx context.Context, addr, word string) (string, error) // Word
	session func(ctx context.Context, addr string) error                 // openSession
	leads   func(ctx context.Context, members []Member) string           // Leader
	// around has what NewHooks found around it: Step.Dir, and HookConfig.Environment in Step.Env and Step.Unset.
	around Step
}

// NewHooks returns a Target for an ensemble that runs already. It runs no command. Close does not close the journal.
func NewHooks(journal *Journal, cfg HookConfig) (*Hooks, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("hooks: %w", err)
	}
	if err := journal.CheckClean(); err != nil {
		return nil, err
	}
	around, err := cfg.lookAround()
	if err != nil {
		return nil, fmt.Errorf("hooks: %w", err)
	}
	t := &Hooks{cfg: cfg, around: around, word: Word, session: openSession, leads: Leader}
	t.journal, t.methods, t.unsupported = journal, map[Kind]faultMethod{}, maps.Clone(lacksOfHooks)
	for _, m := range cfg.Members {
		token, err := m.readToken()
		if err != nil {
			return nil, fmt.Errorf("hooks: %w", err)
		}
		t.names = append(t.names, m.Name)
		t.members = append(t.members, Member{Name: m.Name, Clients: m.Clients, Admin: m.Admin, Token: token})
	}
	for kind, end := range endsWith {
		does, repairs := cfg.Hooks[string(kind)] != "", cfg.Hooks[string(end)] != ""
		switch {
		case does && repairs:
			t.methods[kind] = faultMethod{t.canDo, t.planHook}
		case does:
			t.unsupported[kind] = fmt.Sprintf("the hooks have a command for %s, but none for %s, which repairs it", kind, end)
		default:
			t.unsupported[kind] = fmt.Sprintf("the hooks have no command for %s", kind)
		}
	}
	return t, nil
}

// lookAround returns a step with the working directory of this process, and with the variables that Environment names.
func (c HookConfig) lookAround() (around Step, err error) {
	if around.Dir, err = os.Getwd(); err != nil {
		return Step{}, err
	}
	for _, name := range c.Environment {
		if value, is := os.LookupEnv(name); is {
			around.Env = append(around.Env, name+"="+value)
		} else {
			around.Unset = append(around.Unset, name)
		}
	}
	return around, nil
}

// canDo returns an error if the hook of a kind cannot do all of a fault.
func (t *Hooks) canDo(f Fault) error {
	wants := map[string]bool{
		"from":    f.From != nil,
		"one-way": f.OneWay, "client": f.Client, "port": f.Port != "",
		"delay": f.Kind == Slow && f.Delay > 0, "loss": f.Loss > 0, "rate": f.Rate > 0,
		"stall": f.Kind == Disk && f.Mode == Stall, "fail": f.Kind == Disk && f.Mode == Fail,
	}
	for _, ability := range hookAbilities {
		if wants[ability] && !slices.Contains(t.cfg.Can, ability) {
			return fmt.Errorf("the hook for %s does not say that it can do %q: see can in its file", f.Kind, ability)
		}
	}
	down := t.brokenOf(f.Member, Kill, Shut, Wipe)
	if endsWith[f.Kind] == Start && len(down) > 0 || f.Kind == Stop && len(t.brokenOf(f.Member, Stop))+len(down) > 0 {
		return fmt.Errorf("member %s is down or stopped already", f.Member)
	}
	if f.Kind == Upgrade && len(t.brokenOf(f.Member, Upgrade)) > 0 {
		return fmt.Errorf("member %s is upgraded already: repair that first", f.Member)
	}
	if endsWith[f.Kind] == Heal && len(t.brokenOf(f.Member, Cut, Slow, Forget, Disk, Fill, Clock)) > 0 {
		return fmt.Errorf("member %s has another fault that heal would end too: repair that first", f.Member)
	}
	return nil
}

func (t *Hooks) planHook(f Fault, _ int) (faultPlan, error) {
	p := faultPlan{
		undo: []Step{t.hookStep(endsWith[f.Kind], f)},
		make: func(ctx context.Context) error {
			leader := ""
			if f.Kind == Cut && !t.isFromAll(f) {
				leader = t.leads(ctx, t.members)
			}
			if err := t.hookStep(f.Kind, f).runProgram(ctx); err != nil {
				return err
			}
			return t.awaitEffect(ctx, f, leader)
		},
	}
	if f.Kind == Cut {
		limit, repeated := healLimit, false
		p.after = func(ctx context.Context) error {
			if len(t.broken) > 1 {
				return nil // the member may need another one that is still broken
			}
			err := t.awaitHealed(ctx, f, limit, repeated)
			limit, repeated = queryLimit, true // the member has had its time
			return err
		}
	}
	return p, nil
}

// hookStep returns the step that runs a hook for a fault. A variable of the member has precedence over one of the environment.
func (t *Hooks) hookStep(hook Kind, f Fault) Step {
	s := t.around
	s.Run, s.Timeout = t.shellCommand(hook), t.cfg.Timeout
	s.Env = slices.Concat(s.Env, t.faultEnvironment(f))
	return s
}

// shellCommand returns the command line of a hook. With -e, it ends at the first command that fails.
func (t *Hooks) shellCommand(hook Kind) []string {
	script := t.cfg.Hooks[string(hook)]
	if t.cfg.Begin != "" {
		script = t.cfg.Begin + "\n" + script
	}
	return []string{"sh", "-ec", script}
}

// faultEnvironment returns the variables for the commands of a fault.
func (t *Hooks) faultEnvironment(f Fault) []string {
	var env, others, from []string
	set := func(name, value string) { env = append(env, "DRILL_"+name+"="+value) }
	flag := func(name string, is bool) { set(name, map[bool]string{true: "1"}[is]) }
	names := f.From
	for _, m := range t.cfg.Members {
		host, port, _ := net.SplitHostPort(m.Clients) // checked
		if m.Name == f.Member {
			set("MEMBER", m.Name)
			set("HOST", host)
			set("PORT", port)
			for name, value := range m.Vars {
				env = append(env, name+"="+value)
			}
			continue
		}
		others = append(others, host)
		if f.From == nil {
			names = append(names, m.Name)
		}
		if f.From == nil || slices.Contains(f.From, m.Name) {
			from = append(from, host)
		}
	}
	set("FAULT", string(f.Kind))
	set("OTHERS", strings.Join(others, " "))
	set("FROM", strings.Join(names, " "))
	set("FROM_HOSTS", strings.Join(from, " "))
	flag("ONE_WAY", f.OneWay)
	flag("CLIENT", f.Client)
	set("ONLY_PORT", f.Port)
	set("DELAY_MS", strconv.FormatInt(f.Delay.Milliseconds(), 10))
	set("LOSS_PERCENT", strconv.FormatFloat(100*f.Loss, 'f', -1, 64))
	set("RATE", strconv.Itoa(f.Rate))
	set("MODE", f.Mode)
	slices.Sort(env)
	return env
}

// Around says for people where the hooks run, and with which variables of HookConfig.Environment.
func (t *Hooks) Around() string {
	text := fmt.Sprintf("in %q", t.around.Dir)
	for _, variable := range t.around.Env {
		name, value, _ := strings.Cut(variable, "=")
		text += fmt.Sprintf(", %s=%q", name, value)
	}
	if len(t.around.Unset) > 0 {
		text += ", without " + strings.Join(t.around.Unset, ", ")
	}
	return text
}

// Kind implements Target.
func (t *Hooks) Kind() string { return "hooks" }

// Members implements Target.
func (t *Hooks) Members() []Member { return slices.Clone(t.members) }

// Close implements Target.
func (t *Hooks) Close(ctx context.Context) error { return t.Heal(ctx) }
