package target

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// fakeHooks are hooks that write their arguments into a file.
func fakeHooks(out string) HookConfig {
	note := func(name string) string {
		return fmt.Sprintf(`echo "%s $DRILL_MEMBER $DRILL_HOST $DRILL_PORT others=$DRILL_OTHERS from=$DRILL_FROM/$DRILL_FROM_HOSTS $DRILL_ONE_WAY$DRILL_CLIENT$DRILL_ONLY_PORT $NOTE" >>%s`, name, out)
	}
	c := HookConfig{Timeout: time.Minute, Hooks: map[string]string{}, Can: []string{"from", "one-way"}}
	for _, name := range []string{"kill", "start", "stop", "cont", "cut", "heal"} {
		c.Hooks[name] = note(name)
	}
	for i, host := range []string{"a", "b", "::1"} {
		m := membersOf(host)[0]
		m.Name, m.Vars = fmt.Sprint(i+1), map[string]string{"NOTE": "$(touch injected); `touch injected`"}
		c.Members = append(c.Members, m)
	}
	return c
}

func TestHooks(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	j := openJournal(t, t.TempDir())
	h, err := NewHooks(j, fakeHooks("out"))
	if err != nil {
		t.Fatal(err)
	}
	h.word = func(context.Context, string, string) (string, error) { return "", nil }
	h.session = func(context.Context, string) error { return nil }
	did := func(want string) {
		t.Helper()
		text, _ := os.ReadFile("out")
		_ = os.Remove("out")
		if got := strings.ReplaceAll(string(text), " $(touch injected); `touch injected`", ""); got != want+"\n" {
			t.Errorf("hooks that ran:\n%q\nwant\n%q", got, want)
		}
	}
	kill := Fault{Kind: Kill, Member: "3"}
	cut := Fault{Kind: Cut, Member: "1", From: []string{"3"}, OneWay: true}
	for _, f := range []Fault{kill, cut} {
		if err := h.Break(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	did("kill 3 ::1 2181 others=a b from=1 2/a b \ncut 1 a 2181 others=b ::1 from=3/::1 1")
	if err := h.Break(t.Context(), kill); err == nil || !strings.Contains(err.Error(), "down or stopped already") {
		t.Errorf("second kill: %v", err)
	}
	if err := h.Repair(t.Context(), Fault{Kind: Stop, Member: "1"}); err == nil {
		t.Error("a fault that is not there was repaired")
	}
	if err := h.Heal(t.Context()); err != nil || len(j.Entries()) > 0 {
		t.Errorf("Heal: %v, entries %v", err, j.Entries())
	}
	did("heal 1 a 2181 others=b ::1 from=3/::1 1\nstart 3 ::1 2181 others=a b from=1 2/a b ")
	if _, err := os.Stat("injected"); err == nil {
		t.Error("the value of a variable was run")
	}
	if err := h.Break(t.Context(), cut); err != nil {
		t.Fatal(err)
	}
	if err := h.Repair(t.Context(), cut); err != nil || len(j.Entries()) > 0 {
		t.Errorf("Repair: %v, entries %v", err, j.Entries())
	}
}

// A fault is in the journal before its hook runs, with what repairs it, so that another process can do that.
func TestHookIsJournaledFirst(t *testing.T) {
	state := t.TempDir()
	out := filepath.Join(t.TempDir(), "out")
	c := fakeHooks(out)
	c.Hooks["stop"] = fmt.Sprintf("cat %s/journal >%s; exit 7", state, out)
	j := openJournal(t, state)
	h, err := NewHooks(j, c)
	if err != nil {
		t.Fatal(err)
	}
	err = h.Break(t.Context(), Fault{Kind: Stop, Member: "2"})
	if err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("Break with a hook that fails: %v, want its status", err)
	}
	if text, _ := os.ReadFile(out); !strings.Contains(string(text), "stop of member 2") {
		t.Errorf("the journal when the hook ran: %q, want the fault", text)
	}
	_ = j.Close()
	_ = os.Remove(out)
	healed, err := openJournal(t, state).Heal(t.Context())
	if err != nil || len(healed) != 1 {
		t.Errorf("Heal by another process: %q, %v", healed, err)
	}
	if text, _ := os.ReadFile(out); !strings.HasPrefix(string(text), "cont 2 b 2181") {
		t.Errorf("Heal ran %q, want cont", text)
	}
}

// A later process heals with the working directory and the variables of the drill, whatever its own are.
func TestHealHasTheDrillsEnvironment(t *testing.T) {
	state, began, out := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "out")
	c := fakeHooks(out)
	c.Environment = []string{"NAMESPACE", "CONTEXT", "NOTE"}
	c.Hooks["heal"] = fmt.Sprintf(`echo "$NAMESPACE ${CONTEXT-unset} $PWD $NOTE" >%s`, out)
	for i := range c.Members {
		c.Members[i].Vars = map[string]string{"NOTE": "of the member"}
	}
	t.Chdir(began)
	t.Setenv("NAMESPACE", "prod")
	t.Setenv("CONTEXT", "") // so that it is restored
	_ = os.Unsetenv("CONTEXT")
	j := openJournal(t, state)
	h, err := NewHooks(j, c)
	if err != nil {
		t.Fatal(err)
	}
	h.session = func(context.Context, string) error { return errors.New("no leader") }
	if err := h.Break(t.Context(), Fault{Kind: Cut, Member: "1"}); err != nil {
		t.Fatal(err)
	}
	_ = j.Close()
	t.Chdir(state)
	t.Setenv("NAMESPACE", "of another shell")
	t.Setenv("CONTEXT", "of another shell")
	t.Setenv("NOTE", "of another shell")
	if healed, err := openJournal(t, state).Heal(t.Context()); err != nil || len(healed) != 1 {
		t.Fatalf("Heal: %q, %v", healed, err)
	}
	if text, _ := os.ReadFile(out); string(text) != "prod unset "+began+" of the member\n" {
		t.Errorf("heal ran with %q, want what the drill had", text)
	}
}

