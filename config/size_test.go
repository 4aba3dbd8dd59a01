package config

import "testing"

func TestParseSize(t *testing.T) {
	for value, want := range map[string]int64{
		"0": 0, "4096": 4096, "1k": 1 << 10, "2K": 2 << 10, "512M": 512 << 20,
		"6G": 6 << 30, "1t": 1 << 40, "1024T": 1 << 50, "": -1, "k": -1, "-1": -1, "-1k": -1, "+1": 1, "1.5G": -1, "1 G": -1,
		"1i": -1, "1b": -1, "1kk": -1, "1gt": -1, "3KB": -1, "4KiB": -1, "5mib": -1, "1025T": -1, "9223372036854775807G": -1, "9223372036854775808": -1, "1e3": -1,
	} {
		got, err := parseSize(value)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("parseSize(%q) = %d, want %d", value, got, want)
		}
	}
}

func TestSizeText(t *testing.T) {
	for n, want := range map[int64]string{1: "1", 1023: "1023", 1 << 10: "1K", 1025: "1025", 3 << 20: "3M", 1 << 50: "1024T"} {
		if got := sizeText(n); got != want {
			t.Errorf("sizeText(%d) = %s, want %s", n, got, want)
		}
	}
}
