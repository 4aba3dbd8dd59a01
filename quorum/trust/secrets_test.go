package trust

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Which files of secrets are taken, and what is said about the others.
func TestParseSecrets(t *testing.T) {
	long := strings.Repeat("x", maxSecretLength)
	tests := []struct {
		name, text string
		want       []secret
		say        string
	}{
		{"one", old + "\n", []secret{old}, ""},
		{"without an end of line", old, []secret{old}, ""},
		{"two", old + "\n" + fresh + "\n", []secret{old, fresh}, ""},
		{"blanks, comments and Windows", "# of 2026\r\n\r\n  " + old + " \r\n\t# and the next\r\n" + fresh + "\r\n", []secret{old, fresh}, ""},
		{"shortest", "0123456789abcdef", []secret{"0123456789abcdef"}, ""},
		{"longest", long, []secret{secret(long)}, ""},
		{"empty", "", nil, "there is no secret in it; make one with: head -c 32 /dev/urandom | base64"},
		{"comments only", "# soon\n\n", nil, "there is no secret"},
		{"too short", "# a\n 0123456789abcde ", nil, "line 2: a secret of 15 bytes; must have 16 to 1024"},
		{"too long", long + "x", nil, "line 1: a secret of 1025 bytes"},
		{"three", old + "\n" + fresh + "\n" + other, nil, "line 3: more than 2 secrets"},
		{"random bytes", "\x00\x01\xff0123456789abcdef", nil, "line 1: a secret has visible characters of ASCII only"},
		{"a large file", strings.Repeat("# comment\n", maxSecretFile/10+1), nil, "longer than 16384 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseSecrets([]byte(tt.text))
			if !slices.Equal(got, tt.want) || tt.say == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.say) {
				t.Errorf("%d secrets, %v; want %d and %q", len(got), err, len(tt.want), tt.say)
			}
		})
	}
}

// A member without a usable secret does not start, and is told which file is wrong.
func TestSecretFile(t *testing.T) {
	dir := t.TempDir()
	none, empty, unreadable := filepath.Join(dir, "none"), filepath.Join(dir, "empty"), filepath.Join(dir, "unreadable")
	write(t, empty)
	write(t, unreadable, old)
	if err := os.Chmod(unreadable, 0); err != nil {
		t.Fatal(err)
	}
	tests := map[string]string{none: "no such file", dir: "this is not a file", empty: "there is no secret"}
	if os.Getuid() != 0 {
		tests[unreadable] = "permission denied"
	}
	for path, say := range tests {
		g, err := New(Config{Settings: Settings{SecretFile: path}, MemberID: 1})
		if g != nil || err == nil || !strings.Contains(err.Error(), say) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "ensembleSecretFile") {
			t.Errorf("%s: %v, want %q", path, err, say)
		}
	}
}

// A file that others may read is rejected, and the error says what to do. No text shows a secret.
func TestOpenFile(t *testing.T) {
	for mode, rejected := range map[os.FileMode]bool{0o600: false, 0o440: false, 0o644: true, 0o660: true} {
		var logs bytes.Buffer
		path := filepath.Join(t.TempDir(), "secret")
		write(t, path, old)
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		s, err := openSecrets(Settings{SecretFile: path}.secretSource(), slog.New(slog.NewTextHandler(&logs, nil)))
		if rejected != (err != nil) || err != nil && (!strings.Contains(err.Error(), "chmod 600 "+path) || strings.Contains(err.Error(), old)) || logs.Len() > 0 {
			t.Errorf("mode %v: %v, logged %q", mode, err, logs.String())
		}
		if err != nil {
			continue
		}
		if text := fmt.Sprintf("%v %+v %#v %s %q", s.currentSecrets(), s.currentSecrets(), s.currentSecrets(), s.currentSecrets()[0], s.currentSecrets()) + logs.String(); strings.Contains(text, old) {
			t.Errorf("a secret is shown: %s", text)
		}
	}
}

// No file makes the reader fail otherwise than with an error, or gives a secret outside the limits.
func FuzzSecrets(f *testing.F) {
	f.Add([]byte(old + "\n# x\n" + fresh))
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := parseSecrets(text)
		if (err == nil) != (len(list) > 0) || len(list) > maxSecrets {
			t.Fatalf("%d secrets, %v", len(list), err)
		}
		for _, s := range list {
			if len(s) < minSecretLength || len(s) > maxSecretLength || !bytes.Contains(text, []byte(s)) {
				t.Fatalf("a secret of %d bytes", len(s))
			}
		}
	})
}
