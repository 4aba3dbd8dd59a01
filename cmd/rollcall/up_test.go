package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rollcall/member"
	"rollcall/znode"
)

// untold are the fields of events that the lines of up leave out. The log has them.
var untold = []string{"Silent", "Times"}

// Each kind of event leads to one line, which has its name, and each field of events is in the line of
// at least one kind.
func TestUpTellsEveryEvent(t *testing.T) {
	e := member.Event{
		Term: 7001, Member: 7002, From: 7003, Session: 0x7004, Timeout: 7005 * time.Second, Address: "a:7006", Ephemerals: 7007, Silent: 7008, By: "carol", Times: 7009,
		Quota: znode.Quota{Path: "/7010", Count: 7011, CountLimit: 7012, Bytes: 7013, BytesLimit: 7014},
	}
	var told string
	for _, e.Kind = range kindsOfEvents(t) {
		var out strings.Builder
		(&teller{w: &out, begun: time.Now()}).tell(e)
		line := out.String()
		if strings.Count(line, "\n") != 1 || !strings.Contains(line, "  "+string(e.Kind)+": ") {
			t.Errorf("%s is told as %q", e.Kind, line)
		}
		told += line
	}
	values := map[string]string{}
	collect(t, values, reflect.ValueOf(e))
	for name, value := range values {
		if got, want := strings.Contains(told, value), !slices.Contains(untold, name); got != want {
			t.Errorf("%s is told: %t, want %t", name, got, want)
		}
	}
}

// collect adds the fields of a struct and of those in it to values, as text. Each must have a value.
func collect(t *testing.T, values map[string]string, of reflect.Value) {
	t.Helper()
	for i := range of.NumField() {
		name, f := of.Type().Field(i).Name, of.Field(i)
		switch {
		case f.Kind() == reflect.Struct:
			collect(t, values, f)
		case f.IsZero():
			t.Errorf("%s is new: give it a value in this test", name)
		default:
			values[name] = fmt.Sprint(f.Interface())
		}
	}
}

// kindsOfEvents returns the constants of member.EventKind.
func kindsOfEvents(t *testing.T) (kinds []member.EventKind) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../member/event.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := spec.Type.(*ast.Ident); !ok || of.Name != "EventKind" {
			return false
		}
		for _, v := range spec.Values {
			text, err := strconv.Unquote(v.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			kinds = append(kinds, member.EventKind(text))
		}
		return false
	})
	if len(kinds) < 6 {
		t.Fatalf("%d kinds of events: they are no longer found", len(kinds))
	}
	return kinds
}
