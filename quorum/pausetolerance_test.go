package quorum

import (
	"testing"
	"time"
)

func TestPauseTolerance(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	type pause struct {
		at     time.Duration // since the beginning
		length time.Duration
	}
	tests := []struct {
		name   string
		pauses []pause
		at     time.Duration
		want   time.Duration
	}{
		{"without pauses", nil, 0, 400 * ms},
		{"short ones change nothing", []pause{{0, 60 * ms}, {1, 320 * ms}}, 2, 400 * ms},
		{"a pause that comes close widens it by a quarter more", []pause{{0, 360 * ms}}, 1, 450 * ms},
		{"a shorter one afterwards changes nothing", []pause{{0, 400 * ms}, {1, 340 * ms}}, 2, 500 * ms},
		{"a longer one widens it further", []pause{{0, 400 * ms}, {1, 480 * ms}}, 2, 600 * ms},
		{"never beyond twice the usual one", []pause{{0, 700 * ms}}, 1, 800 * ms},
		{"up to the longest pause that would have been tolerated", []pause{{0, 800 * ms}}, 1, 800 * ms},
		{"a longer pause teaches nothing", []pause{{0, 801 * ms}, {1, time.Minute}}, 2, 400 * ms},
		{"for an hour nothing narrows", []pause{{0, 640 * ms}}, time.Hour - 1, 800 * ms},
		{"half of it after an hour", []pause{{0, 640 * ms}}, time.Hour, 600 * ms},
		{"a quarter after two", []pause{{0, 640 * ms}}, 2 * time.Hour, 500 * ms},
		{"nothing after six", []pause{{0, 640 * ms}}, 6 * time.Hour, 400 * ms},
		{"a pause that needs it keeps it", []pause{{0, 640 * ms}, {time.Hour, 640 * ms}}, 2*time.Hour - 1, 800 * ms},
		{"what is needed an hour later is less", []pause{{0, 640 * ms}, {2 * time.Hour, 440 * ms}}, 2 * time.Hour, 550 * ms},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			p := newPauseTolerance(300 * ms)
			for _, one := range tt.pauses {
				p.notePause(begin.Add(one.at), one.length)
			}
			if got := p.at(begin.Add(tt.at)); got != tt.want {
				t.Errorf("tolerates %v, want %v", got, tt.want)
			}
		})
	}
}

// A follower gives up as its leader does if nothing has widened the tolerance, and never later than raft's own timer.
func TestTimeoutsFitTogether(t *testing.T) {
	t.Parallel()
	for _, heartbeat := range []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, time.Second, time.Minute} {
		p := newPauseTolerance(heartbeat)
		if usual := p.usual + heartbeatGap(heartbeat); usual != leaseTimeout(heartbeat) {
			t.Errorf("H %v: a follower gives up after %v, its leader after %v", heartbeat, usual, leaseTimeout(heartbeat))
		}
		if longest := p.longest + heartbeatGap(heartbeat); longest > 3*heartbeat || longest >= longestSilence(heartbeat) {
			t.Errorf("H %v: a follower waits up to %v, want at most %v, and less than %v",
				heartbeat, longest, 3*heartbeat, longestSilence(heartbeat))
		}
	}
}
