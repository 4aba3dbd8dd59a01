package jute

import (
	"slices"
	"strings"
	"testing"
)

// Each number has one text, which is parsed as a higher number than that of all before, and comes after them as text.
func TestSequenceIsInOrder(t *testing.T) {
	numbers := []int64{
		0, 1, 9, 10, MaxZooKeeperSequence - 1, MaxZooKeeperSequence, MaxZooKeeperSequence + 1, firstLongSequence - 1, firstLongSequence,
		firstLongSequence + 1, 1e10 - 1, 1e10, 123_456_789_012_345_678, MaxSequence - 1, MaxSequence,
	}
	var last string
	var lastParsed int64 = -1
	for i, number := range numbers {
		text := string(AppendSequence([]byte("n-"), number))
		if text <= last {
			t.Errorf("%d is %q, which comes before %q", number, text, last)
		}
		parsed, ok := ParseSequence(text[2:])
		if !ok || parsed <= lastParsed {
			t.Errorf("%q is parsed as %d, %t, after %d", text, parsed, ok, lastParsed)
		}
		if number < firstLongSequence && parsed != number {
			t.Errorf("%q is parsed as %d", text, parsed)
		}
		if !slices.Contains(SequenceLengths[:], len(text)-2) || (len(text)-2 == longSequenceDigits) != (number >= firstLongSequence) {
			t.Errorf("number %d of the list is %q", i, text)
		}
		if before, split, ok := SplitSequence(text); before != "n-" || split != parsed || !ok {
			t.Errorf("%q is split into %q and %d, %t", text, before, split, ok)
		}
		last, lastParsed = text, parsed
	}
	for number, want := range map[int64]string{
		7: "0000000007", 2147483647: "2147483647", 2147483648: "2147483648", 8999999999: "8999999999", 9000000000: "9000000009000000000", MaxSequence: "9223372036854775807",
	} {
		if got := string(AppendSequence(nil, number)); got != want {
			t.Errorf("%d is %s, want %s", number, got, want)
		}
	}
}

func TestParseSequenceRejects(t *testing.T) {
	for _, text := range []string{
		"", "0", "000000000", "00000000000", "9000000000", "000000000x", "-000000001", "+000000001", "0000000002147483648",
		"9223372036854775808", "9999999999999999999", "900000000900000000", "9000000008999999999", "90000000090000000000", "900000000900000000:",
	} {
		if number, ok := ParseSequence(text); ok {
			t.Errorf("%q is parsed as %d", text, number)
		}
		if number, ok := ParseSequence([]byte(text)); ok {
			t.Errorf("the bytes %q are parsed as %d", text, number)
		}
	}
}

func TestSplitSequence(t *testing.T) {
	for name, want := range map[string]string{
		"0000000007":                   "",
		"9000000009000000000":          "",
		"n-0000000007":                 "n-",
		"n-9000000009000000000":        "n-",
		"n-90000000090000000000":       "n-9000000009", // 20 digits
		"n-19000000010000000007":       "n-1900000001",
		"member-1234567890 0000000007": "member-1234567890 ",
		"n9123456780000000007":         "n",
		"n9999999999":                  "none",
		"n-9000000000000000007":        "n-900000000",
		"n-9000000008999999999":        "n-900000000",
		"n-":                           "none",
		"n-00000000x7":                 "none",
		"":                             "none",
	} {
		before, _, ok := SplitSequence(name)
		if !ok && before == name {
			before = "none"
		}
		if before != want || ok && strings.TrimPrefix(name, before) == "" {
			t.Errorf("%q is split after %q, %t, want %q", name, before, ok, want)
		}
	}
}
