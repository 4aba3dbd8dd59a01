package report

import (
	"testing"

	"rollcall/lab/result"
)

// A time has its place between both ends of the axis, and one outside is at an end.
func TestPlaceOfATime(t *testing.T) {
	a := &timeAxis{span: 1000}
	for at, want := range map[result.Millis]px{-1: plotLeft, 0: plotLeft, 250: plotLeft + (plotRight-plotLeft)/4, 1000: plotRight, 1001: plotRight} {
		if got := a.xOf(at); got != want {
			t.Errorf("%v ms: %v, want %v", at, got, want)
		}
	}
}
