// Command typecheck checks that a main package type-checks for other systems, with all packages that it needs, and compiles
// nothing. Its arguments are a directory and targets such as darwin/arm64.
//
//	go -C tools/pinned run ./typecheck ../../cmd/rollcall darwin/arm64
//
// A compiler takes minutes for each target. What only a compiler or a linker finds is found by ci/builds.sh.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: typecheck DIRECTORY OS/ARCH…")
		os.Exit(2)
	}
	var err error
	for _, target := range os.Args[2:] { // one after the other: each takes half a gigabyte
		err = errors.Join(err, checkTarget(os.Args[1], target))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// mostErrors of a package are returned.
const mostErrors = 10

// checkTarget type-checks the main package in dir for a target, from the sources of all packages that it needs.
func checkTarget(dir, target string) error {
	system, processor, ok := strings.Cut(target, "/")
	if !ok {
		return fmt.Errorf("%s: a target is OS/ARCH", target)
	}
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps | packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax | packages.NeedModule,
		Dir:  dir,
		Env:  append(os.Environ(), "GOOS="+system, "GOARCH="+processor, "CGO_ENABLED=0"),
	}, ".")
	if err != nil {
		return fmt.Errorf("%s: %w", target, err)
	}
	var errs []error
	packages.Visit(loaded, nil, func(p *packages.Package) {
		for _, err := range p.Errors[:min(len(p.Errors), mostErrors)] {
			errs = append(errs, fmt.Errorf("%s: %w", target, err))
		}
	})
	return errors.Join(errs...)
}
