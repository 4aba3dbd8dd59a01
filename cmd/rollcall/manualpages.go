//go:build manualpages

package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"rollcall/cli"
)

// buildCommands returns the commands of a program that is built with -tags manualpages. Packages are made with its pages,
// and hold a program without it: the libraries that write the pages are no part of what members run.
func buildCommands() []*cobra.Command {
	return []*cobra.Command{{
		Use: "man DIR", Short: "write a manual page for each command into a directory", GroupID: cli.ToolsGroup,
		Args: cli.RangeArgs(1, 1, "one directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root, built := cmd.Root(), buildCommit().buildTime()
			root.RemoveCommand(cmd)
			root.DisableAutoGenTag = true
			return doc.GenManTree(root, &doc.GenManHeader{Title: "ROLLCALL", Section: "1", Source: "Rollcall", Date: &built}, args[0])
		},
	}}
}
