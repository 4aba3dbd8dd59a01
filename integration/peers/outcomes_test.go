package peers

import (
	"maps"
	"slices"
	"testing"
)

// A run is compared with its row in both directions: what the row does not know, and what it says wrongly.
func TestDifferences(t *testing.T) {
	row := suite{passed: 2, leftOut: []exception{{"A.refused", "why"}, {"B.*", "why"}}, flaky: []exception{{"A.race", "why"}}}
	asTheRow := map[string]outcome{
		"A.one": passed, "A.two": passed, "A.race": failed, "A.refused": failed, "B.three": skipped, "B.four": failed,
	}
	for _, tt := range []struct {
		name   string
		change func(map[string]outcome)
		want   []string
	}{
		{"as the row says", func(map[string]outcome) {}, nil},
		{"a race won", func(o map[string]outcome) { o["A.race"] = passed }, nil},
		{"no race", func(o map[string]outcome) { delete(o, "A.race") }, []string{"no test is called A.race, which the row leaves out"}},
		{"fails", func(o map[string]outcome) { o["A.one"] = failed }, []string{"A.one failed, and the row does not say why", "1 tests passed, and the row says 2"}},
		{"skipped", func(o map[string]outcome) { o["A.one"] = skipped }, []string{"A.one skipped, and the row does not say why", "1 tests passed, and the row says 2"}},
		{"passes now", func(o map[string]outcome) { o["A.refused"] = passed }, []string{"A.refused passes, and the row says that it does not"}},
		{"gone", func(o map[string]outcome) { delete(o, "A.refused") }, []string{"no test is called A.refused, which the row leaves out"}},
		{"lost", func(o map[string]outcome) { delete(o, "A.two") }, []string{"1 tests passed, and the row says 2"}},
		{"new", func(o map[string]outcome) { o["C.new"] = passed }, []string{"3 tests passed, and the row says 2"}},
	} {
		outcomes := maps.Clone(asTheRow)
		tt.change(outcomes)
		if got := row.differences(outcomes); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A test of pytest whose end fails has failed, whatever its body did.
func TestParseJUnit(t *testing.T) {
	got, err := parseJUnit([]byte(`<testsuites><testsuite><testcase classname="k.t.A" name="one"/><testcase classname="A" name="two"><failure/></testcase>
<testcase classname="A" name="two"/><testcase classname="A" name="three"><skipped/></testcase><testcase classname="A" name="one"><error/></testcase></testsuite></testsuites>`))
	want := map[string]outcome{"A.one": failed, "A.two": failed, "A.three": skipped}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

// JUnit writes a suite alone, and a method with its parentheses.
func TestParseJUnitOfJava(t *testing.T) {
	got, err := parseJUnit([]byte(`<testsuite><testcase classname="o.a.z.T" name="one()"/>
<testcase classname="o.a.z.T" name="two(int)[1]"><failure/></testcase></testsuite>`))
	if want := map[string]outcome{"T.one": passed, "T.two(int)[1]": failed}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

// CppUnit lists the tests that passed and those that failed.
func TestParseCppUnit(t *testing.T) {
	got, err := parseCppUnit("mt", []byte(`<?xml version="1.0" encoding='ISO-8859-1' standalone='yes' ?>
<TestRun><FailedTests><FailedTest id="2"><Name>A::two</Name><Message>- Expected: 0</Message></FailedTest></FailedTests>
<SuccessfulTests><Test id="1"><Name>A::one</Name></Test></SuccessfulTests></TestRun>`))
	if want := map[string]outcome{"mt.A.one": passed, "mt.A.two": failed}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

// The parts that run again are the ones whose tests failed, and a part that gave no outcomes of its tests.
func TestPartsOf(t *testing.T) {
	all := []string{"mt.A", "mt.AB", "st"}
	for _, tt := range []struct{ tests, want []string }{
		{nil, all},
		{[]string{"mt.A.one", "st.B.two"}, []string{"mt.A", "st"}},
		{[]string{"mt.AB"}, []string{"mt.AB"}},
	} {
		if got := partsOf(all, tt.tests); !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.tests, got, tt.want)
		}
	}
}

// A test that ran again has its second outcome. One that did not run has failed, and a part that had no tests may have some.
func TestRepeat(t *testing.T) {
	outcomes := map[string]outcome{"A.one": failed, "A.two": passed, "A.three": failed, "B": failed, "C": failed}
	repeat(outcomes, []string{"A.one", "A.three", "B", "C"}, map[string]outcome{
		"A.one": passed, "A.two": failed, "B.one": passed, "B.two": failed, "C": failed,
	})
	want := map[string]outcome{"A.one": passed, "A.two": passed, "A.three": failed, "B.one": passed, "B.two": failed, "C": failed}
	if !maps.Equal(outcomes, want) {
		t.Errorf("%v, want %v", outcomes, want)
	}
}

// Parts run at the same time, and their outcomes are together at the end.
func TestInParts(t *testing.T) {
	got, out := inParts([]string{"A", "B", "C", "D"}, func(part string) (map[string]outcome, string) {
		if part == "C" {
			return map[string]outcome{"C.one": failed}, "printed by C"
		}
		return map[string]outcome{part + ".one": passed}, "printed"
	})
	want := map[string]outcome{"A.one": passed, "B.one": passed, "C.one": failed, "D.one": passed}
	if !maps.Equal(got, want) || out != "C:\nprinted by C\n" {
		t.Errorf("%v, %q, want %v and what C printed", got, out, want)
	}
}

// Tests with one reason have one line, and so have classes that do not run.
func TestRow(t *testing.T) {
	s := suite{
		name: "x", origin: "o", version: "1", passed: 3,
		leftOut: []exception{{"A", "why"}, {"B", "why"}, {"C", "other"}}, notRun: []exception{{"D.*", "third"}, {"E", "fourth"}},
	}
	if got, want := s.row(), "| x | o | 1 | 3 | `A`, `B`: why.<br>`C`: other |\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := s.listNotRun(), "\nThese tests of x do not run:\n\n* `D.*`: third\n* `E`: fourth\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A Go test that began and did not end has failed. Subtests do not count, and what a server prints is no event.
func TestParseGoTest(t *testing.T) {
	got := parseGoTest([]byte(`{"Action":"run","Test":"TestOne"}
{"Action":"run","Test":"TestOne/sub"}
{"Action":"fail","Test":"TestOne/sub"}
{"Action":"pass","Test":"TestOne"}
server is ready
{"Action":"run","Test":"TestTwo"}
{"Action":"skip","Test":"TestTwo"}
{"Action":"run","Test":"TestThree"}
{"Action":"fail"}
`))
	want := map[string]outcome{"TestOne": passed, "TestTwo": skipped, "TestThree": failed}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Tests that failed are run again without the others.
func TestNarrowed(t *testing.T) {
	got := narrowed([]string{"-k", "not Zake", "pkg.tests"}, []string{"A.one", "B.two"})
	if want := []string{"--pyargs", "-k", "(A and one) or (B and two)", "pkg.tests"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
