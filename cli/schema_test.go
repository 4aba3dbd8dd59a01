package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"rollcall/operator/api"
	"rollcall/operator/subtree"
)

// schemaPage has the JSON Schema of what each command prints with -o json.
const schemaPage = "../docs/commands.schema.json"

// outputs are the types of what the commands print with -o json.
var outputs = map[string]any{
	"status": []memberRow{}, "sessions": []api.Session{}, "session show": sessionDetail{}, "session kill": []api.End{}, "who-owns": api.Owner{},
	"members list": []serverRow{}, "members add": membersResult{}, "members remove": membersResult{}, "members replace": membersResult{}, "members address": membersResult{},
	"members promote": membersResult{}, "members demote": membersResult{}, "members lead": membersResult{}, "members drain": membersResult{}, "members rebalance": api.Rebalanced{},
	"connections": []api.Connection{}, "slow": []api.SlowRequest{}, "slow ID": api.SlowRequest{}, "watches": []api.Watch{}, "log-level": []levelRow{}, "limits": []limitRow{}, "config show": []api.Setting{}, "config check": []api.Setting{},
	"changes": []api.Change{}, "diff": []diffRow{}, "why": latestHistory{}, "why ID": []api.End{}, "why ADDRESS": []api.End{}, "why PATH": pathHistory{},
	"ls": []lsRow{}, "get": nodeData{}, "stat": nodeStat{}, "set": nodeStat{}, "create": pathRow{}, "acl": []api.ACL{}, "tree": []treeRow{}, "du": []subtree.Usage{}, "quota": []quotaRow{}, "sync": synced{},
	"load": subtree.LoadResult{}, "load --dry-run": []subtree.Change{}, "acl LIST": nodeStat{}, "watch": []eventRow{},
	"drain": drainedRow{}, "snapshot": api.Snapshot{}, "backup save": backupRow{}, "backup inspect": inspectedRow{}, "backup verify": []verifiedRow{}, "archive verify": []archiveRow{}, "rm": removedRow{}, "rm --dry-run": []pathRow{}, "support-bundle": bundleResult{}, "word": []fourLetterReply{}, "health": Health{}, "version": Version{}, "recover": RecoverResult{}, "backup restore": RestoreResult{},
	"drill list": []DrillRow{}, "drill heal": HealResult{},
	"import": ImportResult{}, "export": ExportResult{}, "backup restore --subtree": subtree.LoadResult{}, "backup restore --subtree --dry-run": []subtree.Change{},
}

// docs/commands.schema.json has the schema of each output. Its keys are in lower case.
func TestSchemasArePublished(t *testing.T) {
	all := map[string]any{"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "What the commands of rollcall print with -o json", "$defs": map[string]any{}}
	for command, of := range outputs {
		all["$defs"].(map[string]any)[command] = schemaOf(t, reflect.TypeOf(of))
	}
	text, err := json.MarshalIndent(all, "", " ")
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
		t.Errorf("%s is not what the types say (%v); go test ./cli -update writes it", schemaPage, err)
	}
}

var keyPattern = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// schemaOf returns the schema of the JSON of a type.
func schemaOf(t *testing.T, of reflect.Type) map[string]any {
	t.Helper()
	switch {
	case of == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case of == reflect.TypeFor[[]byte]():
		return map[string]any{"type": []any{"string", "null"}, "contentEncoding": "base64"}
	case of == reflect.TypeFor[memberRow]():
		return schemaOfMember(t)
	}
	switch of.Kind() {
	case reflect.Pointer:
		return orNull(schemaOf(t, of.Elem()))
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t, of.Elem())}
	case reflect.Struct:
		properties := map[string]any{}
		addProperties(t, properties, of)
		return map[string]any{"type": "object", "properties": properties, "required": keysOf(properties), "additionalProperties": false}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	}
	return map[string]any{"type": "integer"}
}

// schemaOfMember returns the schema of a row of rollcall status: without an answer, everything but the number
// and the reason is null.
func schemaOfMember(t *testing.T) map[string]any {
	t.Helper()
	s := schemaOf(t, reflect.TypeFor[api.Member]())
	properties := s["properties"].(map[string]any)
	for key, p := range properties {
		if key != "member" {
			properties[key] = orNull(p.(map[string]any))
		}
	}
	properties["silent"] = map[string]any{"type": "string"}
	s["required"] = keysOf(properties)
	return s
}

