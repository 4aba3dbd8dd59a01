package target

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeProgram stands for each program that the examples call. It writes its name and arguments into the file calls, and
// fails if there is a file NAME.fails. ssh and sudo run what they are given.
const fakeProgram = `#!/bin/sh
name=${0##*/}
[ "$name" = ssh ] || echo "$name $*" >>"$FAKES/calls"
[ ! -e "$FAKES/$name.fails" ] || { echo "$name is broken" >&2; exit 1; }
case "$name $*" in
"ssh "*) for script; do :; done; exec sh -c "$script" ;;
"sudo "*) exec "$@" ;;
"tc qdisc show "*) cat "$FAKES/qdiscs" ;;
"systemctl is-active "*) [ -e "$FAKES/timer" ] ;;
"systemctl stop "*) rm "$FAKES/timer" ;;
"systemctl show "*) cat "$FAKES/pid" ;;
esac
`

// fakes puts programs of such names before all others, and returns the directory of their files.
func fakes(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(fakeProgram), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("FAKES", dir)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return dir
}

// runExample runs a hook of an example for a fault of member 1, with programs that find files.
func runExample(t *testing.T, example string, hook Kind, f Fault, files map[string]string) (calls string, err error) {
	t.Helper()
	dir := fakes(t, "ssh", "sudo", "nft", "tc", "systemctl", "docker", "nsenter")
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := LoadHooks(example, "zk1:2181,zk2:2181,zk3:2181")
	if err != nil && strings.Contains(err.Error(), "leave out --hosts") {
		c, err = LoadHooks(example, "")
	}
	if err != nil {
		t.Fatal(err)
	}
	if example == "processes" {
		c.Members[0].Vars["PIDFILE"] = filepath.Join(dir, "pid")
	}
	if example == "docker" {
		c.Members[0].Vars = map[string]string{"ADDRESSES": "1=10.0.0.1 2=10.0.0.2 3=10.0.0.3 33=10.0.0.33"}
	}
	h, err := NewHooks(openJournal(t, t.TempDir()), c)
	if err != nil {
		t.Fatal(err)
	}
	f.Member = "1"
	err = h.hookStep(hook, f).runProgram(t.Context())
	text, _ := os.ReadFile(filepath.Join(dir, "calls")) // there is none if no program was called
	return string(text), err
}

// The docker hooks cut a member off from those that are named, at the addresses that the members use among themselves.
func TestDockerCutsFromSome(t *testing.T) {
	for _, tt := range []struct {
		from []string
		want string
	}{{nil, "{ 10.0.0.2,10.0.0.3 }"}, {[]string{"3"}, "{ 10.0.0.3 }"}} {
		calls, err := runExample(t, "docker", Cut, Fault{Kind: Cut, From: tt.from}, nil)
		if err != nil || !strings.Contains(calls, "daddr "+tt.want+" drop") || !strings.Contains(calls, "saddr "+tt.want+" drop") {
			t.Errorf("from %q it called\n%s\n%v; want %s", tt.from, calls, err, tt.want)
		}
	}
}

// A repair of the examples fails if a program that it needs fails, and it may be repeated.
func TestExamplesRepair(t *testing.T) {
	netem := "qdisc netem 8001: root refcnt 2 limit 10000 delay 100ms\n"
	for _, tt := range []struct {
		name          string
		example       string
		hook, fault   Kind
		files         map[string]string // and the programs that fail
		wants, unlike string            // of the calls
		fails         bool
	}{
		{"a cut", "ssh", Heal, Cut, map[string]string{"timer": ""}, "systemctl stop rollcall-drill.timer", "tc ", false},
		{"a cut is healed", "ssh", Heal, Cut, nil, "nft ", "systemctl stop", false},
		{"a cut stays", "ssh", Heal, Cut, map[string]string{"timer": "", "nft.fails": ""}, "nft ", "systemctl stop", true},
		{"slow", "ssh", Heal, Slow, map[string]string{"timer": "", "qdiscs": netem}, "tc qdisc delete dev eth0 root", "-", false},
		{"slow is healed", "ssh", Heal, Slow, map[string]string{"timer": "", "qdiscs": "qdisc noqueue 0: root\n"}, "systemctl stop", "delete dev", false},
		{"slow stays", "ssh", Heal, Slow, map[string]string{"timer": "", "tc.fails": ""}, "tc ", "systemctl stop", true},
		{"a stop", "ssh", Cont, Stop, map[string]string{"pid": "7\n"}, "systemctl kill -s CONT rollcall", "-", false},
		{"a stopped unit has ended", "ssh", Cont, Stop, map[string]string{"pid": "0\n"}, "systemctl show", "-s CONT", false},
		{"a stop stays", "ssh", Cont, Stop, map[string]string{"pid": "7\n", "systemctl.fails": ""}, "systemctl", "-", true},
		{"a pause stays", "docker", Cont, Stop, map[string]string{"docker.fails": ""}, "docker inspect", "-", true},
		{"a process has ended", "processes", Cont, Stop, map[string]string{"pid": "99999999\n"}, "", "-", false},
		{"a process is not known", "processes", Cont, Stop, nil, "", "-", true},
		{"a process is another kind of thing", "processes", Cont, Stop, map[string]string{"pid": "x\n"}, "", "-", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			calls, err := runExample(t, tt.example, tt.hook, Fault{Kind: tt.fault}, tt.files)
			if (err != nil) != tt.fails {
				t.Errorf("%s of %s: %v, must fail: %v", tt.hook, tt.example, err, tt.fails)
			}
			if !strings.Contains(calls, tt.wants) || tt.unlike != "-" && strings.Contains(calls, tt.unlike) {
				t.Errorf("it called\n%s\nwant %q, and not %q", calls, tt.wants, tt.unlike)
			}
		})
	}
}
