package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/cobra"

	"rollcall/cli"
	"rollcall/client"
)

// commandsPage lists the groups of commands in the order in which their examples are run. The pages of the
// groups, in its directory, describe every command, and their help texts are those of the commands.
const commandsPage = "../../docs/commands.md"

// groupPage is the page of one group of commands.
type groupPage struct{ path, text string }

// groupPages returns the pages of the groups in the order of the index. The test fails if the directory has
// another page.
func groupPages(t *testing.T, index string) (list []groupPage) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^\| \[[^]]+\]\((commands/\w+\.md)\) \|`).FindAllStringSubmatch(index, -1) {
		path := filepath.Join(filepath.Dir(commandsPage), m[1])
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, groupPage{path, string(text)})
	}
	files, err := filepath.Glob(strings.TrimSuffix(commandsPage, ".md") + "/*.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(list) {
		t.Fatalf("%s lists %d pages, and its directory has %d", commandsPage, len(list), len(files))
	}
	return list
}

// readIndex returns the text of commandsPage.
func readIndex(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(commandsPage)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// notShared are the commands whose examples on the page are not run, because they run or stop members, read a
// terminal or a password, or take long. Other tests run them.
var notShared = []string{"up", "serve", "test-server", "health", "recover", "import", "export", "backup restore", "bench", "bench compare", "drill", "drill list", "drill heal", "drill hooks", "drain", "members add", "members remove", "members replace", "members address", "members promote", "members demote", "members drain", "members rebalance", "watch", "certs", "completion", "help", "hash", "proxy", "archive verify"}

// pageSession is the id of the session that holds /locks/backup on the page, and pageZxid the zxid with which it was created.
const (
	pageSession = "0x1000012f99a0001"
	pageZxid    = "0x100000003"
)

// Every command has a section with its help on the page of one group, and the index leads to it.
func TestCommandsPageHelp(t *testing.T) {
	index := readIndex(t)
	pages := groupPages(t, index)
	for _, cmd := range everyCommand(newRoot(cli.IOStreams{}), nil) {
		name := strings.TrimPrefix(cmd.CommandPath(), "rollcall ")
		at := slices.IndexFunc(pages, func(p groupPage) bool { return strings.Contains(p.text, "\n## rollcall "+name+"\n") })
		if at < 0 {
			t.Errorf("no page below %s has a section of %s", commandsPage, name)
			continue
		}
		page := &pages[at]
		if link := fmt.Sprintf("[`%s`](commands/%s#rollcall-%s)", name, filepath.Base(page.path), strings.ReplaceAll(name, " ", "-")); !strings.Contains(index, link) {
			t.Errorf("%s lacks %s", commandsPage, link)
		}
		page.help(t, name)
	}
	for _, page := range pages {
		if err := os.WriteFile(page.path, []byte(page.text), 0o600); *update && err != nil {
			t.Fatal(err)
		}
	}
}

// flagsOf names the command whose page has the flags that a command shares with it.
var flagsOf = map[string]string{
	"recover": "serve", "import": "serve", "export": "serve", "config check": "serve", "bench compare": "bench", "connections": "sessions",
	"members remove": "members add", "members replace": "members add", "members address": "members add", "members promote": "members add",
	"members demote": "members add", "members drain": "members add",
}

// flagsElsewhere are the commands of which the pages only name the flags. Other pages describe those that matter: bench.md, drills.md,
// proxy.md, nodes.md, configuration.md, testing.md, moving-in.md, restoring.md and security.md.
var flagsElsewhere = strings.Fields(`bench bench-compare drill drill-heal proxy shell test-server config-check export recover backup-restore hash
	ls get stat set acl sync tree du watch dump load rm`)

var (
	flagsOfHelp    = regexp.MustCompile(`(?m)^ {2,6}-(?:.*\n {8})*.*\n`) // a flag, with the lines that continue its text
	nameOfFlag     = regexp.MustCompile(`--[\w-]+`)
	examplesOfHelp = regexp.MustCompile(`\nExamples:\n(?:  .*\n)+`)
)

// helpForPage returns a command's help without what its page says elsewhere: the flags that are about the ensemble, -h, those of the
// command in flagsOf, the flags of those in flagsElsewhere, and the examples if the page has one.
func (p *groupPage) helpForPage(t *testing.T, name string) string {
	t.Helper()
	help, _, _ := strings.Cut(helpOf(t, name), "\nWhich ensemble, and how to print:\n") // these flags have a section of their own
	if strings.Contains(p.text, "\n    $ rollcall "+name) {
		help = examplesOfHelp.ReplaceAllString(help, "")
	}
	before, list, _ := strings.Cut(help, "\nFlags:\n")
	flags := flagsOfHelp.FindAllString(list, -1)
	flags = slices.DeleteFunc(flags, func(flag string) bool { return strings.HasPrefix(flag, "  -h, --help ") })
	if len(flags) == 0 {
		return before
	}
	others := ""
	if base := flagsOf[name]; base != "" {
		_, list, _ = strings.Cut(helpOf(t, base), "\nFlags:\n")
		shared := flagsOfHelp.FindAllString(list, -1)
		flags = slices.DeleteFunc(flags, func(flag string) bool {
			return slices.ContainsFunc(shared, func(s string) bool { return sameWords(flag, s) })
		})
		others = "  and those of rollcall " + base + "\n"
	}
	if slices.Contains(flagsElsewhere, strings.ReplaceAll(name, " ", "-")) {
		before, _, _ = strings.Cut(before, "\nCases:\n")
		return before + "\n" + namesOfFlags(name, flags) + others
	}
	return before + "\nFlags:\n" + strings.Join(flags, "") + others
}

// namesOfFlags returns a paragraph with the names of flags.
func namesOfFlags(command string, flags []string) string {
	const columns = 100
	line, text := "Flags (rollcall "+command+" -h):", ""
	for i, flag := range flags {
		name := nameOfFlag.FindString(flag)
		if i < len(flags)-1 {
			name += ","
		}
		if len(line)+len(" ")+len(name) > columns {
			line, text = "", text+line+"\n"
		} else {
			line += " "
		}
		line += name
	}
	return text + line + "\n"
}

func sameWords(one, other string) bool {
	return slices.Equal(strings.Fields(one), strings.Fields(other))
}

// help checks that the page has the help of a command. With -update it replaces the one that is there.
func (p *groupPage) help(t *testing.T, name string) {
	t.Helper()
	help := p.helpForPage(t, name)
	want := "    " + strings.ReplaceAll(strings.TrimSpace(help), "\n", "\n    ")
	want = regexp.MustCompile(`(?m) +$`).ReplaceAllString(want, "")
	// The block ends before the first example, a line that begins with "$ ".
	block := regexp.MustCompile(`(?m)^    rollcall ` + regexp.QuoteMeta(name) + `(?: \[.*| [A-Z].*)?\n(?:(?:    (?:[^$\n]|\$[^ \n]).*)?\n)*`)
	old := block.FindString(p.text)
	if strings.TrimRight(old, "\n") == want {
		return
	}
	if *update && old != "" {
		p.text = strings.Replace(p.text, old, want+"\n\n", 1)
		return
	}
	t.Errorf("%s lacks the help of %s:\n%s", p.path, name, want)
}

// everyCommand appends cmd's runnable descendants to list.
func everyCommand(cmd *cobra.Command, list []*cobra.Command) []*cobra.Command {
	for _, sub := range cmd.Commands() {
		if !sub.Hidden && !sub.HasSubCommands() || sub.Name() == "bench" || sub.Name() == "drill" {
			list = append(list, sub)
		}
		list = everyCommand(sub, list)
	}
	return list
}

func helpOf(t *testing.T, command string) string {
	t.Helper()
	var out bytes.Buffer
	if err := runCommand(t.Context(), append(strings.Fields(command), "-h"), nil, &out, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// example is a command line on a page, with the output that it shows.
type example struct{ line, output string }

var exampleBlock = regexp.MustCompile(`(?m)^    \$ (rollcall .*)\n((?:\n?    [^$\n].*\n)*)`) // an output may have an empty line

func examples(page string) (list []example) {
	for _, m := range exampleBlock.FindAllStringSubmatch(page, -1) {
		list = append(list, example{m[1], strings.ReplaceAll(strings.TrimPrefix(m[2], "    "), "\n    ", "\n")})
	}
	return list
}

// mostTries and tryAgain say how often a command that changes nothing is run again, and after which pause. At
// most a part of the commands, one of mostAgain, may need that.
const (
	mostTries = 20
	tryAgain  = 500 * time.Millisecond
	mostAgain = 4
)

// Every command that queries an ensemble has an example on the page of its group. The examples are run against
// an ensemble of three members, one after another, and print what the pages show, but for numbers.
func TestCommandsPageExamples(t *testing.T) {
	schemas, err := filepath.Abs("../../docs/commands.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	e := startUp(t)
	id, zxid := e.holdSession(t)
	var all []example
	for _, page := range groupPages(t, readIndex(t)) {
		all = append(all, examples(page.text)...)
	}
	t.Chdir(t.TempDir())
	for _, cmd := range everyCommand(newRoot(cli.IOStreams{}), nil) {
		name := cmd.CommandPath() + " "
		ours := func(x example) bool { return strings.HasPrefix(x.line+" ", name) }
		if !slices.Contains(notShared, strings.TrimPrefix(cmd.CommandPath(), "rollcall ")) && !slices.ContainsFunc(all, ours) {
			t.Errorf("no page below %s has an example of %s", commandsPage, name)
		}
	}
	ran, again := 0, 0
	for _, x := range all {
		if slices.ContainsFunc(notShared, func(name string) bool { return strings.HasPrefix(x.line+" ", "rollcall "+name+" ") }) {
			continue
		}
		line := strings.NewReplacer(pageSession, id, pageZxid, zxid, "127.0.0.1:2181", e.hosts[0]).Replace(x.line)
		out, err := e.run(t, line)
		// On a busy machine the members may have no leader for a moment, which knows when clients were heard.
		// A backup that fails leaves no file.
		saves := strings.HasPrefix(line, "rollcall backup save ")
		ran++
		for tries := 0; tries < mostTries && (err != nil && saves || changesNothing(line) != "" && (err != nil || !x.isLike(out))); tries++ {
			if tries == 0 {
				again++
			}
			time.Sleep(tryAgain)
			out, err = e.run(t, line)
		}
		if err != nil {
			t.Errorf("%s: %v", x.line, err)
			continue
		}
		if !x.isLike(out) {
			t.Errorf("%s prints\n%s\nwant as on the page\n%s\n%q\n%q", x.line, out, x.output, jsonShape(out), jsonShape(x.output))
		}
		e.checkJSON(t, schemas, line)
	}
	if again > ran/mostAgain {
		t.Errorf("%d of %d commands had to be run again, want %d at most", again, ran, ran/mostAgain)
	}
}

// isLike reports whether an output has the shape of the example's, if the page shows one.
func (x example) isLike(output string) bool {
	return x.output == "" || slices.Equal(jsonShape(output), jsonShape(x.output))
}

// readOnly are the commands that change nothing. Their examples are run again with -o json.
var readOnly = []string{"status", "members list", "backup inspect", "backup verify", "sessions", "session show", "who-owns", "connections", "watches", "config show", "config check", "ls", "get", "stat", "acl", "tree", "du", "quota", "sync", "version", "word", "changes", "diff"}

// changesNothing returns the command of readOnly in a command line, or "".
func changesNothing(line string) string {
	i := slices.IndexFunc(readOnly, func(name string) bool { return strings.HasPrefix(line+" ", "rollcall "+name+" ") })
	if i < 0 {
		return ""
	}
	return readOnly[i]
}

// checkJSON checks that a command line of the page prints JSON as its schema says.
func (e threeMembers) checkJSON(t *testing.T, schemas, line string) {
	t.Helper()
	command := changesNothing(line)
	if command == "" || strings.Contains(line, " -o ") && !strings.Contains(line, " -o json") {
		return
	}
	schema, err := jsonschema.NewCompiler().Compile(schemas + "#/$defs/" + strings.ReplaceAll(command, " ", "%20"))
	if err != nil {
		t.Fatal(err)
	}
	line = strings.ReplaceAll(line, " -o json", "") + " -o json"
	out, err := e.run(t, line)
	for tries := 0; tries < mostTries && err != nil; tries++ { // as with the output for people
		time.Sleep(tryAgain)
		out, err = e.run(t, line)
	}
	if err != nil {
		t.Errorf("%s: %v", line, err)
		return
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(out))
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		t.Errorf("%s: %v:\n%s", line, err, out)
	}
}

var (
	version  = regexp.MustCompile(`0\.1\.0-dev\S*`)
	duration = regexp.MustCompile(`\b(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+\b`)
	lastOp   = regexp.MustCompile(`\bping\b`) // of a client that has read a while ago
	number   = regexp.MustCompile(`0x[0-9a-f]+|\d+(?:\.\d+)?`)
	blanks   = regexp.MustCompile(` +`)
)

// jsonShape returns the lines of an output without what differs between two runs: numbers, lengths of time, which
// member leads, and whether a client has sent a ping since it read.
func jsonShape(text string) []string {
	for _, r := range []struct {
		pattern *regexp.Regexp
		by      string
	}{{version, "V"}, {duration, "T"}, {lastOp, "getData"}, {number, "N"}, {blanks, " "}} {
		text = r.pattern.ReplaceAllString(text, r.by)
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	slices.Sort(lines)
	return lines
}

// threeMembers is an ensemble in this process, as rollcall up runs them.
type threeMembers struct {
	hosts []string
	env   []string // ROLLCALL_HOSTS, and what up prints for commands that change something
}

// startUp runs rollcall up until the test ends, and returns when all members serve.
func startUp(t *testing.T) threeMembers {
	t.Helper()
	var exports string
	for range 20 {
		dir, base := t.TempDir(), 10_000+rand.IntN(18_000)
		ctx, stop := context.WithCancel(context.Background())
		out, ended := &lineTail{text: "to change something: export ", rest: make(chan string, 1)}, make(chan error, 1)
		go func() {
			ended <- runCommand(ctx, []string{"up", "--data", dir, "--ports", fmt.Sprintf("%d,%d,%d", base, base+1, base+2)}, nil, out, io.Discard)
		}()
		select {
		case err := <-ended:
			stop()
			if !errors.Is(err, syscall.EADDRINUSE) {
				t.Fatal(err)
			}
			continue
		case exports = <-out.rest:
		}
		t.Cleanup(func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		var e threeMembers
		for i := range 3 {
			e.hosts = append(e.hosts, net.JoinHostPort("127.0.0.1", fmt.Sprint(base+i)))
		}
		e.env = append(strings.Fields(exports), "ROLLCALL_HOSTS="+strings.Join(e.hosts, ","))
		e.awaitVotes(t)
		return e
	}
	t.Fatal("no free ports")
	return threeMembers{}
}

// lineTail passes on what follows text in the first line that has it.
type lineTail struct {
	text string
	rest chan string // has room for one
}

func (a *lineTail) Write(b []byte) (int, error) {
	if _, rest, ok := strings.Cut(string(b), a.text); ok {
		a.rest <- rest
	}
	return len(b), nil
}

// awaitVotes waits until every member has its vote. A member of a new ensemble serves clients a little
// earlier.
func (e threeMembers) awaitVotes(t *testing.T) {
	t.Helper()
	for range 1000 {
		if out, err := e.run(t, "rollcall status -o json"); err == nil && strings.Count(out, `"joining":false`)+strings.Count(out, `"joining": false`) == 3 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("a member is still joining")
}

// holdSession opens a session on member 1 that holds /locks/backup and watches /config, until the test ends. It
// returns its id, and the zxid with which /locks/backup was created.
func (e threeMembers) holdSession(t *testing.T) (session, zxid string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	c, err := client.Dial(ctx, e.hosts[0], client.Config{Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Abandon)
	for _, node := range []struct {
		path string
		mode client.Mode
	}{{"/locks", client.Persistent}, {"/config", client.Persistent}, {"/locks/backup", client.Ephemeral}} {
		_, stat, err := c.Create(ctx, node.path, []byte("retries=3"), node.mode)
		if err != nil {
			t.Fatal(err)
		}
		zxid = fmt.Sprintf("0x%x", stat.Created)
	}
	if _, _, _, err := c.GetWatch(ctx, "/config"); err != nil {
		t.Fatal(err)
	}
	id, _ := c.Session()
	return id.String(), zxid
}

// run runs a command line of the page, and returns its stdout. Words in quotes are one argument.
func (e threeMembers) run(t *testing.T, line string) (string, error) {
	t.Helper()
	var args []string
	for _, word := range regexp.MustCompile(`'[^']*'|\S+`).FindAllString(line, -1)[1:] {
		args = append(args, strings.Trim(word, "'"))
	}
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	var out, errs bytes.Buffer
	err := runCommand(ctx, args, e.env, &out, &errs)
	if errs.Len() > 0 {
		t.Logf("%s: %s", line, errs.String())
	}
	return out.String(), err
}
