package group

import (
	"strings"
	"testing"
)

// The node of a sequential Presence is known by its id, whatever form its number has.
func TestIDInPath(t *testing.T) {
	const id = "01234567890123456789"
	p := &Presence{prefix: "/g/member_"}
	for number, want := range map[string]bool{
		"0000000007": true, "2147483648": true, "8999999999": true, "9000000009000000000": true,
		"": false, "7": false, "9999999999": false, "0000000009000000000": false, "-2147483648": false, "000000000x": false,
	} {
		if got, ok := p.idIn("/g/member_" + id + number); ok != want || ok && got != id {
			t.Errorf("number %q: %q, %t", number, got, ok)
		}
	}
	for _, path := range []string{"/g/other_" + id + "0000000007", "/g/member_x" + id[1:] + "0000000007", "/g/member_" + strings.Repeat("1", 19)} {
		if id, ok := p.idIn(path); ok {
			t.Errorf("%s has the id %q", path, id)
		}
	}
}
