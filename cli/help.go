package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const helpColumns = 100

func helpText(cmd *cobra.Command) string {
	var b strings.Builder
	about := cmd.Long
	if about == "" && cmd.Short != "" {
		about = strings.ToUpper(cmd.Short[:1]) + cmd.Short[1:] + "."
	}
	usage := cmd.UseLine()
	if !cmd.HasParent() {
		usage = "rollcall COMMAND [flags]"
	}
	fmt.Fprintf(&b, "%s\n\n%s\n", usage, wrapText(strings.TrimSpace(about)))
	if cmd.HasAvailableSubCommands() {
		b.WriteString(subcommandList(cmd))
	}
	if cmd.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", strings.TrimRight(cmd.Example, "\n"))
	}
	own, shared := splitShared(cmd)
	fmt.Fprintf(&b, "\nFlags:\n%s", flagUsages(own))
	if shared.HasFlags() {
		fmt.Fprintf(&b, "\n%s\n%s", sharedTitle, flagUsages(shared))
	}
	if !cmd.HasParent() {
		b.WriteString("\nEach command takes -h. docs/commands.md describes all of them.\n")
	}
	return b.String()
}

// sharedTitle heads the flags that most commands have.
const sharedTitle = "Which ensemble, and how to print:"

const sharedAnnotation = "rollcall_shared"

func markShared(fs *pflag.FlagSet, name string) {
	_ = fs.SetAnnotation(name, sharedAnnotation, []string{"true"}) // the flag is there
}

func splitShared(cmd *cobra.Command) (own, shared *pflag.FlagSet) {
	own, shared = pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[sharedAnnotation] != nil {
			shared.AddFlag(f)
		} else {
			own.AddFlag(f)
		}
	})
	return own, shared
}

func flagUsages(fs *pflag.FlagSet) string {
	return strings.TrimRight(fs.FlagUsagesWrapped(helpColumns), "\n") + "\n"
}

func wrapText(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		for len(line) > helpColumns {
			at := strings.LastIndexByte(line[:helpColumns], ' ')
			if at <= 0 {
				break
			}
			b.WriteString(line[:at] + "\n")
			line = line[at+1:]
		}
		b.WriteString(line)
	}
	return b.String()
}

func subcommandList(cmd *cobra.Command) string {
	var b strings.Builder
	list := func(title, group string) {
		fmt.Fprintf(&b, "\n%s\n", title)
		for _, sub := range cmd.Commands() {
			if sub.GroupID == group && (sub.IsAvailableCommand() || sub.Name() == "help") {
				fmt.Fprintf(&b, "  %-*s  %s\n", cmd.Commands()[0].NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
	for _, g := range cmd.Groups() {
		if slices.ContainsFunc(cmd.Commands(), func(sub *cobra.Command) bool { return sub.GroupID == g.ID }) {
			list(g.Title, g.ID)
		}
	}
	if len(cmd.Groups()) == 0 {
		list("Commands:", "")
	}
	return b.String()
}
