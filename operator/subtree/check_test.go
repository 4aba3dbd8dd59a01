package subtree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/zk/jute"
)

// document returns a dump of these nodes with a checksum that fits, unless the nodes cannot be read.
func document(nodes ...string) string {
	sum, found := newChecksum(), Summary{}
	for _, text := range nodes {
		var r Record
		if json.Unmarshal([]byte(text), &r) != nil {
			break
		}
		if found.Count++; found.Count == 1 {
			found.Path = r.Path
		}
		sum.addRecord(&r)
	}
	return fmt.Sprintf(`{"format":"rollcall-dump","version":1,"path":%q,"created":%q,"nodes":[%s],
		"count":%d,"ephemerals":0,"left_out":0,"unread":0,"hidden":0,"newer":0,"sha256":"%v"}`,
		found.Path, time.Unix(0, 0).UTC().Format(time.RFC3339), strings.Join(nodes, ","), found.Count, sum)
}

// plainNode returns the JSON of a node without data.
func plainNode(path string) string {
	return fmt.Sprintf(`{"path":%q,"data":null,"acl":["world:anyone:cdrwa"]}`, path)
}

// Check rejects a text that is not a complete dump, and names the fault.
func TestCheckRefuses(t *testing.T) {
	good := document(plainNode("/a"), plainNode("/a/b"), plainNode("/a/b/c"), plainNode("/a/d"))
	if found, err := CheckDump(strings.NewReader(good), false, nil); err != nil || found.Count != 4 || found.Path != "/a" {
		t.Fatalf("a good dump: %+v, %v", found, err)
	}
	node := func(fields string) string { return document(`{"path":"/a",` + fields + `}`) }
	const acl = `"acl":["world:anyone:r"]`
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", "not whole"},
		{"another kind of file", "PK\x03\x04", "invalid character 'P'"},
		{"a list", "[]", "not a dump: at byte 1"},
		{"an empty object", "{}", `the key "count" is missing`},
		{"another format", strings.Replace(good, "rollcall-dump", "other", 1), `its format is "other"`},
		{"a later version", strings.Replace(good, `"version":1`, `"version":2`, 1), "version 2; this program reads version 1"},
		{"an unknown key", strings.Replace(good, `"count"`, `"more":1,"count"`, 1), `unknown key "more"`},
		{"a key twice", strings.Replace(good, `"count"`, `"version":1,"count"`, 1), `duplicate key "version"`},
		{"a missing key", strings.Replace(good, `"unread":0,`, "", 1), `the key "unread" is missing`},
		{"a wrong type", strings.Replace(good, `"count":4`, `"count":"4"`, 1), "count: json"},
		{"something after it", good + "{}", "something follows"},
		{"a wrong count", strings.Replace(good, `"count":4`, `"count":5`, 1), "it has 4 nodes and says 5"},
		{"a changed node", strings.Replace(good, `"/a/d","data":null`, `"/a/d","data":""`, 1), ErrChecksum.Error()},
		{"another path", strings.Replace(good, `"path":"/a","created"`, `"path":"/b","created"`, 1), `is of "/b", and its first node is /a`},
		{"no nodes", document(), "has no nodes"},
		{"a node twice", document(plainNode("/a"), plainNode("/a/b"), plainNode("/a/b")), "node 3: duplicate node /a/b"},
		{"a wrong order", document(plainNode("/a"), plainNode("/a/c"), plainNode("/a/b")), "/a/b comes after /a/c"},
		{"a missing parent", document(plainNode("/a"), plainNode("/a/b/c")), "the parent of /a/b/c is missing"},
		{"a missing parent after others", document(plainNode("/a"), plainNode("/a/b"), plainNode("/a/c/d")), "the parent of /a/c/d is missing"},
		{"a node elsewhere", document(plainNode("/a"), plainNode("/b")), "/b is not below /a"},
		{"a root inside", document(plainNode("/a"), plainNode("/")), "/ is not below /a"},
		{"a child of an ephemeral node", document(`{"path":"/a","data":null,"ephemeral_owner":"0x1",`+acl+`}`, plainNode("/a/b")), "below an ephemeral node"},
		{"a bad path", document(plainNode("/a/../b")), `node 1: path "/a/../b"`},
		{"no path", document(`{"data":null,` + acl + `}`), "begins with a slash"},
		{"an unknown key of a node", node(`"data":null,"x":1,` + acl), `unknown field "x"`},
		{"no data", node(acl), "neither data nor text"},
		{"data that are not base64", node(`"data":"*",` + acl), "illegal base64"},
		{"data of another type", node(`"data":{},` + acl), "cannot unmarshal object"},
		{"data and another text", node(`"data":"YQ==","text":"b",` + acl), "data and text differ"},
		{"null data and a text", node(`"data":null,"text":"b",` + acl), "data and text differ"},
		{"no list", node(`"data":null`), "its access control list is empty or missing"},
		{"an empty list", node(`"data":null,"acl":[]`), "empty or missing"},
		{"a bad list", node(`"data":null,"acl":["world"]`), `ACL entry "world": no colon`},
		{"a null node", document("null"), "begins with a slash"},
		{"deep nesting", strings.Repeat("[", 100000), "at byte 1"},
		{"deep nesting inside", `{"format":` + strings.Repeat("[", 100000), "exceeded max depth"},
	} {
		_, err := CheckDump(strings.NewReader(tt.text), false, nil)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// A dump that was only laid out anew passes. One whose content was edited passes if the caller says so.
func TestCheckEdited(t *testing.T) {
	good := document(plainNode("/a"), `{"path":"/a/b","data":"YQ==","text":"a","acl":["world:anyone:r"]}`)
	var any map[string]any
	if err := json.Unmarshal([]byte(good), &any); err != nil {
		t.Fatal(err)
	}
	sorted, err := json.MarshalIndent(any, "", "  ") // sorts the keys
	if err != nil {
		t.Fatal(err)
	}
	if _, err := CheckDump(bytes.NewReader(sorted), false, nil); err != nil {
		t.Errorf("laid out anew: %v\n%s", err, sorted)
	}
	edited := strings.Replace(good, `"data":"YQ==","text":"a"`, `"text":"b"`, 1)
	if _, err := CheckDump(strings.NewReader(edited), false, nil); !errors.Is(err, ErrChecksum) {
		t.Errorf("edited: %v", err)
	}
	var data []string
	if _, err := CheckDump(strings.NewReader(edited), true, func(r *Record) error {
		data = append(data, string(r.Data))
		return nil
	}); err != nil {
		t.Errorf("edited, as the caller knows: %v", err)
	}
	if !slices.Equal(data, []string{"", "b"}) {
		t.Errorf("edited: the nodes have %q", data)
	}
}

// endless yields the same byte forever.
type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

// A value that never ends is rejected before it fills the memory.
func TestCheckIsBounded(t *testing.T) {
	for _, begin := range []string{`"`, `{"format":"`, `{"nodes":[{"path":"`, `{"nodes":[ `, ` `} {
		fill := endless('a')
		if strings.HasSuffix(begin, " ") {
			fill = ' '
		}
		_, err := checkBounded(&boundedReader{from: io.MultiReader(strings.NewReader(begin), fill), limit: 1 << 20}, false, nil)
		if err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes") {
			t.Errorf("%s…: %v", begin, err)
		}
	}
}

