package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"
)

// kinds are the kinds of faults. A sample has about as many of each, however many places there are for it.
var kinds = []string{
	"arithmetic", // + for -, * for /, & for |, << for >>, and back
	"assignment", // an assignment that is not made
	"boolean",    // true for false, and back
	"bound",      // < for <=, > for >=, and back
	"call",       // a call, a send, a defer or a go that is left out
	"constant",   // another number
	"equality",   // == for !=, and back
	"error",      // a function that returns only an error is not called, and the error is nil
	"field",      // a field of a struct that is not set
	"jump",       // a return, break or continue that is left out
	"logic",      // && for ||, and back
	"lost error", // a return of an error returns nil
	"minimum",    // min for max, and back
	"negation",   // a condition that is negated
	"operand",    // one side of && or || that is not looked at
	"skipped",    // a check that never holds
	"swap",       // two arguments of one type change places
}

// finder collects the places for faults in a file.
type finder struct {
	*source
	file    *file
	fset    *token.FileSet
	imports map[string]string // names of the packages that the file imports, by path
	stack   []ast.Node        // the nodes that the visited one is part of
	found   []*mutant
}

// findFaults returns all faults for which the package has a place. Whether they compile is not checked.
func (t *tree) findFaults(s *source) (found []*mutant) {
	for _, f := range s.files {
		if ast.IsGenerated(f.ast) {
			continue
		}
		finder := &finder{source: s, file: f, fset: t.fset, imports: map[string]string{}}
		for _, spec := range f.ast.Imports {
			if name := s.info.PkgNameOf(spec); name != nil {
				finder.imports[name.Imported().Path()] = name.Name()
			}
		}
		ast.PreorderStack(f.ast, nil, finder.visit)
		found = append(found, finder.found...)
	}
	return found
}

func (f *finder) visit(n ast.Node, stack []ast.Node) bool {
	f.stack = stack
	if f.leftOut(n) {
		return false
	}
	if e, ok := n.(ast.Expr); ok {
		f.findInExpression(e)
	}
	switch n := n.(type) {
	case *ast.IfStmt:
		f.findInCondition(n.Cond)
	case *ast.CaseClause:
		for _, e := range n.List {
			f.findInCondition(e)
		}
	case *ast.CallExpr:
		f.findArguments(n)
	case *ast.CompositeLit:
		f.findFields(n)
	case ast.Stmt:
		f.findInStatement(n)
	}
	return true
}

// leftOut reports whether faults in n would not matter, or could not be switched: types and constants, the texts of
// logs, errors and metrics, capacities, and functions with directives for the compiler.
func (f *finder) leftOut(n ast.Node) bool {
	if f.isCapacity(n) {
		return true
	}
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok != token.VAR
	case *ast.FuncDecl:
		return n.Body == nil || n.Doc != nil && slices.ContainsFunc(n.Doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:") })
	case *ast.CallExpr:
		return f.onlyText(n)
	case *ast.CompositeLit:
		t := f.info.Types[n].Type
		named, ok := types.Unalias(t).(*types.Named)
		return ok && named.Obj().Pkg() != nil && strings.HasPrefix(named.Obj().Pkg().Path(), "github.com/prometheus/")
	}
	return false
}

// isCapacity reports whether n is the capacity of a slice in a call of make. It shows in costs alone.
func (f *finder) isCapacity(n ast.Node) bool {
	call, ok := f.parentNode().(*ast.CallExpr)
	return ok && len(call.Args) == 3 && call.Args[2] == n && f.isMake(call)
}

func (f *finder) isMake(call *ast.CallExpr) bool {
	b, ok := f.calledObject(call).(*types.Builtin)
	return ok && b.Name() == "make"
}

// onlyText reports whether a call makes or writes texts for people.
func (f *finder) onlyText(call *ast.CallExpr) bool {
	callee := f.calledObject(call)
	if callee == nil {
		return false
	}
	if callee.Pkg() == nil {
		return callee.Name() == "panic"
	}
	switch path := callee.Pkg().Path(); {
	case path == "log/slog" || path == "log":
		return true
	case path == "errors":
		return callee.Name() == "New"
	case path == "fmt", path == "google.golang.org/grpc/status":
		return callee.Name() == "Errorf"
	default:
		return strings.HasPrefix(path, "github.com/prometheus/") && (strings.HasPrefix(callee.Name(), "New") || callee.Name() == "BuildFQName")
	}
}

// calledObject returns the function, method or builtin that is called, or nil if that is a value.
func (f *finder) calledObject(call *ast.CallExpr) types.Object {
	for fun := ast.Unparen(call.Fun); ; {
		switch e := fun.(type) {
		case *ast.IndexExpr:
			fun = e.X
		case *ast.IndexListExpr:
			fun = e.X
		case *ast.SelectorExpr:
			fun = e.Sel
		case *ast.Ident:
			switch object := f.info.Uses[e].(type) {
			case *types.Func, *types.Builtin:
				return object
			}
			return nil
		default:
			return nil
		}
	}
}

