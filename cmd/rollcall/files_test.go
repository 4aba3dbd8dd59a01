package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rollcall/config"
)

var update = flag.Bool("update", false, "write testdata/files.txt anew, with what the program makes of its files")

// fileCase is a file, variables and flags, with their outcome. The outcome is the program's
// warnings, and then an error or the fields of the member's configuration that differ from those of
// ensembleCfg.
type fileCase struct {
	name                  string
	file, myID, env, args []string
	outcome               []string
}

// readFileCases reads testdata/files.txt. A line that begins with "# " begins a case. Lines that
// begin with "cfg ", "myid ", "env " or "arg " are its input, and lines that begin with "-> " are
// its outcome. DIR is the directory of zoo.cfg.
func readFileCases(t *testing.T, path string) (cases []fileCase) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		kind, rest, _ := strings.Cut(line, " ")
		if kind == "#" {
			cases = append(cases, fileCase{name: rest})
			continue
		}
		c := &cases[len(cases)-1]
		switch kind {
		case "cfg":
			c.file = append(c.file, rest)
		case "myid":
			c.myID = append(c.myID, rest)
		case "env":
			c.env = append(c.env, rest)
		case "arg":
			c.args = append(c.args, rest)
		case "->":
			c.outcome = append(c.outcome, rest)
		default:
			t.Fatalf("%s: %q", path, line)
		}
	}
	return cases
}

func (c fileCase) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", c.name)
	for _, part := range []struct {
		kind  string
		lines []string
	}{{"cfg", c.file}, {"myid", c.myID}, {"env", c.env}, {"arg", c.args}, {"->", c.outcome}} {
		for _, line := range part.lines {
			fmt.Fprintf(&b, "%s %s\n", part.kind, line)
		}
	}
	return b.String()
}

// Good and bad configurations have the outcomes that testdata/files.txt lists.
func TestFiles(t *testing.T) {
	const path = "testdata/files.txt"
	_, at := inDir(t, map[string]string{"myid": "1", "cfg": ensembleCfg})
	plain := settingsIn(t, "", at("DIR/cfg"))
	cases := readFileCases(t, path)
	var anew strings.Builder
	for i, c := range cases {
		got := c
		got.outcome = c.run(t, plain)
		anew.WriteString(got.text())
		if !slices.Equal(got.outcome, c.outcome) && !*update {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, strings.Join(got.outcome, "\n"), strings.Join(c.outcome, "\n"))
		}
		if slices.ContainsFunc(cases[:i], func(other fileCase) bool { return other.name == c.name }) {
			t.Errorf("two cases are called %q", c.name)
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(anew.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// run returns the outcome of a configuration, line by line.
func (c fileCase) run(t *testing.T, plain map[string]string) (outcome []string) {
	t.Helper()
	files := map[string]string{}
	if c.file != nil {
		files["zoo.cfg"] = strings.Join(c.file, "\n") + "\n"
	}
	if c.myID != nil {
		files["myid"] = strings.Join(c.myID, "\n")
	}
	dir, at := inDir(t, files)
	short := func(text string) string {
		return strings.ReplaceAll(strings.ReplaceAll(text, dir, "DIR"), "\n", "|")
	}
	file := filepath.Join(dir, "zoo.cfg")
	var env, args []string
	for _, v := range c.env {
		name, value, _ := strings.Cut(v, "=")
		env, file = append(env, name+"="+at(value)), ""
	}
	for _, a := range c.args {
		args = append(args, at(a))
	}
	cfg, warnings, err := config.Load(file, env, parseFlags(t, args...))
	for _, w := range warnings {
		outcome = append(outcome, "warning: "+short(w.String()))
	}
	if err != nil {
		return append(outcome, "error: "+short(err.Error()))
	}
	all := settingsOf(cfg)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if value := short(all[name]); value != plain[name] && name != "Dir" && name != "LogDir" || strings.Contains(value, "DIR/") {
			outcome = append(outcome, strings.TrimSpace(name+" "+value))
		}
	}
	return outcome
}
