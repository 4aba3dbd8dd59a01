// Command analyzers is a tool for go vet -vettool. It runs errcheck, errorlint and ineffassign. go vet caches what it found in
// a package until the package changes.
//
// Generated files are left out. A comment such as //nolint:errorlint // the reason at the end of a line silences an analyzer
// on that line.
package main

import (
	"cmp"
	"go/ast"
	"go/token"
	"slices"
	"strings"

	"codeberg.org/polyfloyd/go-errorlint/errorlint"
	"github.com/gordonklaus/ineffassign/pkg/ineffassign"
	"github.com/kisielk/errcheck/errcheck"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/unitchecker"
)

// unchecked are functions whose errors need no check, because nothing can be done about them. Closing, syncing and writing a
// file stay checked.
var unchecked = []string{
	"fmt.Fprint",
	"fmt.Fprintf",
	"fmt.Fprintln",
	"(net.Conn).Close",
	"(net.Listener).Close",
	"(*google.golang.org/grpc.ClientConn).Close",
	"os.Remove",
	"os.RemoveAll",
}

// silence begins a comment that silences an analyzer. It is in two parts, so that it is not such a comment.
const silence = "//" + "nolint:"

func main() {
	errcheck.DefaultExcludedSymbols = append(errcheck.DefaultExcludedSymbols, unchecked...)
	wrapping := errorlint.NewAnalyzer()
	if err := wrapping.Flags.Set("errorf", "true"); err != nil { // fmt.Errorf wraps with %w
		panic(err)
	}
	unitchecker.Main(withSilence(uncheckedErrors), withSilence(wrapping), withSilence(ineffassign.Analyzer))
}

// uncheckedErrors reports what errcheck has found, with the name of the function. In tests it leaves out Close: a test that
// ends takes its files and connections with it.
var uncheckedErrors = &analysis.Analyzer{
	Name:     "errcheck",
	Doc:      "check for unchecked errors",
	Requires: []*analysis.Analyzer{errcheck.Analyzer},
	Run: func(pass *analysis.Pass) (any, error) {
		for _, found := range pass.ResultOf[errcheck.Analyzer].(errcheck.Result).UncheckedErrors {
			isTest := strings.HasSuffix(found.Pos.Filename, "_test.go")
			if isTest && strings.HasSuffix(found.FuncName, ".Close") {
				continue
			}
			pass.Reportf(position(pass, found.Pos), "the error of %s is not checked", cmp.Or(found.FuncName, "a function value"))
		}
		return nil, nil
	},
}

// position returns the position in the pass's file set.
func position(pass *analysis.Pass, at token.Position) token.Pos {
	for _, file := range pass.Files {
		if f := pass.Fset.File(file.Pos()); f.Name() == at.Filename {
			return f.Pos(at.Offset)
		}
	}
	return token.NoPos
}

// withSilence returns an analyzer that leaves out generated files and silenced lines.
func withSilence(a *analysis.Analyzer) *analysis.Analyzer {
	run := a.Run
	a.Run = func(pass *analysis.Pass) (any, error) {
		filtered := *pass
		filtered.Report = func(d analysis.Diagnostic) {
			if !isSilenced(pass, a.Name, d.Pos) {
				pass.Report(d)
			}
		}
		return run(&filtered)
	}
	return a
}

func isSilenced(pass *analysis.Pass, analyzer string, at token.Pos) bool {
	i := slices.IndexFunc(pass.Files, func(f *ast.File) bool { return f.FileStart <= at && at <= f.FileEnd })
	if i < 0 {
		return false
	}
	line := pass.Fset.Position(at).Line
	for _, group := range pass.Files[i].Comments {
		for _, comment := range group.List {
			if pass.Fset.Position(comment.Pos()).Line == line && strings.HasPrefix(comment.Text, silence+analyzer+" ") {
				return true
			}
		}
	}
	return ast.IsGenerated(pass.Files[i])
}
