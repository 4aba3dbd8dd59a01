package cli

import (
	"context"

	"github.com/spf13/cobra"

	"rollcall/cli/subtree"
	"rollcall/operator/api"
	"rollcall/zk/jute"
)

// newACL returns the command that shows and sets access control lists.
func newACL(w IOStreams) *cobra.Command {
	n, version := newNodeCommand(w), int32(0)
	cmd := n.registerCommand(&cobra.Command{
		Use: "acl [flags] PATH [LIST...]", Short: "print or set the access control list of a node", Args: RangeArgs(1, -1, "a path and entries"),
		Long: "Prints who may do what with a node, or sets that if a list is given. An entry is scheme:id:perms. The permissions are letters: c creates children, d deletes them, " +
			"r reads data and children, w writes data, a sets this list. auth::perms stands for the identities of --auth. Nodes below it keep their own lists.",
		Example: "  rollcall acl /config\n  rollcall acl --auth digest:me:secret /config auth::cdrwa world:anyone:r",
	}, true, func(ctx context.Context, s subtree.Space, args []string) error {
		list, err := parseACLFlags("acl", args[1:])
		if err != nil {
			return err // PreRunE has returned it before
		}
		if list == nil {
			if list, err = s.ACL(ctx, args[0]); err != nil {
				return err
			}
			return PrintRows(n.Output, aclColumns, rowsOf(aclRows(list)))
		}
		var stat jute.Stat
		err = s.Write(ctx, func(ctx context.Context) error {
			stat, err = s.Client.SetACL(ctx, s.FullPath(args[0]), list, version)
			return err
		})
		if err != nil {
			return err
		}
		return n.printChanged(args[0], stat, "aversion", stat.Aversion)
	})
	versionFlag(cmd, &version, "aversion")
	cmd.PreRunE = func(_ *cobra.Command, args []string) error {
		_, err := parseACLFlags("acl", args[1:])
		return err
	}
	n.Output.Register(cmd)
	return cmd
}

func aclRows(list []jute.ACL) []api.ACL {
	rows := make([]api.ACL, 0, len(list))
	for _, a := range list {
		rows = append(rows, api.ACL{Scheme: string(a.ID.Scheme), ID: string(a.ID.ID), Perms: a.Perms.String()})
	}
	return rows
}

var aclColumns = []Column[api.ACL]{
	{Name: "scheme", Cell: func(a api.ACL) string { return a.Scheme }},
	{Name: "id", Cell: func(a api.ACL) string { return orDash(a.ID) }},
	{Name: "perms", Cell: func(a api.ACL) string { return a.Perms }},
}
