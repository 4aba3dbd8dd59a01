// Package rollcall_test checks which packages import which, the pages of documentation, and CI's
// scripts.
package rollcall_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// floors lists the packages by floor, the lowest first. A package imports only packages of lower
// floors.
var floors = [][]string{
	{"internal/durable", "internal/monotonic"},
	{"secretfile", "roster", "internal/slowkey"},
	{"jute", "digest", "proto", "fifo", "api", "console", "keystore", "keystore/authority", "sasl", "integration/model", "internal/tokenproof", "internal/localsocket"},
	{"zkdata", "sessiontracker", "znode", "tally", "internal/admission", "logs", "logs/logtest"},
	{"quorum/disk", "quorum/trust", "server/stream", "audit"},
	{"quorum/wire", "crossing"},
	{"quorum", "leader", "follower", "server", "client", "view", "backup"},
	{"admin", "cli/subtree"},
	{"config", "cli/shell"},
	{"member", "bench", "cli"},
	{"cmd/rollcall", "integration/wire", "integration/process", "integration/alone", "integration/history", "ci/pictures", "ci/mutants"},
	{"integration/cluster"},
	{"integration", "integration/cases", "integration/clients", "integration/deploy", "integration/kills", "integration/moves", "integration/trials", "integration/power", "integration/hostile", "integration/differential", "integration/applications", "integration/console"},
}

// Every folder with Go files has a floor, and no package imports from its own floor or above. Tests
// may. The folders tools, bench/figures, ci/chart and ci/structures have no floor, because they are
// modules of their own.
func TestFloors(t *testing.T) {
	floor := map[string]int{}
	for i, names := range floors {
		for _, name := range names {
			floor[name] = i
		}
	}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (path == "tools" || path == "bench/figures" || path == "ci/chart" || path == "ci/structures" || name == "testdata" || path != "." && strings.HasPrefix(name, ".")):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go" || filepath.Dir(path) == ".":
			return nil
		}
		here, planned := floor[filepath.Dir(path)]
		if !planned {
			t.Errorf("%s: its folder has no floor", path)
		}
		if !planned || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			name, own := strings.CutPrefix(imported, "rollcall/")
			if there, planned := floor[name]; own && (!planned || there >= here) {
				t.Errorf("%s imports %s, which is not on a lower floor", path, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
