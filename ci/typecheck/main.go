// Command typecheck checks that a main package type-checks for other systems, with all packages that it needs, and compiles
// nothing. Its arguments are a directory and targets such as darwin/arm64. Bodies of functions are checked in the packages
// of the directory's module only.
//
// A compiler takes minutes for each target. What only a compiler or a linker finds is found by ci/builds.sh.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: typecheck DIRECTORY OS/ARCH…")
		os.Exit(2)
	}
	targets := os.Args[2:]
	errs := make([]error, len(targets))
	var group sync.WaitGroup
	for i, target := range targets {
		group.Go(func() { errs[i] = checkTarget(os.Args[1], target) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// listed is a package as go list prints it.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	Module          *struct {
		Main      bool
		GoVersion string
	}
}

// isOwn reports whether the package belongs to the module of the directory, or to another module of this repository.
func (l *listed) isOwn() bool {
	return l.Module != nil && (l.Module.Main || strings.HasPrefix(l.ImportPath, "rollcall/"))
}

// checkTarget type-checks the main package in dir for a target.
func checkTarget(dir, target string) error {
	system, processor, ok := strings.Cut(target, "/")
	if !ok {
		return fmt.Errorf("%s: a target is OS/ARCH", target)
	}
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,Module", ".")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+processor, "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: go list: %w", target, err)
	}
	c := checker{files: token.NewFileSet(), sizes: types.SizesFor("gc", processor), packages: map[string]*types.Package{"unsafe": types.Unsafe}}
	for packages := json.NewDecoder(bytes.NewReader(out)); packages.More(); {
		var l listed
		if err := packages.Decode(&l); err != nil {
			return fmt.Errorf("%s: go list: %w", target, err)
		}
		if err := c.check(&l); err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
	}
	return nil
}

// checker type-checks packages after those that they import, as go list -deps lists them.
type checker struct {
	files    *token.FileSet
	sizes    types.Sizes
	packages map[string]*types.Package // those that have been checked
}

// check type-checks a package, and returns its first errors.
func (c *checker) check(l *listed) error {
	if l.ImportPath == "unsafe" {
		return nil
	}
	files := make([]*ast.File, len(l.GoFiles))
	for i, name := range l.GoFiles {
		f, err := parser.ParseFile(c.files, filepath.Join(l.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files[i] = f
	}
	var errs []error
	cfg := types.Config{
		Importer: importerFunc(func(path string) (*types.Package, error) {
			if p := c.packages[cmp.Or(l.ImportMap[path], path)]; p != nil {
				return p, nil
			}
			return nil, fmt.Errorf("%s is not listed", path)
		}),
		IgnoreFuncBodies: !l.isOwn(), Sizes: c.sizes,
		Error: func(err error) { errs = append(errs, err) },
	}
	if l.Module != nil && l.Module.GoVersion != "" {
		cfg.GoVersion = "go" + l.Module.GoVersion
	}
	p, _ := cfg.Check(l.ImportPath, c.files, files, nil) // errs has its error
	c.packages[l.ImportPath] = p
	return errors.Join(errs[:min(len(errs), 10)]...)
}

type importerFunc func(path string) (*types.Package, error)

func (f importerFunc) Import(path string) (*types.Package, error) { return f(path) }
