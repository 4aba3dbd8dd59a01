package main

import (
	"bytes"
	"strings"
	"testing"

	"rollcall/cli"
)

// The name of a command stands once before its error.
func TestNameStandsOnce(t *testing.T) {
	for _, line := range []string{
		"bench", "bench get --hosts 127.0.0.1:1", "bench put --hosts 127.0.0.1:1", "bench compare get -a 127.0.0.1:1 -b 127.0.0.1:1", "bench get --hosts 127.0.0.1:1 --pids x",
		"backup restore --yes a b", "backup restore a", "backup restore --subtree /a --sessions keep a", "backup restore --subtree a b", "backup save /nowhere/a/", "backup verify /nowhere",
		"export /x", "export --backup /nowhere /x", "import", "recover /nowhere", "serve /nowhere", "up --members 0", "config check /nowhere", "certs",
		"members add x", "members remove x", "members nothing", "session kill x", "drain x", "health --addr x", "word xx", "hash a b", "load", "dump", "status --hosts x",
	} {
		var out bytes.Buffer
		err := runCommand(t.Context(), strings.Fields(line), nil, &out, &out)
		if err == nil {
			t.Errorf("%s: no error", line)
			continue
		}
		words := strings.Split(errorLine(err), ": ")
		for i, word := range words[:min(4, len(words))] {
			if i > 0 && (word == words[i-1] || i > 1 && word == words[i-2] || word == "rollcall" || word == "bench") {
				t.Errorf("%s: %v (status %d)", line, err, cli.StatusOf(err))
			}
		}
	}
}
