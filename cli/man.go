package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newMan returns the command that writes the manual pages.
func newMan(w IOStreams, built time.Time) *cobra.Command {
	cmd := &cobra.Command{
		Use: "man [flags] DIR", Short: "write a manual page for each command into a directory", GroupID: ToolsGroup, Args: RangeArgs(1, 1, "one directory"),
		Long: "Writes a manual page for each command into a directory, which is made if it is missing. man -l DIR/rollcall.1 shows the first one.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("man: %w", err)
			}
			cmd.Root().DisableAutoGenTag = true
			if err := doc.GenManTree(cmd.Root(), &doc.GenManHeader{Title: "ROLLCALL", Section: "1", Source: "Rollcall", Date: &built}, args[0]); err != nil {
				return fmt.Errorf("man: %w", err)
			}
			_, err := fmt.Fprintf(w.Err, "The pages are in %s.\n", args[0])
			return err
		},
	}
	WithOut(cmd, "`directory`, in place of the argument")
	return cmd
}
