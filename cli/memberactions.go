package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/operator/api"
)

type drainedRow struct {
	AdminURL string `json:"admin"` // URL of the member's port for operators
	api.Drained
}

func newDrain(w IOStreams) *cobra.Command {
	k := newMembersCommand(w)
	a := k.adminCommand
	over, leaves, account := 5*time.Second, false, serviceAccountDir
	cmd := a.registerFlags(&cobra.Command{
		Use: "drain [flags]", Short: "prepare a member for its stop", GroupID: ChangeGroup,
		Args: RangeArgs(0, 0, "flags only"),
		Long: "Prepares the member of this machine for its stop. It takes no new client, and /readyz fails. It hands " +
			"leadership over, and closes the connections of its clients, spread over a time. " +
			"Their sessions move to the other members. It tries to hand over for that time, or for " + api.MinHandOver.String() +
			" if that is longer. It still stores and votes. Only a new start undoes that. It needs an administrator's " +
			"credentials. With --leave-with-statefulset, in a pod of Kubernetes, it then removes the member from the ensemble " +
			"if spec.replicas of the StatefulSet does not include the pod any more.",
		Example: "  rollcall drain --token-file /etc/rollcall/token --over 30s",
		RunE: PrefixErrors(func(cmd *cobra.Command, _ []string) error {
			admin, err := a.ensemble.FirstAdminClient(cmd.Context())
			if err != nil {
				return err
			}
			done, err := postDrain(cmd.Context(), admin, "drain", over, api.Drain{OverMs: over.Milliseconds()})
			if err != nil {
				return err
			}
			text := fmt.Sprintf("%s: drained, %d connections closed in %v\n", admin.Name(), done.ClosedConnections,
				time.Duration(done.TookMs)*time.Millisecond)
			if err := PrintText(a.output, text, drainedRow{admin.Name(), done}); err != nil {
				return err
			}
			if leaves {
				if err := k.leaveIfToGo(cmd.Context(), account); err != nil || k.changed {
					return err
				}
			}
			if done.StillLeads {
				return errors.New("the member still leads: no other member could take over, so clients wait while it is " +
					"stopped; look at rollcall status; the member hands over once another one can lead")
			}
			return nil
		}),
	})
	cmd.Flags().DurationVar(&over, "over", over, "`time` over which the connections are closed, a minute at most")
	cmd.Flags().BoolVar(&leaves, "leave-with-statefulset", false, "remove the member if its StatefulSet is to have fewer pods")
	cmd.Flags().StringVar(&account, "service-account", account, "`directory` of the pod's service account")
	return cmd
}

func postDrain(ctx context.Context, admin *api.Client, path string, over time.Duration, body any) (api.Drained,
	error,
) {
	extra := max(over, api.MinHandOver) + over // to hand over and to close
	return postSlowChange[api.Drained](ctx, admin, path, body, extra, "how far it came", "repeat the command")
}

const snapshotTimeout = 2 * time.Hour

func newSnapshot(w IOStreams) *cobra.Command {
	a := newAdminCommand(w)
	return a.registerFlags(&cobra.Command{
		Use: "snapshot [flags]", Short: "have a member write a snapshot to its disk", GroupID: ChangeGroup,
		Args: RangeArgs(0, 0, "flags only"),
		Long: "Makes the member of this machine write a snapshot of its state to its disk, and waits until it is there. A " +
			"member does that by itself, too (snapCount). After a snapshot, a start of the member applies less of the log, " +
			"and the member removes the log that the snapshot replaces. It rejects the " +
			"request while it writes a snapshot, and if its disk may have no room for the state once more. A snapshot is no " +
			"backup: rollcall backup save makes one. " +
			"It needs an administrator's credentials.",
		Example: "  rollcall snapshot --token-file /etc/rollcall/token",
		RunE: PrefixErrors(func(cmd *cobra.Command, _ []string) error {
			admin, err := a.ensemble.FirstAdminClient(cmd.Context())
			if err != nil {
				return err
			}
			done, err := postSlowChange[api.Snapshot](cmd.Context(), admin, "snapshot", struct{}{}, snapshotTimeout,
				"whether it is done",
				"rollcall status shows the newest one")
			if err != nil {
				return err
			}
			text := fmt.Sprintf("member %d: snapshot of index %d, zxid %s, %s, written in %v\n", done.MemberID, done.Index,
				done.Zxid, FormatSize(done.Bytes), time.Duration(done.TookMs)*time.Millisecond)
			return PrintText(a.output, text, done)
		}),
	})
}

var logLevels = []string{"debug", "info", "warn", "error"}

type levelRow struct {
	Member uint32 `json:"member"`
	Level  string `json:"level"`
}

var levelColumns = []Column[levelRow]{
	{Name: "member", AlignRight: true, Cell: func(r levelRow) string { return formatMember(r.Member) }},
	{Name: "level", Cell: func(r levelRow) string { return r.Level }},
}

func newLogLevel(w IOStreams) *cobra.Command {
	a := newAdminCommand(w)
	return a.registerFlags(&cobra.Command{
		Use: "log-level [flags] [LEVEL]", Short: "show or set the least level that members log", GroupID: ChangeGroup,
		Args: RangeArgs(0, 1, "one level: "+strings.Join(logLevels, ", ")),
		Long: "Shows the level of the log of each member at --hosts, or of those that --admin names: debug, info, warn or " +
			"error. A member logs messages of its level and of the levels above. With LEVEL the command sets the level there, " +
			"until the member is started again or gets SIGHUP. That needs an administrator's credentials, on the machine of " +
			"the member.",
		Example:   "  rollcall log-level --admin http://127.0.0.1:8080 --token-file /etc/rollcall/token debug",
		ValidArgs: logLevels,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && !slices.Contains(logLevels, args[0]) {
				return UsageError.Errorf("log-level: %.100q: there are %s", args[0], strings.Join(logLevels, ", "))
			}
			members, err := a.ensemble.adminClients(cmd.Context())
			if err != nil && len(members) == 0 {
				return err
			}
			failed := []error{err}
			var rows []levelRow
			for _, c := range members {
				row, err := setOrGetLogLevel(cmd.Context(), c, args)
				if err != nil {
					failed = append(failed, err)
					continue
				}
				rows = append(rows, row)
			}
			if len(rows) > 0 {
				failed = append(failed, PrintRows(a.output, levelColumns, RowsOf(rows)))
			}
			return errors.Join(failed...)
		},
	})
}

// setOrGetLogLevel sets a member's level if args has one, and returns the level.
func setOrGetLogLevel(ctx context.Context, c *api.Client, args []string) (levelRow, error) {
	me, err := api.Get[api.Caller](ctx, c, "whoami", nil)
	if err != nil {
		return levelRow{}, WithAdvice(err)
	}
	var reply api.LogLevel
	if len(args) == 0 {
		reply, err = api.Get[api.LogLevel](ctx, c, "log-level", nil)
	} else {
		reply, err = api.Post[api.LogLevel](ctx, c, "log-level", api.LogLevel{Level: args[0]})
	}
	if err != nil {
		return levelRow{}, fmt.Errorf("log-level: member %d: %w", me.MemberID, WithAdvice(err))
	}
	return levelRow{me.MemberID, reply.Level}, nil
}
