package main

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// plainWordPattern matches words that a shell takes as they are.
var plainWordPattern = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// commandLine returns the line for a shell that runs cmd again with the same flags and arguments.
func commandLine(cmd *cobra.Command, args []string) string {
	words := []string{cmd.CommandPath()}
	add := func(word string) {
		if !plainWordPattern.MatchString(word) {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		words = append(words, word)
	}
	cmd.Flags().Visit(func(f *pflag.Flag) { add("--" + f.Name + "=" + f.Value.String()) })
	for _, arg := range args {
		add(arg)
	}
	return strings.Join(words, " ")
}
