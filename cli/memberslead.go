package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"rollcall/operator/api"
)

// newMembersLead returns the command that hands leadership over.
func newMembersLead(w IOStreams) *cobra.Command {
	a := newAdminCommand(w)
	cmd := &cobra.Command{
		Use: "lead [flags] ID", Short: "hand leadership over to a member", Args: RangeArgs(1, 1, "the id of a member"),
		Long:    "Hands leadership over to a member, and waits until it leads. Clients keep their sessions; writes wait meanwhile. The member must vote and have caught up. It needs the credentials of an administrator, on the machine of a member.",
		Example: "  rollcall members lead --token-file /etc/rollcall/token 2",
		RunE: func(cmd *cobra.Command, args []string) error {
			k := &membersCommand{adminCommand: a, commandName: "members lead"}
			id, err := parseServerID(args[0])
			if err != nil {
				return k.wrapError(err)
			}
			return k.transferLeadership(cmd.Context(), id)
		},
	}
	a.Register(cmd)
	return cmd
}

func (k *membersCommand) transferLeadership(ctx context.Context, id uint32) error {
	m, err := k.fetchMembers(ctx)
	if err != nil {
		return err
	}
	if m.LeaderID != id {
		if _, err := postInEnsemble[api.MembersLed](ctx, k.Link, "members/lead", api.MembersLead{Member: id}); err != nil {
			return k.wrapError(WithAdvice(err))
		}
		k.changed, m.LeaderID = true, id
	}
	return PrintText(k.Output, fmt.Sprintf("member %d leads\n", id), membersResult{Member: id, Outcome: "leads", Changed: k.changed, Version: m.Version, Leader: m.LeaderID})
}

// newMembersDrain returns the command that prepares one of the members for its stop.
func newMembersDrain(w IOStreams) *cobra.Command {
	k, over := newMembersCommand(w, "drain"), 5*time.Second
	cmd := &cobra.Command{
		Use: "drain [flags] ID", Short: "prepare a member for its stop, and say when it is safe", Args: RangeArgs(1, 1, "the id of a member"),
		Long: "Does what rollcall drain does, for the member with that id: it hands leadership over, takes no new clients, and closes the connections of the present ones, spread over a time. Then the command checks that the ensemble " +
			"can do without the member, and says that it is safe to stop it. It refuses if no majority would be alive without the member, unless --force is given. " +
			"Any member passes the request on. It needs the credentials of an administrator, on the machine of a member.",
		Example: "  rollcall members drain --token-file /etc/rollcall/token --over 30s 3",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseServerID(args[0])
			if err != nil {
				return k.wrapError(err)
			}
			return k.drainServer(cmd.Context(), id, over)
		},
	}
	k.Register(cmd)
	cmd.Flags().DurationVar(&over, "over", over, "`time` over which the connections are closed, a minute at most")
	return cmd
}

// drainServer drains a member, and waits until it is safe to stop it.
func (k *membersCommand) drainServer(ctx context.Context, id uint32, over time.Duration) error {
	m, err := k.fetchMembers(ctx)
	if err != nil {
		return err
	}
	s, listed := findServer(m, id)
	switch {
	case !listed:
		return WithStatus(NotFound, k.wrapError(fmt.Errorf("the list has no member %d; rollcall members list shows the servers", id)))
	case s.NeededForMajority && !k.force:
		return WithStatus(Conflict, k.wrapError(fmt.Errorf("without member %d no majority of the voters would be alive, so the ensemble would stop; start the members that are down first, or add --force", id)))
	}
	var done api.Drained
	err = k.callInEnsemble(ctx, func(c *api.Client) (err error) {
		done, err = drainMember(ctx, c, "members/drain", over, api.MembersDrain{Member: id, OverMs: over.Milliseconds()})
		return err
	})
	if err != nil {
		return k.wrapError(err)
	}
	k.changed = true
	m, err = k.waitUntil(ctx, id, fmt.Sprintf("member %d stays drained until its next start", id), func(m api.Members) bool {
		s, _ := findServer(m, id)
		return m.LeaderID != 0 && m.LeaderID != id && (!s.NeededForMajority || k.force) || len(m.Items) == 1
	})
	if err != nil {
		return err
	}
	text := fmt.Sprintf("member %d: drained, %d connections closed; it is safe to stop it\n", id, done.ClosedConnections)
	return PrintText(k.Output, text, membersResult{Member: id, Outcome: "drained", Changed: true, Version: m.Version, Leader: m.LeaderID})
}
