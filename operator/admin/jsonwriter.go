package admin

import (
	"encoding/json"
	"strconv"
	"strings"
)

// jsonWriter writes JSON in the layout of ZooKeeper's AdminServer, a value at a time, so that a long list needs
// no memory. The caller opens and closes objects and lists in pairs.
type jsonWriter struct {
	out          *textWriter
	depth        int         // of objects
	levelIsEmpty []bool      // of each open object and list: nothing is in it yet
	paths        *pathFilter // set for commands
}

// object writes an object, whose fields f adds.
func (j *jsonWriter) object(f func()) {
	j.depth++
	j.openBracket("{")
	f()
	j.depth--
	if !j.closeBracket() {
		j.newLine()
	} else {
		j.out.printf(" ")
	}
	j.out.printf("}")
}

// beginList begins a list. Each element begins with beginItem.
func (j *jsonWriter) beginList() { j.openBracket("[") }

func (j *jsonWriter) endList() {
	j.closeBracket()
	j.out.printf(" ]")
}

func (j *jsonWriter) openBracket(bracket string) {
	j.out.printf("%s", bracket)
	j.levelIsEmpty = append(j.levelIsEmpty, true)
}

// closeBracket ends a level, and reports whether it is empty.
func (j *jsonWriter) closeBracket() bool {
	last := len(j.levelIsEmpty) - 1
	empty := j.levelIsEmpty[last]
	j.levelIsEmpty = j.levelIsEmpty[:last]
	return empty
}

// writeSeparator writes a comma, except before the first field or element.
func (j *jsonWriter) writeSeparator() {
	last := len(j.levelIsEmpty) - 1
	if !j.levelIsEmpty[last] {
		j.out.printf(",")
	}
	j.levelIsEmpty[last] = false
}

func (j *jsonWriter) newLine() { j.out.printf("\n%s", strings.Repeat("  ", j.depth)) }

// beginField begins a field. Its value comes next.
func (j *jsonWriter) beginField(name string) {
	j.writeSeparator()
	j.newLine()
	j.out.printf("%s : ", jsonString(name))
}

// beginItem begins an element of a list. Its value comes next.
func (j *jsonWriter) beginItem() {
	j.writeSeparator()
	j.out.printf(" ")
}

// field writes a field with a string, a bool, an integer or nil.
func (j *jsonWriter) field(name string, value any) {
	j.beginField(name)
	j.value(value)
}

// numberField writes a field whose value is the text of a number.
func (j *jsonWriter) numberField(name, text string) {
	j.beginField(name)
	j.out.printf("%s", text)
}

func (j *jsonWriter) objectField(name string, f func()) {
	j.beginField(name)
	j.object(f)
}

// listField writes a list as a field, whose elements f adds.
func (j *jsonWriter) listField(name string, f func()) {
	j.beginField(name)
	j.beginList()
	f()
	j.endList()
}

func (j *jsonWriter) value(value any) {
	switch v := value.(type) {
	case string:
		j.out.printf("%s", jsonString(v))
	case nil:
		j.out.printf("null")
	default:
		j.out.printf("%v", v)
	}
}

// jsonString returns text as JSON, with replacement characters for bytes that are not UTF-8.
func jsonString(text string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(text) != nil {
		return strconv.Quote("") // a text can always be encoded
	}
	return strings.TrimSuffix(b.String(), "\n")
}