// A member has the token in its file, which must have nothing else.
func TestHookTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	for _, tt := range []struct{ text, want string }{
		{"read-me-only\n", ""},
		{"", "in one line"},
		{"two words", "in one line"},
		{strings.Repeat("x", maxHookToken+1), "over 8192 bytes"},
	} {
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		c := fakeHooks("/dev/null")
		c.Members[1].Admin, c.Members[1].TokenFile = "https://b:8080", path
		h, err := NewHooks(openJournal(t, t.TempDir()), c)
		if tt.want != "" {
			if err == nil || !strings.Contains(err.Error(), "tokenFile "+path+" of member 2: it") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%.20q: %v, want %q", tt.text, err, tt.want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := h.Members(); got[0].Token != "" || got[1].Token != "read-me-only" || got[1].Admin != "https://b:8080" {
			t.Errorf("the members are %+v", got)
		}
	}
}

// A token file that others may read is rejected.
func TestHookTokenOpenToOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := errors.Join(os.WriteFile(path, []byte("read-me-only\n"), 0o600), os.Chmod(path, 0o644)); err != nil {
		t.Fatal(err)
	}
	c := fakeHooks("/dev/null")
	c.Members[1].Admin, c.Members[1].TokenFile = "https://b:8080", path
	if _, err := NewHooks(openJournal(t, t.TempDir()), c); err == nil || !strings.Contains(err.Error(), "chmod 600 "+path) {
		t.Errorf("%v, want the advice to chmod it", err)
	}
}

func TestHooksCannot(t *testing.T) {
	c := fakeHooks("/dev/null")
	c.Hooks["disk"], c.Hooks["slow"] = "true", "true"
	delete(c.Hooks, "cont")
	h, err := NewHooks(openJournal(t, t.TempDir()), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		fault Fault
		want  string // in the error; "": none
	}{
		{Fault{Kind: Kill, Member: "1"}, ""},
		{Fault{Kind: Cut, Member: "1", From: []string{"2", "3"}}, ""},
		{Fault{Kind: Cut, Member: "1", Client: true}, `can do "client"`},
		{Fault{Kind: Cut, Member: "1", Port: ClientPort}, `can do "port"`},
		{Fault{Kind: Slow, Member: "1", Delay: time.Second}, `can do "delay"`},
		{Fault{Kind: Disk, Member: "1", Mode: Stall}, `can do "stall"`},
		{Fault{Kind: Stop, Member: "1"}, "none for cont"},
		{Fault{Kind: Fill, Member: "1"}, "no command for fill"},
		{Fault{Kind: Kill, Member: "9"}, `no member "9"`},
		{Fault{Kind: Cut, Member: "1", From: []string{"1"}}, "from itself"},
		{Fault{Kind: Cut, Member: "1", From: []string{"8"}}, `no member "8"`},
		{Fault{Kind: Start, Member: "1"}, "ends a fault"},
		{Fault{Kind: Slow, Member: "1"}, "needs a delay"},
		{Fault{Kind: Slow, Member: "1", Loss: 1}, "below 1"},
		{Fault{Kind: Slow, Member: "1", From: []string{"2"}, Loss: 0.1, Rate: 1}, "a loss alone"},
		{Fault{Kind: Slow, Member: "1", Delay: -1}, "must be positive"},
		{Fault{Kind: Slow, Member: "1", Rate: -1}, "must be positive"},
		{Fault{Kind: Disk, Member: "1", Mode: "melt"}, "mode of disk"},
		{Fault{Kind: Cut, Member: "1", Port: "80"}, "the port is"},
	} {
		err := h.Can(tt.fault)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("Can(%v) = %v, want %q", tt.fault, err, tt.want)
		}
		if tt.want != "" && h.Break(t.Context(), tt.fault) == nil {
			t.Errorf("Break(%v) did what it cannot", tt.fault)
		}
	}
}

