package audit

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"rollcall/proto"
)

func TestText(t *testing.T) {
	tests := []struct{ in, json, zk string }{
		{"/a b=c,d", "/a b=c,d", "/a b=c,d"},
		{"\t\r\n\x00\x1b[2J\x7f", `\u0009\u000d\u000a\u0000\u001b[2J\u007f`, `\u0009\u000d\u000a\u0000\u001b[2J\u007f`},
		{`"\`, `\"\\`, `"\\`},
		{"ä€\U0001f600", "ä€\U0001f600", "ä€\U0001f600"},
		{"\u202e\u2028\u0085\ufeff\U000e0001", `\u202e\u2028\u0085\ufeff\udb40\udc01`, `\u202e\u2028\u0085\ufeff\udb40\udc01`},
		{"\ufffd", "\ufffd", "\ufffd"}, // a client may send it as it is
		{"\xff\xc3", `\ufffd\ufffd`, `\ufffd\ufffd`},
		{strings.Repeat("x", 20), strings.Repeat("x", 20), strings.Repeat("x", 20)},
		{strings.Repeat("x", 21), strings.Repeat("x", 20) + "…", strings.Repeat("x", 20) + "…"},
		{strings.Repeat("x", 19) + "€", strings.Repeat("x", 19) + "…", strings.Repeat("x", 19) + "…"},
		{strings.Repeat("x", 17) + "€y", strings.Repeat("x", 17) + "€…", strings.Repeat("x", 17) + "€…"},
	}
	for _, tt := range tests {
		if got := string(appendText(nil, tt.in, 20, true)); got != tt.json {
			t.Errorf("%q: %s, want %s", tt.in, got, tt.json)
		}
		if got := string(appendText(nil, tt.in, 20, false)); got != tt.zk {
			t.Errorf("%q: %s, want %s", tt.in, got, tt.zk)
		}
	}
}

// However long and strange the texts of a client are, its line is one line of bounded length, and each field stays
// in its place.
func FuzzLine(f *testing.F) {
	f.Add("/a", "bob", "1.2.3.4", "x")
	f.Add("/a\toperation=delete\nsession=0x1", `b",`, "\x1b[31m", "\xff")
	f.Add(strings.Repeat("\x00", 1<<20), strings.Repeat("ü", 5000), "", strings.Repeat(`"`, 10000))
	f.Fuzz(func(t *testing.T, path, user, address, text string) {
		e := Event{
			AtMs: 1, Session: 1, Ids: []*proto.Identity{{Scheme: "ip", Id: address}, {Scheme: "digest", Id: user}}, Operation: "create",
			Path: path, Type: "persistent", ACL: text, Error: text, Reason: text, Target: text, Result: Failure,
		}
		for range 500 {
			e.Ids = append(e.Ids, &proto.Identity{Scheme: text, Id: user})
		}
		var fields map[string]any
		line := new(formatter).appendLine(nil, &e)
		if err := json.Unmarshal(line, &fields); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if got, _ := fields["path"].(string); len(path) <= maxText && utf8.ValidString(path) && got != path ||
			fields["operation"] != "create" || fields["result"] != "failure" {
			t.Errorf("%s", line)
		}
		for _, zooKeeper := range []bool{false, true} {
			line := string((&formatter{zooKeeper: zooKeeper}).appendLine(nil, &e))
			if strings.Count(line, "\n") != 1 || line[len(line)-1] != '\n' || len(line) >= maxLineBytes || !utf8.ValidString(line) {
				t.Errorf("%d bytes: %q", len(line), line)
			}
			if tabs := strings.Count(line, "\t"); zooKeeper && tabs > 8 || !zooKeeper && tabs > 0 {
				t.Errorf("%d tabs in %q", tabs, line)
			}
			if strings.ContainsAny(line, "\x00\x1b\u202e\x7f") {
				t.Errorf("control characters in %q", line)
			}
		}
	})
}
