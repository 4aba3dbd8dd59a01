package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/api"
)

// rebalanceWait is how long a rebalance may take, as a member allows it.
const rebalanceWait = 20 * time.Minute

// newMembersRebalance returns the command that moves clients from the members that have more than their share.
func newMembersRebalance(w World) *cobra.Command {
	k, rate := &work{ask: newAsk(w), name: "members rebalance"}, 100
	cmd := &cobra.Command{
		Use: "rebalance [flags]", Short: "move clients, so that all members have about as many", Args: Takes(0, 0, "flags only"),
		Long: "Has the members with more clients than their share close connections, so that these clients go to other members. Their sessions stay. The clients that are connected longest are the first. After five seconds all clients " +
			"are counted again, until no member has more than its share, or that does not get better: clients that know the address of one member alone come back to it. Use it after a rolling restart, when the last member " +
			"has few clients. Members that are drained, join or do not answer have no share. Any member passes the request on. It needs the credentials of an administrator, on the machine of a member.",
		Example: "  rollcall members rebalance --token-file /etc/rollcall/token --rate 20",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if rate < 1 || rate > 1000 {
				return With(WrongUse, k.wrap(fmt.Errorf("--rate %d; allowed is 1 to 1000", rate)))
			}
			return k.rebalance(cmd.Context(), rate)
		},
	}
	k.ask.Register(cmd)
	cmd.Flags().IntVar(&rate, "rate", rate, "`connections` that a member closes in a second, at most 1000")
	_ = cmd.RegisterFlagCompletionFunc("rate", cobra.NoFileCompletions) // the flag is there
	return cmd
}

func (k *work) rebalance(ctx context.Context, rate int) error {
	admin, err := k.Admin(ctx)
	if err != nil {
		return k.wrap(err)
	}
	if t, ok := admin.HTTP.Transport.(*requests); ok {
		t.ResponseHeaderTimeout += rebalanceWait
	}
	done, err := api.Post[api.Rebalanced](ctx, admin, "members/rebalance", api.MembersRebalance{PerSecond: rate})
	switch {
	case err != nil && arrived(err):
		return With(Unknown, k.wrap(fmt.Errorf("%s: it is not known how far it came: %w; repeat the command", admin.Base, err)))
	case err != nil:
		return k.wrap(Explained(err))
	}
	for _, s := range done.Silent {
		warn(k.World, "member %d has no share: %s", s.Member, silence(s))
	}
	if err := PrintText(k.Output, rebalancedText(done), done); err != nil {
		return err
	}
	if !done.Balanced {
		return k.wrap(errors.New("the members do not have about as many clients yet: some clients come back to the same member, as those do that know no other address, or a member has closed none; repeat the command, or look at rollcall connections"))
	}
	return nil
}

// rebalancedText returns a line for each member, and one about all.
func rebalancedText(done api.Rebalanced) string {
	var b strings.Builder
	for _, m := range done.Items {
		_, _ = fmt.Fprintf(&b, "member %d: %d clients, %d before, %d connections closed", m.Member, m.After, m.Before, m.Closed)
		if m.Failed != "" {
			_, _ = fmt.Fprintf(&b, " (%s)", m.Failed)
		}
		b.WriteByte('\n')
	}
	_, _ = fmt.Fprintf(&b, "%d connections closed in %v\n", done.Connections, time.Duration(done.TookMs)*time.Millisecond)
	return b.String()
}
