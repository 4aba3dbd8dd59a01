package subtree_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/cli/nodes"
	"rollcall/client"
	"rollcall/operator/subtree"
	"rollcall/zk/jute"
)

// load loads a dump and returns the changes that it reported, without nodes that stayed the same.
func (s testSpace) load(t *testing.T, text string, how subtree.LoadOptions) (lines []string, done subtree.LoadResult, err error) {
	t.Helper()
	how.OnBegin = func(subtree.Summary) {}
	how.OnChange = func(c subtree.Change) {
		switch {
		case c.Action == "same":
		case c.Bytes > 0:
			lines = append(lines, fmt.Sprintf("%s %s %d", c.Action, c.Path, c.Bytes))
		default:
			lines = append(lines, c.Action+" "+c.Path)
		}
	}
	done, err = s.Load(t.Context(), testFile(t, text), how)
	return lines, done, err
}

// mustLoad is load for one that must not fail.
func (s testSpace) mustLoad(t *testing.T, text string, how subtree.LoadOptions) (lines []string, done subtree.LoadResult) {
	t.Helper()
	lines, done, err := s.load(t, text, how)
	if err != nil {
		t.Fatal(err)
	}
	return lines, done
}

// newDump returns a space with a tree at /app, and its dump.
func newDump(t *testing.T) (testSpace, string) {
	t.Helper()
	s := newSpace(t)
	s.create(t, "/app", "/app/a ", "/app/a/b \xff\x00", "/app/c text")
	readOnly := []client.ACL{{Permissions: client.PermRead | client.PermAdmin, Identity: client.Anyone}}
	if _, err := s.Client.SetACL(t.Context(), s.FullPath("/app/c"), readOnly, -1); err != nil {
		t.Fatal(err)
	}
	text, _, _ := s.dump(t, "/app", false)
	return s, text
}

// A dump that is loaded elsewhere gives the same tree: data, nulls and lists. A dry run reports the same and changes
// nothing.
func TestLoad(t *testing.T) {
	s, text := newDump(t)
	s.create(t, "/to")
	want := []string{"create /to/copy", "create /to/copy/a", "create /to/copy/a/b 2", "create /to/copy/c 4"}
	all := subtree.LoadResult{Nodes: 4, Bytes: 6, Created: 4}
	for _, dry := range []bool{true, false} {
		told, done := s.mustLoad(t, text, subtree.LoadOptions{Into: "/to/copy", DryRun: dry})
		wantLines(t, told, want...)
		if done != all {
			t.Errorf("dry run %v: %+v", dry, done)
		}
		if dry {
			wantLines(t, s.tree(t, "/to"), "/to")
		}
	}
	wantLines(t, s.tree(t, "/to/copy"), "/to/copy", `/to/copy/a ""`, `/to/copy/a/b "\xff\x00"`, `/to/copy/c "text" world:anyone:ra`)
	if again, _, _ := s.dump(t, "/to/copy", false); strings.ReplaceAll(nodesOf(again), "/to/copy", "/app") != nodesOf(text) {
		t.Errorf("the dump of the copy is\n%s\nthat of the original\n%s", again, text)
	}
	wantLines(t, s.tree(t, "/app"), "/app", `/app/a ""`, `/app/a/b "\xff\x00"`, `/app/c "text" world:anyone:ra`)

	// the lists of the dump can be replaced
	_, _ = s.mustLoad(t, text, subtree.LoadOptions{Into: "/to/open", ACL: openACL})
	wantLines(t, s.tree(t, "/to/open"), "/to/open", `/to/open/a ""`, `/to/open/a/b "\xff\x00"`, `/to/open/c "text"`)
}

// nodesOf returns the lines of a dump's nodes.
func nodesOf(dump string) string {
	_, rest, _ := strings.Cut(dump, "[\n")
	nodes, _, _ := strings.Cut(rest, "\n]")
	return nodes
}

