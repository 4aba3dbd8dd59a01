package admin

import (
	"encoding/json"
	"strconv"
	"strings"
)

// jsonWriter writes JSON to a page in the layout of ZooKeeper's AdminServer, a value at a time, so that
// a long list needs no memory. The caller opens and closes objects and lists in pairs.
type jsonWriter struct {
	p     *textWriter
	depth int         // of objects
	empty []bool      // of each open object and list: nothing is in it yet
	paths *pathFilter // which paths of nodes the answer shows; set for commands
}

// object writes an object, whose fields f adds with the methods below.
func (j *jsonWriter) object(f func()) {
	j.depth++
	j.begin("{")
	f()
	j.depth--
	if !j.end() {
		j.line()
	} else {
		j.p.printf(" ")
	}
	j.p.printf("}")
}

// beginList begins a list. Each of its elements begins with item.
func (j *jsonWriter) beginList() { j.begin("[") }

func (j *jsonWriter) endList() {
	j.end()
	j.p.printf(" ]")
}

func (j *jsonWriter) begin(bracket string) {
	j.p.printf("%s", bracket)
	j.empty = append(j.empty, true)
}

// end reports whether what was begun last is empty, and forgets it.
func (j *jsonWriter) end() bool {
	last := len(j.empty) - 1
	empty := j.empty[last]
	j.empty = j.empty[:last]
	return empty
}

// next writes what stands between two fields or elements. It does nothing before the first one.
func (j *jsonWriter) next() {
	last := len(j.empty) - 1
	if !j.empty[last] {
		j.p.printf(",")
	}
	j.empty[last] = false
}

func (j *jsonWriter) line() { j.p.printf("\n%s", strings.Repeat("  ", j.depth)) }

// name begins a field. Its value comes next.
func (j *jsonWriter) name(name string) {
	j.next()
	j.line()
	j.p.printf("%s : ", quoted(name))
}

// item begins an element of a list. Its value comes next.
func (j *jsonWriter) item() {
	j.next()
	j.p.printf(" ")
}

// field writes a field with a plain value: a text, a truth value, an integer or nil.
func (j *jsonWriter) field(name string, value any) {
	j.name(name)
	j.value(value)
}

// number writes a field whose value is the text of a number.
func (j *jsonWriter) number(name, text string) {
	j.name(name)
	j.p.printf("%s", text)
}

// fields writes an object as a field.
func (j *jsonWriter) fields(name string, f func()) {
	j.name(name)
	j.object(f)
}

// values writes a list as a field, whose elements f adds.
func (j *jsonWriter) values(name string, f func()) {
	j.name(name)
	j.beginList()
	f()
	j.endList()
}

func (j *jsonWriter) value(value any) {
	switch v := value.(type) {
	case string:
		j.p.printf("%s", quoted(v))
	case nil:
		j.p.printf("null")
	default:
		j.p.printf("%v", v)
	}
}

// quoted returns a text as JSON. What is not UTF-8 in it becomes replacement characters.
func quoted(text string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(text) != nil {
		return strconv.Quote("") // a text can always be encoded
	}
	return strings.TrimSuffix(b.String(), "\n")
}