// orNull returns a schema that also allows null.
func orNull(s map[string]any) map[string]any {
	if one, ok := s["type"].(string); ok {
		s["type"] = []any{one, "null"}
	}
	return s
}

func addProperties(t *testing.T, properties map[string]any, of reflect.Type) {
	t.Helper()
	for i := range of.NumField() {
		f := of.Field(i)
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !f.IsExported() && !f.Anonymous: // JSON does not have it
		case f.Anonymous && key == "":
			addProperties(t, properties, f.Type)
		case !keyPattern.MatchString(key) || options != "":
			t.Errorf("%s.%s has the key %q with the options %q; allowed are keys in lower case, which are always there", of, f.Name, key, options)
		default:
			properties[key] = schemaOf(t, f.Type)
		}
	}
}

func keysOf(properties map[string]any) []any {
	keys := []any{}
	for key := range properties {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	return keys
}

// The JSON of each command is as its schema says.
func TestJSONFitsItsSchema(t *testing.T) {
	f, token := newFakeMember(t), tokenFile(t)
	for _, tt := range goldenLines {
		out, _, err := f.execute(t, nil, append(strings.Fields(strings.ReplaceAll(tt.line, "TOKEN", token)), "-o", "json")...)
		if err != nil {
			t.Fatal(err)
		}
		checkSchema(t, tt.schema(), out.String())
	}
}

// checkSchema checks that what a command printed with -o json is as its schema says.
func checkSchema(t *testing.T, command, printed string) {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile(schemaPage + "#/$defs/" + strings.ReplaceAll(command, " ", "%20"))
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(printed))
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		t.Errorf("%s: %v:\n%s", command, err, printed)
	}
}

// Commands whose results are a text for people print the same as JSON, as their schemas say, and as YAML.
func TestResultsAsJSON(t *testing.T) {
	w, _ := nodeWorld(t)
	mustRun(t, w, "create -p /a/b/c")
	checkSchema(t, "rm --dry-run", mustRun(t, w, "rm -r --dry-run -o json /a"))
	checkSchema(t, "rm", mustRun(t, w, "rm -o json /a/b/c"))
	if got, want := mustRun(t, w, "rm -r --yes -o yaml /a"), "path: /a\nnodes: 2\n"; got != want {
		t.Errorf("rm -o yaml printed %q, want %q", got, want)
	}
	w.Env = []string{"ROLLCALL_HOSTS=" + memberAddr}
	got := mustRun(t, w, "word -o json srvr")
	if checkSchema(t, "word", got); !strings.Contains(got, `"word":"srvr","answer":"Zookeeper version: `) {
		t.Errorf("word -o json printed %s", got)
	}
	server := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/log" {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = io.WriteString(w, `{"items":[],"next":"","silent":[],"connections":7,"balanced":true,"leads":false,"took_ms":5}`)
	}))
	defer server.Close()
	w.Env = []string{"ROLLCALL_ADMIN=" + server.URL, "ROLLCALL_TOKEN_FILE=" + tokenFile(t)}
	got = mustRun(t, w, "drain -o json")
	if checkSchema(t, "drain", got); !strings.Contains(got, `"connections": 7`) {
		t.Errorf("drain -o json printed %s", got)
	}
	checkSchema(t, "members rebalance", mustRun(t, w, "members rebalance -o json"))
	checkSchema(t, "snapshot", mustRun(t, w, "snapshot -o json"))
	got = mustRun(t, w, "support-bundle -o json --out "+filepath.Join(t.TempDir(), "b.tar.gz"))
	if checkSchema(t, "support-bundle", got); !strings.Contains(got, "/log.json: status 403") {
		t.Errorf("support-bundle -o json printed %s", got)
	}
}

// schema returns the name of the schema of a command line's output.
func (g goldenLine) schema() string {
	words := strings.Fields(g.line)
	switch {
	case words[0] == "session" || words[0] == "backup" || words[0] == "members":
		return words[0] + " " + words[1]
	case words[0] == "slow" && len(words) == 2:
		return "slow ID"
	case words[0] != "why" || len(words) == 1 || strings.HasPrefix(words[1], "--"):
		return words[0]
	case strings.HasPrefix(words[1], "/"):
		return "why PATH"
	case strings.HasPrefix(words[1], "0x"):
		return "why ID"
	}
	return "why ADDRESS"
}
