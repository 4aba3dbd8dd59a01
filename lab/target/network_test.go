package target

import (
	"slices"
	"testing"
	"time"
)

func TestCutRules(t *testing.T) {
	peers := []string{"198.18.0.2", "198.18.0.3"}
	for _, tt := range []struct {
		fault Fault
		want  []string
	}{
		{Fault{}, []string{
			"add rule TABLE out ip daddr { 198.18.0.2, 198.18.0.3 } drop", "add rule TABLE in ip saddr { 198.18.0.2, 198.18.0.3 } drop",
		}},
		{Fault{OneWay: true}, []string{"add rule TABLE out ip daddr { 198.18.0.2, 198.18.0.3 } drop"}},
		{Fault{OneWay: true, Port: PeerPorts}, []string{
			"add rule TABLE out ip daddr { 198.18.0.2, 198.18.0.3 } tcp sport { 2888, 3888 } drop",
			"add rule TABLE out ip daddr { 198.18.0.2, 198.18.0.3 } tcp dport { 2888, 3888 } drop",
		}},
	} {
		if got := cutRules(tt.fault, peers); !slices.Equal(got, tt.want) {
			t.Errorf("%+v:\n%q\nwant\n%q", tt.fault, got, tt.want)
		}
	}
}

func TestPeers(t *testing.T) {
	p := &Processes{network: &network{subnet: "198.18.7"}}
	for i, name := range []string{"1", "2", "3"} {
		p.names, p.members = append(p.names, name), append(p.members, &member{id: i + 1})
	}
	for _, tt := range []struct {
		fault Fault
		want  []string
	}{
		{Fault{Member: "1"}, []string{"198.18.7.2", "198.18.7.3"}},
		{Fault{Member: "1", From: []string{"3"}, Client: true}, []string{"198.18.7.3", "198.18.7.254"}},
		{Fault{Member: "1", From: []string{}, Client: true}, []string{"198.18.7.254"}},
	} {
		if got := (networkFaults{p}).cutAddresses(tt.fault); !slices.Equal(got, tt.want) {
			t.Errorf("%v: %q, want %q", tt.fault, got, tt.want)
		}
	}
	if _, err := (networkFaults{p}).planCut(Fault{Member: "1", From: []string{}}, 1); err == nil {
		t.Error("a cut from nobody was planned")
	}
}

func TestSlowness(t *testing.T) {
	f := Fault{Delay: 1500 * time.Microsecond, Loss: 0.25, Rate: 1000}
	discipline, rules := slowArguments(f, true)
	want := []string{"netem", "limit", "10000", "delay", "1500us", "loss", "25.0000%", "rate", "8000bit"}
	if !slices.Equal(discipline, want) || rules != nil {
		t.Errorf("with netem: %q, %q; want %q", discipline, rules, want)
	}
	discipline, rules = slowArguments(f, false)
	want = []string{"tbf", "rate", "8000bit", "burst", "64kb", "latency", "1s"}
	lose := "ip saddr 198.18.0.0/15 numgen random mod 1000000 < 250000 drop"
	if !slices.Equal(discipline, want) || !slices.Equal(rules, []string{"add rule TABLE in " + lose, "add rule TABLE out " + lose}) {
		t.Errorf("without netem: %q, %q", discipline, rules)
	}
	from := []string{"add rule TABLE in ip saddr { 198.18.7.2, 198.18.7.3 } numgen random mod 1000000 < 300000 drop"}
	if got := lossFrom(0.3, []string{"198.18.7.2", "198.18.7.3"}); !slices.Equal(got, from) {
		t.Errorf("from two members: %q, want %q", got, from)
	}
}

func TestFlowsTo(t *testing.T) {
	const output = `0      0           198.18.7.1:2888       198.18.7.2:40000
0      0      [::ffff:198.18.7.1]:41000  [::ffff:198.18.7.3]:2888
0      0           198.18.7.1:2181     198.18.7.254:50000
0      0            127.0.0.1:8080        127.0.0.1:60000
`
	got := flowsTo(output, []string{"198.18.7.2", "198.18.7.3"})
	want := []string{"198.18.7.1 . 2888 . 198.18.7.2 . 40000", "198.18.7.1 . 41000 . 198.18.7.3 . 2888"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
