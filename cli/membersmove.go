package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/operator/api"
)

func newMembersLead(w IOStreams) *cobra.Command {
	k := newMembersCommand(w)
	return k.registerRun(&cobra.Command{
		Use: "lead [flags] ID", Short: "hand leadership over to a member", Args: RangeArgs(1, 1, "the id of a member"),
		Long: "Hands leadership over to a member, and waits until it leads. Clients keep their sessions; writes wait " +
			"meanwhile. The " +
			"member must vote and have caught up. It needs an administrator's credentials on a member's machine.",
		Example: "  rollcall members lead --token-file /etc/rollcall/token 2",
	}, func(ctx context.Context, args []string) error {
		id, err := parseServerID(args[0])
		if err != nil {
			return err
		}
		m, err := k.fetchMembers(ctx)
		if err != nil {
			return err
		}
		if m.LeaderID != id {
			if _, err := postInEnsemble[api.MembersLed](ctx, k.ensemble, "members/lead",
				api.MembersLead{Member: id}); err != nil {
				return WithAdvice(err)
			}
			k.changed, m.LeaderID = true, id
		}
		row := membersResult{Member: id, Outcome: "leads", Changed: k.changed, Version: m.Version, Leader: m.LeaderID}
		return PrintText(k.output, fmt.Sprintf("member %d leads\n", id), row)
	})
}

func newMembersDrain(w IOStreams) *cobra.Command {
	k, over := newMembersCommand(w), 5*time.Second
	cmd := k.registerForce(k.registerRun(&cobra.Command{
		Use: "drain [flags] ID", Short: "prepare a member for its stop, and say when it is safe",
		Args: RangeArgs(1, 1, "the id of a member"),
		Long: "Does what rollcall drain does, for the member with that id. Then the command checks that the ensemble can do " +
			"without the member, and says that it is safe to stop it. It fails if no majority would be alive without the " +
			"member, unless --force is given. It needs an administrator's credentials on a member's machine.",
		Example: "  rollcall members drain --token-file /etc/rollcall/token --over 30s 3",
	}, func(ctx context.Context, args []string) error {
		id, err := parseServerID(args[0])
		if err != nil {
			return err
		}
		return k.drainServerAndWait(ctx, id, over)
	}))
	cmd.Flags().DurationVar(&over, "over", over, "`time` over which the connections are closed, a minute at most")
	return cmd
}

// drainServerAndWait drains a member, and waits until it is safe to stop.
func (k *membersCommand) drainServerAndWait(ctx context.Context, id uint32, over time.Duration) error {
	_, s, err := k.fetchServer(ctx, id)
	switch {
	case err != nil:
		return err
	case s.NeededForMajority && !k.force:
		return Conflict.Errorf("without member %d no majority of the voters would be alive, so the "+
			"ensemble would stop; "+
			"start the members that are down first, or add --force", id)
	}
	done, err := askEnsemble(ctx, k.ensemble, func(c *api.Client) (api.Drained, error) {
		return postDrain(ctx, c, "members/drain", over, api.MembersDrain{Member: id, OverMs: over.Milliseconds()})
	})
	if err != nil {
		return err
	}
	k.changed = true
	m, err := k.pollMembersUntil(ctx, id, fmt.Sprintf("member %d stays drained until its next start", id),
		func(m api.Members) bool {
			s, _ := findServer(m, id)
			return m.LeaderID != 0 && m.LeaderID != id && (!s.NeededForMajority || k.force) || len(m.Items) == 1
		})
	if err != nil {
		return err
	}
	text := fmt.Sprintf("member %d: drained, %d connections closed; it is safe to stop it\n", id, done.ClosedConnections)
	return PrintText(k.output, text,
		membersResult{Member: id, Outcome: "drained", Changed: true, Version: m.Version, Leader: m.LeaderID})
}

// rebalanceTimeout is the limit of the member.
const rebalanceTimeout = 20 * time.Minute

func newMembersRebalance(w IOStreams) *cobra.Command {
	k, rate := newMembersCommand(w), 100
	cmd := k.registerRun(&cobra.Command{
		Use: "rebalance [flags]", Short: "move clients, so that all members have about as many",
		Args: RangeArgs(0, 0, "flags only"),
		Long: "Moves clients from the members with more than their share to the others, with the same sessions. These members " +
			"close the connections that are open longest, for at most five seconds. Two seconds later all clients are counted " +
			"again. The command ends when no member has more than 5 % above its share, or when three rounds in a row have not " +
			"helped. Use it after a rolling restart, when the last member has few clients. If a member does not reply, or " +
			"fewer than two take clients, the command ends with 1. It needs an administrator's credentials on a member's machine.",
		Example: "  rollcall members rebalance --token-file /etc/rollcall/token --rate 20",
	}, func(ctx context.Context, _ []string) error {
		done, err := askEnsemble(ctx, k.ensemble, func(admin *api.Client) (api.Rebalanced, error) {
			return postSlowChange[api.Rebalanced](ctx, admin, "members/rebalance", api.MembersRebalance{PerSecond: rate},
				rebalanceTimeout, "how far it came", "repeat the command")
		})
		if err != nil {
			return err
		}
		for _, s := range done.Silent {
			warnf(k.streams, "member %d has no share: %s", s.MemberID, silenceReason(s))
		}
		if err := PrintText(k.output, formatRebalanced(done), done); err != nil {
			return err
		}
		if why := unbalancedReason(done); why != "" {
			return errors.New(why)
		}
		return nil
	})
	addIntFlag(cmd, &rate, "rate", "`connections` that a member closes in a second, at most 1000", 1, 1000)
	completeFlag(cmd, "rate")
	return cmd
}

func unbalancedReason(done api.Rebalanced) string {
	switch {
	case done.Balanced:
		return ""
	case len(done.Silent) > 0:
		return "it is not known whether all members have about as many clients, because some did not answer; repeat the " +
			"command when all members run and answer"
	case len(done.Items) < 2:
		return "fewer than two members take clients, so there is nothing to compare; repeat the command when another " +
			"member serves, see rollcall status"
	}
	return "some members still have more clients than their share: clients that know no other address come back to the " +
		"same member, or a member closed no connections; repeat the command, or see rollcall connections"
}

func formatRebalanced(done api.Rebalanced) string {
	var b strings.Builder
	for _, m := range done.Items {
		_, _ = fmt.Fprintf(&b, "member %d: %d clients, %d before, %d connections closed", m.MemberID, m.ClientsAfter,
			m.ClientsBefore, m.ClosedConnections)
		if m.FailureReason != "" {
			_, _ = fmt.Fprintf(&b, " (%s)", m.FailureReason)
		}
		b.WriteByte('\n')
	}
	_, _ = fmt.Fprintf(&b, "%d connections closed in %v\n", done.ClosedConnections,
		time.Duration(done.TookMs)*time.Millisecond)
	return b.String()
}
