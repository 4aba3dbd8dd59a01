// Package cli is the part of the command line that asks an ensemble and acts on it, from any machine that
// reaches a member:
//
//   - World: what a command has of its surroundings. Tests give their own.
//   - NewRoot, Execute: the frame of all commands: groups, help, completion, flags with one dash.
//   - Link: the flags that say which ensemble a command asks, and as whom. Link.Admin returns a client of
//     the HTTP endpoints under /v1/, and Link.Config the settings of a session over ZooKeeper's protocol.
//   - Output: the flag -o. Print and printOne write rows as a table, JSON or YAML.
//   - Status: the exit statuses. An error carries its own; see With.
//
// # To add a command
//
// Write a function that takes a World and returns a *cobra.Command, and add it to commands:
//
//	func newNames(w World) *cobra.Command {
//		link, out := NewLink(w), NewOutput(w)
//		cmd := &cobra.Command{
//			Use: "names [flags]", Short: "list the names of sessions", GroupID: Look, Args: Takes(0, 0, "flags only"),
//			RunE: func(cmd *cobra.Command, args []string) error {
//				member, err := link.Admin(cmd.Context())
//				if err != nil {
//					return err
//				}
//				… // ask member, and Print its rows
//			},
//		}
//		link.Register(cmd)
//		out.Register(cmd)
//		return cmd
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

// commandGroups are the groups in the order of the help.
var commandGroups = []*cobra.Group{
	{ID: RunGroup, Title: "Run an ensemble:"},
	{ID: InspectGroup, Title: "See what happens in it:"},
	{ID: ChangeGroup, Title: "Change something:"},
	{ID: NodesGroup, Title: "Read and write nodes:"},
	{ID: ToolsGroup, Title: "Tools:"},
}

// commandConstructors makes each command of this package.
var commandConstructors = []func(IOStreams) *cobra.Command{
	newStatus, newSessions, newSession, newWhoOwns, newWhy, newConnections, newWatches, newFourLetter, newLogLevel, newMembers, newDrain, newSnapshot, newBackup, newBundle, newShell,
	newLs, newGet, newSet, newCreate, newRm, newStat, newACL, newSync, newTree, newDu, newWatch, newDump, newLoad, newHash,
}
