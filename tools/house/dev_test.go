package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// tableOf returns the cells of each row of a table. The first line of the table begins with header.
func tableOf(t *testing.T, path, header string) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "\n"+header)
	if !ok {
		t.Fatalf("%s has no table that begins with %q", path, header)
	}
	for line := range strings.Lines(rest[strings.Index(rest, "\n")+1:]) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		if !strings.HasPrefix(cells[0], "---") {
			rows = append(rows, cells)
		}
	}
	return rows
}

var quoted = regexp.MustCompile("`([^`]+)`")

// named returns the names that a text has in backticks.
func named(text string) (names []string) {
	for _, m := range quoted.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

// The files that docs/dev/changes.md names for a kind of change exist. So do the tests that, as it
// says, ask for the change.
func TestChangesLeadToFiles(t *testing.T) {
	t.Chdir("../..")
	const leastRows = 15
	rows := tableOf(t, "docs/dev/changes.md", "| To add or change |")
	if len(rows) < leastRows {
		t.Errorf("%d kinds of change, want at least %d", len(rows), leastRows)
	}
	files, tests := filesOfTree(t), testsByPackage(t)
	files[".ci/run"] = true // its directory is hidden
	path := regexp.MustCompile(`^\.?[a-z_]+[\w./-]*(/|\.(go|md|proto|sh)|/run)$`)
	test := regexp.MustCompile(`^([a-z/]+)\.(Test\w+)$`)
	for _, cells := range rows {
		if len(cells) != 3 {
			t.Errorf("%q: %d cells, want 3", cells[0], len(cells))
			continue
		}
		paths := 0
		for _, name := range named(cells[1]) {
			if !path.MatchString(name) {
				continue
			}
			paths++
			if _, err := os.Stat(name); err != nil || !strings.HasSuffix(name, "/") && !files[name] {
				t.Errorf("%q names %s, which is not a file of this tree", cells[0], name)
			}
		}
		if paths == 0 && !strings.Contains(cells[1], "this page") {
			t.Errorf("%q names no file", cells[0])
		}
		asking := 0
		for _, name := range named(cells[2]) {
			m := test.FindStringSubmatch(name)
			if m == nil {
				continue
			}
			asking++
			if !tests[m[1]][m[2]] {
				t.Errorf("%q names %s, which is not a test", cells[0], name)
			}
		}
		if asking == 0 {
			t.Errorf("%q names no test", cells[0])
		}
	}
}

// testsByPackage returns the names of the tests of each package, by the package's directory, and by the last part of its path.
// The package of the root is called rollcall.
func testsByPackage(t *testing.T) map[string]map[string]bool {
	t.Helper()
	tests := map[string]map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for path := range filesOfTree(t) {
		if !strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		pkg := filepath.Dir(path)
		if pkg == "." {
			pkg = "rollcall"
		}
		for _, name := range []string{pkg, filepath.Base(pkg)} {
			if tests[name] == nil {
				tests[name] = map[string]bool{}
			}
			for _, m := range function.FindAllStringSubmatch(string(text), -1) {
				tests[name][m[1]] = true
			}
		}
	}
	return tests
}

// code holds the declarations of all files that are not tests, by the last part of the package's
// path.
type code struct {
	names   map[string]map[string]bool            // of a package: functions, methods, types, constants, variables and fields
	members map[string]map[string]map[string]bool // of a package and a type: fields and methods
}

// parseCode reads the code of all packages except those below ci and tools.
func parseCode(t *testing.T) *code {
	t.Helper()
	c := &code{names: map[string]map[string]bool{}, members: map[string]map[string]map[string]bool{}}
	for path := range filesOfTree(t) {
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "ci/") || strings.HasPrefix(path, "tools/") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		pkg := filepath.Base(filepath.Dir(path))
		if c.names[pkg] == nil {
			c.names[pkg], c.members[pkg] = map[string]bool{}, map[string]map[string]bool{}
		}
		for _, decl := range file.Decls {
			c.declare(pkg, decl)
		}
	}
	return c
}

