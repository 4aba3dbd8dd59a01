// Package cli is the part of the command line that queries and changes an ensemble from any machine that can
// reach a member:
//
//   - IOStreams: the terminal, environment and clock of a command. Tests supply their own.
//   - NewRoot, Execute: the frame of all commands: groups, help, completion, flags with one dash.
//   - EnsembleFlags: the flags that select an ensemble and the credentials. EnsembleFlags.AdminClient returns a
//     client of the HTTP endpoints under /v1/, and EnsembleFlags.SessionConfig the settings of a session over
//     ZooKeeper's protocol.
//   - Output: the flag -o. PrintRows and printRow write rows as a table, JSON or YAML.
//   - Status: the exit statuses. An error carries its own; see WithStatus.
//
// # To add a command
//
// Write a function that takes IOStreams and returns a *cobra.Command, and add it to commandConstructors:
//
//	func newNames(w IOStreams) *cobra.Command {
//		a := newAdminCommand(w)
//		return a.registerFlags(&cobra.Command{
//			Use: "names [flags]", Short: "list the names of sessions", GroupID: InspectGroup,
//			Args: RangeArgs(0, 0, "flags only"),
//			RunE: func(cmd *cobra.Command, _ []string) error {
//				… // query a member with getObject or listRows, and print its rows with PrintRows
//			},
//		})
//	}
package cli

import "github.com/spf13/cobra"

// The groups of commands in the help.
const (
	RunGroup     = "run"
	InspectGroup = "look"
	ChangeGroup  = "act"
	NodesGroup   = "nodes"
	ToolsGroup   = "tools"
)

// commandGroups are in the order of the help.
var commandGroups = []*cobra.Group{
	{ID: RunGroup, Title: "Run an ensemble:"},
	{ID: InspectGroup, Title: "See what happens in it:"},
	{ID: ChangeGroup, Title: "Change something:"},
	{ID: NodesGroup, Title: "Read and write nodes:"},
	{ID: ToolsGroup, Title: "Tools:"},
}

var commandConstructors = []func(IOStreams) *cobra.Command{
	newStatus, newSessions, newSession, newWhoOwns, newWhy, newChanges, newDiff, newSlow, newConnections, newWatches, newFourLetter, newLogLevel, newLimits,
	newMembers, newDrain, newSnapshot, newBackup, newArchive, newBundle, newShell,
	newLs, newGet, newSet, newCreate, newRm, newStat, newACL, newSync, newTree, newDu, newQuota, newNodeWatch, newDump, newLoad,
	newHash,
}
