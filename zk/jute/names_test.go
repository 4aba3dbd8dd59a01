package jute

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"log/slog"
	"maps"
	"math"
	"strconv"
	"strings"
	"testing"
)

// constants returns the exported constants of type typ that the package declares, with their
// values.
func constants(t *testing.T, typ string) map[string]int64 {
	t.Helper()
	found := map[string]int64{}
	for _, file := range sources(t) {
		for _, decl := range file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.CONST {
				continue
			}
			for _, spec := range gen.Specs {
				value := spec.(*ast.ValueSpec)
				if ident, ok := value.Type.(*ast.Ident); !ok || ident.Name != typ || !value.Names[0].IsExported() {
					continue
				}
				found[value.Names[0].Name] = literal(t, value.Values[0])
			}
		}
	}
	return found
}

func literal(t *testing.T, e ast.Expr) int64 {
	t.Helper()
	sign := int64(1)
	if minus, ok := e.(*ast.UnaryExpr); ok {
		sign, e = -1, minus.X
	}
	n, err := strconv.ParseInt(e.(*ast.BasicLit).Value, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	return sign * n
}

// Every opcode, code, event type, state and mode has a unique name.
func TestNamesAreUnique(t *testing.T) {
	tests := []struct {
		typ     string
		count   int
		unknown string // marks the text of a value without a name
		text    func(v int64) string
	}{
		{"Op", 33 + 10, "(", func(v int64) string { return Op(v).String() }},
		{"Code", 35, "code ", func(v int64) string { return Code(v).Error() }},
		{"EventType", 8, "(", func(v int64) string { return EventType(v).String() }},
		{"KeeperState", 9, "(", func(v int64) string { return KeeperState(v).String() }},
		{"CreateMode", 7, "(", func(v int64) string { return CreateMode(v).String() }},
	}
	for _, tt := range tests {
		t.Run(tt.typ, func(t *testing.T) {
			values := constants(t, tt.typ)
			if len(values) != tt.count {
				t.Errorf("%d constants, want %d", len(values), tt.count)
			}
			seen := map[string]string{}
			for constant, v := range values {
				text := tt.text(v)
				if text == "" || strings.Contains(text, tt.unknown) {
					t.Errorf("%s has no name: %q", constant, text)
				}
				if other, ok := seen[text]; ok {
					t.Errorf("%s and %s are both %q", constant, other, text)
				}
				seen[text] = constant
			}
			for _, v := range []int64{99, -99, 10, math.MaxInt32, math.MinInt32} {
				if text := tt.text(v); !strings.Contains(text, tt.unknown) || !strings.Contains(text, fmt.Sprint(v)) {
					t.Errorf("unknown %d is %q, want %q and the number in it", v, text, tt.unknown)
				}
			}
		})
	}
}

// The numbers are ZooKeeper's and never change.
func TestNumbers(t *testing.T) {
	ops := map[Op]string{
		0:   "notification",
		1:   "create",
		2:   "delete",
		3:   "exists",
		4:   "getData",
		5:   "setData",
		6:   "getACL",
		7:   "setACL",
		8:   "getChildren",
		9:   "sync",
		11:  "ping",
		12:  "getChildren2",
		13:  "check",
		14:  "multi",
		15:  "create2",
		16:  "reconfig",
		17:  "checkWatches",
		18:  "removeWatches",
		19:  "createContainer",
		20:  "deleteContainer",
		21:  "createTTL",
		22:  "multiRead",
		100: "auth",
		101: "setWatches",
		102: "sasl",
		103: "getEphemerals",
		104: "getAllChildrenNumber",
		105: "setWatches2",
		106: "addWatch",
		107: "whoAmI",
		-10: "createSession",
		-11: "closeSession",
		-1:  "error",
	}
	for op, want := range ops {
		if got := op.String(); got != want {
			t.Errorf("Op(%d) is %q, want %q", op, got, want)
		}
	}
	codes := map[string]int64{
		"OK":                           0,
		"SystemError":                  -1,
		"RuntimeInconsistency":         -2,
		"DataInconsistency":            -3,
		"ConnectionLoss":               -4,
		"MarshallingError":             -5,
		"Unimplemented":                -6,
		"OperationTimeout":             -7,
		"BadArguments":                 -8,
		"InvalidState":                 -9,
		"UnknownSession":               -12,
		"NewConfigNoQuorum":            -13,
		"ReconfigInProgress":           -14,
		"APIError":                     -100,
		"NoNode":                       -101,
		"NoAuth":                       -102,
		"BadVersion":                   -103,
		"NoChildrenForEphemerals":      -108,
		"NodeExists":                   -110,
		"NotEmpty":                     -111,
		"SessionExpired":               -112,
		"InvalidCallback":              -113,
		"InvalidACL":                   -114,
		"AuthFailed":                   -115,
		"Closing":                      -116,
		"Nothing":                      -117,
		"SessionMoved":                 -118,
		"NotReadOnly":                  -119,
		"EphemeralOnLocalSession":      -120,
		"NoWatcher":                    -121,
		"RequestTimeout":               -122,
		"ReconfigDisabled":             -123,
		"SessionClosedRequireSaslAuth": -124,
		"QuotaExceeded":                -125,
		"ThrottledOp":                  -127,
	}
	if got := constants(t, "Code"); !maps.Equal(got, codes) {
		t.Errorf("codes\n%v, want\n%v", got, codes)
	}
	events := map[EventType]string{
		-1: "None", 1: "NodeCreated", 2: "NodeDeleted", 3: "NodeDataChanged", 4: "NodeChildrenChanged",
		5: "DataWatchRemoved", 6: "ChildWatchRemoved", 7: "PersistentWatchRemoved",
	}
	for event, want := range events {
		if got := event.String(); got != want {
			t.Errorf("EventType(%d) is %q, want %q", event, got, want)
		}
	}
}

func TestOpIsWrite(t *testing.T) {
	writes := map[int64]bool{}
	for _, op := range []int64{1, 2, 5, 7, 13, 14, 15, 16, 19, 20, 21, -10, -11, -1001, -1002, -1003, -1004, -1005, -1006, -1007, -1008, -1009, -1010} {
		writes[op] = true
	}
	for constant, v := range constants(t, "Op") {
		if got := Op(v).IsWrite(); got != writes[v] {
			t.Errorf("%s.IsWrite() = %t, want %t", constant, got, writes[v])
		}
	}
	if Op(99).IsWrite() {
		t.Error("an unknown opcode is a write")
	}
}

// Each opcode is in the table once, and each record that the table makes is a new one.
func TestOperationTable(t *testing.T) {
	seen := map[Op]bool{}
	for op := range AllOps() {
		if seen[op] {
			t.Errorf("%v is in the table twice", op)
		}
		seen[op] = true
		for _, made := range []func() Record{op.NewRequest, op.NewResponse} {
			if first := made(); first != nil && first == made() {
				t.Errorf("%v: the same record was returned twice", op)
			}
		}
	}
	for constant, v := range constants(t, "Op") {
		if !seen[Op(v)] {
			t.Errorf("%s is not in the table", constant)
		}
	}
	for _, op := range []Op{leastOp - 1, greatestOp + 1, 10, math.MinInt32, math.MaxInt32} {
		if op.Class() != ClassOther || op.IsWrite() || op.NewRequest() != nil || op.NewResponse() != nil || op.Abbreviation() != "NA" {
			t.Errorf("%v: an unknown opcode has a property of a known one", op)
		}
	}
}

func TestCodeOnWire(t *testing.T) {
	never := map[Code]bool{}
	for _, c := range []Code{-3, -4, -7, -9, -12, -100, -113, -116, -117, -118, -122} {
		never[c] = true
	}
	known := constants(t, "Code")
	for constant, v := range known {
		if got := Code(v).IsSentByServers(); got == never[Code(v)] {
			t.Errorf("%s.OnWire() = %t", constant, got)
		}
		delete(never, Code(v))
	}
	if len(never) > 0 {
		t.Errorf("codes without a constant: %v", never)
	}
	for _, c := range []Code{1, 101, -10, -11, -104, -109, -126, -128, math.MinInt32} {
		if c.IsSentByServers() {
			t.Errorf("unknown code %d may be sent", c)
		}
	}
}

func TestCodeErr(t *testing.T) {
	if err := OK.Err(); err != nil {
		t.Errorf("OK.Err() = %v, want nil", err)
	}
	err := fmt.Errorf("create /a: %w", NodeExists.Err())
	if code, ok := errors.AsType[Code](err); !errors.Is(err, NodeExists) || !ok || code != NodeExists {
		t.Errorf("%v does not match NodeExists", err)
	}
	if got := NoNode.Error(); got != "no node" {
		t.Errorf("NoNode.Error() = %q", got)
	}
}

func TestSessionIDString(t *testing.T) {
	tests := []struct {
		id   SessionID
		want string
	}{
		{0, "0x0"},
		{0x100000df5a70000, "0x100000df5a70000"},
		{-1, "0xffffffffffffffff"},
		{math.MinInt64, "0x8000000000000000"},
	}
	for _, tt := range tests {
		if got := tt.id.String(); got != tt.want {
			t.Errorf("SessionID(%d).String() = %q, want %q", int64(tt.id), got, tt.want)
		}
		if got := slog.AnyValue(tt.id).Resolve().String(); got != tt.want {
			t.Errorf("SessionID(%d) is logged as %q, want %q", int64(tt.id), got, tt.want)
		}
	}
}

func TestCreateModes(t *testing.T) {
	type kind struct{ ephemeral, sequential, container, ttl, known bool }
	want := map[CreateMode]kind{
		0: {known: true},
		1: {ephemeral: true, known: true},
		2: {sequential: true, known: true},
		3: {ephemeral: true, sequential: true, known: true},
		4: {container: true, known: true},
		5: {ttl: true, known: true},
		6: {sequential: true, ttl: true, known: true},
	}
	for m := CreateMode(-1); m <= 9; m++ {
		if got := (kind{m.IsEphemeral(), m.IsSequential(), m.IsContainer(), m.IsTTL(), m.IsKnown()}); got != want[m] {
			t.Errorf("%v: %+v, want %+v", m, got, want[m])
		}
	}
}
