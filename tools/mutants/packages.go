package main

import (
	"bytes"
	"encoding/json"
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
	"path/filepath"
	"slices"
	"strings"
)

// listed holds what go list prints of a package.
type listed struct {
	ImportPath, Dir, Export string
	DepOnly                 bool
	Module                  *struct {
		Path, Dir string
		Main      bool
	}
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports []string
}

// tree is the module whose code gets faults.
type tree struct {
	dir      string             // its root
	module   string             // its path
	packages map[string]*listed // all packages of the module, by import path
	order    []string           // their import paths, in order

	fset    *token.FileSet
	imports types.Importer
	parsed  map[string]*source
}

// source is the code of a package without its tests.
type source struct {
	*listed
	files []*file
	types *types.Package
	info  *types.Info
}

// file is one file of a source.
type file struct {
	path string // absolute
	name string // relative to the tree's root
	text []byte
	ast  *ast.File
}

// readTree lists the packages of the module in dir, and compiles what they import.
func readTree(dir string) (*tree, error) {
	cmd := exec.Command("go", "list", "-deps", "-export",
		"-json=ImportPath,Dir,Export,DepOnly,Module,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports", "./...", "rollcall/client/...", "rollcall/zk/...", "rollcall/zk/kerberos/...")
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.String())
	}
	t := &tree{packages: map[string]*listed{}, fset: token.NewFileSet(), parsed: map[string]*source{}}
	exports := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		p := &listed{}
		if err := d.Decode(p); err != nil {
			return nil, err
		}
		exports[p.ImportPath] = p.Export
		if p.DepOnly || p.Module == nil {
			continue
		}
		if p.Module.Main {
			t.dir, t.module = p.Module.Dir, p.Module.Path
		}
		t.packages[p.ImportPath] = p
		t.order = append(t.order, p.ImportPath)
	}
	slices.Sort(t.order)
	t.imports = importer.ForCompiler(t.fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("%s is not compiled", path)
		}
		return os.Open(exports[path])
	})
	return t, nil
}

// notProduction are the parts of the tree that run in tests only, or are generated.
var notProduction = []string{"integration", "ci", "tools", "proto", "lab/process", "lab/history", "lab/checker", "operator/logs/logtest", "client/internal/fakezk", "client/internal/recipetest", "client/examples", "zk/zktest"}

// unitTests are the packages of integration whose tests are the unit tests of others, by the directory of these. The client
// is a module of its own and must not need a server, so the tests of its recipes on a server are here.
var unitTests = map[string][]string{"client": {"integration/recipes", "integration/recipes/schedules"}}

// isInside reports whether a package is in a directory, or in one of its directories. Both are relative to the root.
func isInside(name, directory string) bool {
	return name == directory || strings.HasPrefix(name, directory+"/")
}

// productionPackages returns the import paths of the packages whose code gets faults. Only names packages, relative to the root;
// if it is empty, these are all packages with production code.
func (t *tree) productionPackages(only []string) (paths []string, err error) {
	for _, name := range only {
		path := t.importPath(name)
		if t.packages[path] == nil {
			return nil, fmt.Errorf("%s is not a package of %s; name it relative to the root, such as quorum/trust", name, t.module)
		}
		paths = append(paths, path)
	}
	if len(only) == 0 {
		paths = slices.DeleteFunc(slices.Clone(t.order), func(path string) bool {
			return slices.ContainsFunc(notProduction, func(part string) bool { return isInside(t.shortName(path), part) })
		})
	}
	slices.Sort(paths)
	return slices.DeleteFunc(slices.Compact(paths), func(path string) bool { return len(t.packages[path].GoFiles) == 0 }), nil
}

// importPath returns the import path of a package that is named relative to the root.
func (t *tree) importPath(name string) string {
	name = strings.Trim(strings.TrimPrefix(filepath.ToSlash(filepath.Clean(name)), "./"), "/")
	if name == "." || name == "" {
		return t.module
	}
	return t.module + "/" + name
}

