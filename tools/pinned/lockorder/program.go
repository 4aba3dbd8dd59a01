// Package lockorder finds which locks are taken while another one is held, in the packages of a member. Its test compares that with
// docs/dev/locks.md.
//
// A lock is a field of type sync.Mutex or sync.RWMutex, named by package, type and field. Both sides of an RWMutex count as one lock, and
// so do all locks of one name: two of the same name are no pair. The analysis follows functions, methods, function values, and the
// interfaces of Rollcall. It does not follow interfaces of other modules, such as io.Writer, nor what other modules call, as raft does.
// It does not follow the go statement either: a goroutine begins without locks.
package lockorder

import (
	"fmt"
	"go/types"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/callgraph/vta"
	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/ssa"
	"golang.org/x/tools/go/ssa/ssautil"
)

// module begins the import paths that are analysed.
const module = "rollcall/"

// locks is a set of locks by name.
type locks map[string]bool

func (l locks) copy() locks {
	c := make(locks, len(l))
	for name := range l {
		c[name] = true
	}
	return c
}

// add adds all of m and reports whether any was new.
func (l locks) add(m locks) (grew bool) {
	for name := range m {
		grew = grew || !l[name]
		l[name] = true
	}
	return grew
}

// summary is what a call of a function does with locks.
type summary struct {
	takes    locks // at any time during the call
	keeps    locks // taken, and held when it returns
	releases locks // released, though the function did not take them
}

// Pair is a lock that is held, and one that is taken meanwhile.
type Pair struct{ Held, Taken string }

// program is the code with what is known of each function.
type program struct {
	functions []*ssa.Function
	callees   map[ssa.CallInstruction][]*ssa.Function
	summaries map[*ssa.Function]*summary
	pairs     map[Pair]string // with a place in the code
}

// Load analyses the packages that match patterns in the module in dir, without their tests.
func Load(dir string, patterns ...string) (map[Pair]string, error) {
	loaded, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax | packages.NeedModule, Dir: dir}, patterns...)
	if err != nil {
		return nil, err
	}
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return nil, fmt.Errorf("lockorder: load %s: %w", p.PkgPath, p.Errors[0])
		}
	}
	built, _ := ssautil.Packages(loaded, ssa.InstantiateGenerics)
	built.Build()
	p := &program{callees: map[ssa.CallInstruction][]*ssa.Function{}, summaries: map[*ssa.Function]*summary{}, pairs: map[Pair]string{}}
	all := ssautil.AllFunctions(built)
	for f := range all {
		if len(f.Blocks) > 0 {
			p.functions = append(p.functions, f)
			p.summaries[f] = &summary{takes: locks{}, keeps: locks{}, releases: locks{}}
		}
	}
	for f, node := range vta.CallGraph(all, nil).Nodes {
		if f == nil {
			continue
		}
		for _, edge := range node.Out {
			if edge.Site != nil {
				p.callees[edge.Site] = append(p.callees[edge.Site], edge.Callee.Func)
			}
		}
	}
	p.analyseAll(isLocker) // first: whoever calls them must know what they do
	p.analyseAll(func(*ssa.Function) bool { return true })
	p.pairs = map[Pair]string{} // those of the last pass alone, when all is known
	for _, f := range p.functions {
		p.analyse(f)
	}
	return p.pairs, nil
}

// analyseAll analyses the chosen functions until nothing more is known of any of them.
func (p *program) analyseAll(chosen func(*ssa.Function) bool) {
	for grew := true; grew; {
		grew = false
		for _, f := range p.functions {
			if chosen(f) {
				grew = p.analyse(f) || grew
			}
		}
	}
}

// analyse follows f with what is known of its callees, and reports whether more is known of f now.
func (p *program) analyse(f *ssa.Function) (grew bool) {
	s := p.summaries[f]
	held := make([]locks, len(f.Blocks))
	for i := range held {
		held[i] = locks{}
	}
	deferred := deferredCalls(f)
	visited := make([]bool, len(f.Blocks))
	for queue := []*ssa.BasicBlock{f.Blocks[0]}; len(queue) > 0; queue = queue[1:] {
		block := queue[0]
		visited[block.Index] = true
		now := held[block.Index].copy()
		for _, instruction := range block.Instrs {
			switch i := instruction.(type) {
			case *ssa.Call:
				grew = p.call(f, i, now) || grew
			case *ssa.RunDefers:
				for n := len(deferred) - 1; n >= 0; n-- {
					grew = p.call(f, deferred[n], now) || grew
				}
			case *ssa.Return:
				if isLocker(f) {
					grew = s.keeps.add(now) || grew
				}
			}
		}
		for _, next := range block.Succs {
			if held[next.Index].add(now) || !visited[next.Index] {
				queue = append(queue, next)
			}
		}
	}
	return grew
}

var lockerName = regexp.MustCompile(`^(r|try)?(un)?lock`)

// isLocker reports whether f may return with a lock held or released, which its name then says, as lockWithTree does. Without this
// rule a lock that is taken and released under one condition would seem to be held ever after.
func isLocker(f *ssa.Function) bool { return lockerName.MatchString(strings.ToLower(f.Name())) }

