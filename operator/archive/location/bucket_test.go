package location

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/operator/archive"
)

const credentialsText = "[default]\naws_access_key_id = test-key\naws_secret_access_key = s3cret\n"

// openFake opens the bucket of a fake service, with credentials from a file.
func openFake(t *testing.T, f *fakeS3) archive.Store {
	t.Helper()
	store, err := Open(settingsOf(t, f))
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func settingsOf(t *testing.T, f *fakeS3) Settings {
	t.Helper()
	file := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(file, []byte(credentialsText), 0o600); err != nil {
		t.Fatal(err)
	}
	return Settings{To: "s3://bucket/a/b/", Endpoint: f.URL, Region: "eu-test-1", CredentialsFile: file}
}

func read(t *testing.T, store archive.Store, name string) string {
	t.Helper()
	r, err := store.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func list(t *testing.T, store archive.Store, dir, after string) (names []string, err error) {
	t.Helper()
	for item, err := range store.List(t.Context(), dir, after) {
		if err != nil {
			return names, err
		}
		names = append(names, item.Name)
	}
	return names, nil
}

// A bucket stores what is new, below its prefix, and replaces nothing. It lists names in their order, over many pages.
func TestBucket(t *testing.T) {
	f := newFakeS3(t)
	store := openFake(t, f)
	for _, name := range []string{"x/s/2", "x/s/1", "x/s/5", "x/s/3", "x/s/4", "x/d1/1", "x/d2/1", "x/d3/1", "x/d4/1", "y/1"} {
		if err := store.Put(t.Context(), name, []byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	if auth := f.seen.Get("Authorization"); !strings.Contains(auth, "test-key/") || !strings.Contains(auth, "/eu-test-1/s3/") {
		t.Errorf("the request is signed by %q", auth)
	}
	if f.objects["a/b/x/s/1"] == nil ||
		slices.ContainsFunc(f.requests, func(r string) bool { return !strings.HasPrefix(r, "PUT /bucket/a/b/") }) {
		t.Errorf("requests %q", f.requests)
	}
	if err := store.Put(t.Context(), "x/s/2", []byte("other")); !errors.Is(err, archive.ErrExists) || read(t, store, "x/s/2") != "x/s/2" {
		t.Errorf("a name that is taken: %v", err)
	}
	if _, err := store.Open(t.Context(), "x/s/9"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "s3://bucket/a/b/x/s/9") {
		t.Errorf("no object: %v", err)
	}
	for _, tt := range []struct {
		dir, after string
		want       string
	}{
		{"", "", "[x/ y/]"},
		{"x/", "", "[x/d1/ x/d2/ x/d3/ x/d4/ x/s/]"},
		{"x/s/", "", "[x/s/1 x/s/2 x/s/3 x/s/4 x/s/5]"},
		{"x/s/", "x/s/2", "[x/s/3 x/s/4 x/s/5]"},
		{"x/s/", "x/s/25", "[x/s/3 x/s/4 x/s/5]"},
		{"none/", "", "[]"},
	} {
		if got, err := list(t, store, tt.dir, tt.after); err != nil || fmt.Sprint(got) != tt.want {
			t.Errorf("%q after %q: %q, %v; want %s", tt.dir, tt.after, got, err, tt.want)
		}
	}
	f.requests = nil
	if got, err := list(t, store, "x/s/", "x/s/2"); err != nil || len(got) != 3 || len(f.requests) != 1 {
		t.Errorf("the end of a list: %q, %v, with the requests %q", got, err, f.requests)
	}
	f.ignoreAfter = true
	if got, err := list(t, store, "x/s/", "x/s/2"); err != nil || len(got) != 3 {
		t.Errorf("a service that begins at the first name: %q, %v", got, err)
	}
	for item, err := range store.List(t.Context(), "x/s/", "") {
		if err != nil || item.Bytes != int64(len(item.Name)) {
			t.Errorf("%+v", item)
		}
		break // also before the end of a list
	}
}

// The errors of a service name the object and give advice, and none of them shows a secret. A slow service is left when the context ends.
func TestBucketFails(t *testing.T) {
	f := newFakeS3(t)
	store := openFake(t, f)
	if err := store.Put(t.Context(), "x/1", []byte("x")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		status     int
		code, want string
	}{
		{403, "AccessDenied", "s3:PutObject"},
		{401, "Unauthorized", "credentials are wrong"},
		{403, "InvalidAccessKeyId", "credentials are wrong"},
		{403, "SignatureDoesNotMatch", "credentials are wrong"},
		{404, "NoSuchBucket", "make the bucket"},
		{507, "XMinioStorageFull", "the message of XMinioStorageFull"},
		{503, "SlowDown", "503"},
		{500, "InternalError", "500"},
	} {
		f.setFault(func(w http.ResponseWriter, _ *http.Request) bool {
			f.reject(w, tt.status, tt.code)
			return true
		})
		_, opened := store.Open(t.Context(), "x/1")
		_, listed := list(t, store, "x/", "")
		for what, err := range map[string]error{"put": store.Put(t.Context(), "x/2", []byte("y")), "open": opened, "list": listed} {
			if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, archive.ErrExists) || !strings.Contains(err.Error(), tt.want) ||
				!strings.Contains(err.Error(), "s3://bucket/a/b/x/") || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s, %d %s: %v, want %q", what, tt.status, tt.code, err, tt.want)
			}
		}
	}
	f.setFault(func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) })
	if err := store.Put(t.Context(), "x/2", []byte("y")); err == nil || !strings.Contains(err.Error(), "s3://bucket/a/b/x/2") {
		t.Errorf("a connection that ends: %v", err)
	}
	gone := newFakeS3(t)
	unreachable := openFake(t, gone)
	gone.Close()
	if err := unreachable.Put(t.Context(), "x/2", []byte("y")); err == nil || strings.Count(err.Error(), "x/2") != 1 {
		t.Errorf("no service: %v", err)
	}
	hang := make(chan struct{})
	defer close(hang)
	f.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
		return true
	})
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	if err := store.Put(ctx, "x/2", []byte("y")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a service that hangs: %v", err)
	}
}

