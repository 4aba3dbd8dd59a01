package cli

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/operator/api"
)

// bundleOf runs the command against members, and returns the files of the archive by name.
func bundleOf(t *testing.T, members ...string) (files map[string]string, said string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	var out, errs strings.Builder
	w := IOStreams{Out: &out, Err: &errs, Now: func() time.Time { return time.Unix(1000, 0) }}
	args := []string{"support-bundle", "--out", file, "--admin", strings.Join(members, ","), "--token-file", tokenFile(t)}
	if _, err := Execute(t.Context(), NewRoot(w, "1"), args); err != nil {
		t.Fatal(err)
	}
	if out.String() != file+"\n" {
		t.Errorf("stdout %q, want the name", out.String())
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v, want it readable by its owner only", info.Mode(), err)
	}
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	for in := tar.NewReader(zip); ; {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files, errs.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(head.Name, "b/")] = string(text)
	}
}

// A bundle has each part once for the ensemble, and once for each member. What a member does not answer is
// named, and so is each server that was not asked.
func TestBundle(t *testing.T) {
	pages := 0
	member := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer abcdefghijklmnop":
			t.Errorf("%s without credentials", r.URL)
		case r.URL.Path == "/v1/log":
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"error":"not from here"}`)
		case r.URL.Path == "/v1/sessions" && r.URL.Query().Get("from") == "":
			_, _ = io.WriteString(w, `{"items":[{"id":"0x1"}],"next":"2","silent":[{"member":3,"reason":"down"}]}`)
		case r.URL.Path == "/v1/sessions":
			pages++
			_, _ = io.WriteString(w, `{"items":[{"id":"0x2"}],"next":"","silent":[]}`)
		case r.URL.Path == "/v1/slow":
			_ = json.NewEncoder(w).Encode(api.List[api.SlowRequest]{Items: slowRequests, Silent: []api.Silence{}})
		case r.URL.Path == "/v1/whoami":
			_, _ = io.WriteString(w, `{"member":1}`)
		case r.URL.Path == "/v1/members":
			_, _ = io.WriteString(w, `{"items":[{"member":1,"quorum":"a:2888"},{"member":2,"quorum":"b:2888"},{"member":3}],"silent":[{"member":3,"reason":"down","detail":"refused"}]}`)
		case strings.HasPrefix(r.URL.Path, "/v1/") && r.URL.Path != "/v1/buckets":
			_, _ = io.WriteString(w, `{"items":[],"next":"","silent":[]}`)
		default:
			_, _ = io.WriteString(w, "said "+r.URL.String())
		}
	}))
	defer member.Close()
	directory := strings.NewReplacer("://", "-", ":", "-").Replace(member.URL)
	files, said := bundleOf(t, "http://127.0.0.1:1", member.URL)
	want := []string{"MISSING"}
	for _, p := range ensembleParts {
		want = append(want, "ensemble/"+p.name)
	}
	for _, p := range memberParts {
		if p.name != "log.json" {
			want = append(want, directory+"/"+p.name)
		}
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, want) {
		t.Errorf("files %q\nwant %q", got, want)
	}
	if text := files["ensemble/sessions.json"]; pages != 1 || !strings.Contains(text, `"0x1"`) || !strings.Contains(text, `"0x2"`) {
		t.Errorf("%d further pages, %s", pages, text)
	}
	var slow []api.SlowRequest
	if err := json.Unmarshal([]byte(files["ensemble/slow.json"]), &slow); err != nil || !reflect.DeepEqual(slow, slowRequests) {
		t.Errorf("slow.json has %+v, %v; want %+v", slow, err, slowRequests)
	}
	if got, want := files[directory+"/goroutines.txt"], "said /debug/pprof/goroutine?debug=1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	missing := files["MISSING"]
	for _, line := range []string{
		directory + "/log.json: not from here\n", "http://127.0.0.1:1: not asked: ",
		"member 2 (b:2888): not asked: none of the addresses that were asked is its own; name its port for operators with --admin\n",
		"member 3: not asked: the other members get no answer from it either: down (refused)\n",
	} {
		if !strings.Contains(missing, line) || !strings.Contains(said, "missing: "+line) {
			t.Errorf("MISSING is\n%s\nstderr\n%s\nwant %s", missing, said, line)
		}
	}
	if n := strings.Count(missing, "\n"); n != 4 {
		t.Errorf("MISSING has %d lines, want 4:\n%s", n, missing)
	}
}

// A bundle in whose making no member answers names all addresses, also those of --hosts where no port for operators was found.
func TestBundleOfNobody(t *testing.T) {
	var out, errs strings.Builder
	w := IOStreams{Out: &out, Err: &errs, Now: time.Now}
	notFound := errors.Join(errors.New("no member at a"), errors.New("no member at b"))
	if err := writeBundle(t.Context(), w, &Output{streams: w, format: "json"}, filepath.Join(t.TempDir(), "b.tar.gz"), []*api.Client{{BaseURL: "http://127.0.0.1:1", HTTPClient: http.DefaultClient}}, notFound); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), `"reason":`); n != 4 {
		t.Errorf("%d servers that were not asked, want 4:\n%s", n, out.String())
	}
	missing := strings.Split(strings.TrimSpace(errs.String()), "\n")
	want := []string{"no member at a", "no member at b", "http://127.0.0.1:1: not asked: ", "the list of the ensemble's servers: no member was reached; there may be servers that were not asked"}
	if len(missing) != len(want) {
		t.Fatalf("missing %q", missing)
	}
	for i, line := range want {
		if !strings.HasPrefix(missing[i], "missing: "+line) {
			t.Errorf("line %d: %s, want %s", i, missing[i], line)
		}
	}
}

// A list of a bundle has a bound. A bundle that is not finished is removed, and one that exists is not
// replaced.
func TestBundleBounds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var asked atomic.Int64
	member := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			stop()
		}
		asked.Add(1)
		_, _ = io.WriteString(w, `{"items":[`+strings.Repeat(`{"id":"0x1"},`, 999)+`{"id":"0x1"}],"next":"more","silent":[]}`)
	}))
	defer member.Close()
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	var out strings.Builder
	w := IOStreams{Out: &out, Err: &out, Now: time.Now}
	_, err := Execute(ctx, NewRoot(w, "1"), []string{"support-bundle", "--file", file, "--admin", member.URL})
	if err == nil || int(asked.Load()) > 6*maxBundleRows/1000+len(memberParts) {
		t.Errorf("%v after %d answers", err, asked.Load())
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a bundle that was broken off: %v", err)
	}
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Execute(t.Context(), NewRoot(w, "1"), []string{"support-bundle", "--out", file, "--admin", member.URL})
	if text, _ := os.ReadFile(file); err == nil || !strings.Contains(err.Error(), "--out takes another name") || string(text) != "mine" {
		t.Errorf("%v, %q", err, text)
	}
}