// shortName returns the name of a package relative to the root.
func (t *tree) shortName(path string) string {
	if path == t.module {
		return "."
	}
	return strings.TrimPrefix(path, t.module+"/")
}

// testersOf returns the packages whose tests may notice a fault in the package, in the order in which they run:
// itself and its unit tests in integration, then those that import it, and integration at last.
func (t *tree) testersOf(path string) (stages [3][]string) {
	last := t.importPath("integration")
	for _, p := range t.order {
		l := t.packages[p]
		switch {
		case len(l.TestGoFiles)+len(l.XTestGoFiles) == 0:
		case p == path || t.isUnitTest(p, path):
			stages[0] = append(stages[0], p)
		case p == last:
			if t.isPlayed(path) {
				stages[2] = append(stages[2], p)
			}
		case !isInside(p, last) && slices.Contains(l.allImports(), path):
			stages[1] = append(stages[1], p)
		}
	}
	return stages
}

// isUnitTest reports whether the tests of a package in integration are the unit tests of the package in path.
func (t *tree) isUnitTest(tests, path string) bool {
	for directory, in := range unitTests {
		if isInside(t.shortName(path), directory) && slices.Contains(in, t.shortName(tests)) {
			return true
		}
	}
	return false
}

// isPlayed reports whether the tests of integration can come by the package in path: they import it, also through other
// packages, or it is in a program that they run.
func (t *tree) isPlayed(path string) bool {
	last, seen := t.importPath("integration"), map[string]bool{}
	var visit func(p string)
	visit = func(p string) {
		l := t.packages[p]
		if l == nil || seen[p] {
			return
		}
		seen[p] = true
		imports := l.Imports
		if p == last {
			imports = l.allImports()
		}
		for _, i := range imports {
			visit(i)
		}
	}
	for _, p := range t.order {
		if p == last || isInside(t.shortName(p), "cmd") {
			visit(p)
		}
	}
	return seen[path]
}

// allImports returns the imports of the package and its tests.
func (l *listed) allImports() []string {
	return slices.Concat(l.Imports, l.TestImports, l.XTestImports)
}

// readSource parses the package and finds the types of its expressions.
func (t *tree) readSource(path string) (*source, error) {
	if s := t.parsed[path]; s != nil {
		return s, nil
	}
	s := &source{listed: t.packages[path], info: &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
		Defs: map[*ast.Ident]types.Object{}, Implicits: map[ast.Node]types.Object{},
	}}
	for _, name := range s.GoFiles {
		f := &file{path: filepath.Join(s.Dir, name)}
		var err error
		if f.text, err = os.ReadFile(f.path); err != nil {
			return nil, err
		}
		if f.name, err = filepath.Rel(t.dir, f.path); err != nil {
			return nil, err
		}
		if f.ast, err = parser.ParseFile(t.fset, f.path, f.text, parser.ParseComments|parser.SkipObjectResolution); err != nil {
			return nil, err
		}
		s.files = append(s.files, f)
	}
	var err error
	if s.types, err = t.checkTypes(s, nil, s.info); err != nil {
		return nil, err
	}
	t.parsed[path] = s
	return s, nil
}

// checkTypes checks the types of a package in which the texts of some files are others. A text whose path is none of the
// package's files is one more file. Imports that are not used are no error.
func (t *tree) checkTypes(s *source, texts map[string]string, info *types.Info) (*types.Package, error) {
	var files []*ast.File
	for _, f := range s.files {
		if _, changed := texts[f.path]; !changed {
			files = append(files, f.ast)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(texts)) {
		f, err := parser.ParseFile(t.fset, path, texts[path], parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	var failed error
	config := types.Config{Importer: t.imports, Error: func(err error) {
		if !strings.HasSuffix(err.Error(), "imported and not used") && failed == nil {
			failed = err
		}
	}}
	p, _ := config.Check(s.ImportPath, t.fset, files, info)
	return p, failed
}
