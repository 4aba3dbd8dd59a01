package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"rollcall/cli"
	"rollcall/member"
)

// withoutOutput are the commands that do not take -o with all formats, and why.
var withoutOutput = map[string]string{
	"up":            "prints events until Ctrl-C; the members are asked by other commands",
	"serve":         "prints the log, whose format logFormat chooses",
	"test-server":   "prints the connect string, and one line for each line that it reads",
	"proxy":         "has reports of its own: a table, a page and JSON",
	"drill":         "has reports of its own: a table, a page, JSON and JUnit XML",
	"drill hooks":   "prints a file, which --hooks reads",
	"bench":         "has reports of its own, as a table or as JSON",
	"bench compare": "has reports of its own, as a table, JSON or Markdown",
	"dump":          "its output is one JSON document, which load reads",
	"shell":         "prints what zkCli.sh prints",
	"certs":         "writes files, and prints their paths",
	"hash":          "prints one line, the value of a key or the id of an ACL",
}

// Every command takes -o with each format, and docs/commands.schema.json has the schema of its JSON. Those that do
// not are listed with the reason.
func TestEveryCommandTakesOutput(t *testing.T) {
	page, err := os.ReadFile("../../docs/commands.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schemas struct {
		Defs map[string]any `json:"$defs"`
	}
	if err := json.Unmarshal(page, &schemas); err != nil {
		t.Fatal(err)
	}
	used := 0
	for _, cmd := range everyCommand(newRoot(cli.IOStreams{}), nil) {
		name := strings.TrimPrefix(cmd.CommandPath(), "rollcall ")
		flag := cmd.Flags().Lookup("output")
		if withoutOutput[name] != "" {
			if used++; flag != nil && flag.Value.Type() == cli.NewOutput(cli.IOStreams{}).Type() {
				t.Errorf("%s takes -o, and is listed as a command that does not", name)
			}
			continue
		}
		for _, format := range []string{"table", "wide", "json", "yaml"} {
			if flag == nil || flag.Shorthand != "o" || flag.Value.Set(format) != nil {
				t.Errorf("%s does not take -o %s", name, format)
			}
		}
		if !hasSchema(schemas.Defs, name) {
			t.Errorf("docs/commands.schema.json lacks %s", name)
		}
	}
	if used != len(withoutOutput) {
		t.Errorf("of the %d commands without -o, %d exist", len(withoutOutput), used)
	}
}

// hasSchema reports whether a command has a schema, or one for each kind of argument.
func hasSchema(schemas map[string]any, command string) bool {
	for name := range schemas {
		if name == command || strings.HasPrefix(name, command+" ") {
			return true
		}
	}
	return false
}

// health, version and recover print JSON as their schemas say. The words of recover for people are then on stderr.
func TestProcessOutputsAsJSON(t *testing.T) {
	addr := answerWord(t, "Mode: follower\n")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"health", "--addr", addr}, `"role": "follower"`},
		{[]string{"version"}, `"version": "` + release + `"`},
	} {
		var out, errs strings.Builder
		if err := runCommand(t.Context(), append(slices.Clone(tt.args), "-o", "json"), nil, &out, &errs); err != nil {
			t.Fatal(err)
		}
		if fitsSchema(t, tt.args[0], out.String()); !strings.Contains(out.String(), tt.want) || errs.Len() > 0 {
			t.Errorf("%q printed %s%s, want %s", tt.args, out.String(), errs.String(), tt.want)
		}
	}
	text, err := json.Marshal(recoveryReport([]member.Finding{findingOf(1, 40, 3), {Server: member.Server{ID: 2, RaftAddr: "m2:3888"}, Err: os.ErrDeadlineExceeded}}))
	if err != nil {
		t.Fatal(err)
	}
	if fitsSchema(t, "recover", string(text)); !strings.Contains(string(text), `"index":40,"term":3,"written":null,"silent":""`) || !strings.Contains(string(text), `"silent":"i/o timeout"`) {
		t.Errorf("recover: %s", text)
	}
}

// fitsSchema checks that what a command printed with -o json is as its schema says.
func fitsSchema(t *testing.T, command, printed string) {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile("../../docs/commands.schema.json#/$defs/" + strings.ReplaceAll(command, " ", "%20"))
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(printed))
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		t.Errorf("%s: %v:\n%s", command, err, printed)
	}
}
