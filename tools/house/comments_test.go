package house

import (
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// comment is a comment of a Go file: lines that follow each other without code between them.
type comment struct {
	path string
	line int // of its first line
	text string
}

// goText separates the comments of the Go files from their code. Generated files are left out.
type goText struct {
	comments []comment
	words    map[string]bool            // of the code, and of the files that are not Go
	idents   map[string]map[string]bool // identifiers by directory
	declared map[string]map[string]bool // identifiers by directory, without those of tests
}

var anyWord = regexp.MustCompile(`\w+`)

func readGoText(t *testing.T) *goText {
	t.Helper()
	g := &goText{words: map[string]bool{}, idents: map[string]map[string]bool{}, declared: map[string]map[string]bool{}}
	for path := range filesOfTree(t) {
		ext := filepath.Ext(path)
		isGo := ext == ".go" && !strings.HasSuffix(path, ".pb.go")
		if !isGo && !slices.Contains([]string{".proto", ".js", ".html", ".css", ".sh", ".py", ".java", ".yml", ".yaml", ".json"}, ext) {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if isGo {
			g.scan(path, text)
		} else {
			g.addWords(string(text))
		}
	}
	return g
}

func (g *goText) addWords(text string) {
	for _, word := range anyWord.FindAllString(text, -1) {
		g.words[word] = true
	}
}

func (g *goText) scan(path string, text []byte) {
	dir := filepath.Dir(path)
	if g.idents[dir] == nil {
		g.idents[dir], g.declared[dir] = map[string]bool{}, map[string]bool{}
	}
	file := token.NewFileSet().AddFile(path, -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	next := 0 // the line on which the last comment continues
	for pos, tok, literal := s.Scan(); tok != token.EOF; pos, tok, literal = s.Scan() {
		switch tok {
		case token.COMMENT:
			literal = strings.TrimPrefix(strings.TrimPrefix(literal, "//"), " ")
			if line := file.Line(pos); line == next {
				g.comments[len(g.comments)-1].text += "\n" + literal
			} else {
				g.comments = append(g.comments, comment{path, line, literal})
			}
			next = file.Line(pos) + 1
		case token.IDENT:
			g.idents[dir][literal], g.words[literal] = true, true
			if !strings.HasSuffix(path, "_test.go") {
				g.declared[dir][literal] = true
			}
		case token.STRING:
			g.addWords(literal)
		}
	}
}

// These match what a comment names.
var (
	namedFile = regexp.MustCompile(`\b(?:[a-z]\w*/)*\w+\.go\b`)                                              // leader/ping.go, batch.go
	mixedCaps = regexp.MustCompile(`\b[a-z][a-z0-9]*[A-Z]\w*\b`)                                             // closeConnsLoop
	pointer   = regexp.MustCompile(`(?:^|[\s(\]])\*([a-z]\w*)\b[^*]`)                                        // a *comment
	call      = regexp.MustCompile(`\b\w+\.([a-z]\w*)\(`)                                                    // g.scan(
	typeField = regexp.MustCompile(`(?:^|[\s(])([A-Za-z]\w*)\.([A-Za-z]\w+)\b`)                              // expiry.mu
	method    = regexp.MustCompile(`(?:^|[.:]\s)([A-Z][a-z]\w+) (?:(?:may|must) be called|([a-z]+s)\b)`)     // Close may be called, Buckets visits
	parts     = regexp.MustCompile(`\(([a-z]\w+(?:, [a-z]\w+)*)\)`)                                          // (pinger, link)
	nameVerb  = regexp.MustCompile(`\bIt ([a-z]+s)\b`)                                                       // a verb of the third person
	strangers = strings.Fields(`Prometheus Kubernetes macOS xxHash getName putMulti uXXXX aGVsbG8 newNames`) // not ours, or made up for an example
)

// What the comments of the Go code name exists: files, identifiers in mixed caps, types, their fields and methods.
func TestCommentsNameCode(t *testing.T) {
	t.Chdir("../..")
	g, tr := readGoText(t), parseTree(t)
	verbs, found := map[string]bool{}, 0
	for _, c := range g.comments {
		for _, m := range nameVerb.FindAllStringSubmatch(c.text, -1) {
			verbs[m[1]] = true
		}
	}
	for _, c := range g.comments {
		for name, there := range g.namesIn(c, tr, verbs) {
			if found++; !there && !slices.Contains(strangers, name) {
				before, _, _ := strings.Cut(c.text, name)
				t.Errorf("%s:%d names %s, which does not exist", c.path, c.line+strings.Count(before, "\n"), name)
			}
		}
	}
	if found < 3000 {
		t.Errorf("%d names in all comments; the patterns no longer find them", found)
	}
}

// namesIn returns the names in a comment, and whether each of them exists.
func (g *goText) namesIn(c comment, tr *tree, verbs map[string]bool) map[string]bool {
	dir := filepath.Dir(c.path)
	idents, declared, types := g.idents[dir], g.declared[dir], tr.members[filepath.Base(dir)]
	names := map[string]bool{}
	for _, name := range namedFile.FindAllString(c.text, -1) {
		names[name] = tr.files[name] || tr.files[filepath.Join(dir, name)]
	}
	for _, name := range mixedCaps.FindAllString(c.text, -1) {
		names[name] = g.words[name]
	}
	for _, m := range pointer.FindAllStringSubmatch(c.text, -1) {
		names[m[1]] = idents[m[1]]
	}
	for _, m := range call.FindAllStringSubmatch(c.text, -1) {
		names[m[1]] = idents[m[1]]
	}
	for _, m := range typeField.FindAllStringSubmatch(c.text, -1) {
		switch of, field := m[1], m[2]; {
		case types[of] != nil && !slices.Contains([]string{"go", "html", "md", "sh"}, field):
			names[of+"."+field] = types[of][field]
		case declared[field] && mixedCaps.MatchString(field): // the field is of this package, so a value of that name is too
			names[of+"."+field] = idents[of] && (declared[of] || strings.HasSuffix(c.path, "_test.go")) || tr.files[of]
		}
	}
	for _, m := range method.FindAllStringSubmatch(c.text, -1) {
		// A sentence about one thing does not begin with a plural, so this is a name.
		if name, verb := m[1], m[2]; verb == "" || strings.HasSuffix(name, "s") && len(name) > len("Its") && name != "This" && verbs[verb] {
			names[name] = idents[name]
		}
	}
	if strings.HasPrefix(c.text, "Package ") {
		for _, m := range parts.FindAllStringSubmatch(c.text, -1) {
			list := strings.Split(m[1], ", ")
			if slices.ContainsFunc(list, func(name string) bool { return declared[name] }) {
				for _, name := range list {
					names[name] = declared[name]
				}
			}
		}
	}
	return names
}
