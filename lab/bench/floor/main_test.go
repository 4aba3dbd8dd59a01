package main

import (
	"io"
	"slices"
	"strings"
	"testing"
)

func TestParseFlags(t *testing.T) {
	cfg, err := parseFlags(strings.Fields("--member 2 --peers a:1,b:1 --data x"), io.Discard)
	if err != nil || cfg.Member != 2 || cfg.Data != "x" || !slices.Equal(cfg.Peers, []string{"a:1", "b:1"}) {
		t.Errorf("%+v, %v", cfg, err)
	}
	for line, want := range map[string]string{
		"":                                     "--peers names 0 members; must be 1 to 9",
		"--peers=a:1,b:1 --member=3 --data=x":  "--member 3 must be 1 to 2, the place of this member in --peers",
		"--peers=a:1,b:1 --data=x":             "--client host:port is missing: member 1 leads",
		"--peers=a:1 --data=x --client=a:2 go": `"go": it takes no arguments`,
		"--unknown":                            "not defined",
	} {
		if _, err := parseFlags(strings.Fields(line), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
}
