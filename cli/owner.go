package cli

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"rollcall/operator/api"
)

// kindNone is the kind of a node that does not exist.
const kindNone = "none"

// newWhoOwns returns the command that names the session that a node belongs to.
func newWhoOwns(w IOStreams) *cobra.Command {
	a := newAdminCommand(w)
	cmd := &cobra.Command{
		Use: "who-owns [flags] PATH", Short: "name the session that an ephemeral node belongs to", GroupID: InspectGroup, Args: RangeArgs(1, 1, "one path"),
		Long:    "Names the session that an ephemeral node belongs to, with its client. Other nodes have no owner.",
		Example: "  rollcall who-owns /locks/backup\n  rollcall who-owns -o json /locks/backup | jq -r .session.address",
		RunE: func(cmd *cobra.Command, args []string) error {
			full, err := a.fullPath(args[0])
			if err != nil {
				return err
			}
			node, err := getOne[api.Owner](cmd.Context(), a, "owner", url.Values{"path": {full}})
			if err != nil {
				return err
			}
			node.Path = args[0]
			if node.Kind == kindNone {
				return WithStatus(NotFound, fmt.Errorf("who-owns: there is no node %s; rollcall why %s says what removed it", args[0], args[0]))
			}
			for _, s := range node.Silent {
				a.warnSilent(s)
			}
			return printRow(a.Output, ownerColumns(sessionColumns(w.Now()), node), node)
		},
	}
	a.Register(cmd)
	return cmd
}

// fullPath returns the path of a node as the servers have it, with what --hosts puts before it. The member checks
// the rest of it.
func (a *adminCommand) fullPath(text string) (full string, err error) {
	if !strings.HasPrefix(text, "/") {
		return "", WithStatus(UsageError, fmt.Errorf("%.100q is not a path: that begins with /", text))
	}
	space, err := a.rootSpace()
	return space.FullPath(text), err
}

// ownerColumns returns the lines of rollcall who-owns: the node, and its session if that is known.
func ownerColumns(session []Column[api.Session], node api.Owner) []Column[api.Owner] {
	columns := []Column[api.Owner]{
		{Name: "path", Cell: func(o api.Owner) string { return o.Path }},
		{Name: "kind", Cell: func(o api.Owner) string { return o.Kind }},
		{Name: "owner", Cell: func(o api.Owner) string { return formatOwner(o) }},
	}
	if node.Session == nil {
		return columns
	}
	for _, c := range session {
		if c.Name != "id" {
			columns = append(columns, Column[api.Owner]{Name: c.Name, Cell: func(o api.Owner) string { return c.Cell(*o.Session) }})
		}
	}
	return columns
}

// formatOwner returns whom a node belongs to.
func formatOwner(o api.Owner) string {
	switch {
	case o.SessionID == "":
		return "nobody: the node is " + o.Kind
	case o.SessionEnded:
		return fmt.Sprintf("session %s, which has ended; the node is about to be removed", o.SessionID)
	case o.Session != nil:
		return fmt.Sprintf("session %s of %s on member %s", o.SessionID, orDash(o.Session.Address), formatMember(o.Session.MemberID))
	}
	return "session " + o.SessionID
}
