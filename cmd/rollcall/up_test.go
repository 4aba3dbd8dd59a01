package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"rollcall/cli"
	"rollcall/config"
	"rollcall/member"
	"rollcall/operator/api"
	"rollcall/operator/view"
	"rollcall/quorum/disk"
	"rollcall/znode"
)

// untold are the fields of events that the lines of up leave out. The log has them.
var untold = []string{"Silent", "Overuses"}

// Each kind of event leads to one line, which has its name, and each field of events is in the line of
// at least one kind.
func TestUpTellsEveryEvent(t *testing.T) {
	e := member.Event{
		Term: 7001, Member: 7002, FromMember: 7003, Session: 0x7004, Timeout: 7005 * time.Second, Address: "a:7006", Ephemerals: 7007, Silent: 7008, By: "carol", Overuses: 7009,
		Quota: znode.ExceededQuota{Path: "/7010", Count: 7011, CountLimit: 7012, Bytes: 7013, BytesLimit: 7014}, Names: znode.ChildCount{Path: "/7015", Created: 7016},
		Cause: znode.LeaderCause{Kind: znode.LeaderSilent, Former: 7017, Silent: 7018 * time.Second}, Keys: []string{"skipACL"},
	}
	var told string
	for _, e.Kind = range kindsOfEvents(t) {
		var out strings.Builder
		(&eventPrinter{out: &out, started: time.Now()}).printEvent(e)
		line := out.String()
		if strings.Count(line, "\n") != 1 || !strings.Contains(line, "  "+string(e.Kind)+": ") {
			t.Errorf("%s is told as %q", e.Kind, line)
		}
		told += line
	}
	values := map[string]string{}
	collect(t, values, reflect.ValueOf(e))
	for name, value := range values {
		if got, want := strings.Contains(told, value), !slices.Contains(untold, name); got != want {
			t.Errorf("%s is told: %t, want %t", name, got, want)
		}
	}
}

// collect adds the fields of a struct and of those in it to values, as text. Each must have a value. A struct that says itself what it is
// counts as one.
func collect(t *testing.T, values map[string]string, of reflect.Value) {
	t.Helper()
	for i := range of.NumField() {
		name, f := of.Type().Field(i).Name, of.Field(i)
		text, isText := f.Interface().(fmt.Stringer)
		switch {
		case f.IsZero():
			t.Errorf("%s is new: give it a value in this test", name)
		case f.Kind() == reflect.Struct && isText:
			values[name] = text.String()
		case f.Kind() == reflect.Struct:
			collect(t, values, f)
		case f.Kind() == reflect.Slice:
			values[name] = strings.Join(f.Interface().([]string), " ")
		default:
			values[name] = fmt.Sprint(f.Interface())
		}
	}
}

// kindsOfEvents returns the constants of member.EventKind.
func kindsOfEvents(t *testing.T) (kinds []member.EventKind) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../member/event.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := spec.Type.(*ast.Ident); !ok || of.Name != "EventKind" {
			return false
		}
		for _, v := range spec.Values {
			text, err := strconv.Unquote(v.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			kinds = append(kinds, member.EventKind(text))
		}
		return false
	})
	if len(kinds) < 6 {
		t.Fatalf("%d kinds of events: they are no longer found", len(kinds))
	}
	return kinds
}

// A directory for three members is not used for one: the ensemble would wait for the others.
func TestUpWithOtherMembers(t *testing.T) {
	dir := t.TempDir()
	three := []member.Server{{ID: 1, RaftAddr: "127.0.0.1:1"}, {ID: 2, RaftAddr: "127.0.0.1:2"}, {ID: 3, RaftAddr: "127.0.0.1:3"}}
	settings := member.Config{Servers: three}
	settings.Dir = dir
	if err := checkServersUnchanged(settings); err != nil {
		t.Errorf("a new directory: %v", err)
	}
	data, err := disk.Open(disk.Config{MemberID: 1, ServerList: member.ServerLines(three), DataDir: dir, RaftLogger: hclog.NewNullLogger(), StallLimit: config.DefaultStallLimit})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(data.Close(), checkServersUnchanged(settings)); err != nil {
		t.Errorf("the same members: %v", err)
	}
	settings.Servers = three[:1]
	if err := checkServersUnchanged(settings); !errors.Is(err, disk.ErrServersChanged) {
		t.Errorf("one of three: %v", err)
	}
}

