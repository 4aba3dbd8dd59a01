package peers

import (
	"maps"
	"slices"
	"testing"
)

// A run is compared with its row in both directions: what the row does not know, and what it says wrongly.
func TestDifferences(t *testing.T) {
	row := suite{passed: 2, leftOut: []exception{{"A.refused", "why"}, {"B.*", "why"}}}
	asTheRow := map[string]outcome{"A.one": passed, "A.two": passed, "A.refused": failed, "B.three": skipped, "B.four": failed}
	for _, tt := range []struct {
		name   string
		change func(map[string]outcome)
		want   []string
	}{
		{"as the row says", func(map[string]outcome) {}, nil},
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
