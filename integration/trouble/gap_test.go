package trouble

import (
	"testing"
	"time"
)

func TestLongestGap(t *testing.T) {
	at := func(seconds float64) time.Time { return time.Unix(0, int64(seconds*float64(time.Second))) }
	var acks []ack
	for _, seconds := range []float64{1, 2, 4, 4.5, 9} {
		acks = append(acks, ack{at(seconds - 0.25), at(seconds)})
	}
	for _, tt := range []struct{ begin, end, want float64 }{
		{1.5, 4.6, 2},     // between two acknowledgements in the time
		{3, 4.6, 2},       // it began before
		{4.4, 8, 3.5},     // it has not ended
		{0.5, 1.5, 0.5},   // nothing was acknowledged before
		{9.5, 12, 3},      // nothing was acknowledged in the time
		{4.25, 4.75, 0.5}, // a short time
	} {
		if got := longestGap(acks, at(tt.begin), at(tt.end)); got.Seconds() != tt.want {
			t.Errorf("from %v to %v: %v s, want %v", tt.begin, tt.end, got.Seconds(), tt.want)
		}
	}
	w := &writer{acks: acks}
	if got := w.percentile(0.99, at(0), at(10)); got != 250*time.Millisecond {
		t.Errorf("percentile: %v", got)
	}
}