func deferredCalls(f *ssa.Function) (calls []ssa.CallInstruction) {
	for _, block := range f.Blocks {
		for _, instruction := range block.Instrs {
			if d, ok := instruction.(*ssa.Defer); ok {
				calls = append(calls, d)
			}
		}
	}
	return calls
}

// call does with the locks held what a call in f does. It reports whether more is known of f now.
func (p *program) call(f *ssa.Function, call ssa.CallInstruction, held locks) (grew bool) {
	s := p.summaries[f]
	if name, method := lockCall(call.Common()); method != "" {
		switch {
		case name == "":
		case method == "Lock" || method == "RLock":
			p.record(f, call, held, locks{name: true})
			held[name] = true
			grew = s.takes.add(locks{name: true})
		case held[name]:
			delete(held, name)
		default:
			grew = s.releases.add(locks{name: true})
		}
		return grew
	}
	kept, released := locks{}, locks{}
	for _, callee := range slices.Concat(p.followed(call), passed(call.Common())) {
		of := p.summaries[callee]
		if of == nil {
			continue
		}
		p.record(f, call, held, of.takes)
		grew = s.takes.add(of.takes) || grew
		kept.add(of.keeps)
		released.add(of.releases)
	}
	for name := range released {
		if !held[name] {
			grew = s.releases.add(locks{name: true}) || grew
		}
		delete(held, name)
	}
	held.add(kept)
	return grew
}

// followed returns the functions of Rollcall that a call may run. A method of another module's interface, such as io.Writer, may be
// that of any type that has it, so it is not followed.
func (p *program) followed(call ssa.CallInstruction) []*ssa.Function {
	c := call.Common()
	if c.IsInvoke() && (c.Method.Pkg() == nil || !strings.HasPrefix(c.Method.Pkg().Path(), module)) {
		return nil
	}
	if _, ok := c.Value.(*ssa.Parameter); ok {
		return nil // see passed
	}
	return p.callees[call]
}

// record notes that some locks are taken while others are held.
func (p *program) record(f *ssa.Function, call ssa.CallInstruction, held, taken locks) {
	for h := range held {
		for t := range taken {
			if pair := (Pair{h, t}); h != t && p.pairs[pair] == "" {
				p.pairs[pair] = fmt.Sprintf("%s (%s)", f, f.Prog.Fset.Position(call.Pos()))
			}
		}
	}
}

// callsArguments are the packages of Go whose functions call the functions that they get before they return.
var callsArguments = []string{"slices", "maps", "sort", "strings", "bytes"}

// passed returns the functions that a call passes as arguments, and that the callee calls itself. Which functions a parameter may be
// is not asked in the callee: all callers together would be taken for each of them.
func passed(c *ssa.CallCommon) (functions []*ssa.Function) {
	callee := c.StaticCallee()
	if callee == nil {
		return nil
	}
	origin := callee
	if o := callee.Origin(); o != nil {
		origin = o
	}
	outside := origin.Pkg != nil && slices.Contains(callsArguments, origin.Pkg.Pkg.Path())
	for n, argument := range c.Args {
		if !outside && (n >= len(callee.Params) || !callsParameter(callee.Params[n])) {
			continue
		}
		switch a := argument.(type) {
		case *ssa.MakeClosure:
			functions = append(functions, a.Fn.(*ssa.Function))
		case *ssa.Function:
			functions = append(functions, a)
		}
	}
	return functions
}

func callsParameter(p *ssa.Parameter) bool {
	return slices.ContainsFunc(*p.Referrers(), func(i ssa.Instruction) bool {
		call, ok := i.(*ssa.Call)
		return ok && call.Call.Value == p
	})
}

// lockCall returns the lock and the method if a call takes or releases a mutex. The lock is "" if it is no field.
func lockCall(c *ssa.CallCommon) (lock, method string) {
	callee := c.StaticCallee()
	if callee == nil || callee.Pkg == nil || callee.Pkg.Pkg.Path() != "sync" || callee.Signature.Recv() == nil {
		return "", ""
	}
	switch receiver := types.TypeString(callee.Signature.Recv().Type(), nil); receiver {
	case "*sync.Mutex", "*sync.RWMutex":
	default:
		return "", ""
	}
	switch callee.Name() {
	case "Lock", "RLock", "Unlock", "RUnlock":
		return fieldName(c.Args[0]), callee.Name()
	}
	return "", ""
}

// fieldName returns the package, type and field of a value that is a field's address, or was loaded from a field.
func fieldName(v ssa.Value) string {
	switch v := v.(type) {
	case *ssa.UnOp:
		return fieldName(v.X)
	case *ssa.FieldAddr:
		of := v.X.Type().Underlying().(*types.Pointer).Elem()
		field := of.Underlying().(*types.Struct).Field(v.Field).Name()
		named, ok := types.Unalias(of).(*types.Named)
		if !ok {
			return fieldName(v.X) // of a struct without a name
		}
		object := named.Origin().Obj()
		return path.Base(object.Pkg().Path()) + "." + object.Name() + "." + field
	}
	return ""
}
