package main

import (
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"

	"rollcall/operator/admin"
)

// The version shows the commit that is in the program's stamp, or says unknown if there is no
// stamp.
func TestVersion(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef01234567"
	byGo := func(settings ...string) commit {
		var all []debug.BuildSetting
		for i := 0; i < len(settings); i += 2 {
			all = append(all, debug.BuildSetting{Key: settings[i], Value: settings[i+1]})
		}
		return parseBuildInfo(all)
	}
	for _, tt := range []struct {
		name           string
		commit         commit
		command, words string
	}{
		{
			"make build", parseStamp(id + ",2026-11-20T23:38:42+01:00"),
			"rollcall 0.1.0-dev (commit " + id + " of 2026-11-20T22:38:42Z)", "0.1.0-dev-0123456789ab, built on 11/20/2026 22:38 UTC",
		},
		{
			"make build with changes", parseStamp(id + "-modified,2026-11-20T23:38:42Z"),
			"rollcall 0.1.0-dev (commit " + id + " of 2026-11-20T23:38:42Z, with changes that were not committed)", "0.1.0-dev-0123456789ab-modified, built on 11/20/2026 23:38 UTC",
		},
		{
			"go build", byGo("GOOS", "linux", "vcs.revision", id, "vcs.time", "2026-11-20T23:38:42Z", "vcs.modified", "false"),
			"rollcall 0.1.0-dev (commit " + id + " of 2026-11-20T23:38:42Z)", "0.1.0-dev-0123456789ab, built on 11/20/2026 23:38 UTC",
		},
		{
			"go build with changes", byGo("vcs.revision", id, "vcs.time", "2026-11-20T23:38:42Z", "vcs.modified", "true"),
			"rollcall 0.1.0-dev (commit " + id + " of 2026-11-20T23:38:42Z, with changes that were not committed)", "0.1.0-dev-0123456789ab-modified, built on 11/20/2026 23:38 UTC",
		},
		{
			"go build -buildvcs=false", byGo("GOOS", "linux"),
			"rollcall 0.1.0-dev (commit unknown: built without git)", "0.1.0-dev-unknown, built on 01/01/1970 00:00 UTC",
		},
		{"no stamp", parseStamp(""), "rollcall 0.1.0-dev (commit unknown: built without git)", "0.1.0-dev-unknown, built on 01/01/1970 00:00 UTC"},
		{"a stamp without a date", parseStamp(id), "rollcall 0.1.0-dev (commit unknown: built without git)", "0.1.0-dev-unknown, built on 01/01/1970 00:00 UTC"},
		{"a short id", parseStamp("abc,2026-11-20T23:38:42Z"), "rollcall 0.1.0-dev (commit abc of 2026-11-20T23:38:42Z)", "0.1.0-dev-abc, built on 11/20/2026 23:38 UTC"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.commit.String(); got != tt.command {
				t.Errorf("rollcall version prints %q, want %q", got, tt.command)
			}
			if got, want := admin.VersionText(tt.commit.fullVersion(), tt.commit.buildTime()), admin.InterfaceLevel+"-rollcall-"+tt.words; got != want {
				t.Errorf("srvr says %q, want %q", got, want)
			}
			if _, err := admin.NewFourLetterCommands(admin.FourLetterConfig{Version: tt.commit.fullVersion(), Source: noSource{}}); err != nil {
				t.Error(err)
			}
		})
	}
}

// noSource is a source whose methods are never called.
type noSource struct{ admin.Source }

// CHANGELOG.md begins with this program's version, and says that it is not released as long as this
// program says "-dev".
func TestChangesBeginWithTheVersion(t *testing.T) {
	page, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	want, dev := strings.CutSuffix(release, "-dev")
	if dev {
		want += " (not released yet)"
	}
	if first := string(regexp.MustCompile(`(?m)^## .*$`).Find(page)); first != "## "+want {
		t.Errorf("the first section of CHANGELOG.md is %q, want %q", first, "## "+want)
	}
}