// The examples can be loaded, with the members of a connect string if they have none, and sh can parse their commands.
func TestExamples(t *testing.T) {
	if len(Examples()) < 6 {
		t.Errorf("examples %q, want six", Examples())
	}
	for _, name := range Examples() {
		c, err := LoadHooks(name, "zk1:2181,[fd00::1]:2182,zk3/chroot")
		if err != nil && strings.Contains(err.Error(), "leave out --hosts") {
			c, err = LoadHooks(name, "")
		}
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if len(c.Members) != 3 {
			t.Errorf("%s: members %v, want three", name, c.Members)
		}
		h, err := NewHooks(openJournal(t, t.TempDir()), c)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := h.Can(Fault{Kind: Kill, Member: "1"}); err != nil {
			t.Errorf("%s: Can(kill) = %v", name, err)
		}
		for kind := range c.Hooks {
			argv := h.shellCommand(Kind(kind))
			if out, err := exec.Command("sh", "-n", "-c", argv[2]).CombinedOutput(); err != nil {
				t.Errorf("%s: hook %s: %v: %s", name, kind, err, out)
			}
			for _, name := range variablesOf(argv[2]) {
				if !slices.Contains(c.Environment, name) && !slices.Contains(ofMembers, name) {
					t.Errorf("%s: hook %s reads %s, which is not in environment, so heal may have another one", name, kind, name)
				}
			}
			if end := endsWith[Kind(kind)]; end != "" && c.Hooks[string(end)] == "" {
				t.Errorf("%s has %s without %s", name, kind, end)
			}
		}
	}
}

// ofMembers are the variables of members in the examples.
var ofMembers = []string{"POD", "SERVICE", "NUMBER", "PIDFILE", "START", "CONTAINER", "ADDRESSES"}

// variablesOf returns the variables that a script reads, without the variables of drills and its own, which have small
// letters.
func variablesOf(script string) (names []string) {
	for _, match := range regexp.MustCompile(`\$\{?([A-Z][A-Z0-9_]*)`).FindAllStringSubmatch(script, -1) {
		if !strings.HasPrefix(match[1], "DRILL_") {
			names = append(names, match[1])
		}
	}
	return names
}

func TestLoadHooks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hooks.yaml")
	const members = "members: [{name: a, clients: 'h:1'}]\n"
	for _, tt := range []struct{ text, want string }{
		{members + "timeout: 5s\nhooks: {kill: x}\n", ""},
		{members + "hook: {}\n", "field hook not found"},
		{members + "hooks: {melt: x}\n", `no hook "melt"`},
		{members + "can: [fly]\n", `can has "fly"`},
		{members + "timeout: -5s\n", "must be positive"},
		{"members: [{name: a, clients: 'h:1'}, {name: a, clients: 'h:2'}]\n", "two members"},
		{"members: [{name: 'a b', clients: 'h:1'}]\n", "the name of a member"},
		{"members: [{name: a, clients: 'h'}]\n", "must be host:port"},
		{"members: [{name: a, clients: 'h:0'}]\n", "from 1 to 65535"},
		{"members: [{name: a, clients: '$(x):1'}]\n", "must be a host's name"},
		{"members: [{name: a, clients: '-oProxyCommand=x:1'}]\n", "must be a host's name"},
		{"members: [{name: a, clients: 'h:1', vars: {DRILL_HOST: x}}]\n", "must not begin"},
		{"members: [{name: a, clients: 'h:1', vars: {lower: x}}]\n", "capitals"},
		{members + "environment: [UNIT]\n", ""},
		{members + "environment: [DRILL_HOST]\n", "must not begin"},
		{members + "environment: [unit]\n", "capitals"},
		{"members: [{name: a, clients: 'h:1', tokenFile: t}]\n", "no admin"},
		{"", "no members"},
		{strings.Repeat("#", maxHookBytes+1), "more than 65536 bytes"},
	} {
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := LoadHooks(path, "")
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%.80q: %v, want %q", tt.text, err, tt.want)
		}
	}
	// Hosts beside a file with members could belong to another ensemble.
	if err := os.WriteFile(path, []byte(members), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadHooks(path, "production:2181"); err == nil || !strings.Contains(err.Error(), "leave out --hosts") {
		t.Errorf("members twice: %v", err)
	}
	if _, err := LoadHooks("", ",,"); err == nil || !strings.HasPrefix(err.Error(), "no members are named") {
		t.Errorf("members nowhere: %v", err)
	}
	if _, err := LoadHooks("dokcer", ""); err == nil || !strings.Contains(err.Error(), "docker") {
		t.Errorf("unknown name: %v, want the names", err)
	}
}
