package clients

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// shellMember runs a member of its own, so that both clients find an empty tree.
func shellMember(t *testing.T) string {
	t.Helper()
	e := process.StartEnsemble(t, process.Config{
		Binary: rollcall, Size: 1, Tick: 500 * time.Millisecond,
		Lines: "enforceQuota=true\nextendedTypesEnabled=true\nDigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4=\n",
	})
	return e.Members[0].Clients
}

// shellCommands returns the commands of testdata/zkcli-transcript.
func shellCommands(t *testing.T) (commands []string) {
	t.Helper()
	text, err := os.ReadFile("testdata/zkcli-transcript")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if line != "" && line[0] != '#' {
			commands = append(commands, line)
		}
	}
	return commands
}

// sessionOutput is a client's output for each command, the events of nodes in order, and the events of sessions, sorted.
type sessionOutput struct {
	out, err      []string
	nodes, states []string
	status        int
}

// shellSession lets a client run the commands in one session. Before each command there is one that
// prints a known line to stderr, and one that does to stdout.
func shellSession(ctx context.Context, cmd *exec.Cmd, addr string, commands []string) (*sessionOutput, error) {
	var in strings.Builder
	for i, command := range commands {
		command = strings.NewReplacer("ADDRESS", addr, "BLANKS", "  ").Replace(command)
		fmt.Fprintf(&in, "get /mark-%d\nprintwatches\n%s\n", i, command)
	}
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(in.String()), &out, &errs
	p, err := process.Launch(cmd.Path, cmd)
	if err != nil {
		return nil, err
	}
	defer p.Kill()
	s := &sessionOutput{}
	if s.status, err = p.ExitStatus(ctx); err != nil {
		return nil, fmt.Errorf("%w\n%s%s", err, &out, &errs)
	}
	printed := eventText.ReplaceAllStringFunc(out.String(), func(event string) string {
		if event = strings.TrimSpace(event); strings.Contains(event, "type:None") {
			s.states = append(s.states, event)
		} else {
			s.nodes = append(s.nodes, event)
		}
		return ""
	})
	slices.Sort(s.states)
	printed = strings.ReplaceAll(printed, "\nWATCHER::\n", "")
	s.out = outMark.Split(normal(printed), -1)
	s.err = errMark.Split(normal(errs.String()), -1)
	return s, nil
}

var (
	// eventText is what is printed for an event after "WATCHER::".
	eventText = regexp.MustCompile(`\nWatchedEvent .*\n`)
	outMark   = regexp.MustCompile(`printwatches is (?:on|off)\n(?:Not connected\n)?`)
	errMark   = regexp.MustCompile(`Node does not exist: /mark-\d+\n`)
)

// normalisations are all differences that the comparison leaves out.
var normalisations = []struct {
	of, by string
	why    string
}{
	{`(?m)^((?:c|m|p)Zxid|ctime|mtime|ephemeralOwner) = .*$`, "$1", "the two clients have members, times and sessions of their own"},
	{`(?m)^Connecting to .*\n`, "", "the addresses differ"},
	{`(?m)^Welcome to .*\n`, "", "each client names itself"},
	{`(?m)^JLine support is disabled\n`, "", "it is about a library of Java"},
	{`(?m)^SLF4J: .*\n`, "", "it is about a library of Java"},
	{`(?m)^org\.apache\.commons\.cli\.\w+: `, "", "it is the name of a Java class"},
	{`(?m)^(?:ZooKeeper -server|rollcall shell --hosts) .*$`, "", "each client names itself"},
	{`(?m)^\thelp $\n`, "", "help is a verb of the shell only"},
	{`(?m)^Command not found: Command not found help\n`, "", "help is a verb of the shell only"},
}

func normal(text string) string {
	for _, n := range normalisations {
		text = regexp.MustCompile(n.of).ReplaceAllString(text, n.by)
	}
	return text
}

// For a transcript of zkCli.sh, rollcall shell prints the same lines as zkCli.sh, to stdout and to stderr. zkCli.sh
// prints events at any time, and from a thread for each session, so these are compared as a whole.
func TestShell(t *testing.T) {
	needs.Check(t, needs.Usual)
	needs.Check(t, needs.ZooKeeper)
	commands := shellCommands(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*scenarioLimit)
	defer cancel()
	var both sync.WaitGroup
	var theirs, ours *sessionOutput
	session := func(into **sessionOutput, command func(addr string) *exec.Cmd) {
		addr := shellMember(t)
		both.Go(func() {
			var err error
			if *into, err = shellSession(ctx, command(addr), addr, commands); err != nil {
				t.Error(err)
			}
		})
	}
	session(&theirs, func(addr string) *exec.Cmd {
		cmd := exec.Command(zkCLI, "-server", addr)
		cmd.Env = append(os.Environ(), "JVMFLAGS=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx128m -Dfile.encoding=UTF-8")
		return cmd
	})
	session(&ours, func(addr string) *exec.Cmd { return exec.Command(rollcall, "shell", "--hosts", addr) })
	both.Wait()
	if t.Failed() {
		return
	}
	compareOutput(t, "stdout", commands, theirs.out, ours.out)
	compareOutput(t, "stderr", commands, theirs.err, ours.err)
	if len(theirs.nodes) < 20 || !slices.Equal(theirs.nodes, ours.nodes) {
		t.Errorf("events of zkCli.sh:\n%s\nof the shell:\n%s", strings.Join(theirs.nodes, "\n"), strings.Join(ours.nodes, "\n"))
	}
	if !slices.Equal(theirs.states, ours.states) {
		t.Errorf("sessions of zkCli.sh: %q, of the shell: %q", theirs.states, ours.states)
	}
	if theirs.status != 1 || ours.status != theirs.status {
		t.Errorf("exit status %d, that of zkCli.sh is %d", ours.status, theirs.status)
	}
	if !t.Failed() {
		fmt.Println("client scenario: shell ok")
	}
}

// compareOutput compares what was printed for each command, and before the first.
func compareOutput(t *testing.T, stream string, commands, theirs, ours []string) {
	t.Helper()
	if len(theirs) != len(ours) || len(ours) < len(commands)-3 {
		t.Errorf("%s: %d answers to %d commands, of zkCli.sh %d", stream, len(ours), len(commands), len(theirs))
	}
	for i := range min(len(theirs), len(ours)) {
		command := "(the beginning)"
		if i > 0 && i <= len(commands) {
			command = commands[i-1]
		}
		if theirs[i] != ours[i] {
			t.Errorf("%s of %s\nzkCli.sh: %q\nthe shell: %q", stream, command, theirs[i], ours[i])
		}
	}
}
