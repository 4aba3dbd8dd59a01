package admission

import (
	"testing"
	"time"
)

// seconds is a throttle with so many tokens, of which one comes back each second.
func seconds(tokens int, change func(*Throttle)) Throttle {
	t := Throttle{Tokens: tokens, FillTime: time.Second}
	if change != nil {
		change(&t)
	}
	return t
}

// ask is some handshakes at one time, and how many of them are let in.
type ask struct {
	after time.Duration // the ask before
	n     int
	of    SessionRequest
	in    int
}

// Each field of a Throttle does what its comment says.
func TestThrottle(t *testing.T) {
	always := func(t *Throttle) { t.Freeze, t.Increase, t.Decrease = time.Second, 0.5, 0.25 }
	tests := []struct {
		name   string
		cfg    Throttle
		chance float64
		asks   []ask
		drop   float64 // afterwards
		miss   int64
	}{
		{name: "off", asks: []ask{{n: 1000, in: 1000}, {n: 1000, of: ClaimedSession, in: 1000}}},
		{name: "a bucket", cfg: seconds(5, nil), asks: []ask{{n: 7, in: 5}}, miss: 5},
		{name: "filled one by one", cfg: seconds(5, nil), asks: []ask{{n: 5, in: 5}, {after: 999 * time.Millisecond, n: 1}, {after: time.Millisecond, n: 2, in: 1}}, miss: 5},
		{name: "time is not lost", cfg: seconds(5, nil), asks: []ask{{n: 5, in: 5}, {after: 1900 * time.Millisecond, n: 2, in: 1}, {after: 100 * time.Millisecond, n: 2, in: 1}}, miss: 5},
		{name: "filled faster", cfg: seconds(5, func(t *Throttle) { t.FillTime = 100 * time.Millisecond }), asks: []ask{{n: 5, in: 5}, {after: 350 * time.Millisecond, n: 5, in: 3}}, miss: 5},
		{name: "filled by more", cfg: seconds(5, func(t *Throttle) { t.FillCount = 2 }), asks: []ask{{n: 5, in: 5}, {after: time.Second, n: 5, in: 2}}, miss: 5},
		{name: "never more than full", cfg: seconds(5, func(t *Throttle) { t.FillCount = maxThrottleNumber }), asks: []ask{{n: 5, in: 5}, {after: 1000 * time.Hour, n: 7, in: 5}}, miss: 5},
		{name: "defaults", cfg: Throttle{Tokens: 2}, asks: []ask{{n: 3, in: 2}, {after: time.Millisecond, n: 2, in: 1}}, miss: 2},
		{name: "resumed sessions on credit", cfg: seconds(5, nil), asks: []ask{{n: 6, in: 5}, {n: 7, of: KnownSession, in: 5}}, miss: 10},
		{name: "no new session before the debt is paid", cfg: seconds(2, nil), asks: []ask{{n: 4, of: KnownSession, in: 4}, {after: 2 * time.Second, n: 1}, {n: 1, of: KnownSession, in: 1}, {after: 2 * time.Second, n: 2, in: 1}}, miss: 2},
		{name: "no credit for a claim", cfg: seconds(5, nil), asks: []ask{{n: 5, in: 5}, {n: 1, of: ClaimedSession}}, miss: 5},
		{name: "weights", cfg: seconds(2, func(t *Throttle) { t.Weighted = true }), asks: []ask{{n: 1, in: 1}, {n: 2, of: ClaimedSession, in: 1}, {after: time.Second, n: 2, in: 1}}, miss: 5},
		{name: "other weights", cfg: seconds(2, func(t *Throttle) { t.Weighted, t.GlobalWeight, t.RenewWeight = true, 10, 1 }), asks: []ask{{n: 1, in: 1}, {n: 11, of: ClaimedSession, in: 10}, {after: time.Second, n: 3, of: ClaimedSession, in: 3}}, miss: 13},
		{name: "weights that are off", cfg: seconds(2, func(t *Throttle) { t.GlobalWeight, t.RenewWeight = 10, 10 }), asks: []ask{{n: 3, in: 2}}, miss: 2},
		{name: "an earlier time adds nothing", cfg: seconds(5, nil), asks: []ask{{n: 5, in: 5}, {after: 2 * time.Second, n: 2, in: 2}, {after: -time.Second, n: 1, of: KnownSession, in: 1}, {after: time.Second, n: 1}}, miss: 6},
		{name: "the chance stays while there is a token", cfg: seconds(2, always), chance: 0.75, asks: []ask{{n: 2, in: 2}, {after: 1001 * time.Millisecond, n: 1, in: 1}, {after: 500 * time.Millisecond, n: 1}}, miss: 2},
		{name: "the chance grows in steps", cfg: seconds(1, func(t *Throttle) { always(t); t.FillTime = time.Hour }), chance: 0.99, asks: []ask{{n: 1, in: 1}, {after: 1001 * time.Millisecond, n: 5}, {after: 999 * time.Millisecond, n: 1}}, drop: 0.5, miss: 1},
		{name: "the chance is 1 at most", cfg: seconds(1, func(t *Throttle) { always(t); t.FillTime = time.Hour }), chance: 0.99, asks: []ask{{n: 1, in: 1}, {after: 1001 * time.Millisecond, n: 1}, {after: 1001 * time.Millisecond, n: 1}, {after: 1001 * time.Millisecond, n: 1}}, drop: 1, miss: 1},
		{name: "refused by chance", cfg: seconds(2, func(t *Throttle) { always(t); t.FillTime = 1500 * time.Millisecond }), chance: 0.49, asks: []ask{{n: 2, in: 2}, {after: 1001 * time.Millisecond, n: 1}, {after: 900 * time.Millisecond, n: 1}, {n: 1, of: KnownSession, in: 1}}, drop: 0.5, miss: 2},
		{name: "the chance falls when the bucket is full", cfg: seconds(1, func(t *Throttle) { always(t); t.FillTime = 1500 * time.Millisecond }), chance: 0.3, asks: []ask{{n: 1, in: 1}, {after: 1001 * time.Millisecond, n: 1}, {after: 1001 * time.Millisecond, n: 1, in: 1}}, drop: 0.25, miss: 1},
		{name: "the chance falls before", cfg: seconds(4, func(t *Throttle) { always(t); t.FillTime, t.Ratio = 1500*time.Millisecond, 0.5 }), chance: 0.49, asks: []ask{{n: 4, in: 4}, {after: 1001 * time.Millisecond, n: 1}, {after: 2 * time.Second, n: 1, in: 1}}, drop: 0.25, miss: 3},
		{name: "the chance stays before the ratio", cfg: seconds(4, func(t *Throttle) { always(t); t.FillTime = 1500 * time.Millisecond }), chance: 0.49, asks: []ask{{n: 4, in: 4}, {after: 1001 * time.Millisecond, n: 1}, {after: 2 * time.Second, n: 1}}, drop: 0.5, miss: 2},
		{name: "the chance is 0 at least", cfg: seconds(4, always), asks: []ask{{after: 2 * time.Second, n: 1, in: 1}}, miss: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.cfg.SetDefaultsAndCheck(); err != nil {
				t.Fatal(err)
			}
			now := time.Now()
			b := NewSessionThrottle(tt.cfg, now)
			b.SetRandomForTest(func() float64 { return tt.chance })
			for i, a := range tt.asks {
				now = now.Add(a.after)
				in := 0
				for range a.n {
					if b.Admit(a.of, now) {
						in++
					}
				}
				if in != a.in {
					t.Errorf("ask %d: %d of %d let in, want %d", i+1, in, a.n, a.in)
				}
			}
			if drop, miss := b.DropChanceAndMissing(now); drop != tt.drop || miss != tt.miss {
				t.Errorf("chance %v and %d tokens missing, want %v and %d", drop, miss, tt.drop, tt.miss)
			}
		})
	}
}

func TestThrottleChecksConfig(t *testing.T) {
	for name, cfg := range map[string]Throttle{
		"negative":        {Tokens: -1},
		"too many":        {Tokens: maxThrottleNumber + 1},
		"above 1":         {Increase: 1.5},
		"no number":       {Ratio: 0 / zero},
		"negative time":   {FillTime: -1},
		"negative freeze": {Freeze: -1},
	} {
		if cfg.SetDefaultsAndCheck() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// zero makes a NaN.
var zero = 0.0
