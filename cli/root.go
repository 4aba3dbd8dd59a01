package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const rootHelp = `Rollcall keeps a roll of who is alive, for ZooKeeper clients.`

// NewRoot returns the command rollcall with the subcommands of this package. version is printed by --version,
// and built is the date of the manual pages.
func NewRoot(w IOStreams, version string) *cobra.Command {
	w = WithProgress(w)
	root := &cobra.Command{
		Use: "rollcall", Long: rootHelp, Version: version, SilenceErrors: true, SilenceUsage: true,
		Args: func(root *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return WithStatus(UsageError, unknownCommand(root, args[0]))
		},
		RunE: func(root *cobra.Command, _ []string) error {
			root.SetOut(w.Err)
			return errors.Join(root.Help(), UsageError.Errorf("name a command; they are listed above"))
		},
	}
	root.AddGroup(commandGroups...)
	root.SetHelpCommandGroupID(ToolsGroup)
	root.SetCompletionCommandGroupID(ToolsGroup)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetIn(w.In)
	root.SetOut(w.Out)
	root.SetErr(w.Err)
	// nothing can be done about an error
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { _, _ = io.WriteString(cmd.OutOrStdout(), helpText(cmd)) })
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		_, err := io.WriteString(cmd.OutOrStderr(), helpText(cmd))
		return err
	})
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if errors.Is(err, pflag.ErrHelp) {
			return err
		}
		var value *pflag.InvalidValueError
		if errors.As(err, &value) {
			return UsageError.Errorf("%s: --%s %.100q: %w", commandName(cmd), value.GetFlag().Name, value.GetValue(), value.Unwrap())
		}
		return UsageError.Errorf("%s: %w; %s%s -h lists its flags", commandName(cmd), err, suggestFlags(cmd, err),
			cmd.CommandPath())
	})
	root.SetGlobalNormalizationFunc(canonicalFlagName)
	for _, create := range commandConstructors {
		root.AddCommand(create(w))
	}
	return root
}

// commandName returns the path of a command without rollcall, as errors use it.
func commandName(cmd *cobra.Command) string {
	_, rest, sub := strings.Cut(cmd.CommandPath(), " ")
	if !sub {
		return cmd.Name()
	}
	return rest
}

func unknownCommand(parent *cobra.Command, name string) error {
	parent.SuggestionsMinimumDistance = 2
	help := "rollcall help"
	if parent.HasParent() {
		help = parent.CommandPath() + " -h"
	}
	if similar := parent.SuggestionsFor(name); len(similar) > 0 {
		return fmt.Errorf("unknown command %q; did you mean %s? %s lists all of them", name, strings.Join(similar, " or "),
			help)
	}
	return fmt.Errorf("unknown command %q; %s lists them", name, help)
}

func canonicalFlagName(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == "servers" {
		name = "hosts"
	}
	return pflag.NormalizedName(name)
}

// newParentCommand returns a command that only has subcommands. Without one it fails with hint.
func newParentCommand(name, short, group, hint string, subcommands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: name, Short: short, GroupID: group,
		Args: func(*cobra.Command, []string) error { return UsageError.Errorf("%s: %s", name, hint) },
		RunE: func(*cobra.Command, []string) error { return nil }, // Args has failed before
	}
	cmd.AddCommand(subcommands...)
	return OnlySubcommands(cmd)
}

// PrefixErrors returns run with the name of the command in front of its errors.
func PrefixErrors(run func(cmd *cobra.Command, args []string) error) func(cmd *cobra.Command, args []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := run(cmd, args); err != nil {
			return fmt.Errorf("%s: %w", commandName(cmd), err)
		}
		return nil
	}
}

// suggestFlags returns a question with flags similar to the unknown flag of err, or "".
func suggestFlags(cmd *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	typed := unknown.GetSpecifiedName()
	if letters := unknown.GetSpecifiedShortnames(); letters != "" { // one dash stands for two
		typed, _, _ = strings.Cut(letters, "=")
	}
	switch {
	case len(typed) < 2:
		return ""
	case slices.Contains(outputFormats, typed) && cmd.Flags().Lookup("output") != nil:
		return "did you mean -o " + typed + "? "
	}
	flags := &cobra.Command{SuggestionsMinimumDistance: min(2, len(typed)/2)} // cobra finds near commands only
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	near := flags.SuggestionsFor(typed)
	if len(near) == 0 {
		return ""
	}
	return "did you mean --" + strings.Join(near, " or --") + "? "
}