func (c *code) declare(pkg string, decl ast.Decl) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		c.names[pkg][d.Name.Name] = true
		if d.Recv != nil {
			c.member(pkg, receiver(d.Recv.List[0].Type), d.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range s.Names {
					c.names[pkg][name.Name] = true
				}
			case *ast.TypeSpec:
				c.names[pkg][s.Name.Name] = true
				c.fields(pkg, s.Name.Name, s.Type)
			}
		}
	}
}

// fields declares the members of a type: the fields of a struct, or the methods of an interface.
func (c *code) fields(pkg, typ string, of ast.Expr) {
	var list *ast.FieldList
	switch of := of.(type) {
	case *ast.StructType:
		list = of.Fields
	case *ast.InterfaceType:
		list = of.Methods
	default:
		return
	}
	for _, field := range list.List {
		for _, name := range field.Names {
			c.names[pkg][name.Name] = true
			c.member(pkg, typ, name.Name)
		}
	}
}

func (c *code) member(pkg, typ, name string) {
	if c.members[pkg][typ] == nil {
		c.members[pkg][typ] = map[string]bool{}
	}
	c.members[pkg][typ][name] = true
}

// receiver returns the name of the type that a method belongs to.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// has reports whether the code declares a name with dots, such as leader.Leader.ask, Leader.ask or
// leader.maxMarks. Each part must be declared in the part before it.
func (c *code) has(name string) bool {
	parts := strings.Split(name, ".")
	if names := c.names[parts[0]]; names != nil {
		if len(parts) == 2 {
			return names[parts[1]]
		}
		return c.members[parts[0]][parts[1]][parts[2]]
	}
	for pkg := range c.members {
		if c.members[pkg][parts[0]][parts[1]] {
			return true
		}
	}
	return false
}

// These match the names that pages have in backticks.
var (
	testName = regexp.MustCompile(`^([a-z]\w*(?:/\w+)*)\.(Test\w+)$`)                         // integration/kills.TestUpgrade
	fileName = regexp.MustCompile(`^[\w.-]+(/[\w.-]+)*\.(go|md|sh|proto)$|^[a-z]\w*(/\w+)+$`) // znode/apply.go, or the directory quorum/disk
	dataName = regexp.MustCompile(`\.(db|cfg|durable|json)$`)                                 // of a member, or of its operator
	dotted   = regexp.MustCompile(`^[A-Za-z]\w*(\.[A-Za-z]\w*){1,2}$`)                        // Leader.ask, leader.Leader.ask
	plain    = regexp.MustCompile(`^[A-Za-z]\w*$`)                                            // closeConnsLoop, syncLimit
)

// goFile matches a file of code in any text, such as (leader/ping.go).
var goFile = regexp.MustCompile(`[a-z]\w*(/\w+)+\.go\b`)

// foreign are names that the tree need not have: packages outside it and what is in them, variables and
// keywords of Go, packages that there must not be, and the name of a benchmark's part.
var foreign = strings.Fields(`raft grpc time errors slog syscall runtime http atomic synctest sync testing heap
	container/heap testing/synctest Fix NotifyCh GOGC GOMEMLIMIT select util common move`)

// tree knows what pages may name.
type tree struct {
	*code
	files map[string]bool            // by path, and by the last part of it
	tests map[string]map[string]bool // as testsByPackage returns them
	words map[string]bool            // strings in the code, declarations of tests, and the words of the contract between members
}

func parseTree(t *testing.T) *tree {
	t.Helper()
	r := &tree{code: parseCode(t), files: map[string]bool{}, tests: testsByPackage(t), words: map[string]bool{}}
	quotes, declares, all := regexp.MustCompile(`"(\w+)"`), regexp.MustCompile(`(?m)^(?:func|var|const|type) (\w+)`), regexp.MustCompile(`(\w+)`)
	for path := range filesOfTree(t) {
		r.files[path], r.files[filepath.Base(path)] = true, true
		for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
			r.files[dir], r.files[filepath.Base(dir)] = true, true
		}
		word := quotes
		switch {
		case filepath.Ext(path) == ".proto":
			word = all
		case strings.HasSuffix(path, "_test.go"):
			word = declares
		case filepath.Ext(path) != ".go":
			continue
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range word.FindAllStringSubmatch(string(content), -1) {
			r.words[m[1]] = true
		}
	}
	return r
}

