package cli

import (
	"slices"

	"github.com/spf13/cobra"
)

// outFlag is the flag with which every command names the file or directory that it writes.
const outFlag = "out"

// WithOut gives a command whose last argument is the file or directory that it writes the flag --out, which names it, too. It replaces Args
// and RunE of cmd, which get the value of the flag as the last argument.
func WithOut(cmd *cobra.Command, usage string) {
	var out string
	cmd.Flags().StringVar(&out, outFlag, "", usage)
	check, run := cmd.Args, cmd.RunE
	given := func(args []string) []string {
		if out == "" {
			return args
		}
		return append(slices.Clone(args), out)
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error { return check(cmd, given(args)) }
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return run(cmd, given(args)) }
}

// registerOutFlag adds --out to cmd, and --file as another name of it, which the help does not list.
func registerOutFlag(cmd *cobra.Command, out *string, usage string) {
	cmd.Flags().StringVar(out, outFlag, "", usage)
	cmd.Flags().StringVar(out, "file", "", usage)
	_ = cmd.Flags().MarkHidden("file") // the flag is there
}
