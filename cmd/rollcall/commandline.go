package main

import (
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rollcall/cli"
)

// commandLine returns a shell command that runs cmd again with the same flags and arguments.
func commandLine(cmd *cobra.Command, args []string) string {
	var flags []string
	cmd.Flags().Visit(func(f *pflag.Flag) { flags = append(flags, "--"+f.Name+"="+f.Value.String()) })
	return cmd.CommandPath() + " " + cli.JoinFunc(append(flags, args...), " ", shellQuote)
}

// shellQuote quotes a word for a shell if needed.
func shellQuote(word string) string {
	special := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_@%+=:,./-", r)
	}
	if word != "" && !strings.ContainsFunc(word, special) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
