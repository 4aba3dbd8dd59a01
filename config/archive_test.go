package config

import (
	"strings"
	"testing"
)

// Keys about an archive that have no effect are named, and so is an archive that may get gaps.
func TestArchiveWarnings(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"archive.seconds=5", "archive.seconds has no effect without archive.to"},
		{"archive.to=/a\narchive.region=eu", "archive.region has no effect, because archive.to is a directory"},
		{"archive.to=/a\nhistory.bytes=0", "history.bytes=0: while the archive cannot be reached"},
		{"archive.to=/a\narchive.seconds=5", ""},
		{"archive.to=s3://bucket/a\narchive.region=eu\narchive.credentialsFile=/f", ""},
	} {
		r := checkCollectorText(t, tt.text)
		var texts []string
		for _, w := range r.Warnings {
			if strings.Contains(w.Text, "archive") {
				texts = append(texts, w.Text)
			}
		}
		if all := strings.Join(texts, "; "); len(r.Errors) > 0 || tt.want == "" && all != "" || !strings.Contains(all, tt.want) {
			t.Errorf("%q: %v, warnings %q, want %q", tt.text, r.Errors, all, tt.want)
		}
	}
}
