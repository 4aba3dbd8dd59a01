package house

import (
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// importsOfRecipes are the packages that blocks of Go on the pages below docs/recipes may name.
var importsOfRecipes = []string{
	"context", "database/sql", "errors", "log", "net/http", "os", "rollcall/client", "rollcall/client/barrier",
	"rollcall/client/cache", "rollcall/client/election", "rollcall/client/fence", "rollcall/client/group", "rollcall/client/lock",
	"rollcall/client/queue", "rollcall/client/registry", "rollcall/client/shared",
}

// givenInRecipes declare what the blocks of a page use and leave to the reader. Those of "" are for all pages.
var givenInRecipes = map[string]string{
	"": `
var ctx context.Context
var c *client.Client
var right *client.Right
var data []byte
`,
	"barrier.md": `func compute() {}`,
	"cache.md": `
var servers string
var settings *cache.Cache
var content cache.Content
func follow(*cache.Cache) {}
func readAll(*cache.Cache) {}
func apply(cache.Change) {}`,
	"election.md": `func serve(context.Context, *election.Leadership) error { return nil }`,
	"fence.md": `
var db *sql.DB
var text string
var putState http.Handler`,
	"group.md": `
var servers, hostname string
func work(context.Context, group.Partition) error { return nil }`,
	"lock.md":     `func makeReport(context.Context) ([]byte, error) { return nil, nil }`,
	"queue.md":    `func work([]byte) []byte { return nil }`,
	"registry.md": `func use([]registry.Instance) {}`,
	"shared.md":   `func edit([]byte) ([]byte, error) { return nil, nil }`,
	"watch.md": `
var watcher *client.Watcher
var position client.Position
func readAgain(string, bool) {}
func apply(client.Event) {}`,
}

// Each block of Go on a page of the recipes compiles: as a whole program, or within a function that returns an error.
func TestRecipesCompile(t *testing.T) {
	t.Chdir("../..")
	files, err := filepath.Glob("docs/recipes/*.md")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	packages := importer.ForCompiler(fset, "gc", exportsOf(t, importsOfRecipes))
	compiled := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range goBlock.FindAllStringSubmatch(string(text), -1) {
			compiled++
			if err := checkTypes(fset, packages, programOf(filepath.Base(file), block[1])); err != nil {
				t.Errorf("%s has a block that does not compile: %v\n%s", file, err, block[1])
			}
		}
	}
	const least = 12
	if compiled < least {
		t.Errorf("%d blocks of Go in docs/recipes, want at least %d", compiled, least)
	}
}

// A block with a name that does not exist, or a call with other arguments, does not compile. An unused variable does.
func TestRecipesThatDoNotCompile(t *testing.T) {
	t.Chdir("../..")
	fset := token.NewFileSet()
	packages := importer.ForCompiler(fset, "gc", exportsOf(t, importsOfRecipes))
	for block, good := range map[string]bool{
		"m := lock.NewMutex(c, \"/a\", lock.Config{})\n":                 true,
		"package main\n\nfunc main() {}\n":                               true,
		"m := lock.NewMutex(c, \"/a\")\n":                                false,
		"m := lock.NewMutexes(c, \"/a\", lock.Config{})\n":               false,
		"right.Release()\n":                                              false,
		"unknown()\n":                                                    false,
		"if true {\n":                                                    false,
		"package main\n\nfunc main() { lock.NewMutex(nil, nil, nil) }\n": false,
	} {
		if err := checkTypes(fset, packages, programOf("lock.md", block)); (err == nil) != good {
			t.Errorf("%v:\n%s", err, block)
		}
	}
}

// exportsOf returns a function that opens the compiled declarations of packages and of those that they import.
func exportsOf(t *testing.T, imports []string) func(path string) (io.ReadCloser, error) {
	t.Helper()
	arguments := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	list := exec.Command("go", append(arguments, imports...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %v", list, err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[name] = file
	}
	return func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("%s is not among %v", path, slices.Sorted(maps.Keys(exports)))
		}
		return os.Open(exports[path])
	}
}

// programOf returns the program that a block of a page stands for.
func programOf(page, block string) string {
	if strings.HasPrefix(block, "package ") {
		return block
	}
	given := givenInRecipes[""] + givenInRecipes[page] + "\n"
	var program strings.Builder
	program.WriteString("package recipe\n")
	for _, name := range importsOfRecipes {
		if regexp.MustCompile(`\b` + path.Base(name) + `\.`).MatchString(given + block) {
			fmt.Fprintf(&program, "import %q\n", name)
		}
	}
	fmt.Fprintf(&program, "%s\nfunc block() error {\n%s\nreturn nil\n}\n", given, block)
	return program.String()
}

// checkTypes returns what the compiler would reject in a program, apart from what a part of a program need not use.
func checkTypes(fset *token.FileSet, packages types.Importer, program string) error {
	file, err := parser.ParseFile(fset, "", program, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	var failed error
	cfg := types.Config{Importer: packages, Error: func(err error) {
		if typed, ok := errors.AsType[types.Error](err); !ok || !typed.Soft {
			failed = errors.Join(failed, err)
		}
	}}
	_, _ = cfg.Check("recipe", fset, []*ast.File{file}, nil) // Error gets all errors
	return failed
}
