package recipe

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rollcall/client"
)

// exported returns the names of the functions and methods that the files of a directory export, but for the methods of
// RecipeTools.
func exported(t *testing.T, directory string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(directory, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if ok && f.Name.IsExported() && !strings.HasSuffix(path, "_test.go") && !isRecipeTool(f) {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

// isRecipeTool reports whether f is a method of RecipeTools, which programs reach only through that type.
func isRecipeTool(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return false
	}
	receiver, ok := f.Recv.List[0].Type.(*ast.Ident)
	return ok && receiver.Name == "RecipeTools"
}

// What only authors of recipes need is in this package, and not in package client.
func TestToolsAreApart(t *testing.T) {
	ofPrograms := exported(t, "..")
	for _, name := range exported(t, ".") {
		if slices.Contains(ofPrograms, name) {
			t.Errorf("package client shows %s to every program", name)
		}
	}
}

// A recipe's value is made once for each Client and key.
func TestShared(t *testing.T) {
	type key string
	a, b := new(client.Client), new(client.Client)
	made := 0
	create := func() *int { made++; return new(int) }
	first := Shared(a, key("x"), create)
	if Shared(a, key("x"), create) != first || made != 1 {
		t.Errorf("one Client has %d values for a key", made)
	}
	if Shared(a, key("y"), create) == first || Shared(b, key("x"), create) == first || made != 3 {
		t.Errorf("%d values for three pairs of a Client and a key", made)
	}
}

// If create panics, there is no value, and the next call makes it.
func TestSharedAfterPanic(t *testing.T) {
	type key struct{}
	c := new(client.Client)
	func() {
		defer func() { _ = recover() }()
		Shared(c, key{}, func() int { panic("once") })
	}()
	if value := Shared(c, key{}, func() int { return 5 }); value != 5 {
		t.Errorf("the value is %d", value)
	}
}
