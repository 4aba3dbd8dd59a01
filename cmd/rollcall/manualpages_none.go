//go:build !manualpages

package main

import "github.com/spf13/cobra"

// buildCommands returns the commands that only the build of the packages needs: in the shipped program there are none.
func buildCommands() []*cobra.Command { return nil }
