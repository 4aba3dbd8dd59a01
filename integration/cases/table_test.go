package cases

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"testing"

	"rollcall/integration/cluster"
)

// row is one numbered case.
type row struct {
	number  int
	name    string
	where   place // where it makes sense
	run     func(s *stage)
	options cluster.Options
	differs bool   // from ZooKeeper, on purpose
	unit    string // instead of run: the test of package sessiontracker that has it
}

// rows are all cases here, by group.
var rows = slices.Concat(handshake, arithmetic, alive, reconnect, closing, watching, staying, again, multis, kinds, operating)

func TestCases(t *testing.T) {
	for _, r := range rows {
		if r.run == nil {
			continue
		}
		name := fmt.Sprintf("%03d %s", r.number, r.name)
		if r.differs {
			name += " (differs)"
		}
		t.Run(name, func(t *testing.T) { on(t, r.where, r.options, r.run) })
	}
}

// Handshake, expiry arithmetic, keeping alive, closing, watches and four-letter words are
// covered without a gap.
func TestEveryCaseHasARow(t *testing.T) {
	have := map[int]int{}
	for _, r := range rows {
		have[r.number]++
		if (r.run == nil) == (r.unit == "") || (r.run != nil) != (r.where != 0) || r.name == "" {
			t.Errorf("case %d: a row has a name, and either places to run at or a test of sessiontracker", r.number)
		}
	}
	for _, span := range [][2]int{{1, 60}, {84, 98}, {195, 240}, {328, 342}} {
		for n := span[0]; n <= span[1]; n++ {
			if have[n] == 0 {
				t.Errorf("case %d has no row", n)
			}
		}
	}
	for n, times := range have {
		if times > 1 {
			t.Errorf("case %d has %d rows", n, times)
		}
	}
}

// arithmetic is tested where it is done.
var arithmetic = []row{
	{number: 32, name: "two into ten", unit: "TestBucketArithmetic"},
	{number: 33, name: "a multiple goes to the next", unit: "TestBucketArithmetic"},
	{number: 34, name: "one after zero", unit: "TestBucketArithmetic"},
	{number: 35, name: "one before a multiple", unit: "TestBucketArithmetic"},
	{number: 36, name: "never down", unit: "TestBucketArithmetic"},
	{number: 37, name: "a tick late at most", unit: "TestBucketIsAfterDeadlineByATickAtMost"},
	{number: 38, name: "same bucket", unit: "TestQueueMoves"},
	{number: 39, name: "later bucket", unit: "TestQueueMoves"},
	{number: 40, name: "earlier bucket", unit: "TestQueueMoves"},
	{number: 41, name: "not due before the check point", unit: "TestPollTakesOneBucketAfterTheOther"},
	{number: 42, name: "one bucket", unit: "TestPollTakesOneBucketAfterTheOther"},
	{number: 43, name: "empty bucket", unit: "TestPollTakesOneBucketAfterTheOther"},
	{number: 44, name: "clock jump", unit: "TestPollTakesOneBucketAfterTheOther"},
	{number: 45, name: "closing is not touched", unit: "TestClosingStaysClosing"},
	{number: 46, name: "closing is not tracked again", unit: "TestAttachRevivesAndOpenDoesNot"},
}

// A row that points to a test of sessiontracker points to one that is there.
func TestNamedTestsExist(t *testing.T) {
	files, err := filepath.Glob("../../sessiontracker/*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("tests of sessiontracker: %v, %v", files, err)
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
	for _, r := range rows {
		if r.unit != "" && !there[r.unit] {
			t.Errorf("case %d: sessiontracker has no test %s", r.number, r.unit)
		}
	}
}
