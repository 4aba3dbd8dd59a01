package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/cli/subtree"
)

const (
	// completionTimeout is how long a completion may take.
	completionTimeout = 2 * time.Second
	// maxCompletions is how many paths a completion offers.
	maxCompletions = 1000
)

// completePath completes the path of a node, the first argument. If the servers do not answer, or the node
// above may not be read, there is nothing to complete.
func (n *nodeCommand) completePath(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	const nothingElse = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault // data, or entries of a list
	}
	above, name := "/", ""
	if i := strings.LastIndexByte(begun, '/'); i > 0 {
		above, name = begun[:i], begun[i+1:]
	} else {
		name = strings.TrimPrefix(begun, "/")
	}
	if subtree.CheckPath(above) != nil {
		return nil, nothingElse
	}
	ctx, stop := context.WithTimeout(cmd.Context(), completionTimeout)
	defer stop()
	s, err := n.openSpace(ctx)
	if err != nil {
		return nil, nothingElse
	}
	defer closeSession(s.Client)
	names, _, err := s.Children(ctx, above)
	if err != nil {
		return nil, nothingElse
	}
	names = slices.DeleteFunc(names, func(found string) bool { return !strings.HasPrefix(found, name) || !isPrintableASCII(found) })
	slices.Sort(names)
	names = names[:min(len(names), maxCompletions)]
	for i := range names {
		names[i] = strings.TrimSuffix(above, "/") + "/" + names[i]
	}
	return names, nothingElse
}
