package cli

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"rollcall/operator/subtree"
	"rollcall/zk/jute"
)

// boundedInt is an integer flag whose bounds are checked while flags are parsed.
type boundedInt struct {
	value    *int
	min, max int
}

const noMaximum = math.MaxInt

func (b boundedInt) Set(text string) error {
	n, err := strconv.Atoi(text)
	switch {
	case err == nil && n >= b.min && n <= b.max:
		*b.value = n
		return nil
	case b.max == noMaximum:
		return fmt.Errorf("must be a number of at least %d", b.min)
	}
	return fmt.Errorf("must be a number from %d to %d", b.min, b.max)
}

func (b boundedInt) String() string { return strconv.Itoa(*b.value) }
func (b boundedInt) Type() string   { return "int" }

// addIntFlag adds a flag whose default is the present value.
func addIntFlag(cmd *cobra.Command, value *int, name, usage string, least, most int) {
	cmd.Flags().Var(boundedInt{value, least, most}, name, usage)
}

func addLimitFlag(cmd *cobra.Command, limit *int) {
	addIntFlag(cmd, limit, "limit", "print the first `N` only", 0, noMaximum)
}

type aclFlag []jute.ACL

func (f *aclFlag) Set(text string) error {
	list, err := subtree.ParseACL(text)
	*f = append(*f, list...)
	return err
}

func (f *aclFlag) String() string { return "" }
func (f *aclFlag) Type() string   { return "list" }

// completeFlag completes a flag with fixed values, or with nothing.
func completeFlag(cmd *cobra.Command, name string, values ...string) {
	complete := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc(name, complete) // the flag is there
}

const outFlag = "out"

// AddOutFlag adds --out to a command whose last argument is a file or directory to write. Args and RunE of cmd
// get its value as the last argument.
func AddOutFlag(cmd *cobra.Command, usage string) {
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

// registerOutFlag adds --out, and --file as a hidden alias.
func registerOutFlag(cmd *cobra.Command, out *string, usage string) {
	cmd.Flags().StringVar(out, outFlag, "", usage)
	cmd.Flags().StringVar(out, "file", "", usage)
	_ = cmd.Flags().MarkHidden("file") // the flag is there
}
