package jute

import "testing"

func TestHistoryText(t *testing.T) {
	for _, h := range []History{{"ab", 0, 0}, {"ab", 1<<32 + 5, 1 << 32}, {"c0ffee", NoHistory, NoHistory}} {
		if got, ok := ParseHistory(h.Text()); got != h || !ok {
			t.Errorf("%q is %v, %t, want %v", h.Text(), got, ok, h)
		}
	}
	if got, ok := ParseHistory("ensemble=ab\nsince=0x10\nlater=1\n"); got != (History{"ab", 16, NoHistory}) || !ok {
		t.Errorf("with another line: %v, %t", got, ok)
	}
	for _, text := range []string{
		"", "\n", "ensemble=\nsince=0x1\n", "since=0x1\nensemble=ab\n", "ensemble=ab", "ensemble=ab\nsince=", "ensemble=ab\nsince=-1\n",
		"ensemble=ab\nsince=0x10000000000000000\n", "ensemble=ab\nsince=soon\n", "ensemble=ab\nsince=0x1\nacls=soon\n",
	} {
		if got, ok := ParseHistory(text); ok {
			t.Errorf("%q is %v", text, got)
		}
	}
}
