package subtree_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"rollcall/cli/nodes"
	"rollcall/client"
	"rollcall/operator/subtree"
)

// dump returns the dump of a subtree, its summary and its warnings.
func (s testSpace) dump(t *testing.T, top string, ephemerals bool) (text string, sum subtree.Summary, warnings []string) {
	t.Helper()
	var out bytes.Buffer
	each := 0
	sum, err := s.Dump(t.Context(), &out, top, subtree.DumpOptions{
		IncludeEphemerals: ephemerals, Now: time.Date(2026, 1, 2, 3, 4, 5, 6789000, time.UTC),
		OnWarning: func(path, why string) { warnings = append(warnings, path+" "+why) },
		OnRecord:  func(*subtree.Record) { each++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	if each != sum.Count {
		t.Errorf("told of %d nodes, and the summary has %d", each, sum.Count)
	}
	return out.String(), sum, warnings
}

// checksumKey is the end of a dump, which depends on all of its content.
var checksumKey = regexp.MustCompile(`"sha256":"[0-9a-f]{64}"`)

// A dump has all nodes in order, with data of every kind and lists. Ephemeral nodes are left out and
// counted, or shown.
func TestDump(t *testing.T) {
	s := newSpace(t)
	s.create(t, "/app", "/app/empty ", "/app/text <&>ü\n", "/app/bytes \xff\x00", "/app/escape \x1b[2J\u009b\u202e\U000e0041")
	if _, err := s.Client.SetACL(t.Context(), s.FullPath("/app/text"), []client.ACL{
		{Permissions: client.PermRead, Identity: client.Identity{Scheme: "world", ID: "anyone"}},
		{Permissions: client.PermAll, Identity: client.Identity{Scheme: "ip", ID: "127.0.0.1"}},
	}, -1); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Client.Create(t.Context(), s.FullPath("/app/lock"), []byte("me"), client.Ephemeral); err != nil {
		t.Fatal(err)
	}
	session, _ := s.Client.Session()
	const head = `{"format":"rollcall-dump","version":1,"path":"/app","created":"2026-01-02T03:04:05.006Z","nodes":[
{"path":"/app","data":null,"acl":["world:anyone:cdrwa"]},
{"path":"/app/bytes","data":"/wA=","acl":["world:anyone:cdrwa"]},
{"path":"/app/empty","data":"","acl":["world:anyone:cdrwa"]},
{"path":"/app/escape","data":"G1sySsKb4oCu86CBgQ==","text":"\u001b[2J\u009b\u202e\udb40\udc41","acl":["world:anyone:cdrwa"]},
`
	const text = `{"path":"/app/text","data":"PCY+w7wK","text":"<&>ü\n","acl":["world:anyone:r","ip:127.0.0.1:cdrwa"]}
`
	lock := fmt.Sprintf(`{"path":"/app/lock","data":"bWU=","text":"me","acl":["world:anyone:cdrwa"],"ephemeral_owner":"%v"},`+"\n", session)
	for _, tt := range []struct {
		ephemerals bool
		want       string
	}{
		{false, head + text + `],"count":5,"ephemerals":0,"left_out":1,"unread":0,"hidden":0,"newer":0,SUM}` + "\n"},
		{true, head + lock + text + `],"count":6,"ephemerals":1,"left_out":0,"unread":0,"hidden":0,"newer":0,SUM}` + "\n"},
	} {
		got, sum, warnings := s.dump(t, "/app", tt.ephemerals)
		if short := checksumKey.ReplaceAllString(got, "SUM"); short != tt.want || len(warnings) > 0 {
			t.Errorf("warnings %q, dump\n%s\nwant\n%s", warnings, short, tt.want)
		}
		if !json.Valid([]byte(got)) {
			t.Error("the dump is not JSON")
		}
		found, err := subtree.CheckDump(strings.NewReader(got), false, nil)
		if err != nil || found != sum {
			t.Errorf("checked as %+v, %v\nwritten as %+v", found, err, sum)
		}
	}
}

// A dump lists the nodes that are missing from it, and the ones that changed meanwhile.
func TestDumpWarns(t *testing.T) {
	owner := newSpace(t)
	owner.Space = nodes.New(openClient(t, client.Config{Auth: []client.Auth{{Scheme: "digest", Proof: []byte("owner:secret")}}}), owner.Root)
	owner.create(t, "/app", "/app/a", "/app/b", "/app/b/c", "/app/d")
	mine := client.ACL{Permissions: client.PermAll, Identity: client.Identity{Scheme: "auth"}}
	for path, list := range map[string][]client.ACL{
		"/app/a": {mine, {Permissions: client.PermRead, Identity: client.Identity{Scheme: "world", ID: "anyone"}}},
		"/app/b": {mine},
	} {
		if _, err := owner.Client.SetACL(t.Context(), owner.FullPath(path), list, -1); err != nil {
			t.Fatal(err)
		}
	}
	if _, sum, warnings := owner.dump(t, "/app", false); len(warnings) > 0 || sum.Count != 5 {
		t.Errorf("to the owner of all: %+v, %q", sum, warnings)
	}

	stranger := testSpace{nodes.New(openClient(t, client.Config{}), owner.Root)}
	text, sum, warnings := stranger.dump(t, "/app", false)
	wantLines(t, warnings, "/app/a "+subtree.NoDigests, "/app/b "+subtree.NoRead)
	if sum.Count != 3 || sum.Unread != 1 || sum.Hidden != 1 || sum.Newer != 0 {
		t.Errorf("to a stranger: %+v", sum)
	}
	if !strings.Contains(text, `"digest:owner:x:cdrwa"`) {
		t.Errorf("the digest is not hidden, so the case is void:\n%s", text)
	}
	if _, err := stranger.Dump(t.Context(), io.Discard, "/app/b", subtree.DumpOptions{}); !errors.Is(err, client.ErrNoAuth) {
		t.Errorf("dump of a node that may not be read: %v", err)
	}

	sum, err := owner.Dump(t.Context(), io.Discard, "/app", subtree.DumpOptions{OnRecord: func(r *subtree.Record) {
		if r.Path == "/app" {
			if _, err := owner.Client.Set(t.Context(), owner.FullPath("/app/d"), []byte("new"), -1); err != nil {
				t.Error(err)
			}
		}
	}})
	if err != nil || sum.Newer > 1 { // d may have been read already
		t.Errorf("while a node changes: %+v, %v", sum, err)
	}
}

// Check rejects a dump that ends early, wherever it was truncated.
func TestDumpInterrupted(t *testing.T) {
	s := newSpace(t)
	s.create(t, "/app", "/app/a 1", "/app/b 2", "/app/c 3")
	whole, _, _ := s.dump(t, "/app", false)
	for i := range len(whole) - 2 { // without the last brace it is cut off, without the line end it is not
		if _, err := subtree.CheckDump(strings.NewReader(whole[:i]), true, nil); err == nil {
			t.Fatalf("the first %d of %d bytes passed as a whole dump:\n%s", i, len(whole), whole[:i])
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var part bytes.Buffer
	if _, err := s.Dump(ctx, &part, "/app", subtree.DumpOptions{OnRecord: func(*subtree.Record) { cancel() }}); !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupted dump ended with %v", err)
	}
	if _, err := subtree.CheckDump(&part, true, nil); !errors.Is(err, subtree.ErrTruncated) {
		t.Errorf("an interrupted dump was checked with %v", err)
	}
	if _, err := s.Dump(t.Context(), failingWriter{}, "/app", subtree.DumpOptions{OnRecord: func(*subtree.Record) {}}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a dump that cannot be written ended with %v", err)
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// An ephemeral node alone is not dumped without a word, and neither are the servers' nodes dumped with
// others.
func TestDumpTops(t *testing.T) {
	s := newSpace(t)
	if _, _, err := s.Client.Create(t.Context(), s.FullPath("/lock"), nil, client.Ephemeral); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Dump(t.Context(), io.Discard, "/lock", subtree.DumpOptions{}); !errors.Is(err, subtree.ErrEphemeral) {
		t.Errorf("an ephemeral node: %v", err)
	}
	all := testSpace{nodes.New(s.Client, "")}
	if text, _, _ := all.dump(t, "/", false); strings.Contains(text, `"/zookeeper`) || !strings.Contains(text, `"`+s.Root+`"`) {
		t.Errorf("the dump of everything:\n%s", text)
	}
	if text, _, _ := all.dump(t, "/zookeeper", false); !strings.Contains(text, `"/zookeeper/config"`) {
		t.Errorf("the dump of the servers' nodes:\n%s", text)
	}
}
