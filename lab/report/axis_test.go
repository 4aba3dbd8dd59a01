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

// A bar ends where its text ends, if that is right of it.
func TestRightEndOfABar(t *testing.T) {
	for _, tt := range []struct {
		b    bar
		want px
	}{
		{bar{X: 10, Width: 500, TextX: 15, Text: "ab"}, 510},
		{bar{X: 10, Width: 20, TextX: 34, Text: "ab"}, 34 + 2*charWidth},
		{bar{X: 10, Width: 20}, 30},
	} {
		if got := tt.b.rightEnd(); got != tt.want {
			t.Errorf("%+v ends at %v, want %v", tt.b, got, tt.want)
		}
	}
}
