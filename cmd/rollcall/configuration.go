package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"rollcall/cli"
	"rollcall/config"
	"rollcall/member"
	"rollcall/operator/api"
)

func newConfiguration(w cli.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "show every key of a member's configuration", GroupID: cli.InspectGroup,
		Args: cli.RangeArgs(0, 0, "a subcommand: show or check"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return errors.Join(cmd.Usage(),
				cli.UsageError.Errorf("config: name a subcommand: show or check"))
		},
	}
	cmd.AddCommand(newConfigShow(w), newConfigCheck(w))
	return cli.OnlySubcommands(cmd)
}

// newConfigShow returns the command that queries a running member.
func newConfigShow(w cli.IOStreams) *cobra.Command {
	link, out := cli.NewEnsembleFlags(w), cli.NewOutput(w)
	cmd := &cobra.Command{
		Use: "show [flags]", Short: "what holds in a member that runs", Args: cli.RangeArgs(0, 0, "flags only"),
		Long: "Shows every key of the configuration of the member at --admin: the value in force, the default, the origin " +
			"of the value, and whether the key is unknown or the value dangerous.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			member, err := link.AdminClient(cmd.Context())
			if err != nil {
				return err
			}
			return cli.WithAdvice(cli.PrintRows(out, keyColumns,
				api.AllRows[api.Setting](cmd.Context(), member, "config", nil, nil)))
		},
	}
	link.Register(cmd)
	out.Register(cmd)
	return cmd
}

// newConfigCheck returns the command that reads a configuration as serve does, without starting a member.
func newConfigCheck(w cli.IOStreams) *cobra.Command {
	var flags config.Flags
	out := cli.NewOutput(w)
	cmd := &cobra.Command{
		Use: "check [flags] [zoo.cfg]", Short: "what would hold in a member with this zoo.cfg",
		Args: cli.RangeArgs(0, 1, oneFileArgument),
		Long: "Reads a configuration as rollcall serve does, with the same flags, and starts nothing. It shows every key: " +
			"the value, the default, the origin of the value, " +
			"and whether the key is unknown or without effect, or the value dangerous or refused. It also reads the files " +
			"that keys name, and warns of a certificate that expires within 30 days. The exit status is 1 if a member would " +
			"not start.",
		RunE: cli.PrefixErrors(func(cmd *cobra.Command, args []string) error {
			r := config.Check(configFileArg(args), w.Env, flags)
			if r.FilesKnown {
				r.AddFaults(member.CheckFiles(r.Config))
			}
			if len(r.Config.Keys) > 0 {
				rows := cli.MapRows(cli.RowsOf(r.Config.Keys), config.Key.Setting)
				if err := cli.PrintRows(out, keyColumns, rows); err != nil {
					return err
				}
			}
			for _, warning := range warningsBesidesKeys(r) {
				_, _ = fmt.Fprintln(w.Err, "warning:", cli.EscapeUnprintable(warning.String())) // the exit status has the result
			}
			if !r.FilesKnown && len(r.Config.Keys) > 0 {
				_, _ = fmt.Fprintln(w.Err, "warning: not all files with secrets and certificates were read; correct what is "+
					"refused, and check again")
			}
			if err := r.Err(); err != nil {
				return explainedError{err}
			}
			return nil
		}),
	}
	fs := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.Register(fs)
	cmd.Flags().AddGoFlagSet(fs)
	out.Register(cmd)
	return cmd
}

// shownValue returns the value of a key, or its default in brackets.
func shownValue(s api.Setting) string {
	if s.Value == "" && config.Verdict(s.State) == config.ByDefault {
		return "(" + s.Default + ")"
	}
	return s.Value
}

// warningsBesidesKeys returns the warnings that the rows of keys do not show.
func warningsBesidesKeys(r config.Report) []config.Warning {
	return slices.DeleteFunc(slices.Clone(r.Warnings), func(warning config.Warning) bool {
		return slices.ContainsFunc(r.Config.Keys, func(k config.Key) bool {
			return k.Source == warning.Where && (k.Verdict == config.Unknown || k.Verdict == config.NoEffect)
		})
	})
}

var keyColumns = []cli.Column[api.Setting]{
	{Name: "key", Cell: func(s api.Setting) string { return s.Key }},
	{Name: "value", Cell: shownValue},
	{
		Name: "state", Cell: func(s api.Setting) string { return s.State },
		Tint: func(s api.Setting) cli.Tint { return keyTints[config.Verdict(s.State)] },
	},
	{Name: "from", Cell: func(s api.Setting) string { return s.Origin }},
	{Name: "default", WideOnly: true, Cell: func(s api.Setting) string { return s.Default }},
	{Name: "warning", Cell: func(s api.Setting) string { return s.Warning }},
}

var keyTints = map[config.Verdict]cli.Tint{
	config.InForce: cli.Bold, config.ByDefault: cli.Dim, config.NoEffect: cli.Yellow, config.Unknown: cli.Yellow,
	config.Dangerous: cli.Red, config.Refused: cli.Red,
}
