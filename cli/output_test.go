package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"rollcall/operator/api"
)

var update = flag.Bool("update", false, "write the golden files in testdata anew")

// golden compares got with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := errors.Join(os.MkdirAll("testdata", 0o700), os.WriteFile(path, []byte(got), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: printed\n%s\nwant\n%s", name, got, want)
	}
}

type fruit struct {
	Name  string   `json:"name"`
	Count int      `json:"count"`
	Tags  []string `json:"tags"`
	Next  *fruit   `json:"next"`
}

var fruits = []fruit{
	{"0x10", 5, []string{"yes", "null"}, nil},
	{"\x1b]0;owned\a\u202eevil\u009b31m \U000e0041\n", 12345, []string{}, &fruit{Name: "<b>&", Tags: []string{}}},
	{"梨 é", 0, []string{"a: b", "- c", "#"}, nil},
	{"bad\xffbytes\x7f", -1, []string{"1:20", "0o7", "3.0", ""}, nil},
}

var fruitColumns = []Column[fruit]{
	{Name: "name", Cell: func(f fruit) string { return f.Name }, Tint: func(f fruit) Tint { return map[bool]Tint{true: Red}[f.Count == 0] }},
	{Name: "count", AlignRight: true, Cell: func(f fruit) string { return fmt.Sprint(f.Count) }},
	{Name: "tags", WideOnly: true, Cell: func(f fruit) string { return strings.Join(f.Tags, ",") }},
}

// sequence yields rows, and then err unless it is nil.
func sequence[T any](rows []T, err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
		if err != nil {
			yield(*new(T), err)
		}
	}
}

// Rows are printed in each format. What a terminal would not simply show is escaped in all of them,
// and JSON and YAML say the same. Without a terminal there are no colours.
func TestFormats(t *testing.T) {
	for _, format := range outputFormats {
		w, out, _ := testWorld()
		o := NewOutput(w)
		if err := o.Set(format); err != nil {
			t.Fatal(err)
		}
		if err := PrintRows(o, fruitColumns, sequence(fruits, nil)); err != nil {
			t.Fatal(err)
		}
		if EscapeUnprintable(strings.ReplaceAll(out.String(), "\n", "")) != strings.ReplaceAll(out.String(), "\n", "") {
			t.Errorf("%s prints bytes that a terminal would not simply show: %q", format, out)
		}
		list := out.String()
		out.Reset()
		if err := printRow(o, fruitColumns, fruits[1]); err != nil {
			t.Fatal(err)
		}
		golden(t, "fruits."+format, list+"\n"+out.String())
		var read []fruit
		switch format {
		case "json":
			if err := json.Unmarshal([]byte(list), &read); err != nil {
				t.Error(err)
			}
		case "yaml":
			var any []map[string]any
			if err := yaml.Unmarshal([]byte(list), &any); err != nil {
				t.Error(err)
			}
			text, _ := json.Marshal(any)
			if err := json.Unmarshal(text, &read); err != nil {
				t.Error(err)
			}
		default:
			continue
		}
		want := slices.Clone(fruits)
		want[3].Name = "bad\ufffdbytes\x7f"
		a, _ := json.Marshal(read)
		b, _ := json.Marshal(want)
		if !bytes.Equal(a, b) {
			t.Errorf("%s reads as %s", format, a)
		}
	}
}

// A terminal gets colours, unless the user does not want them.
func TestColours(t *testing.T) {
	for _, tt := range []struct {
		env  []string
		want bool
	}{{nil, true}, {[]string{"NO_COLOR=1"}, false}, {[]string{"NO_COLOR="}, true}, {[]string{"TERM=dumb"}, false}} {
		w, out, _ := testWorld(tt.env...)
		w.OutTerminal = true
		if err := PrintRows(NewOutput(w), fruitColumns, sequence(fruits[2:3], nil)); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), string(Red)+"梨 é"+tintReset); got != tt.want {
			t.Errorf("%q: coloured: %t in %q", tt.env, got, out)
		}
	}
}

// An empty list is the head of a table, or an empty array.
func TestNoRows(t *testing.T) {
	for format, want := range map[string]string{"table": "NAME  COUNT\n", "wide": "NAME  COUNT  TAGS\n", "json": "[]\n", "yaml": "[]\n"} {
		w, out, _ := testWorld()
		o := NewOutput(w)
		_ = o.Set(format)
		if err := PrintRows(o, fruitColumns, sequence[fruit](nil, nil)); err != nil || out.String() != want {
			t.Errorf("%s: %v, %q", format, err, out)
		}
	}
}

// After an error the rows before it are printed, and JSON is not complete. Without rows nothing is printed.
func TestErrorBetweenRows(t *testing.T) {
	broken := errors.New("gone")
	for _, n := range []int{0, 1, alignRows + 5} {
		for _, format := range outputFormats {
			w, out, _ := testWorld()
			o := NewOutput(w)
			_ = o.Set(format)
			rows := slices.Repeat([]fruit{{Name: "apple"}}, n)
			if err := PrintRows(o, fruitColumns, sequence(rows, broken)); !errors.Is(err, broken) {
				t.Errorf("%s: %v", format, err)
			}
			if got := strings.Count(out.String(), "apple"); got != n || n == 0 && out.Len() > 0 {
				t.Errorf("%s: %d rows of %d: %q", format, got, n, out)
			}
			if format == "json" && json.Valid(out.Bytes()) {
				t.Errorf("%d rows and an error are valid JSON", n)
			}
		}
	}
}

