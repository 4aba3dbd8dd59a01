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

// rebalanceTimeout is how long a rebalance may take, as a member allows it.
const rebalanceTimeout = 20 * time.Minute

// newMembersRebalance returns the command that moves clients from the members that have more than their share.
func newMembersRebalance(w IOStreams) *cobra.Command {
	k, rate := &membersCommand{adminCommand: newAdminCommand(w), commandName: "members rebalance"}, 100
	cmd := &cobra.Command{
		Use: "rebalance [flags]", Short: "move clients, so that all members have about as many", Args: RangeArgs(0, 0, "flags only"),
		Long: "Moves clients from the members with more than their share to the others. These members close connections, those that are open longest first, and the clients connect to other members with the same sessions. " +
			"A round takes at most five seconds. Two seconds later all clients are counted again. The command ends when no member has more than 5 % above its share, or when three rounds in a row have not helped, " +
			"because clients that know the address of one member alone come back to it. Use it after a rolling restart, when the last member has few clients. Members that are drained, join or do not answer have no share. If a member does not answer, or fewer than two take clients, the command ends with 1. Any member passes the request on. It needs the credentials of an administrator, on the machine of a member.",
		Example: "  rollcall members rebalance --token-file /etc/rollcall/token --rate 20",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if rate < 1 || rate > 1000 {
				return WithStatus(UsageError, k.wrapError(fmt.Errorf("--rate %d; allowed is 1 to 1000", rate)))
			}
			return k.rebalanceClients(cmd.Context(), rate)
		},
	}
	k.adminCommand.Register(cmd)
	cmd.Flags().IntVar(&rate, "rate", rate, "`connections` that a member closes in a second, at most 1000")
	_ = cmd.RegisterFlagCompletionFunc("rate", cobra.NoFileCompletions) // the flag is there
	return cmd
}

func (k *membersCommand) rebalanceClients(ctx context.Context, rate int) error {
	var done api.Rebalanced
	var base string
	err := k.callInEnsemble(ctx, func(admin *api.Client) (err error) {
		base = admin.BaseURL
		if t, ok := admin.HTTPClient.Transport.(*progressTransport); ok {
			t.ResponseHeaderTimeout += rebalanceTimeout
		}
		done, err = api.Post[api.Rebalanced](ctx, admin, "members/rebalance", api.MembersRebalance{PerSecond: rate})
		return err
	})
	switch {
	case err != nil && base != "" && mayHaveArrived(err):
		return WithStatus(OutcomeUnknown, k.wrapError(fmt.Errorf("%s: it is not known how far it came: %w; repeat the command", base, err)))
	case err != nil:
		return k.wrapError(WithAdvice(err))
	}
	for _, s := range done.Silent {
		warnf(k.IOStreams, "member %d has no share: %s", s.MemberID, silenceReason(s))
	}
	if err := PrintText(k.Output, formatRebalanced(done), done); err != nil {
		return err
	}
	if why := unbalancedReason(done); why != "" {
		return k.wrapError(errors.New(why))
	}
	return nil
}

// unbalancedReason returns why the members may not have about as many clients, and what to do; "": they have.
func unbalancedReason(done api.Rebalanced) string {
	switch {
	case done.Balanced:
		return ""
	case len(done.Silent) > 0:
		return "it is not known whether all members have about as many clients, because some did not answer; repeat the command when all members run and answer"
	case len(done.Items) < 2:
		return "fewer than two members take clients, so there is nothing to compare; repeat the command when another member serves, see rollcall status"
	}
	return "some members still have more clients than their share: clients that know no other address come back to the same member, or a member closed no connections; repeat the command, or see rollcall connections"
}

// formatRebalanced returns a line for each member, and one about all.
func formatRebalanced(done api.Rebalanced) string {
	var b strings.Builder
	for _, m := range done.Items {
		_, _ = fmt.Fprintf(&b, "member %d: %d clients, %d before, %d connections closed", m.MemberID, m.ClientsAfter, m.ClientsBefore, m.ClosedConnections)
		if m.FailureReason != "" {
			_, _ = fmt.Fprintf(&b, " (%s)", m.FailureReason)
		}
		b.WriteByte('\n')
	}
	_, _ = fmt.Fprintf(&b, "%d connections closed in %v\n", done.ClosedConnections, time.Duration(done.TookMs)*time.Millisecond)
	return b.String()
}
