package otlp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The error of a file with headers names the key and the line, and never what is in the line.
func TestHeadersFile(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		mode       os.FileMode
		headers    int
		err        string
	}{
		{name: "two", text: "Authorization: Bearer s3cret\nX-Scope-OrgID: s3cret\n", headers: 2},
		{name: "comments", text: "# s3cret\n\n", headers: 0},
		{name: "no colon", text: "a: b\ns3cret\n", err: "line 2 is no header"},
		{name: "a name with a blank", text: "s3cret s3cret: b\n", err: "line 1 is no header"},
		{name: "a control character", text: "a: s3cret\x01\n", err: "line 1 is no header"},
		{name: "the body's", text: "content-LENGTH: 7\n", err: "belongs to the request itself"},
		{name: "too many", text: strings.Repeat("a: s3cret\n", maxHeaders+1), err: "line 17: there are over 16 headers"},
		{name: "too long", text: "a: " + strings.Repeat("s3cret", maxHeadersFile), err: "the file has over 16384 bytes"},
		{name: "open to others", text: "a: s3cret\n", mode: 0o644, err: "open to other users"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "headers")
			if tt.mode == 0 {
				tt.mode = 0o600
			}
			if err := os.WriteFile(path, []byte(tt.text), tt.mode); err != nil {
				t.Fatal(err)
			}
			got, err := readHeaders(path)
			if len(got) != tt.headers || (err == nil) != (tt.err == "") {
				t.Fatalf("%d headers, %v; want %d, %q", len(got), err, tt.headers, tt.err)
			}
			if err != nil &&
				(!strings.Contains(err.Error(), tt.err) || !strings.Contains(err.Error(), headersKey) || strings.Contains(err.Error(), "s3cret")) {
				t.Errorf("the error is %v, want %q", err, tt.err)
			}
			s := Settings{HeadersFile: path}
			if faults := s.CheckHeaders(); (len(faults) == 1) != (tt.err != "") {
				t.Errorf("the check finds %v", faults)
			}
		})
	}
}

// No file makes a header that the request cannot have.
func FuzzHeaders(f *testing.F) {
	f.Add([]byte("Authorization: Bearer token\r\n# x\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		headers, err := parseHeaders(text)
		if err != nil && headers != nil || len(headers) > maxHeaders {
			t.Fatalf("%d headers and %v", len(headers), err)
		}
		for _, h := range headers {
			if strings.ContainsAny(h.name+h.value, "\r\n\x00") || h.name == "" {
				t.Fatalf("header %q", h)
			}
		}
	})
}