// A request whose reply was lost may be sent again by the client of S3, and then finds its own object. Whatever Put returns, the object is
// there once, and the next one of this name is rejected.
func TestLostReply(t *testing.T) {
	f := newFakeS3(t)
	store := openFake(t, f)
	f.lose = func(*http.Request) bool { return true }
	if err := store.Put(t.Context(), "x/1", []byte("first")); err == nil {
		t.Error("no reply, and no error")
	}
	f.lose = nil
	if err := store.Put(t.Context(), "x/1", []byte("second")); !errors.Is(err, archive.ErrExists) ||
		!bytes.Equal(f.objects["a/b/x/1"], []byte("first")) {
		t.Errorf("%v, %q", err, f.objects["a/b/x/1"])
	}
}

// Credentials are read again when they change. Their errors name the key, the file and the line, and never show what is in it.
func TestCredentials(t *testing.T) {
	path := filepath.Join(t.TempDir(), "credentials")
	for _, tt := range []struct {
		name, text string
		mode       os.FileMode
		want       string
	}{
		{"two lines", credentialsText, 0o600, ""},
		{"a token and comments", "# x\n; y\n" + credentialsText + "aws_session_token=s3cret=\n", 0o640, ""},
		{"no secret", "aws_access_key_id = s3cret\n", 0o600, "must have a line aws_access_key_id=KEY"},
		{"two profiles", credentialsText + "[other]\n", 0o600, "line 4: the file must have"},
		{"twice", credentialsText + credentialsText, 0o600, "line 5: the file must have"},
		{"no name", "s3cret\n", 0o600, "line 1: the file must have"},
		{"too long", credentialsText + strings.Repeat("#", maxCredentialsFile), 0o600, "over 16384 bytes"},
		{"open to others", credentialsText, 0o644, "open to other users"},
	} {
		if err := errors.Join(os.WriteFile(path, []byte(tt.text), 0o600), os.Chmod(path, tt.mode)); err != nil {
			t.Fatal(err)
		}
		s := Settings{To: "s3://bucket", CredentialsFile: path}
		v, err := readCredentials(path)
		faults := s.CheckFiles()
		if tt.want == "" && (err != nil || v.AccessKeyID != "test-key" || v.SecretAccessKey != "s3cret" || len(faults) > 0) {
			t.Errorf("%s: %+v, %v, %v", tt.name, v, err, faults)
		}
		if tt.want != "" && (err == nil || len(faults) != 1 || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), CredentialsKey+"="+path) ||
			strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%s: %v, %v; want %q", tt.name, err, faults, tt.want)
		}
	}
	f := &fileCredentials{path: path}
	if !f.IsExpired() {
		t.Error("credentials that were never read have not expired")
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Retrieve(); err != nil || f.IsExpired() {
		t.Errorf("%v, expired %t", err, f.IsExpired())
	}
	if f.read = time.Now().Add(-credentialsAge - time.Second); !f.IsExpired() {
		t.Error("credentials are not read again")
	}
}

// Locations and endpoints that cannot be meant are rejected, without the secrets that they may have.
func TestCheck(t *testing.T) {
	for to, ok := range map[string]bool{
		"/mnt/archive": true, "/": true, "s3://bucket": true, "s3://bucket/": true, "s3://my.bucket-1/a/b": true,
		"": false, "archive": false, "./archive": false, "s3://": false, "s3://ab": false, "s3://Bucket": false, "s3://b_c": false,
		"s3://user@bucket": false, "s3://bucket/a//b": false, "https://bucket": false, "/a\x00": false, "/" + strings.Repeat("a", maxLocation): false,
	} {
		if err := Check(to); (err == nil) != ok {
			t.Errorf("%.50q: %v", to, err)
		}
	}
	for text, ok := range map[string]bool{
		"https://s3.example": true, "http://127.0.0.1:9000/": true, "https://[::1]:9000": true,
		"s3.example": false, "ftp://s3.example": false, "https://": false, "https://key:s3cret@s3.example": false, "https://s3.example/path": false,
		"https://s3.example?s3cret": false,
	} {
		if err := CheckEndpoint(text); (err == nil) != ok || err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := Open(Settings{To: "x"}); !errors.Is(err, ErrForm) {
		t.Errorf("%v", err)
	}
	if s, err := Open(Settings{To: "/mnt/archive"}); err != nil || s.Location("x") != "/mnt/archive/x" {
		t.Errorf("%v, %v", s, err)
	}
	if _, err := Open(Settings{To: "s3://bucket", Endpoint: "https://a:s3cret@b"}); err == nil {
		t.Error("an endpoint with a password")
	}
}
