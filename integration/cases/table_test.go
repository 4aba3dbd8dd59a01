package cases

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rollcall/integration/cluster"
)

// lastCase is the greatest number.
const lastCase = 384

// row is one numbered case. It sets exactly one of run, held and later.
type row struct {
	number  int
	name    string
	where   place // for run: where it makes sense
	run     func(s *stage)
	options cluster.Options
	held    string // the test elsewhere that covers it: "sessiontracker.TestQueueMoves"
	later   string // what Rollcall does not serve yet, so that the case cannot be played
	differs string // Rollcall differs from ZooKeeper on purpose: the row of docs/deviations.md, by its first cell
}

// rows are all cases, by group.
var rows = slices.Concat(handshake, arithmetic, alive, reconnect, closing, ephemerals, creating, sequential, stats, acls,
	watching, staying, again, multis, reading, kinds, ensembles, framing, operating, operators,
	scenarios, configuration)

func TestCases(t *testing.T) {
	for _, r := range rows {
		if r.run == nil {
			continue
		}
		name := fmt.Sprintf("%03d %s", r.number, r.name)
		if r.differs != "" {
			name += " (differs)"
		}
		t.Run(name, func(t *testing.T) { on(t, r.where, r.options, r.run) })
	}
}

// Every case has one row. It names the test of the case, or the feature that Rollcall has to serve first.
func TestEveryCaseHasARow(t *testing.T) {
	have := map[int]int{}
	var here, elsewhere, later, differ int
	for _, r := range rows {
		have[r.number]++
		switch run, held, waits := r.run != nil, r.held != "", r.later != ""; {
		case r.name == "" || (r.where != 0) != run:
			t.Errorf("case %d: a row has a name, and places if it runs here", r.number)
		case run && !held && !waits:
			here++
		case held && !run && !waits:
			elsewhere++
		case waits && !run && !held && mayWait(r.number):
			later++
		default:
			t.Errorf("case %d: a row runs here, or is held by a test elsewhere, or may wait", r.number)
		}
		if r.differs != "" {
			differ++
		}
	}
	for n := 1; n <= lastCase; n++ {
		if have[n] != 1 {
			t.Errorf("case %d has %d rows, want 1", n, have[n])
		}
		delete(have, n)
	}
	if len(have) > 0 {
		t.Errorf("rows for cases that do not exist: %v", slices.Sorted(maps.Keys(have)))
	}
	fmt.Printf("%d cases: %d run here, %d are held by tests elsewhere, %d wait; in %d Rollcall differs from ZooKeeper\n",
		lastCase, here, elsewhere, later, differ)
}

// mayWait reports whether a case need not run. Such a case concerns local sessions, which Rollcall does not serve.
// docs/deviations.md describes their replacement.
func mayWait(n int) bool {
	return n >= 306 && n <= 309
}

// A row that names a test of another package names one that exists.
func TestNamedTestsExist(t *testing.T) {
	there := map[string]map[string]bool{} // by directory
	for _, r := range rows {
		if r.held == "" {
			continue
		}
		directory, name := path.Split(r.held)
		pkg, name, _ := strings.Cut(name, ".")
		directory += pkg
		if there[directory] == nil {
			there[directory] = testsOf(t, directory)
		}
		if !there[directory][name] {
			t.Errorf("case %d: %s has no test %s", r.number, directory, name)
		}
	}
}

// testsOf returns the names of a package's tests.
func testsOf(t *testing.T, directory string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", directory, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("tests of %s: %v, %v", directory, files, err)
	}
	there := map[string]bool{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				there[f.Name.Name] = true
			}
		}
	}
	return there
}

// Every difference is documented for users.
func TestDifferencesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/deviations.md")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, " | "); strings.HasPrefix(line, "| ") && len(cells) > 2 {
			told[strings.TrimPrefix(cells[0], "| ")] = true
		}
	}
	for _, r := range rows {
		if r.differs != "" && !told[r.differs] {
			t.Errorf("case %d: docs/deviations.md has no row %q", r.number, r.differs)
		}
	}
}

// arithmetic is group B, tested in the package that implements it.
var arithmetic = []row{
	{number: 32, name: "two into ten", held: "sessiontracker.TestBucketArithmetic"},
	{number: 33, name: "a multiple goes to the next", held: "sessiontracker.TestBucketArithmetic"},
	{number: 34, name: "one after zero", held: "sessiontracker.TestBucketArithmetic"},
	{number: 35, name: "one before a multiple", held: "sessiontracker.TestBucketArithmetic"},
	{number: 36, name: "never down", held: "sessiontracker.TestBucketArithmetic"},
	{number: 37, name: "a tick late at most", held: "sessiontracker.TestBucketIsAfterDeadlineByATickAtMost"},
	{number: 38, name: "same bucket", held: "sessiontracker.TestQueueMoves"},
	{number: 39, name: "later bucket", held: "sessiontracker.TestQueueMoves"},
	{number: 40, name: "earlier bucket", held: "sessiontracker.TestQueueMoves"},
	{number: 41, name: "not due before the check point", held: "sessiontracker.TestPollTakesOneBucketAfterTheOther"},
	{number: 42, name: "one bucket", held: "sessiontracker.TestPollTakesOneBucketAfterTheOther"},
	{number: 43, name: "empty bucket", held: "sessiontracker.TestPollTakesOneBucketAfterTheOther"},
	{number: 44, name: "clock jump", held: "sessiontracker.TestPollTakesOneBucketAfterTheOther"},
	{number: 45, name: "closing is not touched", held: "sessiontracker.TestClosingStaysClosing"},
	{number: 46, name: "closing is not tracked again", held: "sessiontracker.TestAttachRevivesAndOpenDoesNot"},
}

// configuration is group U, tested in the package that implements it.
var configuration = []row{
	{number: 365, name: "two keys", held: "config.TestLoadCases"},
	{number: 366, name: "no tick", held: "config.TestLoadCases"},
	{number: 367, name: "no dataDir", held: "config.TestLoadCases"},
	{number: 368, name: "address without a port", held: "config.TestLoadCases"},
	{number: 369, name: "limits missing", held: "config.TestLoadCases"},
	{number: 370, name: "myid missing", held: "config.TestLoadCases"},
	{number: 371, name: "one server line", held: "config.TestLoadCases"},
	{number: 372, name: "two server lines", held: "config.TestLoadCases"},
	{number: 373, name: "only observers", held: "config.TestLoadCases"},
	{number: 374, name: "server line", held: "internal/serverlist.TestParseServer"},
	{number: 375, name: "observer line", held: "internal/serverlist.TestParseServer"},
	{number: 376, name: "wrong server lines", held: "internal/serverlist.TestParseServer"},
	{number: 377, name: "IPv6", held: "internal/serverlist.TestParseServer"},
	{number: 378, name: "two addresses", held: "internal/serverlist.TestParseServer"},
	{number: 379, name: "no boolean", held: "config.TestLoadCases"},
	{number: 380, name: "unknown key", held: "config.TestLoadCases"},
	{number: 381, name: "lines in two files", held: "config.TestLoadCases"},
	{number: 382, name: "odd keys in the dynamic file", held: "config.TestLoadCases"},
	{number: 383, name: "two client ports", held: "config.TestLoadCases"},
	{number: 384, name: "the image without variables", held: "config.TestDockerDefaults"},
}
