package admin

import (
	"bytes"
	"cmp"
	"encoding/json"
	flags "flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/operator/api"
)

var update = flags.Bool("update", false, "write operator/api/openapi.json anew")

// operator/api/openapi.json is generated from the table of endpoints, the parameters and the types of package api. It is
// in the tree, so that each change shows its effect on the description.
func TestOpenAPI(t *testing.T) {
	const file = "../api/openapi.json"
	var want bytes.Buffer
	e := json.NewEncoder(&want)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(newDescription(t).all()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case bytes.Equal(got, want.Bytes()):
	case *update:
		if err := os.WriteFile(file, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s differs from the endpoints or from package api; write it anew with: go test ./operator/admin -run TestOpenAPI -update", file)
	}
}

// object is an object of JSON.
type object = map[string]any

// description makes the description of the endpoints.
type description struct {
	t        *testing.T
	comments map[string]string // of the types of package api, and of their fields as Type.Field
	schemas  object            // by name
}

func newDescription(t *testing.T) *description {
	d := &description{t: t, comments: map[string]string{}, schemas: object{}}
	file, err := parser.ParseFile(token.NewFileSet(), "../api/api.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range file.Decls {
		types, ok := decl.(*ast.GenDecl)
		if !ok || types.Tok != token.TYPE {
			continue
		}
		spec := types.Specs[0].(*ast.TypeSpec)
		d.comments[spec.Name.Name] = textOf(types.Doc)
		fields, ok := spec.Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, f := range fields.Fields.List {
			for _, name := range f.Names {
				d.comments[spec.Name.Name+"."+name.Name] = strings.TrimSpace(textOf(f.Doc) + " " + textOf(f.Comment))
			}
		}
	}
	return d
}

// textOf returns a comment in one line.
func textOf(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }

func (d *description) all() object {
	d.schema(reflect.TypeFor[api.Failure]())
	paths := object{}
	for _, e := range testRoutes(d.t) {
		if !strings.HasPrefix(e.path, "/v1/") {
			continue
		}
		if paths[e.path] == nil {
			paths[e.path] = object{}
		}
		paths[e.path].(object)[strings.ToLower(e.method)] = d.operation(&e)
	}
	return object{
		"openapi": "3.0.3",
		"info": object{
			"title":       "Rollcall",
			"version":     "1",
			"description": "What a member answers about the whole ensemble. Keys are lower case and stay as they are within version 1; new ones may be added. Each answer whose status is not 200 is a Failure.",
		},
		"servers": []object{{"url": "http://127.0.0.1:8080", "description": "a member, on its own machine"}},
		"paths":   paths,
		"components": object{
			"schemas": d.schemas,
			"securitySchemes": object{
				"token":  object{"type": "http", "scheme": "bearer", "description": "the token in the file that admin.tokenFile names"},
				"digest": object{"type": "apiKey", "in": "header", "name": "Authorization", "description": "digest super:PASSWORD, as for ZooKeeper's AdminServer"},
			},
		},
	}
}

// statuses are the failures of an endpoint, by status.
func statuses(e *endpoint) []int {
	all := append([]int{http.StatusBadRequest}, e.failureStatuses...)
	switch e.access {
	case openAccess:
		all = append(all, http.StatusForbidden)
	case readAccess:
		all = append(all, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests)
	case logAccess, changeAccess:
		all = append(all, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests)
		all = append(all, http.StatusServiceUnavailable)
		if e.method == http.MethodPost {
			all = append(all, http.StatusUnsupportedMediaType)
		}
	}
	if e.longReply {
		all = append(all, http.StatusServiceUnavailable)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// meanings has the description of each status.
var meanings = map[int]string{
	400: "the request is wrong: a parameter, an id, a cursor or the body",
	401: "this needs credentials",
	403: "from this machine, origin or host this is not allowed, or the ACL of the node does not allow it",
	404: "there is no such thing",
	409: "what it is about has changed meanwhile, and nothing was done",
	410: "the log does not have these entries any more",
	413: "the request is too long",
	415: "the Content-Type is not application/json",
	429: "too many credentials from this address were wrong, and these were not checked; try again",
	501: "this process does not do that, or the state is too large for it",
	503: "this member cannot answer now, and nothing was done; try again",
	504: "not confirmed in time",
}

var inPath = regexp.MustCompile(`\{(\w+)\}`)

// operation describes one endpoint.
func (d *description) operation(e *endpoint) object {
	if e.responseBody == nil || e.help == "" {
		d.t.Errorf("%s %s: what it answers is not in the table", e.method, e.path)
		return object{}
	}
	answers := object{"200": object{"description": e.help, "content": d.content(e.responseBody)}}
	if _, binary := e.responseBody.([]byte); binary {
		answers["200"] = object{"description": e.help, "content": object{"application/octet-stream": object{"schema": object{"type": "string", "format": "binary"}}}}
	} else if e.replyJSON == nil { // a stream of events, or of lines
		answers["200"] = object{"description": e.help, "content": object{cmp.Or(e.replyType, "text/event-stream"): object{"schema": d.schema(reflect.TypeOf(e.responseBody))}}}
	}
	all := statuses(e)
	if e.hasPast() { // with the parameter at
		all = append(all, pastStatuses...)
	}
	for _, status := range all {
		if meanings[status] == "" {
			d.t.Errorf("%s %s: status %d has no meaning here", e.method, e.path, status)
		}
		answers[fmt.Sprint(status)] = object{"description": meanings[status], "content": d.content(api.Failure{})}
	}
	op := object{"summary": e.help, "operationId": operationID(e), "responses": answers, "security": security(e.access)}
	var params []object
	for _, m := range inPath.FindAllStringSubmatch(e.path, -1) {
		params = append(params, d.parameter(e, m[1], "path", true))
	}
	for _, name := range e.parameters {
		params = append(params, d.parameter(e, name, "query", slices.Contains(e.requiredParameters, name)))
	}
	if params != nil {
		op["parameters"] = params
	}
	if e.requestBody != nil {
		op["requestBody"] = object{"content": d.content(e.requestBody)}
	}
	return op
}

// operationID returns a name for an endpoint: getSessionsId, say.
func operationID(e *endpoint) string {
	id := strings.ToLower(e.method)
	for _, part := range regexp.MustCompile(`\w+`).FindAllString(strings.TrimPrefix(e.path, "/v1"), -1) {
		id += strings.ToUpper(part[:1]) + part[1:]
	}
	return id
}

// security returns the credentials that a class needs: none of them, or one.
func security(c accessClass) []object {
	token, digest := object{"token": []string{}}, object{"digest": []string{}}
	switch c {
	case openAccess:
		return []object{}
	case readAccess: // those on the same machine need none
		return []object{{}, token, digest}
	}
	return []object{token, digest}
}

func (d *description) parameter(e *endpoint, name, in string, required bool) object {
	p := e.parameter(name)
	if p.help == "" {
		d.t.Errorf("the parameter %s is not among parameters", name)
	}
	schema := object{"type": "string"}
	switch {
	case p.maxValue > 0:
		schema = object{"type": "integer", "minimum": 1, "maximum": p.maxValue}
	case p.values != nil:
		schema["enum"] = p.values
	case p.pattern != "":
		schema["pattern"] = p.pattern
	}
	return object{"name": name, "in": in, "required": required, "description": p.help, "schema": schema}
}

// content describes a body of JSON.
func (d *description) content(v any) object {
	return object{"application/json": object{"schema": d.schema(reflect.TypeOf(v))}}
}

// schema describes a type. A struct with a name is described once, under its name.
func (d *description) schema(t reflect.Type) object {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[[]byte]():
		return object{"type": "string", "format": "byte"}
	case t.Kind() == reflect.Struct && t.Name() == "":
		return d.fields(t)
	case t.Kind() == reflect.Struct:
		name := schemaName(t)
		if d.schemas[name] == nil {
			d.schemas[name] = object{} // it may be within itself
			d.schemas[name] = d.fields(t)
		}
		return object{"$ref": "#/components/schemas/" + name}
	case t.Kind() == reflect.Slice:
		return object{"type": "array", "items": d.schema(t.Elem())}
	case t.Kind() == reflect.Pointer:
		of := d.schema(t.Elem())
		if of["$ref"] != nil {
			return object{"nullable": true, "allOf": []object{of}}
		}
		of["nullable"] = true
		return of
	case t.Kind() == reflect.Map:
		return object{"type": "object"}
	case t.Kind() == reflect.String:
		return object{"type": "string"}
	case t.Kind() == reflect.Float64:
		return object{"type": "number"}
	case t.Kind() == reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Zero(t).CanInt():
		return object{"type": "integer", "format": "int64"}
	case reflect.Zero(t).CanUint():
		return object{"type": "integer", "minimum": 0}
	}
	d.t.Errorf("there is no description for the type %v", t)
	return object{}
}

var listOfType = regexp.MustCompile(`^List\[.*\.(\w+)\]$`)

// schemaName returns the name of a type: SessionList for List[Session].
func schemaName(t reflect.Type) string {
	if m := listOfType.FindStringSubmatch(t.Name()); m != nil {
		return m[1] + "List"
	}
	return t.Name()
}

// fields describes a struct.
func (d *description) fields(t reflect.Type) object {
	owner, _, _ := strings.Cut(t.Name(), "[")
	properties, required := object{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous {
			continue
		}
		name := f.Tag.Get("json")
		if name == "" || strings.ToLower(name) != name || strings.Contains(name, ",") {
			d.t.Errorf("%s.%s has the key %q; want a lower-case one that is always there", t.Name(), f.Name, name)
		}
		of, schema := owner, d.schema(f.Type)
		if len(f.Index) > 1 { // of an embedded type
			of = t.Field(f.Index[0]).Name
		}
		if schema["$ref"] != nil {
			schema = object{"allOf": []object{schema}} // nothing may be beside $ref
		}
		if schema["description"] = d.comments[of+"."+f.Name]; schema["description"] == "" {
			d.t.Errorf("%s.%s has no comment, which would describe it", of, f.Name)
		}
		properties[name] = schema
		if strings.Contains(schema["description"].(string), "left out: ") { // of a request
			schema["nullable"] = true
		} else {
			required = append(required, name)
		}
	}
	schema := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	if comment := d.comments[owner]; comment != "" {
		schema["description"] = comment
	}
	return schema
}
