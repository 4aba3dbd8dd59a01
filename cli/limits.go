package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"rollcall/operator/api"
)

type limitRow struct {
	Member uint32 `json:"member"`
	api.Limit
}

var limitColumns = []Column[limitRow]{
	{Name: "member", AlignRight: true, Cell: func(r limitRow) string { return formatMember(r.Member) }},
	{Name: "name", Cell: func(r limitRow) string { return r.Name }},
	{Name: "limit", Cell: func(r limitRow) string { return r.Rule }},
}

func newLimits(w IOStreams) *cobra.Command {
	a := newAdminCommand(w)
	var set, remove []string
	cmd := a.registerFlags(&cobra.Command{
		Use: "limits [flags]", Short: "show or change the limits for tenants", GroupID: ChangeGroup,
		Args: RangeArgs(0, 0, "flags only"),
		Long: "Shows the limits for tenants of each member at --hosts, or of those that --admin names. With --set and --remove the command " +
			"changes them there, until the member is started again or gets SIGHUP, which takes those of zoo.cfg. That needs an administrator's " +
			"credentials, on the machine of the member. A limit holds on each member by itself.",
		Example: "  rollcall limits --token-file /etc/rollcall/token --set 'batch=subtree /batch requests=500 bytes=2M'\n" +
			"  rollcall limits --token-file /etc/rollcall/token --remove batch",
		RunE: func(cmd *cobra.Command, _ []string) error {
			change, err := parseLimitsChange(set, remove)
			if err != nil {
				return err
			}
			return a.printLimits(cmd.Context(), change)
		},
	})
	cmd.Flags().StringArrayVar(&set, "set", nil, "`NAME=LIMIT` to set, as in zoo.cfg after limit.; may be repeated")
	cmd.Flags().StringArrayVar(&remove, "remove", nil, "`name` of a limit to remove; may be repeated")
	return cmd
}

// parseLimitsChange returns the change that the flags ask for. The member checks it.
func parseLimitsChange(set, remove []string) (api.LimitsChange, error) {
	change := api.LimitsChange{Set: []api.Limit{}, Remove: append([]string{}, remove...)}
	for _, text := range set {
		name, rule, ok := strings.Cut(text, "=")
		if !ok {
			return change, UsageError.Errorf("limits: --set %.100q: must be NAME=LIMIT, such as batch=subtree /batch requests=500", text)
		}
		change.Set = append(change.Set, api.Limit{Name: name, Rule: rule})
	}
	return change, nil
}

// printLimits changes the limits of the members, unless change is empty, and prints them.
func (a *adminCommand) printLimits(ctx context.Context, change api.LimitsChange) error {
	members, err := a.ensemble.adminClients(ctx)
	if err != nil && len(members) == 0 {
		return err
	}
	failed := []error{err}
	var rows []limitRow
	answered := false
	for _, c := range members {
		some, err := changeOrGetLimits(ctx, c, change)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		rows, answered = append(rows, some...), true
	}
	if answered {
		failed = append(failed, PrintRows(a.output, limitColumns, RowsOf(rows)))
	}
	return errors.Join(failed...)
}

func changeOrGetLimits(ctx context.Context, c *api.Client, change api.LimitsChange) (rows []limitRow, err error) {
	me, err := api.Get[api.Caller](ctx, c, "whoami", nil)
	if err != nil {
		return nil, WithAdvice(err)
	}
	var reply api.Limits
	if len(change.Set)+len(change.Remove) == 0 {
		reply, err = api.Get[api.Limits](ctx, c, "limits", nil)
	} else {
		reply, err = api.Post[api.Limits](ctx, c, "limits", change)
	}
	if err != nil {
		return nil, fmt.Errorf("limits: member %d: %w", me.MemberID, WithAdvice(err))
	}
	for _, limit := range reply.Limits {
		rows = append(rows, limitRow{me.MemberID, limit})
	}
	return rows, nil
}
