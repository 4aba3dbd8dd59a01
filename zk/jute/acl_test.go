package jute

import (
	"strings"
	"testing"
)

// Permissions are letters in ZooKeeper's order. A set that letters cannot express is a number.
func TestPerms(t *testing.T) {
	for _, tt := range []struct {
		text, want, letters string
		perms               Perm
	}{
		{"cdrwa", "cdrwa", "cdrwa", PermAll},
		{"awrdc", "cdrwa", "cdrwa", PermAll},
		{"dr", "dr", "dr", PermRead | PermDelete},
		{"", "0", "", 0},
	} {
		p, err := ParsePerms(tt.text)
		if err != nil || p != tt.perms || p.String() != tt.want || p.Letters() != tt.letters {
			t.Errorf("ParsePerms(%q) = %d, %v, in letters %q and as text %q; want %d, %q, %q",
				tt.text, int32(p), err, p.Letters(), p, int32(tt.perms), tt.letters, tt.want)
		}
	}
	if p := PermRead | 32; p.String() != "33" || p.Letters() != "r" {
		t.Errorf("33 is %q and %q, want 33 and r", p, p.Letters())
	}
	for _, text := range []string{"x", "rr", "é", "1", "R"} {
		if p, err := ParsePerms(text); err == nil || !strings.Contains(err.Error(), text) ||
			!strings.Contains(err.Error(), "must be letters of cdrwa, each once") {
			t.Errorf("ParsePerms(%q) = %v, %v", text, p, err)
		}
	}
}