// RangeArgs returns a check for least to most arguments. what names them in the error, such as "one path". If
// most is negative, there is no limit.
func RangeArgs(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return UsageError.Errorf("%s: an argument is missing; it takes %s", commandName(cmd), what)
		case most >= 0 && len(args) > most:
			return UsageError.Errorf("%s: unexpected argument %q; it takes %s", commandName(cmd), args[most], what)
		}
		return nil
	}
}

// Execute runs the command of args, and returns it with its error, which includes advice. A flag may have one
// dash or two, whatever the length of its name.
func Execute(ctx context.Context, root *cobra.Command, args []string) (*cobra.Command, error) {
	describeBuiltins(root)
	args = normalizeDashes(root, args)
	if err := checkCommand(root, args); err != nil {
		return root, err
	}
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	return cmd, ignoreCanceled(ctx, err)
}

// checkCommand returns an error if args begin with a command that does not exist. Otherwise the errors of the flags, which
// belong to the unknown command, would come first.
func checkCommand(root *cobra.Command, args []string) error {
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") || strings.HasPrefix(arg, "__") {
			return nil
		}
		sub := findSubcommand(root, arg)
		switch {
		case sub == nil && !root.HasParent():
			return WithStatus(UsageError, unknownCommand(root, arg))
		case sub == nil && root.Annotations[onlySubcommands] != "":
			return UsageError.Errorf("%s: %w", commandName(root), unknownCommand(root, arg))
		case sub == nil || !sub.HasSubCommands():
			return nil
		}
		root = sub
	}
	return nil
}

// onlySubcommands is the annotation of commands whose first argument can only be a subcommand.
const onlySubcommands = "rollcall_only_subcommands"

// OnlySubcommands returns cmd, whose first argument can only be a subcommand. Execute rejects any other one.
func OnlySubcommands(cmd *cobra.Command) *cobra.Command {
	cmd.Annotations = map[string]string{onlySubcommands: "true"}
	return cmd
}

func describeBuiltins(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for name, short := range map[string]string{
		"help":       "print the help of a command",
		"completion": "print the script that completes commands in a shell",
	} {
		if cmd := findSubcommand(root, name); cmd != nil {
			cmd.Short = short
		}
	}
}

// normalizeDashes gives long flags two dashes, and short ones one. It keeps values of flags, and everything
// after "--".
func normalizeDashes(cmd *cobra.Command, args []string) []string {
	out := make([]string, 0, len(args))
	descend := true // the next word may be a subcommand
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--" || strings.HasPrefix(arg, "__"): // cobra's own commands for completion take the line as it is
			return append(out, args[i:]...)
		case len(arg) < 2 || arg[0] != '-':
			if sub := findSubcommand(cmd, arg); descend && sub != nil {
				cmd = sub
			} else {
				descend = false
			}
			out = append(out, arg)
			continue
		}
		text, takesValue := normalizeDash(cmd, arg)
		out = append(out, text)
		if takesValue && i+1 < len(args) {
			i++
			out = append(out, args[i])
		}
	}
	return out
}

// normalizeDash returns the flag arg as pflag expects it, and whether the next argument is its value.
func normalizeDash(cmd *cobra.Command, arg string) (text string, takesValue bool) {
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	word := strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-")
	name, _, hasValue := strings.Cut(word, "=")
	if f := cmd.Flag(name); f != nil && len(name) > 1 {
		return "--" + word, !hasValue && f.NoOptDefVal == ""
	}
	if len(name) == 1 {
		if f := cmd.Flags().ShorthandLookup(name); f != nil {
			return "-" + word, !hasValue && f.NoOptDefVal == ""
		}
	}
	return arg, false
}

func findSubcommand(cmd *cobra.Command, name string) *cobra.Command {
	for _, sub := range cmd.Commands() {
		if sub.Name() == name || sub.HasAlias(name) {
			return sub
		}
	}
	return nil
}