// knows reports whether the tree has what a page names. It also reports whether the name is one of
// ours: a command line, for example, is not.
func (r *tree) knows(name string) (there, ours bool) {
	first, _, _ := strings.Cut(name, ".")
	test := testName.FindStringSubmatch(name)
	switch {
	case slices.Contains(foreign, first) || dataName.MatchString(name):
		return false, false
	case test != nil:
		return r.tests[test[1]][test[2]], true
	case fileName.MatchString(name):
		return r.files[name], true
	case dotted.MatchString(name):
		return r.has(name), true
	case plain.MatchString(name):
		return r.declares(name) || r.files[name] || r.words[name], true
	}
	return false, false
}

// declares reports whether any package declares a name without dots.
func (c *code) declares(name string) bool {
	for _, names := range c.names {
		if names[name] {
			return true
		}
	}
	return false
}

// What the pages for developers name exists: code such as Leader.ask and closeConnsLoop, keys, tests, files
// and directories.
func TestDevPagesNameCode(t *testing.T) {
	t.Chdir("../..")
	r, found := parseTree(t), 0
	for path, text := range pages(t) {
		if path != "ARCHITECTURE.md" && !strings.HasPrefix(path, "docs/dev/") {
			continue
		}
		text = codeLine.ReplaceAllString(text, "")
		for _, name := range append(named(text), goFile.FindAllString(text, -1)...) {
			there, ours := r.knows(name)
			if !ours {
				continue
			}
			found++
			if !there {
				t.Errorf("%s names %s, which is not in the tree", path, name)
			}
		}
	}
	if found < 500 {
		t.Errorf("%d names of code on all pages; the patterns for names no longer find them", found)
	}
}

// splitText is where a long text continues on the next line.
var splitText = regexp.MustCompile(`" ?\+\n\s*"`)

// explainedLine is an item of docs/logs.md.
var explainedLine = regexp.MustCompile("(?m)^\\* (`.*`) \\((?:debug|info|warn|error)\\): ")

// Each line that docs/logs.md explains is a message in the code. Raft's are in its own.
func TestLogLinesExist(t *testing.T) {
	t.Chdir("../..")
	var code strings.Builder
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		code.Write(splitText.ReplaceAll(text, nil))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, m := range explainedLine.FindAllStringSubmatch(readFile(t, "docs/logs.md"), -1) {
		for _, message := range named(m[1]) {
			if found++; !strings.HasPrefix(message, "raft: ") && !strings.Contains(code.String(), strconv.Quote(message)) {
				t.Errorf("docs/logs.md explains %q, which no member logs", message)
			}
		}
	}
	if found < 20 {
		t.Errorf("%d lines on the page; explainedLine no longer finds them", found)
	}
}

// The constants that docs/dev/limits.md names exist in the code, each in the package that is named
// before it.
func TestLimitsExist(t *testing.T) {
	t.Chdir("../..")
	c, found := parseCode(t), 0
	_, bounds, _ := strings.Cut(readFile(t, "docs/dev/limits.md"), "\n## Bounds\n")
	bounds, _, _ = strings.Cut(bounds, "\n## ")
	for line := range strings.Lines(bounds) {
		if !strings.HasPrefix(line, "* ") {
			continue
		}
		pkg := ""
		constants, _, _ := strings.Cut(line, " (") // their values follow
		for _, name := range named(constants) {
			first, rest, _ := strings.Cut(filepath.Base(name), ".")
			switch {
			case rest != "": // TestDevPagesNameCode checks it
				pkg, found = first, found+1
			case c.names[first] != nil:
				pkg = first
			case !c.names[pkg][name]:
				t.Errorf("docs/dev/limits.md names %s of %s, which is not in the code", name, pkg)
			default:
				found++
			}
		}
	}
	if found < 80 {
		t.Errorf("%d constants on the page; named no longer finds them", found)
	}
}