// addFault adds a fault at a node that consists of edits.
func (f *finder) addFault(kind string, n ast.Node, edits ...edit) {
	f.found = append(f.found, &mutant{kind: kind, pkg: f.ImportPath, file: f.file, line: f.fset.Position(n.Pos()).Line, edits: edits})
}

// replaceNode returns an edit that replaces n.
func (f *finder) replaceNode(n ast.Node, plain string, guarded form) edit {
	return edit{f.fileOffset(n.Pos()), f.fileOffset(n.End()), plain, guarded}
}

func (f *finder) fileOffset(p token.Pos) int { return f.fset.Position(p).Offset }

func (f *finder) nodeText(n ast.Node) string {
	return string(f.file.text[f.fileOffset(n.Pos()):f.fileOffset(n.End())])
}

// operandText returns the text of an operand that may stand beside any operator.
func (f *finder) operandText(e ast.Expr) string {
	if _, binary := e.(*ast.BinaryExpr); binary {
		return "(" + f.nodeText(e) + ")"
	}
	return f.nodeText(e)
}

// within returns a text that may stand where the expression is that is visited.
func (f *finder) within(text string) string {
	if !strings.Contains(text, " ") {
		return text
	}
	switch f.parentNode().(type) {
	case *ast.BinaryExpr, *ast.UnaryExpr, *ast.SelectorExpr:
		return "(" + text + ")"
	}
	return text
}

// parentNode returns the node of which the visited one is a part.
func (f *finder) parentNode() ast.Node {
	if len(f.stack) == 0 {
		return nil
	}
	return f.stack[len(f.stack)-1]
}

// isListed reports whether the statement that is visited is one of a list, so that another may stand in its place.
func (f *finder) isListed(s ast.Stmt) bool {
	switch p := f.parentNode().(type) {
	case *ast.BlockStmt, *ast.CaseClause:
		return true
	case *ast.CommClause:
		return p.Comm != s
	}
	return false
}

// typeName returns the name that a type has in the file, or "" if it has none.
func (f *finder) typeName(t types.Type) string {
	if basic, ok := t.(*types.Basic); t == nil || ok && (basic.Info()&types.IsUntyped != 0 || basic.Kind() == types.Invalid) {
		return ""
	}
	if _, tuple := t.(*types.Tuple); tuple {
		return ""
	}
	known := true
	name := types.TypeString(t, func(p *types.Package) string {
		if p == f.types {
			return ""
		}
		known = known && f.imports[p.Path()] != "" && f.imports[p.Path()] != "_" && f.imports[p.Path()] != "."
		return f.imports[p.Path()]
	})
	if !known {
		return ""
	}
	return name
}

// addValue adds a fault that replaces an expression by another one of its type.
func (f *finder) addValue(kind string, e ast.Expr, fault string) {
	if name := f.typeName(f.info.Types[e].Type); name != "" {
		f.addFault(kind, e, f.replaceNode(e, f.within(fault), value(name, fault)))
	}
}

// opposite has the operator that each kind of fault puts in an operator's place.
var opposite = map[token.Token]struct {
	kind string
	to   token.Token
}{
	token.ADD: {"arithmetic", token.SUB}, token.SUB: {"arithmetic", token.ADD},
	token.MUL: {"arithmetic", token.QUO}, token.QUO: {"arithmetic", token.MUL},
	token.AND: {"arithmetic", token.OR}, token.OR: {"arithmetic", token.AND},
	token.SHL: {"arithmetic", token.SHR}, token.SHR: {"arithmetic", token.SHL},
	token.LSS: {"bound", token.LEQ}, token.LEQ: {"bound", token.LSS},
	token.GTR: {"bound", token.GEQ}, token.GEQ: {"bound", token.GTR},
	token.EQL: {"equality", token.NEQ}, token.NEQ: {"equality", token.EQL},
	token.LAND: {"logic", token.LOR}, token.LOR: {"logic", token.LAND},
	token.ADD_ASSIGN: {"arithmetic", token.SUB_ASSIGN}, token.SUB_ASSIGN: {"arithmetic", token.ADD_ASSIGN},
	token.INC: {"arithmetic", token.DEC}, token.DEC: {"arithmetic", token.INC},
}

