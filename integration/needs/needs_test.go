package needs

import (
	"strings"
	"testing"
)

// What is missing skips a test, and fails it with ROLLCALL_TESTS=all and nightly. A form that is not played never fails.
func TestMissing(t *testing.T) {
	gone := Need{what: "a unicorn", get: "breed one", there: func() bool { return false }}
	for _, tt := range []struct {
		tests         string
		skips, nights bool // whether what is missing skips a test, and whether the nightly form is played
	}{{"", true, false}, {"all", false, false}, {"nightly", false, true}} {
		t.Run("ROLLCALL_TESTS="+tt.tests, func(t *testing.T) {
			t.Setenv("ROLLCALL_TESTS", tt.tests)
			if gone.fails() == tt.skips || Nightly.there() != tt.nights || Nightly.fails() || Usual.fails() {
				t.Errorf("fails %t, nightly %t, want %+v", gone.fails(), Nightly.there(), tt)
			}
		})
	}
	if line := gone.String(); line != "needs a unicorn: breed one" || strings.Contains(line, "\n") {
		t.Error(line)
	}
}

func TestCheckSkips(t *testing.T) {
	t.Setenv("ROLLCALL_TESTS", "")
	here := Need{there: func() bool { return true }}
	var inner *testing.T
	t.Run("inner", func(t *testing.T) {
		inner = t
		Check(t, here, Need{what: "x", there: func() bool { return false }})
		panic("not reached")
	})
	if !inner.Skipped() {
		t.Error("a test that lacks something was not skipped")
	}
}