// The ports of members are checked before anything is made.
func TestUpPorts(t *testing.T) {
	for args, want := range map[string]string{
		"":                            "[2181 2182 2183]",
		"-port 7000 -members 2":       "[7000 7001]",
		"-ports 7000":                 "[7000]",
		"-ports 7000,9,62535":         "[7000 9 62535]",
		"-port 62533":                 "[62533 62534 62535]",
		"-port 1":                     "[1 2 3]",
		"-ports 1":                    "[1]",
		"-ports 62535":                "[62535]",
		"-members 1":                  "[2181]",
		"-port 100 -members 9":        "[100 101 102 103 104 105 106 107 108]",
		"-ports 1,2,3,4,5,6,7,8,9":    "[1 2 3 4 5 6 7 8 9]",
		"-ports 7000,7000":            "two members would use port 7000",
		"-ports 7000,9000":            "two members would use port 9000",
		"-ports 0":                    "-ports 0 must be 1 to 62535",
		"-ports 62536":                "-ports 62536 must be 1 to 62535",
		"-ports 1,2,3,4,5,6,7,8,9,10": "10 ports; must be 1 to 9",
		"-ports 7000 -port 7000":      "leave out --port and --members",
		"-ports 7000 -members 1":      "leave out --port and --members",
		"-port 0":                     "-port 0 must be 1 to 62533",
		"-port 62534":                 "-port 62534 must be 1 to 62533",
		"-members 0":                  "-members 0 must be 1 to 9",
		"-members 10":                 "-members 10 must be 1 to 9",
		"-port 9223372036854775807":   "must be 1 to",
	} {
		var f upFlags
		cmd := f.newCommand(cli.IOStreams{})
		if err := cmd.ParseFlags(strings.Fields(strings.ReplaceAll(" "+args, " -", " --"))); err != nil {
			t.Fatal(err)
		}
		var got string
		if err := f.checkAndSetPorts(cmd.Flags().Changed); err != nil {
			got = err.Error()
		} else {
			got = fmt.Sprint(f.ports)
		}
		if !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", args, got, want)
		}
	}
}

// What up prints for the shell works there, whatever the directory is called.
func TestInShell(t *testing.T) {
	for word, want := range map[string]string{"rollcall-data/token": "rollcall-data/token", "my data/token": "'my data/token'", "a'b;$c": `'a'\''b;$c'`} {
		if got := shellQuote(word); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A line of up stands above the lines that stay below, and these are drawn again. Without a terminal
// there are none.
func TestLinesBelow(t *testing.T) {
	var out strings.Builder
	to := &eventPrinter{out: &out, started: time.Now()}
	to.printLine("one")
	to.replaceBelow([]string{"a", "b"})
	to.printLine("two")
	_, _ = io.WriteString(to.writerAbove(&out), "log\n")
	to.replaceBelow(nil)
	text := regexp.MustCompile(` +\d\.\d{3} `).ReplaceAllString(out.String(), "")
	if want := " one\na\nb\n\x1b[2F\x1b[0J two\na\nb\n\x1b[2F\x1b[0Jlog\na\nb\n\x1b[2F\x1b[0J"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
}

// The lines fit the terminal, and what clients chose does no harm in them.
func TestLiveLines(t *testing.T) {
	left := func(d time.Duration) *int64 { ms := d.Milliseconds(); return &ms }
	e := ensembleState{
		members: []api.Member{{MemberID: 1, Role: "leader", Term: 2<<16 + 6, ClientAddress: "127.0.0.1:2181"}, {MemberID: 2}},
		sessions: []api.Session{
			{ID: "0x11", State: view.StateConnected, MemberID: 1, Address: "a\x1b[2J:1", TimeoutMs: time.Minute.Milliseconds(), LeftMs: left(50 * time.Second)},
			{ID: "0x12", State: view.StateDisconnected, MemberID: 2, Address: "b:2", TimeoutMs: (4 * time.Second).Milliseconds(), LeftMs: left(2 * time.Second)},
			{ID: "0x13", State: view.StateUnknown, MemberID: 2, Address: "c:3", TimeoutMs: time.Second.Milliseconds()},
		},
	}
	lines := e.renderLines(cli.IOStreams{}, 200, 60)
	text := strings.Join(lines, "\n")
	for _, want := range []string{"leader", "6+2 recoveries", "not serving", "0x11", "disconnected", `a\x1b[2J:1`, "50s"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") || !(strings.Index(text, "0x12") < strings.Index(text, "0x11") && strings.Index(text, "0x11") < strings.Index(text, "0x13")) {
		t.Errorf("wrong order, or an escape sequence:\n%q", text)
	}
	for _, line := range e.renderLines(cli.IOStreams{}, 20, 60) {
		if len(line) > 20 {
			t.Errorf("%q is longer than the terminal is wide", line)
		}
	}
	if n := len(e.renderLines(cli.IOStreams{}, 80, 6)); n != 3 {
		t.Errorf("%d lines on a terminal of 6, want 3", n)
	}
	for range 20 {
		e.sessions = append(e.sessions, e.sessions[0])
	}
	if lines := e.renderLines(cli.IOStreams{}, 200, 60); len(lines) != 1+3+1+1+liveSessions+1 || !strings.Contains(lines[len(lines)-1], "rollcall sessions --hosts 127.0.0.1:2181") {
		t.Errorf("with 23 sessions:\n%s", strings.Join(lines, "\n"))
	}
	e.sessions = nil
	if lines := e.renderLines(cli.IOStreams{}, 200, 60); lines[len(lines)-1] != "no sessions" {
		t.Errorf("without sessions: %q", lines)
	}
}
