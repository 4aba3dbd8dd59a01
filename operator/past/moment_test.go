package past_test

import (
	"strings"
	"testing"
	"time"

	"rollcall/operator/past"
)

// The forms of a moment, and what is wrong with others.
func TestParseMoment(t *testing.T) {
	now := time.Date(2026, 3, 1, 4, 0, 0, 0, time.UTC)
	for _, tt := range []struct{ text, want, err string }{
		{text: "0x100000002", want: "zxid 0x100000002"},
		{text: " 0X1F ", want: "zxid 0x1f"},
		{text: "0x7fffffffffffffff", want: "zxid 0x7fffffffffffffff"},
		{text: "2026-03-01T03:12:00Z", want: "2026-03-01T03:12:00.000Z"},
		{text: "2026-03-01 04:12:00.25+01:00", want: "2026-03-01T03:12:00.250Z"},
		{text: "10m ago", want: "2026-03-01T03:50:00.000Z"},
		{text: "1h30m", want: "2026-03-01T02:30:00.000Z"},
		{text: "2d ago", want: "2026-02-27T04:00:00.000Z"},
		{text: "1d2h ago", want: "2026-02-28T02:00:00.000Z"},
		{text: "0s ago", want: "2026-03-01T04:00:00.000Z"},
		{text: "2026-03-01T03:12:00", err: "no offset from UTC"},
		{text: "2026-03-01 03:12", err: "no offset from UTC"},
		{text: "2026-03-01", err: "no offset from UTC"},
		{text: "03:12", err: "no date"},
		{text: "03:12:05", err: "no date"},
		{text: "2026-03-01T04:00:01Z", err: "is after now: this machine's clock shows 2026-03-01T04:00:00.000Z"},
		{text: "-5m", err: "after now"},
		{text: "0x0", err: "no transaction has the zxid 0x0"},
		{text: "0x8000000000000000", err: "is not a zxid"},
		{text: "0x", err: "is not a zxid"},
		{text: "4294967298", err: "no 0x in front"},
		{text: "yesterday", err: "is no moment; a moment is a zxid (0x100000002)"},
		{text: "", err: "is no moment"},
		{text: "xd ago", err: "is no moment"},
		{text: "99999999999d", err: "is no moment"},
	} {
		m, err := past.ParseMoment(tt.text, now)
		switch {
		case tt.err == "" && (err != nil || m.String() != tt.want):
			t.Errorf("%q: %v, %v; want %s", tt.text, m, err, tt.want)
		case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("%q: %v, %v; want an error with %q", tt.text, m, err, tt.err)
		}
	}
}

// No text makes the parser panic, and every moment is one that can be printed and parsed again.
func FuzzParseMoment(f *testing.F) {
	now := time.Date(2026, 3, 1, 4, 0, 0, 0, time.UTC)
	for _, text := range []string{"0x1", "10m ago", "1d2h", "2026-03-01T03:12:00Z", "d", "9999d9999999h", "0x", "ago"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := past.ParseMoment(text, now)
		if err != nil {
			return
		}
		again, err := past.ParseMoment(strings.TrimPrefix(m.String(), "zxid "), now)
		if err != nil && !strings.Contains(err.Error(), "is no moment") || err == nil && again != m {
			t.Errorf("%q is %v, and again %v, %v", text, m, again, err)
		}
	})
}