// A load at a root works from a dump of a root and of another node. Other nodes at the root stand in the
// way, the servers' do not.
func TestLoadAtRoot(t *testing.T) {
	s, text := newDump(t)
	if _, _, err := s.load(t, text, subtree.LoadOptions{Into: "/"}); !errors.Is(err, subtree.ErrExists) ||
		!strings.Contains(err.Error(), "/app ") {
		t.Errorf("a root with nodes: %v", err)
	}
	whole, _, _ := s.dump(t, "/", false)
	inner := testSpace{nodes.New(s.Client, s.FullPath("/inner"))}
	s.create(t, "/inner")
	inner.mustLoad(t, whole, subtree.LoadOptions{})
	wantLines(t, inner.tree(t, "/"), "/", "/app", `/app/a ""`, `/app/a/b "\xff\x00"`, `/app/c "text" world:anyone:ra`)
	s.create(t, "/other")
	other := testSpace{nodes.New(s.Client, s.FullPath("/other"))}
	other.mustLoad(t, text, subtree.LoadOptions{Into: "/"})
	wantLines(t, other.tree(t, "/"), "/", `/a ""`, `/a/b "\xff\x00"`, `/c "text" world:anyone:ra`)
	missing := testSpace{nodes.New(s.Client, s.FullPath("/missing"))}
	missing.mustLoad(t, whole, subtree.LoadOptions{}) // the root itself is made
	wantLines(t, missing.tree(t, "/"), "/", "/app", `/app/a ""`, `/app/a/b "\xff\x00"`, `/app/c "text" world:anyone:ra`)
}

// Nothing is changed if the dump or the place is not as it must be.
func TestLoadRefuses(t *testing.T) {
	s, text := newDump(t)
	before := s.tree(t, "/")
	hiding := subtree.Document(`{"path":"/h","data":null,"acl":["digest:u:x:r"]}`)
	for _, tt := range []struct {
		name, text string
		how        subtree.LoadOptions
		want       error
		part       string
	}{
		{"the top exists", text, subtree.LoadOptions{}, subtree.ErrExists, "/app exists"},
		{"half a dump", text[:len(text)/2], subtree.LoadOptions{Into: "/x"}, subtree.ErrTruncated, ""},
		{"half a dump, edited", text[:len(text)/2], subtree.LoadOptions{Into: "/x", AllowEdited: true}, subtree.ErrTruncated, ""},
		{"an edited dump", strings.Replace(text, `"text":"text"`, `"text":"TEXT"`, 1), subtree.LoadOptions{Into: "/x"}, nil, "differ"},
		{"no parent", text, subtree.LoadOptions{Into: "/x/y"}, jute.NoNode, "the parent of /x/y"},
		{"hidden digests", hiding, subtree.LoadOptions{}, subtree.ErrHiddenDigests, ""},
		{"incomplete", strings.Replace(text, `"unread":0`, `"unread":1`, 1), subtree.LoadOptions{Mode: subtree.Replace}, subtree.ErrIncomplete, ""},
	} {
		_, done, err := s.load(t, tt.text, tt.how)
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.part) || done != (subtree.LoadResult{}) {
			t.Errorf("%s: %+v, %v, want %v %q", tt.name, done, err, tt.want, tt.part)
		}
	}
	if _, _, err := s.Client.Create(t.Context(), s.FullPath("/lock"), nil, client.Ephemeral); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.load(t, text, subtree.LoadOptions{Into: "/lock", Mode: subtree.Merge}); err == nil ||
		!strings.Contains(err.Error(), "ephemeral node, which cannot have children") {
		t.Errorf("into an ephemeral node: %v", err)
	}
	wantLines(t, s.tree(t, "/"), append(before, "/lock *")...)
	if _, done := s.mustLoad(t, hiding, subtree.LoadOptions{ACL: openACL}); done.Created != 1 {
		t.Errorf("hidden digests, with other lists: %+v", done)
	}
}

