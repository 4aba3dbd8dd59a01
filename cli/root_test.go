package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"rollcall/config"
)

// testWorld returns surroundings of which out and errs get the output. No member that runs on this machine is
// found in them: nothing listens at port 1.
func testWorld(env ...string) (w IOStreams, out, errs *bytes.Buffer) {
	out, errs = new(bytes.Buffer), new(bytes.Buffer)
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	return IOStreams{
		In: strings.NewReader(""), Out: out, Err: errs, Env: env, Now: func() time.Time { return now },
		LocateMember: config.LocateMember, adminPort: "1",
	}, out, errs
}

// Flags work with one dash and with two. Values, arguments and words after "--" stay as they are.
func TestDashes(t *testing.T) {
	root := &cobra.Command{Use: "rollcall", Version: "1"}
	sub := &cobra.Command{Use: "sub", Run: func(*cobra.Command, []string) {}}
	deep := &cobra.Command{Use: "deep", Run: func(*cobra.Command, []string) {}}
	sub.Flags().StringP("output", "o", "", "")
	sub.Flags().BoolP("verbose", "v", false, "")
	sub.Flags().String("addr", "", "")
	deep.Flags().Bool("yes", false, "")
	sub.AddCommand(deep)
	root.AddCommand(sub)
	for _, tt := range []struct{ line, want string }{
		{"sub -addr x", "sub --addr x"},
		{"sub --addr x", "sub --addr x"},
		{"sub -addr=x -v", "sub --addr=x -v"},
		{"sub --v --o=json", "sub -v -o=json"},
		{"sub --o json -addr -addr", "sub -o json --addr -addr"},
		{"sub -vo json", "sub -vo json"}, // letters together
		{"sub -verbose=false x", "sub --verbose=false x"},
		{"sub -addr deep -yes", "sub --addr deep -yes"}, // deep is a value, and sub has no flag yes
		{"sub deep -yes", "sub deep --yes"},
		{"sub x deep -yes", "sub x deep -yes"}, // deep is an argument
		{"sub -help", "sub --help"},
		{"-version", "--version"},
		{"sub -- -addr", "sub -- -addr"},
		{"sub - -addr", "sub - --addr"},
		{"__complete sub -addr", "__complete sub -addr"},
		{"nothing -addr", "nothing -addr"},
		{"", ""},
	} {
		if got := normalizeDashes(root, strings.Fields(tt.line)); strings.Join(got, " ") != tt.want || got == nil {
			t.Errorf("%s: %q, want %s", tt.line, got, tt.want)
		}
	}
}

// A command line that is wrong ends with status 2, and an error that says what is allowed.
func TestWrongUse(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"destroy", `unknown command "destroy"; rollcall help lists them`},
		{"hasha x", `unknown command "hasha"; did you mean hash? rollcall help lists all of them`},
		{"gradual --admin http://a:1", `unknown command "gradual"; rollcall help lists them`},
		{"stauts --json", `unknown command "stauts"; did you mean stat or status? rollcall help lists all of them`},
		{"members lst --admin http://a:1", `members: unknown command "lst"; did you mean list? rollcall members -h lists all of them`},
		{"backup foo --file x", `backup: unknown command "foo"; rollcall backup -h lists them`},
		{"session kil --all", `session: unknown command "kil"; did you mean kill? rollcall session -h lists all of them`},
		{"status --json", "status: unknown flag: --json; did you mean -o json? rollcall status -h lists its flags"},
		{"support-bundle a b", `support-bundle: unexpected argument "b"; it takes at most one file, for the archive`},
		{"support-bundle a --out b", "support-bundle: FILE and --out both name the archive; leave one out"},
		{"hash -x", "hash: unknown shorthand flag: 'x' in -x; rollcall hash -h lists its flags"},
		{"hash --why", "hash: unknown flag: --why; rollcall hash -h lists its flags"},
		{"sessions --limt 3", "sessions: unknown flag: --limt; did you mean --limit? rollcall sessions -h lists its flags"},
		{"sessions -limt=3", "sessions: unknown shorthand flag: 'l' in -limt=3; did you mean --limit? rollcall sessions -h lists its flags"},
		{"sessions --host a:1", "sessions: unknown flag: --host; did you mean --hosts or --sort? rollcall sessions -h lists its flags"},
		{"sessions --toke a", "sessions: unknown flag: --toke; did you mean --token-file? rollcall sessions -h lists its flags"},
		{"sessions --limxyt a", "sessions: unknown flag: --limxyt; did you mean --limit? rollcall sessions -h lists its flags"},
		{"sessions --lixyzt a", "sessions: unknown flag: --lixyzt; rollcall sessions -h lists its flags"}, // three letters are too many
		{"sessions --xy", "sessions: unknown flag: --xy; rollcall sessions -h lists its flags"},
		{"status --servers x", `--hosts: "x" has no port; must be host:port`}, // an alias
		{"status -servers x", `--hosts: "x" has no port; must be host:port`},
	} {
		w, out, _ := testWorld()
		_, err := Execute(t.Context(), NewRoot(w, "1"), strings.Fields(tt.line))
		if StatusOf(err) != UsageError || err.Error() != tt.want || out.Len() > 0 {
			t.Errorf("%s: %v (status %d), want %s; printed %q", tt.line, err, StatusOf(err), tt.want, out)
		}
	}
}

// Each command is in a group, and its description begins in lower case and ends without a full stop.
func TestCommandsAreDescribed(t *testing.T) {
	w, out, _ := testWorld()
	root := NewRoot(w, "1")
	if _, err := Execute(t.Context(), root, []string{"help"}); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range root.Commands() {
		grouped := slices.ContainsFunc(commandGroups, func(g *cobra.Group) bool { return g.ID == cmd.GroupID })
		if !grouped || !strings.Contains(out.String(), "  "+cmd.Name()+"  ") && !strings.Contains(out.String(), cmd.Short) {
			t.Errorf("%s is in group %q; the help:\n%s", cmd.Name(), cmd.GroupID, out)
		}
		if cmd.Short != strings.ToLower(cmd.Short[:1])+strings.TrimSuffix(cmd.Short, ".")[1:] {
			t.Errorf("%s: %q", cmd.Name(), cmd.Short)
		}
	}
}

// The scripts for completion are printed for three shells.
func TestCompletion(t *testing.T) {
	w, out, _ := testWorld()
	for _, shell := range []string{"bash", "zsh", "fish"} {
		out.Reset()
		if _, err := Execute(t.Context(), NewRoot(w, "1"), []string{"completion", shell}); err != nil || !strings.Contains(out.String(), "rollcall") {
			t.Errorf("%s: %v, %d bytes", shell, err, out.Len())
		}
	}
}
