package main

import (
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/cli"
)

// newVersion returns the command that prints what this program was built from.
func newVersion(w cli.IOStreams) *cobra.Command {
	out := cli.NewOutput(w)
	cmd := &cobra.Command{
		Use: "version", Short: "print the version, and the commit with its date", GroupID: cli.ToolsGroup, Args: cli.RangeArgs(0, 0, "no arguments"),
		Long: "Prints the version, and the commit with its date.",
		RunE: func(*cobra.Command, []string) error {
			return cli.PrintText(out, builtFrom().String()+"\n", builtFrom().versionRow())
		},
	}
	out.Register(cmd)
	return cmd
}

// release is this program's version, which CHANGELOG.md names too. A build before the release of that
// version has "-dev" after it. admin puts the level of ZooKeeper's interface in front.
const release = "0.1.0-dev"

// stamp is the commit that this program was built from and that commit's date, "COMMIT,DATE", as
// ci/stamp.sh prints them. The linker sets it for make build. If it is "", the stamp of go build counts.
var stamp string

// commit is what a program was built from.
type commit struct {
	id       string // "": not known
	modified bool   // files had changes that were not committed
	date     time.Time
}

// builtFrom returns the commit of this program.
func builtFrom() commit {
	if c := parseStamp(stamp); c.id != "" {
		return c
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return commit{}
	}
	return parseBuildInfo(info.Settings)
}

// parseStamp reads a stamp of ci/stamp.sh. One that is not in its form counts as none.
func parseStamp(stamp string) commit {
	id, date, _ := strings.Cut(stamp, ",")
	id, modified := strings.CutSuffix(id, "-modified")
	at, err := time.Parse(time.RFC3339, date)
	if err != nil {
		return commit{}
	}
	return commit{id, modified, at}
}

// parseBuildInfo reads what go build stamps in a git checkout, unless -buildvcs=false.
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

// shownIDLength is how much of a commit's id is shown.
const shownIDLength = 12

// fullVersion is the version with the commit, of letters, digits, dots and dashes: parsers of
// four-letter words take no others.
func (c commit) fullVersion() string {
	switch {
	case c.id == "":
		return release + "-unknown"
	case c.modified:
		return release + "-" + c.id[:min(shownIDLength, len(c.id))] + "-modified"
	}
	return release + "-" + c.id[:min(shownIDLength, len(c.id))]
}

// buildTime is the commit's date, or the beginning of 1970 if it is not known: four-letter words
// have to show one.
func (c commit) buildTime() time.Time {
	if c.id == "" || c.date.IsZero() {
		return time.Unix(0, 0).UTC()
	}
	return c.date.UTC()
}

// versionRow is what the command version prints with -o json.
func (c commit) versionRow() cli.Version {
	v := cli.Version{Version: release, Commit: c.id, Modified: c.modified}
	if c.id != "" && !c.date.IsZero() {
		at := c.date.UTC()
		v.Committed = &at
	}
	return v
}

// String is what the command version prints.
func (c commit) String() string {
	switch {
	case c.id == "":
		return fmt.Sprintf("rollcall %s (commit unknown: built without git)", release)
	case c.modified:
		return fmt.Sprintf("rollcall %s (commit %s of %s, with changes that were not committed)", release, c.id, c.buildTime().Format(time.RFC3339))
	}
	return fmt.Sprintf("rollcall %s (commit %s of %s)", release, c.id, c.buildTime().Format(time.RFC3339))
}