// Paths are ordered as in a walk: a node before its descendants, and these before its next sibling.
func TestComparePaths(t *testing.T) {
	order := []string{"/", "/a", "/a/b", "/a/b/c", "/a/c", "/a.b", "/a0", "/a\u00a0", "/b"}
	for i, a := range order {
		for j, b := range order {
			if got := comparePaths(a, b); got < 0 != (i < j) || got > 0 != (i > j) {
				t.Errorf("%q to %q: %d", a, b, got)
			}
		}
	}
}

// FuzzCheck checks that whatever Check accepts is a dump in which every node follows its parent, and that
// its nodes, written again, are the same nodes.
func FuzzCheck(f *testing.F) {
	f.Add([]byte(document(plainNode("/a"), `{"path":"/a/b","data":"YQ==","text":"a","acl":["world:anyone:r","digest:u:h=:cdrwa"]}`, plainNode("/a/c"))))
	f.Add([]byte(document(plainNode("/"), `{"path":"/e","data":"","acl":["ip:::1:0"],"ephemeral_owner":"0x1"}`)))
	f.Add([]byte(`{"nodes":[null],"format":"rollcall-dump"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		seen := map[string]bool{}
		first := ""
		_, err := CheckDump(bytes.NewReader(text), true, func(r *Record) error {
			if first == "" {
				first = r.Path
			} else if !seen[parentOf(r.Path)] {
				t.Errorf("%q comes without its parent", r.Path)
			}
			if seen[r.Path] || CheckPath(r.Path) != nil || !IsAtOrBelow(r.Path, first) {
				t.Errorf("%q passed", r.Path)
			}
			seen[r.Path] = true
			written, err := r.MarshalJSON()
			if err != nil {
				return nil // bytes in a list that are not UTF-8: JSON has none, but U+FFFD
			}
			var again Record
			if err := json.Unmarshal(written, &again); err != nil || again.Path != r.Path || !bytes.Equal(again.Data, r.Data) ||
				(again.Data == nil) != (r.Data == nil) || !jute.EqualACLs(again.ACL, r.ACL) || again.Owner != r.Owner {
				t.Errorf("%+v was written as %s and read as %+v, %v", r, written, again, err)
			}
			return nil
		})
		if err == nil && first == "" {
			t.Error("a dump without nodes passed")
		}
	})
}
