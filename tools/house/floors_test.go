package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// floors lists the directories at the root by floor, the lowest first. A directory imports only those of lower floors.
var floors = [][]string{
	{"internal", "proto"},
	{"zk"},
	{"sessiontracker", "znode", "client"},
	{"quorum"},
	{"leader", "follower", "operator", "migrate"},
	{"server", "lab", "cli"},
	{"config"},
	{"member"},
	{"rollcalltest"},
	{"cmd"},
	{"ci", "integration", "tools"},
}

// modules are Go modules of their own below the root.
var modules = []string{"tools/pinned", "tools/figures", "tools/chart", "tools/structures", "integration/observing", "integration/bucket", "integration/kubernetes", "client/otel"}

// goFiles calls visit with each Go file below the directories of floors, except testdata and modules of their own.
func goFiles(t *testing.T, visit func(path string, file *ast.File)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains(modules, path) || name == "testdata" || path != "." && strings.HasPrefix(name, ".")):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go" || filepath.Dir(path) == ".":
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err == nil {
			visit(path, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// room returns the directory at the root that a path is in.
func room(path string) string {
	name, _, _ := strings.Cut(path, "/")
	return name
}

// Every directory with Go code has a floor, and imports no other one of its own floor or above. Tests may.
func TestFloors(t *testing.T) {
	t.Chdir("../..")
	floor := map[string]int{}
	for i, rooms := range floors {
		for _, name := range rooms {
			floor[name] = i
		}
	}
	goFiles(t, func(path string, file *ast.File) {
		here, planned := floor[room(path)]
		if !planned {
			t.Errorf("%s: its directory has no floor", path)
		}
		if !planned || strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, spec := range file.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			name, own := strings.CutPrefix(imported, "rollcall/")
			if there, planned := floor[room(name)]; own && room(name) != room(path) && (!planned || there >= here) {
				t.Errorf("%s imports %s, which is not on a lower floor", path, name)
			}
		}
	})
}

// A member has nothing of the users' client: neither package member nor a package that it needs imports module client.
func TestMemberHasNoClient(t *testing.T) {
	t.Chdir("../..")
	imports := map[string][]string{} // by package, except for tests
	goFiles(t, func(path string, file *ast.File) {
		for _, spec := range file.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			if name, own := strings.CutPrefix(imported, "rollcall/"); own && !strings.HasSuffix(path, "_test.go") {
				imports[filepath.Dir(path)] = append(imports[filepath.Dir(path)], name)
			}
		}
	})
	needed, seen := []string{"member"}, map[string]bool{"member": true}
	for i := 0; i < len(needed); i++ {
		for _, name := range imports[needed[i]] {
			if room(name) == "client" {
				t.Errorf("package %s, which a member needs, imports %s", needed[i], name)
			}
			if !seen[name] {
				needed, seen[name] = append(needed, name), true
			}
		}
	}
	if !seen["operator/subtree"] || !seen["zk/jute"] {
		t.Errorf("a member needs only %q; the test no longer finds its packages", needed)
	}
}

// At most 21 directories at the root have Go code, so a newcomer sees all of them at once.
func TestFewRooms(t *testing.T) {
	t.Chdir("../..")
	const most = 21
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var rooms []string
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		found := false
		_ = filepath.WalkDir(e.Name(), func(path string, _ fs.DirEntry, _ error) error {
			found = found || filepath.Ext(path) == ".go"
			return nil
		})
		if found {
			rooms = append(rooms, e.Name())
		}
	}
	if len(rooms) > most {
		t.Errorf("%d directories at the root have Go code, at most %d may: %q", len(rooms), most, rooms)
	}
}
