package main

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/cli"
)

func newVersion(w cli.IOStreams) *cobra.Command {
	out := cli.NewOutput(w)
	cmd := &cobra.Command{
		Use: "version", Short: "print the version, and the commit with its date", GroupID: cli.ToolsGroup,
		Args: cli.RangeArgs(0, 0, "no arguments"),
		Long: "Prints the version, and the commit with its date.",
		RunE: func(*cobra.Command, []string) error {
			return cli.PrintText(out, buildCommit().String()+"\n", buildCommit().versionRow())
		},
	}
	out.Register(cmd)
	return cmd
}

// release is this program's version, as in CHANGELOG.md. A build before that release has the suffix "-dev".
// admin adds the level of ZooKeeper's interface in front.
const release = "0.1.0-dev"

// stamp is the commit of this build with its date, "COMMIT,DATE", as ci/stamp.sh prints them. The linker sets
// it for make build. If it is "", the stamp of go build counts.
var stamp string

// commit is the source of a build.
type commit struct {
	id       string // "": not known
	modified bool   // with uncommitted changes
	date     time.Time
}

func buildCommit() commit {
	if c := parseStamp(stamp); c.id != "" {
		return c
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return commit{}
	}
	return parseBuildInfo(info.Settings)
}

// parseStamp parses a stamp of ci/stamp.sh. An invalid one counts as none.
func parseStamp(stamp string) commit {
	id, date, _ := strings.Cut(stamp, ",")
	id, modified := strings.CutSuffix(id, "-modified")
	at, err := time.Parse(time.RFC3339, date)
	if err != nil {
		return commit{}
	}
	return commit{id, modified, at}
}

// parseBuildInfo parses the stamp of go build in a git checkout, which -buildvcs=false prevents.
func parseBuildInfo(settings []debug.BuildSetting) (c commit) {
	for _, s := range settings {
		switch s.Key {
		case "vcs.revision":
			c.id = s.Value
		case "vcs.modified":
			c.modified = s.Value == "true"
		case "vcs.time":
			c.date, _ = time.Parse(time.RFC3339, s.Value) // zero if go build writes something else
		}
	}
	return c
}

const shownIDLength = 12

// fullVersion is the version with the commit. It consists of letters, digits, dots and dashes, because parsers
// of four-letter words accept no others.
func (c commit) fullVersion() string {
	version := release + "-" + cmp.Or(c.id[:min(shownIDLength, len(c.id))], "unknown")
	if c.id != "" && c.modified {
		version += "-modified"
	}
	return version
}

// buildTime is the commit's date, or the beginning of 1970 if it is unknown, because four-letter words must
// show a time.
func (c commit) buildTime() time.Time {
	if c.id == "" || c.date.IsZero() {
		return time.Unix(0, 0).UTC()
	}
	return c.date.UTC()
}

func (c commit) versionRow() cli.Version {
	v := cli.Version{Version: release, Commit: c.id, Modified: c.modified}
	if c.id != "" && !c.date.IsZero() {
		at := c.date.UTC()
		v.Committed = &at
	}
	return v
}

// String is the output of the command version.
func (c commit) String() string {
	switch {
	case c.id == "":
		return fmt.Sprintf("rollcall %s (commit unknown: built without git)", release)
	case c.modified:
		return fmt.Sprintf("rollcall %s (commit %s of %s, with changes that were not committed)", release, c.id,
			c.buildTime().Format(time.RFC3339))
	}
	return fmt.Sprintf("rollcall %s (commit %s of %s)", release, c.id, c.buildTime().Format(time.RFC3339))
}
