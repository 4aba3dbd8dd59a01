package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rollcall/cli"
)

// A command takes the arguments that its first line of help names, and neither fewer nor more.
func TestCommandsTakeTheirArguments(t *testing.T) {
	checked := 0
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			check(sub)
		}
		_, named, ours := strings.Cut(cmd.Use, " [flags]")
		if !ours || cmd.Args == nil {
			return
		}
		checked++
		least, most := 0, 0
		for _, argument := range strings.Fields(named) {
			if most++; !strings.HasPrefix(argument, "[") {
				least++
			}
		}
		switch cmd.CommandPath() {
		case "rollcall set": // the data may come from a file
			least--
		case "rollcall backup restore": // only --subtree needs no zoo.cfg
			least++
		case "rollcall bench", "rollcall bench compare": // they name the cases if there is none
			return
		}
		some := slices.Repeat([]string{"x"}, most+1)
		endless := strings.Contains(named, "...")
		for n := range most + 2 {
			err := cmd.Args(cmd, some[:n])
			if fits := n >= least && (n <= most || endless); (err == nil) != fits {
				t.Errorf("%s (%s) with %d arguments: %v", cmd.CommandPath(), cmd.Use, n, err)
			}
		}
	}
	root := newRoot(cli.IOStreams{})
	check(root)
	if checked < 30 {
		t.Errorf("%d commands have arguments that a test can check", checked)
	}
}

// A switch is off unless somebody sets it, also one that skips a question or a check.
func TestSwitchesAreOff(t *testing.T) {
	checked := 0
	for _, cmd := range everyCommand(newRoot(cli.IOStreams{}), nil) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() != "bool" {
				return
			}
			checked++
			if f.DefValue != "false" {
				t.Errorf("%s --%s is %s if it is not given", cmd.CommandPath(), f.Name, f.DefValue)
			}
		})
	}
	if checked < 20 {
		t.Errorf("%d switches were found", checked)
	}
}
