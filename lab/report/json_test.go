package report

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"rollcall/lab/result"
)

// schemaPage has the JSON Schema of what WriteJSON writes.
const schemaPage = "../../docs/drills.schema.json"

func TestReadReadsWhatWasWritten(t *testing.T) {
	nonPrintable := sample()
	nonPrintable.Command = "\U000e0041\u009b\u202e\x1b <>&"
	for _, run := range []result.Run{sample(), repeated(3), {}, nonPrintable} {
		text := written(t, WriteJSON, run)
		got, err := Read(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if again := written(t, WriteJSON, got); again != text {
			t.Errorf("written again:\n%s\nwant\n%s", again, text)
		}
		same := len(got.Drills) == len(run.Drills) && got.Began.Equal(run.Began) && got.Command == run.Command
		if got.Format != result.Format || !same {
			t.Errorf("read %+v", got)
		}
	}
}

// Writing leaves the run as it was.
func TestWriteJSONChangesNothing(t *testing.T) {
	run := sample()
	_ = written(t, WriteJSON, run)
	if !reflect.DeepEqual(run, sample()) {
		t.Errorf("WriteJSON left %+v", run)
	}
}

func TestReadRejects(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"nothing", " \n", "are empty"},
		{"no JSON", "{\n\"format\": 1,\nx}", "at line 3"},
		{"other JSON", `[1]`, "not the JSON that rollcall drill writes"},
		{"no format", `{"drills":[]}`, `no "format"`},
		{"a later format", `{"format":2}`, "format 2, and this version reads format 1"},
		{"a wrong type", "{\"format\":1,\n\"seed\":\"x\"}", "at line 2"},
		{"an unknown outcome", `{"format":1,"drills":[{"name":"a","outcome":"MAYBE"}]}`, `drill "a" has the outcome "MAYBE"`},
		{
			"an unknown verdict", `{"format":1,"drills":[{"name":"a","outcome":"PASS","verdicts":[{"rule":"r","outcome":""}]}]}`,
			`rule "r" of drill "a"`,
		},
		{"two documents", `{"format":1}{}`, "not the JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Read(strings.NewReader(tt.text))
			checkError(t, err, tt.want)
		})
	}
}

func TestReadIsBounded(t *testing.T) {
	text := written(t, WriteJSON, sample())
	if _, err := readWithin(strings.NewReader(text), int64(len(text))); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	_, err := readWithin(strings.NewReader(text), int64(len(text))-1)
	checkError(t, err, "which is the limit")
}

// docs/drills.schema.json has the schema of the JSON, with the comments of package result.
func TestSchemaIsPublished(t *testing.T) {
	schema := schemaOf(t, reflect.TypeFor[result.Run](), comments(t))
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "What rollcall drill writes as JSON"
	text, err := json.MarshalIndent(schema, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *update {
		if err := os.WriteFile(schemaPage, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(schemaPage)
	if err != nil || !bytes.Equal(page, text) {
		t.Errorf("%s is not what the types say (%v); go test ./lab/report -update writes it", schemaPage, err)
	}
}

// What is written is as the schema says.
func TestJSONFitsItsSchema(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile(schemaPage)
	if err != nil {
		t.Fatal(err)
	}
	bare := sample()
	bare.Drills[0].Sessions = []result.SessionCount{{}}
	bare.Drills[1].Verdicts[0].Violations = []result.Violation{{}}
	bare.Ensemble.Members = nil
	for _, run := range []result.Run{sample(), repeated(2), {}, bare} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(written(t, WriteJSON, run)))
		if err == nil {
			err = schema.Validate(value)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// schemaOf returns the schema of the JSON of a type. Fields with omitempty are not required.
func schemaOf(t *testing.T, of reflect.Type, comments map[string]string) map[string]any {
	t.Helper()
	switch {
	case of == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case of == reflect.TypeFor[result.Outcome]():
		return map[string]any{"enum": outcomes}
	}
	switch of.Kind() {
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t, of.Elem(), comments)}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(t, of.Elem(), comments)}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Int, reflect.Uint64:
		return map[string]any{"type": "integer"}
	case reflect.Struct:
	default:
		t.Fatalf("%s has no schema yet", of)
	}
	properties, required := map[string]any{}, []string{}
	for f := range of.Fields() {
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if key == "" || options != "" && options != "omitempty" {
			t.Errorf("%s.%s has the tag %q", of, f.Name, f.Tag)
		}
		property := schemaOf(t, f.Type, comments)
		if text := comments[of.Name()+"."+f.Name]; text != "" {
			property["description"] = text
		}
		if f.Type == reflect.TypeFor[int]() && f.Name == "Format" {
			property["const"] = result.Format
		}
		if properties[key] = property; options == "" {
			required = append(required, key)
		}
	}
	slices.Sort(required)
	return map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

// comments returns the comments of the fields of package result, by type and field.
func comments(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../result/result.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if body, ok := spec.Type.(*ast.StructType); ok {
			for _, f := range body.Fields.List {
				for _, name := range f.Names {
					texts[spec.Name.Name+"."+name.Name] = strings.Join(strings.Fields(f.Doc.Text()+" "+f.Comment.Text()), " ")
				}
			}
		}
		return true
	})
	return texts
}