// Merge sets what differs and leaves other nodes. Replace deletes them as well. Both leave ephemeral nodes,
// which belong to living sessions, and both can be repeated.
func TestLoadMergeAndReplace(t *testing.T) {
	s, text := newDump(t)
	change := func() {
		t.Helper()
		s.create(t, "/app/a/new", "/app/z", "/app/z/y", "/app/z/y/x", "/app/z/w")
		for path, data := range map[string][]byte{"/app": {}, "/app/a/b": []byte("other")} { // empty instead of null
			if _, err := s.Client.Set(t.Context(), s.FullPath(path), data, -1); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Client.Delete(t.Context(), s.FullPath("/app/c"), -1); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Client.SetACL(t.Context(), s.FullPath("/app/a"), nil, -1); err != nil {
			t.Fatal(err)
		}
		noWrite := []client.ACL{{Permissions: client.PermAll &^ client.PermWrite, Identity: client.Anyone}}
		if _, err := s.Client.SetACL(t.Context(), s.FullPath("/app/a"), noWrite, -1); err != nil {
			t.Fatal(err)
		}
	}
	change()
	for _, path := range []string{"/app/lock", "/app/z/w/lock"} {
		if _, _, err := s.Client.Create(t.Context(), s.FullPath(path), []byte("me"), client.Ephemeral); err != nil {
			t.Fatal(err)
		}
	}
	set := []string{"set /app", "acl /app/a", "set /app/a/b 2", "create /app/c 4"}
	wanted := []string{"/app", `/app/a ""`, `/app/a/b "\xff\x00"`}
	for _, dry := range []bool{true, false} {
		told, done := s.mustLoad(t, text, subtree.LoadOptions{Mode: subtree.Merge, DryRun: dry})
		wantLines(t, told, set...)
		if done != (subtree.LoadResult{Nodes: 4, Bytes: 6, Created: 1, Set: 2, ACLs: 1}) {
			t.Errorf("merged %+v", done)
		}
	}
	wantLines(t, s.tree(t, "/app"), append(slices.Clone(wanted), "/app/a/new", `/app/c "text" world:anyone:ra`, `/app/lock "me" *`, "/app/z", "/app/z/w", `/app/z/w/lock "me" *`, "/app/z/y", "/app/z/y/x")...)
	if told, done := s.mustLoad(t, text, subtree.LoadOptions{Mode: subtree.Merge}); len(told) > 0 || done.Nodes != 4 {
		t.Errorf("merged again: %q, %+v", told, done)
	}

	s.remove(t, "/app/z/y", subtree.RemoveOptions{})
	s.remove(t, "/app/a/new", subtree.RemoveOptions{})
	s.remove(t, "/app/z", subtree.RemoveOptions{KeepEphemerals: true})
	s.create(t, "/app/z/w/v")
	if _, err := s.Client.Set(t.Context(), s.FullPath("/app"), []byte("x"), -1); err != nil {
		t.Fatal(err)
	}
	s.create(t, "/app/a/new", "/app/a/b/below")
	dryTold, _ := s.mustLoad(t, text, subtree.LoadOptions{Mode: subtree.Replace, DryRun: true})
	told, done := s.mustLoad(t, text, subtree.LoadOptions{Mode: subtree.Replace})
	wantLines(t, told, "set /app", "leave /app/lock", "leave /app/z/w/lock", "delete /app/a/b/below", "delete /app/a/new", "delete /app/z/w/v", "leave /app/z/w", "leave /app/z")
	slices.Sort(dryTold)
	wantLines(t, dryTold, "delete /app/a/b/below", "delete /app/a/new", "delete /app/z", "delete /app/z/w", "delete /app/z/w/v", "leave /app/lock", "leave /app/z/w/lock", "set /app")
	if done != (subtree.LoadResult{Nodes: 4, Bytes: 6, Set: 1, Deleted: 3, LeftAlone: 4}) {
		t.Errorf("replaced %+v", done)
	}
	wantLines(t, s.tree(t, "/app"), append(wanted, `/app/c "text" world:anyone:ra`, `/app/lock "me" *`, "/app/z", "/app/z/w", `/app/z/w/lock "me" *`)...)
}

// Ephemeral nodes in a dump are left out, and so is one that stands where the dump has a plain node.
func TestLoadEphemerals(t *testing.T) {
	s := newSpace(t)
	s.create(t, "/app", "/app/b")
	if _, _, err := s.Client.Create(t.Context(), s.FullPath("/app/a"), []byte("me"), client.Ephemeral); err != nil {
		t.Fatal(err)
	}
	text, _, _ := s.dump(t, "/app", true)
	told, done := s.mustLoad(t, text, subtree.LoadOptions{Into: "/copy"})
	wantLines(t, told, "create /copy", "create /copy/b")
	if done.Skipped != 1 {
		t.Errorf("%+v", done)
	}
	plain := subtree.Document(subtree.PlainNode("/app"), subtree.PlainNode("/app/a"), subtree.PlainNode("/app/b"))
	for _, mode := range []subtree.LoadMode{subtree.Merge, subtree.Replace} {
		told, done = s.mustLoad(t, plain, subtree.LoadOptions{Mode: mode})
		wantLines(t, told, "leave /app/a")
		if done.LeftAlone != 1 {
			t.Errorf("%+v", done)
		}
	}
	wantLines(t, s.tree(t, "/app"), "/app", `/app/a "me" *`, "/app/b")
}

// largeDump returns a dump of so many nodes with so many bytes of data each.
func largeDump(nodes, bytes int) string {
	data := strings.Repeat("/", (bytes+2)/3*4) // not UTF-8
	list := []string{subtree.PlainNode("/app")}
	for i := range nodes {
		list = append(list, fmt.Sprintf(`{"path":"/app/n%05d","data":%q,"acl":["world:anyone:cdrwa"]}`, i, data))
	}
	return subtree.Document(list...)
}

// A load continues after connections break, whether or not the servers have carried out the request. It ends if the
// connection breaks each time, as it does if a request is too long for the servers.
func TestLoadOutlivesConnections(t *testing.T) {
	s := newSpace(t)
	for _, bytes := range []int{0, 30000} { // several steps by nodes, and by bytes
		text := largeDump(2*subtree.MaxBatch+1, 0)
		if bytes > 0 {
			text = largeDump(50, bytes)
		}
		w := new(cuttableDialer)
		broken := testSpace{nodes.New(openClient(t, client.Config{DialConn: w.dial, Timeout: 2 * time.Second}), s.Root)}
		w.mu.Lock()
		w.after, w.only = 3, 3
		w.mu.Unlock()
		_, done := broken.mustLoad(t, text, subtree.LoadOptions{})
		if loaded, _, _ := s.dump(t, "/app", false); done.Nodes != strings.Count(text, `"path":"/app`)-1 ||
			nodesOf(loaded) != strings.ReplaceAll(nodesOfDocument(text), "},{", "},\n{") {
			t.Errorf("loaded %+v, and it is another tree", done)
		}
		w.mu.Lock()
		if len(w.conns) < 4 {
			t.Errorf("%d connections were used; the test wants more to break", len(w.conns))
		}
		w.mu.Unlock()
		s.remove(t, "/app", subtree.RemoveOptions{})
	}
	_, _, err := s.load(t, largeDump(1, 2<<20), subtree.LoadOptions{})
	if !errors.Is(err, client.ErrTooLong) {
		t.Errorf("a node that is too large: %v", err)
	}
	s.remove(t, "/app", subtree.RemoveOptions{})
	patient := testSpace{nodes.New(openClient(t, client.Config{Timeout: 2 * time.Second, MaxRequest: client.MaxRequest}), s.Root)}
	_, done, err := patient.load(t, largeDump(1, 2<<20), subtree.LoadOptions{})
	if !errors.Is(err, client.ErrConnectionLost) || !strings.Contains(err.Error(), "jute.maxbuffer") || done.Nodes != 1 {
		t.Errorf("a node that is too large for the servers: %+v, %v", done, err)
	}
}

// nodesOfDocument is nodesOf for a dump of the function document.
func nodesOfDocument(text string) string {
	_, rest, _ := strings.Cut(text, `"nodes":[`)
	nodes, _, _ := strings.Cut(rest, "],\n")
	return nodes
}

// A source that is no dump is loaded as one, and can be interrupted: the same load does the rest,
// and after it nothing is left to do.
func TestLoadFrom(t *testing.T) {
	s := newSpace(t)
	records := []subtree.Record{{Path: "/app", ACL: openACL}}
	for i := range 2 * subtree.MaxBatch {
		records = append(records, subtree.Record{Path: fmt.Sprintf("/app/n%05d", i), ACL: openACL, Container: i%2 == 0, TTL: int64(i % 2)})
	}
	source := subtree.Source{Summary: subtree.Summary{Path: "/app", Count: len(records)}, Read: func(each func(*subtree.Record) error) error {
		for _, r := range records {
			if err := each(&r); err != nil {
				return err
			}
		}
		return nil
	}}
	ctx, cancel := context.WithCancel(t.Context())
	changes := 0
	how := subtree.LoadOptions{Mode: subtree.Replace, OnBegin: func(subtree.Summary) {}, OnChange: func(c subtree.Change) {
		if c.Action != "same" {
			changes++
		}
		cancel()
	}}
	done, err := s.LoadFrom(ctx, source, how)
	if !errors.Is(err, context.Canceled) || done.Created == 0 || done.Created > 2*subtree.MaxBatch {
		t.Errorf("interrupted: %+v, %v", done, err)
	}
	s.create(t, "/app/other")
	rest, err := s.LoadFrom(t.Context(), source, how)
	if err != nil || rest.Nodes != len(records) || rest.Created != len(records)-done.Created || rest.Deleted != 1 {
		t.Errorf("%+v, and then %+v, %v", done, rest, err)
	}
	changes, how.DryRun = 0, true
	if again, err := s.LoadFrom(t.Context(), source, how); err != nil || again.Nodes != len(records) || changes > 0 {
		t.Errorf("after all of it: %d changes, %+v, %v", changes, again, err)
	}
	source.Hidden = 1
	if _, err := s.LoadFrom(t.Context(), source, how); !errors.Is(err, subtree.ErrHiddenDigests) {
		t.Errorf("hidden digests: %v", err)
	}
}

// A load that is interrupted has loaded whole steps. With Merge it then does the rest.
func TestLoadInterrupted(t *testing.T) {
	s := newSpace(t)
	text := largeDump(3*subtree.MaxBatch, 0)
	ctx, cancel := context.WithCancel(t.Context())
	how := subtree.LoadOptions{OnBegin: func(subtree.Summary) {}, OnChange: func(c subtree.Change) {
		if c.Path == "/app/n00000" {
			cancel()
		}
	}}
	done, err := s.Load(ctx, testFile(t, text), how)
	if !errors.Is(err, context.Canceled) || done.Nodes == 0 || done.Nodes > 2*subtree.MaxBatch {
		t.Errorf("interrupted: %+v, %v", done, err)
	}
	if _, _, err := s.load(t, text, subtree.LoadOptions{}); !errors.Is(err, subtree.ErrExists) {
		t.Errorf("once more: %v", err)
	}
	_, rest := s.mustLoad(t, text, subtree.LoadOptions{Mode: subtree.Merge})
	if rest.Nodes != 3*subtree.MaxBatch+1 || rest.Created > rest.Nodes-done.Nodes || rest.Created == 0 {
		t.Errorf("%+v, and then %+v", done, rest)
	}
}

// A file that changes after it was checked ends the load with an error, and Replace deletes nothing because
// of what can no longer be read.
func TestLoadOfChangingFile(t *testing.T) {
	s := newSpace(t)
	s.create(t, "/app", "/app/x")
	long, short := largeDump(10, 0), largeDump(9, 0)
	f := &swappedReader{first: strings.NewReader(long), then: strings.NewReader(short)}
	_, err := s.Load(t.Context(), f, subtree.LoadOptions{Mode: subtree.Merge, OnBegin: func(subtree.Summary) {}, OnChange: func(subtree.Change) {}})
	if err == nil || !strings.Contains(err.Error(), "was changed while") {
		t.Errorf("another file: %v", err)
	}
	f = &swappedReader{first: strings.NewReader(long), then: strings.NewReader(long), last: strings.NewReader(long[:100])}
	_, err = s.Load(t.Context(), f, subtree.LoadOptions{Mode: subtree.Replace, OnBegin: func(subtree.Summary) {}, OnChange: func(subtree.Change) {}})
	if !errors.Is(err, subtree.ErrTruncated) {
		t.Errorf("a file that is cut off: %v", err)
	}
	if _, err := s.Stat(t.Context(), "/app/x"); err != nil {
		t.Errorf("a node that was not in the dump: %v", err)
	}
}

// swappedReader is a file with another content each time it is read from its beginning.
type swappedReader struct{ first, then, last *strings.Reader }

func (s *swappedReader) Read(p []byte) (int, error) { return s.first.Read(p) }

func (s *swappedReader) Seek(int64, int) (int64, error) {
	s.first, s.then = s.then, s.last
	return 0, nil
}
