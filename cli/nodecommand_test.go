package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"rollcall/cli/nodes"
	"rollcall/client"
)

var roots atomic.Int64

// nodeWorld returns surroundings whose hosts are the shared member, below a node of the test's own, and a
// session of another client there.
func nodeWorld(t *testing.T) (IOStreams, nodes.Space) {
	t.Helper()
	c, err := NewEnsembleFlags(IOStreams{}).openSession(t.Context(), []string{memberAddr}, client.Config{WhileSuspended: client.Fail})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeSession(c) })
	s := nodes.New(c, fmt.Sprintf("/%s-%d", t.Name(), roots.Add(1)))
	if _, _, err := c.Create(t.Context(), s.Root, nil, client.Persistent); err != nil {
		t.Fatal(err)
	}
	w, _, _ := testWorld("ROLLCALL_HOSTS=" + memberAddr + s.Root)
	w.Now = func() time.Time { return time.Time{} } // so that nodes have no age
	w.sessionOpenTimeout = 2 * time.Minute          // the member and the command are of this process, which may not run for long
	return w, s
}

// runLine runs a command line.
func runLine(t *testing.T, w IOStreams, line string) error {
	t.Helper()
	return runArgs(t.Context(), w, splitLine(line)...)
}

func runArgs(ctx context.Context, w IOStreams, args ...string) error {
	_, err := Execute(ctx, NewRoot(w, "1"), args)
	return err
}

// mustRun runs a command line that must not fail, and returns what it prints.
func mustRun(t *testing.T, w IOStreams, line string) string {
	t.Helper()
	out := new(bytes.Buffer)
	w.Out = out
	if err := runLine(t, w, line); err != nil {
		t.Errorf("%s: %v", line, err)
	}
	return out.String()
}

// splitLine splits a command line as a shell does, as far as the tests need it: single quotes hold a word
// together.
func splitLine(line string) (list []string) {
	for _, m := range regexp.MustCompile(`'([^']*)'|\S+`).FindAllStringSubmatch(line, -1) {
		if strings.HasPrefix(m[0], "'") {
			m[0] = m[1]
		}
		list = append(list, m[0])
	}
	return list
}

// transcript runs the lines of text that begin with "$ rollcall ", and returns text with what they print
// and the status of an error. Files are in the directory dir.
func transcript(t *testing.T, w IOStreams, dir, text string) string {
	t.Helper()
	var b strings.Builder
	for line := range strings.Lines(text) {
		command, is := strings.CutPrefix(strings.TrimSpace(line), "$ rollcall ")
		if !is {
			continue
		}
		b.WriteString("$ rollcall " + command + "\n")
		out, errs := new(bytes.Buffer), new(bytes.Buffer)
		w.Out, w.Err = out, errs
		line, into, redirected := strings.Cut(command, " >")
		err := runLine(t, w, strings.ReplaceAll(line, "DIR/", dir+"/"))
		if redirected {
			if err := os.WriteFile(filepath.Join(dir, strings.TrimPrefix(into, "DIR/")), out.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			out.Reset()
		}
		b.WriteString(strings.ReplaceAll(errs.String()+out.String(), dir+"/", "DIR/"))
		if text := b.String(); !strings.HasSuffix(text, "\n") {
			b.WriteString("\n")
		}
		if err != nil {
			b.WriteString("rollcall: " + strings.ReplaceAll(err.Error(), dir+"/", "DIR/") + "\n")
			b.WriteString("status " + statusText(err) + "\n")
		}
	}
	return b.String()
}

func statusText(err error) string { return string('0' + rune(StatusOf(err))) }

// changing are the parts of an output that differ from run to run.
var changing = regexp.MustCompile(`0x[0-9a-f]+|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z|"sha256":"[0-9a-f]*"|127\.0\.0\.1:\d+`)

// maskChanging returns an output without the parts that differ from run to run, and without the blanks of a table
// whose width depends on them.
func maskChanging(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		short := changing.ReplaceAllStringFunc(line, func(part string) string {
			switch {
			case strings.HasPrefix(part, "0x"):
				return "0x…"
			case strings.HasPrefix(part, `"sha256"`):
				return `"sha256":"…"`
			case strings.HasPrefix(part, "127"):
				return "127.0.0.1:…"
			}
			return "TIME"
		})
		if short != line && !strings.HasPrefix(line, " ") || strings.Contains(line, "CZXID") {
			short = strings.Join(strings.Fields(short), "  ") + "\n"
		}
		b.WriteString(short)
	}
	return b.String()
}

// The commands on nodes print what testdata/nodes.txt says, in all formats, and end with the statuses and
// errors that it says.
func TestNodeCommands(t *testing.T) {
	w, _ := nodeWorld(t)
	path := filepath.Join("testdata", "nodes.txt")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := maskChanging(transcript(t, w, t.TempDir(), string(text)))
	if strings.Contains(EscapeUnprintable(strings.ReplaceAll(got, "\n", "")), `\x`) {
		t.Errorf("a command prints what a terminal would not simply show: %q", got)
	}
	golden(t, "nodes.txt", got)
}

// The examples of docs/nodes.md print what the page says. They are run in its order.
func TestNodesPage(t *testing.T) {
	page, err := os.ReadFile("../docs/nodes.md")
	if err != nil {
		t.Fatal(err)
	}
	w, _ := nodeWorld(t)
	dir := t.TempDir()
	t.Chdir(dir)
	examples := 0
	for block := range strings.SplitSeq(string(page), "\n\n    $ ") {
		if examples++; examples == 1 {
			continue // what precedes the first example
		}
		var want strings.Builder
		for line := range strings.Lines("    $ " + block) {
			text, indented := strings.CutPrefix(line, "    ")
			if !indented && line != "\n" {
				break
			}
			want.WriteString(text)
		}
		text := strings.TrimRight(want.String(), "\n") + "\n"
		if got := transcript(t, w, dir, text); maskChanging(got) != maskChanging(text) {
			t.Errorf("the page says\n%s\nthe commands print\n%s", text, got)
		}
	}
	if examples < 6 {
		t.Errorf("%d examples on the page; the pattern for examples no longer finds them", examples-1)
	}
}

// The JSON in testdata/nodes.txt is as its schema says.
func TestNodeJSONFitsItsSchema(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "nodes.txt"))
	if err != nil {
		t.Fatal(err)
	}
	c, seen := jsonschema.NewCompiler(), map[string]bool{}
	for block := range strings.SplitSeq(string(text), "$ rollcall ") {
		line, output, _ := strings.Cut(block, "\n")
		if !strings.Contains(line, "-o json") || strings.Contains(output, "\nstatus ") {
			continue
		}
		command := strings.Fields(line)[0]
		switch {
		case strings.Contains(line, "--dry-run"):
			command += " --dry-run"
		case command == "acl" && strings.Contains(line, "world:"):
			command += " LIST"
		}
		seen[command] = true
		schema, err := c.Compile(schemaPage + "#/$defs/" + strings.ReplaceAll(command, " ", "%20"))
		if err != nil {
			t.Fatal(err)
		}
		for strings.HasPrefix(output, "rollcall: ") { // warnings
			_, output, _ = strings.Cut(output, "\n")
		}
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(output))
		if err == nil {
			err = schema.Validate(value)
		}
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	if len(seen) < 11 {
		t.Errorf("only %v were checked", seen)
	}
}
