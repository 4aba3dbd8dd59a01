package main

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// findInStatement finds the faults of a statement in a list.
func (f *finder) findInStatement(s ast.Stmt) {
	if !f.isListed(s) {
		return
	}
	switch s := s.(type) {
	case *ast.ExprStmt:
		if call, ok := s.X.(*ast.CallExpr); ok && !f.onlyText(call) && !f.isUnseen(call) {
			f.addSkip("call", s)
		}
	case *ast.DeferStmt:
		if !f.isUnseen(s.Call) {
			f.addSkip("call", s)
		}
	case *ast.SendStmt, *ast.GoStmt:
		f.addSkip("call", s)
	case *ast.AssignStmt:
		f.findInAssignment(s)
	case *ast.IncDecStmt:
		f.addSkip("assignment", s)
		to := f.nodeText(s.X) + opposite[s.Tok].to.String()
		f.addFault("arithmetic", s, f.replaceNode(s, to, instead(to)))
	case *ast.BranchStmt:
		if s.Tok != token.FALLTHROUGH {
			f.addSkip("jump", s)
		}
	case *ast.ReturnStmt:
		f.findInReturn(s)
	}
}

// addSkip adds a fault that leaves a statement out.
func (f *finder) addSkip(kind string, s ast.Stmt) { f.addFault(kind, s, f.replaceNode(s, "", skipped)) }

// unseenNames are calls without which a program stops at once, or does the same at another cost.
var unseenNames = []string{"Lock", "Unlock", "RLock", "RUnlock", "Grow", "KeepAlive", "Helper"}

func (f *finder) isUnseen(call *ast.CallExpr) bool {
	callee := f.calledObject(call)
	return callee != nil && slices.Contains(unseenNames, callee.Name())
}

func (f *finder) findInAssignment(s *ast.AssignStmt) {
	if s.Tok == token.DEFINE {
		return
	}
	for _, left := range s.Lhs {
		if name, ok := left.(*ast.Ident); ok && name.Name == "_" {
			return
		}
	}
	f.addSkip("assignment", s)
	against, ok := opposite[s.Tok]
	if basic, numeric := f.info.Types[s.Lhs[0]].Type.Underlying().(*types.Basic); ok && numeric && basic.Info()&types.IsNumeric != 0 {
		to := f.nodeText(s.Lhs[0]) + " " + against.to.String() + " " + f.nodeText(s.Rhs[0])
		f.addFault("arithmetic", s, f.replaceNode(s, to, instead(to)))
	}
}

// findInReturn finds the faults of a return: it is left out, or its error is lost.
func (f *finder) findInReturn(s *ast.ReturnStmt) {
	f.addSkip("jump", s)
	if len(s.Results) == 0 {
		return
	}
	last := s.Results[len(s.Results)-1]
	t := f.info.Types[last]
	if t.Type == nil || t.IsNil() || !types.AssignableTo(t.Type, types.Universe.Lookup("error").Type()) {
		return
	}
	var texts []string
	for _, r := range s.Results[:len(s.Results)-1] {
		texts = append(texts, f.nodeText(r))
	}
	lost := "return " + strings.Join(append(texts, "nil"), ", ")
	f.addFault("lost error", s, f.replaceNode(s, lost, instead(lost)))
}

// anyOrder are functions whose arguments may change places.
var anyOrder = []string{"min", "max", "Join", "Equal", "EqualFold", "ConstantTimeCompare", "append"}

// findArguments finds arguments of one type, beside each other, that are simple enough to change places.
func (f *finder) findArguments(call *ast.CallExpr) {
	if callee := f.calledObject(call); call.Ellipsis.IsValid() || callee != nil && (slices.Contains(anyOrder, callee.Name()) || isText(callee)) {
		return
	}
	for i := range len(call.Args) - 1 {
		a, b := call.Args[i], call.Args[i+1]
		ta, tb := f.info.Types[a].Type, f.info.Types[b].Type
		if ta == nil || tb == nil || !types.Identical(ta, tb) || !f.isSimple(a) || !f.isSimple(b) || f.nodeText(a) == f.nodeText(b) {
			continue
		}
		if name := f.typeName(ta); name != "" {
			f.addFault("swap", call, f.replaceNode(a, f.nodeText(b), value(name, f.nodeText(b))), f.replaceNode(b, f.nodeText(a), value(name, f.nodeText(a))))
		}
	}
}

// isText reports whether a function formats text for people.
func isText(callee types.Object) bool { return callee.Pkg() != nil && callee.Pkg().Path() == "fmt" }

// isSimple reports whether an expression only names a value.
func (f *finder) isSimple(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return !f.info.Types[e].IsNil()
	case *ast.SelectorExpr:
		return f.isSimple(e.X)
	case *ast.BasicLit:
		return true
	}
	return false
}

// findFields finds the fields of a struct that may be left out. Constant texts and logs are for people, and a field that is
// zero anyway cannot be missed.
func (f *finder) findFields(lit *ast.CompositeLit) {
	t := f.info.Types[lit].Type
	if pointer, ok := t.Underlying().(*types.Pointer); ok {
		t = pointer.Elem()
	}
	if _, ok := t.Underlying().(*types.Struct); !ok {
		return
	}
	for _, e := range lit.Elts {
		pair, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		key, ok := pair.Key.(*ast.Ident)
		if !ok || f.info.Uses[key] == nil {
			continue
		}
		v := f.info.Types[pair.Value]
		if v.IsNil() || v.Value != nil && (v.Value.Kind() == constant.String || v.Value.Kind() == constant.Bool || constant.Sign(v.Value) == 0) {
			continue
		}
		if name := f.typeName(f.info.Uses[key].Type()); name != "" && !strings.HasSuffix(name, "slog.Logger") {
			zero := "*new(" + name + ")"
			f.addFault("field", pair, f.replaceNode(pair.Value, zero, value(name, zero)))
		}
	}
}