// The columns make room for the first rows, up to a width. Long cells after that move their own row only.
func TestAlignment(t *testing.T) {
	w, out, _ := testWorld()
	long := strings.Repeat("x", alignColumns+10)
	rows := append([]fruit{{Name: "abc"}, {Name: long}}, slices.Repeat([]fruit{{Name: "abcdefgh"}}, alignRows)...)
	if err := PrintRows(NewOutput(w), fruitColumns, sequence(rows, nil)); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) != len(rows)+2 || len(lines[1]) != alignColumns+len("  COUNT") || len(lines[1]) != len(lines[len(lines)-2]) || len(lines[2]) != len(long)+len("  COUNT") {
		t.Errorf("%d lines, of %d, %d and %d characters", len(lines), len(lines[1]), len(lines[len(lines)-2]), len(lines[2]))
	}
}

// tintOf returns the tint of a row's cell in the column of a name.
func tintOf[T any](t *testing.T, columns []Column[T], name string, row T) Tint {
	t.Helper()
	i := slices.IndexFunc(columns, func(c Column[T]) bool { return c.Name == name })
	if i < 0 || columns[i].Tint == nil {
		t.Fatalf("no colours in a column %s", name)
	}
	return columns[i].Tint(row)
}

// Colours point at what an operator should look at, and at nothing else.
func TestTints(t *testing.T) {
	now := time.Now()
	sessions, members, ends := sessionColumns(now), statusColumns(now), endColumns(now)
	third, most := int64(3000), uint64(manyEntriesBehind)
	less, more := third-1, most+1
	ofMember := func(name string, m api.Member) Tint { return tintOf(t, members, name, memberRow{Member: m}) }
	for _, tt := range []struct {
		what      string
		got, want Tint
	}{
		{"connected", tintOf(t, sessions, "state", api.Session{State: "connected"}), Green},
		{"disconnected", tintOf(t, sessions, "state", api.Session{State: "disconnected"}), Yellow},
		{"unknown", tintOf(t, sessions, "state", api.Session{State: "unknown"}), Dim},
		{"a third of the timeout left", tintOf(t, sessions, "left", api.Session{LeftMs: &third, TimeoutMs: 9000}), Plain},
		{"less than a third", tintOf(t, sessions, "left", api.Session{LeftMs: &less, TimeoutMs: 9000}), Yellow},
		{"left is not known", tintOf(t, sessions, "left", api.Session{TimeoutMs: 9000}), Plain},
		{"leader", ofMember("role", api.Member{Role: "leader"}), Green},
		{"standalone", ofMember("role", api.Member{Role: "standalone"}), Green},
		{"follower", ofMember("role", api.Member{Role: "follower"}), Plain},
		{"no role", ofMember("role", api.Member{}), Red},
		{"digest agrees", ofMember("digest", api.Member{DigestVerdict: "agrees"}), Plain},
		{"digest differs", ofMember("digest", api.Member{DigestVerdict: "differs"}), Red},
		{"a little behind", ofMember("lag", api.Member{Lag: &most}), Plain},
		{"far behind", ofMember("lag", api.Member{Lag: &more}), Yellow},
		{"lag is not known", ofMember("lag", api.Member{}), Plain},
		{"closed", tintOf(t, ends, "reason", api.End{Reason: "closed"}), Plain},
		{"expired", tintOf(t, ends, "reason", api.End{Reason: "expired"}), Yellow},
		{"killed", tintOf(t, ends, "reason", api.End{Reason: "killed"}), Yellow},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: tint %v, want %v", tt.what, tt.got, tt.want)
		}
	}
}

// If a session has more nodes than are shown, the line says how many others there are.
func TestMoreThanIsShown(t *testing.T) {
	d := sessionDetail{Session: api.Session{EphemeralCount: 5, WatchCount: 2}, EphemeralPaths: []string{"/a", "/b"}, WatchedPaths: []string{"/a", "/b"}}
	got := map[string]string{}
	for _, c := range detailColumns(time.Now()) {
		got[c.Name] = c.Cell(d)
	}
	if got["nodes"] != "/a /b … and 3 more" || got["watched"] != "/a /b" {
		t.Errorf("nodes %q, watched %q", got["nodes"], got["watched"])
	}
}

// What removed a node is said with how its session ended, and for how long nothing was heard of that.
func TestCauseText(t *testing.T) {
	for want, r := range map[string]api.Removal{
		"delete": {Cause: "delete"},
		"session ended: expired after 7s of silence": {Cause: "session ended", End: &api.End{Reason: "expired", SilentMs: 7000, TimeoutMs: 5000}},
		"session ended: killed by admin":             {Cause: "session ended", End: &api.End{Reason: "killed", EndedBy: "admin", SilentMs: 7000, TimeoutMs: 5000}},
	} {
		if got := formatCause(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The clock that wrote a time may be ahead of this one, or have written none.
func TestAge(t *testing.T) {
	now := time.UnixMilli(10_000)
	for _, tt := range []struct {
		at   time.Time
		want string
	}{{now.Add(-3 * time.Second), "3s"}, {now, "0ms"}, {now.Add(time.Second), "0ms"}, {time.Time{}, "-"}} {
		if got := formatAge(now, tt.at); got != tt.want {
			t.Errorf("Age of %v: %s, want %s", tt.at, got, tt.want)
		}
	}
}
