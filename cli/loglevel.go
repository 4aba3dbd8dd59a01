package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rollcall/operator/api"
)

// logLevels are the levels of the log.
var logLevels = []string{"debug", "info", "warn", "error"}

// levelRow is the level of a member's log.
type levelRow struct {
	Member uint32 `json:"member"`
	Level  string `json:"level"`
}

var levelColumns = []Column[levelRow]{
	{Name: "member", AlignRight: true, Cell: func(r levelRow) string { return formatMember(r.Member) }},
	{Name: "level", Cell: func(r levelRow) string { return r.Level }},
}

// newLogLevel returns the command that shows or sets the level of the log.
func newLogLevel(w IOStreams) *cobra.Command {
	a := newAdminCommand(w)
	cmd := &cobra.Command{
		Use: "log-level [flags] [LEVEL]", Short: "show or set the least level that members log", GroupID: ChangeGroup, Args: RangeArgs(0, 1, "one level: "+strings.Join(logLevels, ", ")),
		Long: "Shows the level of the log of each member at --hosts, or of those that --admin names. A member logs messages of its level and of the levels above. The levels are " +
			"debug, info, warn and error. With LEVEL the command sets the level there, until the member is started again or gets SIGHUP. That needs the " +
			"credentials of an administrator, on the machine of the member.",
		Example:   "  rollcall log-level --admin http://127.0.0.1:8080 --token-file /etc/rollcall/token debug",
		ValidArgs: logLevels,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && !slices.Contains(logLevels, args[0]) {
				return WithStatus(UsageError, fmt.Errorf("log-level: %.100q: there are %s", args[0], strings.Join(logLevels, ", ")))
			}
			members, err := a.adminClients(cmd.Context())
			if err != nil && len(members) == 0 {
				return err
			}
			failed := []error{err}
			var rows []levelRow
			for _, c := range members {
				row, err := memberLogLevel(cmd.Context(), c, args)
				if err != nil {
					failed = append(failed, err)
					continue
				}
				rows = append(rows, row)
			}
			if len(rows) > 0 {
				failed = append(failed, PrintRows(a.Output, levelColumns, rowsOf(rows)))
			}
			return errors.Join(failed...)
		},
	}
	a.Register(cmd)
	return cmd
}

// memberLogLevel returns the level of a member's log, after it is set if args has one.
func memberLogLevel(ctx context.Context, c *api.Client, args []string) (levelRow, error) {
	me, err := api.Get[api.Caller](ctx, c, "whoami", nil)
	if err != nil {
		return levelRow{}, WithAdvice(err)
	}
	var answer api.LogLevel
	if len(args) == 0 {
		answer, err = api.Get[api.LogLevel](ctx, c, "log-level", nil)
	} else {
		answer, err = api.Post[api.LogLevel](ctx, c, "log-level", api.LogLevel{Level: args[0]})
	}
	if err != nil {
		return levelRow{}, fmt.Errorf("log-level: member %d: %w", me.MemberID, WithAdvice(err))
	}
	return levelRow{me.MemberID, answer.Level}, nil
}