// findInExpression finds the faults of an expression itself.
func (f *finder) findInExpression(e ast.Expr) {
	if f.info.Types[e].Value != nil {
		f.findInConstant(e)
		return
	}
	switch e := e.(type) {
	case *ast.BinaryExpr:
		f.findInBinary(e)
	case *ast.UnaryExpr:
		if e.Op == token.NOT && !f.isCondition(e) {
			f.addFault("negation", e, f.replaceNode(e, f.nodeText(e.X), negated))
		}
	case *ast.CallExpr:
		if callee, ok := f.calledObject(e).(*types.Builtin); ok && (callee.Name() == "min" || callee.Name() == "max") {
			to := map[string]string{"min": "max", "max": "min"}[callee.Name()]
			f.addValue("minimum", e, to+strings.TrimPrefix(f.nodeText(e), callee.Name()))
		}
		if f.isError(e) && f.inValue() {
			f.addFault("error", e, f.replaceNode(e, "error(nil)", value("error", "nil")))
		}
	}
}

// isError reports whether a call of a function returns an error and nothing else.
func (f *finder) isError(call *ast.CallExpr) bool {
	named, ok := f.info.Types[call].Type.(*types.Named)
	return ok && named.Obj().Pkg() == nil && named.Obj().Name() == "error" && !f.info.Types[call.Fun].IsType()
}

// inValue reports whether something uses the value of the expression that is visited.
func (f *finder) inValue() bool {
	switch f.parentNode().(type) {
	case *ast.ExprStmt, *ast.DeferStmt, *ast.GoStmt:
		return false
	}
	return true
}

func (f *finder) findInBinary(e *ast.BinaryExpr) {
	against, ok := opposite[e.Op]
	if !ok || f.withNil(e) {
		return
	}
	fault := f.operandText(e.X) + " " + against.to.String() + " " + f.operandText(e.Y)
	switch against.kind {
	case "arithmetic":
		if basic, ok := f.info.Types[e].Type.Underlying().(*types.Basic); ok && basic.Info()&types.IsNumeric != 0 {
			f.addValue("arithmetic", e, fault)
		}
		return
	case "equality":
		if !f.isCondition(e) { // else it is its negation
			f.addFault("equality", e, f.replaceNode(e, f.within(fault), either(fault)))
		}
		return
	}
	f.addFault(against.kind, e, f.replaceNode(e, f.within(fault), either(fault)))
	if against.kind == "logic" {
		for _, kept := range []ast.Expr{e.X, e.Y} {
			f.addFault("operand", e, f.replaceNode(e, f.within(f.nodeText(kept)), either(f.nodeText(kept))))
		}
	}
}

// withNil reports whether an expression compares with nil. The opposite would end in a panic at once.
func (f *finder) withNil(e ast.Expr) bool {
	b, ok := ast.Unparen(e).(*ast.BinaryExpr)
	return ok && (f.info.Types[b.X].IsNil() || f.info.Types[b.Y].IsNil())
}

// isCondition reports whether the expression that is visited is a condition of an if or a case.
func (f *finder) isCondition(e ast.Expr) bool {
	switch p := f.parentNode().(type) {
	case *ast.IfStmt:
		return p.Cond == e
	case *ast.CaseClause:
		return true
	}
	return false
}

// findInCondition finds the faults of the condition of an if or a case.
func (f *finder) findInCondition(e ast.Expr) {
	t := f.info.Types[e]
	if basic, ok := t.Type.Underlying().(*types.Basic); t.Value != nil || !ok || basic.Info()&types.IsBoolean == 0 {
		return
	}
	f.addFault("skipped", e, f.replaceNode(e, "false", never))
	if !f.withNil(e) {
		f.addFault("negation", e, f.replaceNode(e, "!("+f.nodeText(e)+")", negated))
	}
}

// findInConstant finds the faults of a constant that is not part of another one.
func (f *finder) findInConstant(e ast.Expr) {
	if p, ok := f.parentNode().(ast.Expr); ok && f.info.Types[p].Value != nil {
		return
	}
	switch p := f.parentNode().(type) {
	case *ast.ArrayType:
		return // a length is part of a type
	case *ast.CallExpr:
		if f.isMake(p) {
			return // a capacity shows in costs alone
		}
	}
	t := f.info.Types[e]
	basic, ok := t.Type.Underlying().(*types.Basic)
	switch {
	case !ok:
	case basic.Info()&types.IsBoolean != 0:
		f.addFault("boolean", e, f.replaceNode(e, strconv.FormatBool(!constant.BoolVal(t.Value)), negated))
	case basic.Info()&types.IsNumeric != 0:
		f.addValue("constant", e, f.otherNumber(e, t.Value))
	}
}

// doubled is the least number that a fault doubles. Smaller ones grow by one.
const doubled = 8

func (f *finder) otherNumber(e ast.Expr, v constant.Value) string {
	if constant.Compare(v, token.LSS, constant.MakeInt64(doubled)) {
		if literal, ok := e.(*ast.BasicLit); ok && v.Kind() == constant.Int {
			n, _ := constant.Int64Val(v)
			return fmt.Sprintf("%d", n+1) + strings.TrimLeft(literal.Value, "0123456789abcdefABCDEFxXoO_'\\")
		}
		return f.operandText(e) + " + 1"
	}
	return f.operandText(e) + " * 2"
}
