package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"rollcall/operator/api"
)

// drainedRow is what a drain has done, as JSON has it.
type drainedRow struct {
	AdminURL string `json:"admin"` // URL of the member's port for operators
	api.Drained
}

// newDrain returns the command that prepares a member for its end.
func newDrain(w IOStreams) *cobra.Command {
	link, out := NewLink(w), NewOutput(w)
	over := 5 * time.Second
	cmd := &cobra.Command{
		Use: "drain [flags]", Short: "prepare a member for its stop", GroupID: ChangeGroup, Args: RangeArgs(0, 0, "flags only"),
		Long: "Prepares the member of this machine for its stop. It takes no new client, and /readyz fails. It hands leadership over, and closes the connections of its clients, spread over a time. " +
			"Their sessions move to the other members. It tries to hand over for that time, or for " + api.MinHandOver.String() + " if that is longer. It goes on storing and voting. Only a new start undoes that. It needs the credentials of an administrator.",
		Example: "  rollcall drain --token-file /etc/rollcall/token --over 30s",
		RunE: func(cmd *cobra.Command, _ []string) error {
			admin, err := link.FirstAdminClient(cmd.Context())
			if err != nil {
				return err
			}
			done, err := drainMember(cmd.Context(), admin, "drain", over, api.Drain{OverMs: over.Milliseconds()})
			if err != nil {
				return fmt.Errorf("drain: %w", err)
			}
			text := fmt.Sprintf("%s: drained, %d connections closed in %v\n", admin.BaseURL, done.ClosedConnections, time.Duration(done.TookMs)*time.Millisecond)
			if err := PrintText(out, text, drainedRow{admin.BaseURL, done}); err != nil {
				return err
			}
			if done.StillLeads {
				return errors.New("drain: the member still leads: no other member could take over, so clients wait while it is stopped; look at rollcall status; the member hands over once another one can lead")
			}
			return nil
		},
	}
	link.Register(cmd)
	out.Register(cmd)
	cmd.Flags().DurationVar(&over, "over", over, "`time` over which the connections are closed, a minute at most")
	return cmd
}

// drainMember asks for a drain over a time at a path below /v1/, and waits for the end.
func drainMember(ctx context.Context, admin *api.Client, path string, over time.Duration, body any) (api.Drained, error) {
	if t, ok := admin.HTTPClient.Transport.(*progressTransport); ok {
		t.ResponseHeaderTimeout += max(over, api.MinHandOver) + over // to hand over and to close; headerTime is left for the answer
	}
	done, err := api.Post[api.Drained](ctx, admin, path, body)
	switch {
	case err != nil && mayHaveArrived(err):
		return done, WithStatus(OutcomeUnknown, fmt.Errorf("%s: it is not known how far it came: %w; repeat the command", admin.BaseURL, err))
	case err != nil:
		return done, withAdviceAt(admin.BaseURL, err)
	}
	return done, nil
}
