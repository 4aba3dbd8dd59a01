package house

import (
	"go/ast"
	"path/filepath"
	"strings"
	"testing"
)

// A type has at most so many fields and methods. A larger one owns more than one thing. Data without behaviour, with at
// most fewMethods, may have more fields.
const (
	mostFields  = 25
	mostMethods = 40
	fewMethods  = 4
)

// large are the types that may be larger, with the reason.
var large = map[string]string{}

// Types outside tests stay within mostFields and mostMethods.
func TestTypesAreSmall(t *testing.T) {
	t.Chdir("../..")
	fields, methods := map[string]int{}, map[string]int{}
	goFiles(t, func(path string, file *ast.File) {
		if strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pb.go") || room(path) == "integration" {
			return
		}
		pkg := filepath.Dir(path) + "."
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Recv != nil {
					methods[pkg+receiver(decl.Recv.List[0].Type)]++
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					if spec, ok := spec.(*ast.TypeSpec); ok {
						if body, ok := spec.Type.(*ast.StructType); ok {
							fields[pkg+spec.Name.Name] = body.Fields.NumFields()
						}
					}
				}
			}
		}
	})
	for name, n := range methods {
		if _, allowed := large[name]; allowed {
			continue
		}
		if n > mostMethods || n > fewMethods && fields[name] > mostFields {
			t.Errorf("%s has %d fields and %d methods, at most %d and %d are allowed", name, fields[name], n, mostFields, mostMethods)
		}
	}
	for name := range large {
		if methods[name] <= mostMethods && fields[name] <= mostFields {
			t.Errorf("%s is not large any more: remove it from the exceptions", name)
		}
	}
	if len(methods) < 100 {
		t.Errorf("%d types with methods were found", len(methods))
	}
}
