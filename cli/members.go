package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/internal/serverlist"
	"rollcall/operator/api"
)

func newMembers(w IOStreams) *cobra.Command {
	a := newAdminCommand(w)
	cmd := a.registerPast(a.registerFlags(&cobra.Command{
		Use: "members [flags]", Short: "list the servers of the ensemble, and add, change, remove or drain one",
		GroupID: ChangeGroup,
		Long:    "Without a subcommand it lists the servers, as rollcall members list does.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return UsageError.Errorf("members: %w", unknownCommand(cmd, args[0]))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return printServers(cmd.Context(), a) },
	}), false)
	OnlySubcommands(cmd).AddCommand(newMembersList(w), newMembersAdd(w), newMembersRemove(w), newMembersReplace(w), newMembersAddress(w),
		newMembersPromote(w), newMembersDemote(w), newMembersLead(w), newMembersDrain(w), newMembersRebalance(w))
	return cmd
}

// rateSampleTime is the interval over which a server's copying rate is measured.
const rateSampleTime = time.Second

type serverRow struct {
	api.Server
	// index of the last log entry that the leader knows to be committed; null: the leader did not reply
	LeaderCommitted *uint64 `json:"target"`
	// log entries that a server that catches up applies in a second; null: it is not known, or not catching up
	EntriesPerSecond *int64 `json:"rate_per_s"`
}

func newMembersList(w IOStreams) *cobra.Command {
	a := newAdminCommand(w)
	return a.registerPast(a.registerFlags(&cobra.Command{
		Use: "list [flags]", Short: "list the servers: addresses, roles, who votes, and how far each of them is",
		Args: RangeArgs(0, 0, "flags only"),
		Long: "Shows a row for each server of the ensemble's list and of raft's configuration. The list says which " +
			"servers the ensemble wants. Raft's configuration says which ones have a copy of the log and a vote, " +
			"and follows the list. A server that catches up has how far it is and at what rate, for which the command asks " +
			"twice, a second apart.",
		RunE: func(cmd *cobra.Command, _ []string) error { return printServers(cmd.Context(), a) },
	}), false)
}

func printServers(ctx context.Context, a *adminCommand) error {
	rows, members, err := fetchServerRows(ctx, a)
	if err != nil {
		return err
	}
	if members.WasRemoved {
		warnf(a.streams, "the member that answers was removed from the ensemble: the list is as this member last knew it")
	} else if !members.IsSettled {
		warnf(a.streams, "raft's configuration does not follow the list yet")
	}
	return PrintRows(a.output, knownColumns(a, serverColumns, liveServerColumns), RowsOf(rows))
}

// fetchServerRows returns the servers by id. It queries twice if one of them is catching up.
func fetchServerRows(ctx context.Context, a *adminCommand) (rows []serverRow, members api.Members, err error) {
	if members, err = fetchServerList(ctx, a); err != nil {
		return nil, members, err
	}
	before, asked := map[uint32]uint64{}, time.Now()
	for _, s := range members.Items {
		if s.State == api.StateCatchingUp {
			before[s.MemberID] = s.AppliedIndex
		}
	}
	if len(before) > 0 {
		if err := sleepContext(ctx, rateSampleTime); err != nil {
			return nil, members, err
		}
		if members, err = fetchServerList(ctx, a); err != nil {
			return nil, members, err
		}
	}
	for _, s := range members.Items {
		row := serverRow{Server: s, LeaderCommitted: members.CommittedIndex}
		if from, known := before[s.MemberID]; known && s.State == api.StateCatchingUp {
			row.EntriesPerSecond = entriesPerSecond(from, s.AppliedIndex, time.Since(asked))
		}
		rows = append(rows, row)
	}
	return rows, members, nil
}

// fetchServerList returns the members. It falls back to the old list of a removed member if no other member
// replies.
func fetchServerList(ctx context.Context, a *adminCommand) (m api.Members, err error) {
	err = a.ensemble.callInEnsemble(ctx, func(c *api.Client) error {
		reply, err := api.Get[api.Members](ctx, c, "members", nil)
		if err != nil {
			return err
		}
		if m = reply; m.WasRemoved {
			return errRemovedList
		}
		return nil
	})
	if errors.Is(err, errRemovedList) {
		return m, nil
	}
	return m, WithAdvice(err)
}

// entriesPerSecond returns nil if no entries were applied, or if the server started over.
func entriesPerSecond(from, to uint64, over time.Duration) *int64 {
	if to <= from || over <= 0 {
		return nil
	}
	rate := int64(float64(to-from) / over.Seconds())
	return &rate
}

func sleepContext(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

var serverColumns = []Column[serverRow]{
	{Name: "member", AlignRight: true, Cell: func(r serverRow) string { return formatMember(r.MemberID) }},
	{Name: "role", Cell: func(r serverRow) string { return orDash(r.Role) }},
	{Name: "votes", Cell: func(r serverRow) string { return map[bool]string{true: "yes", false: "no"}[r.IsVoter] }},
	{Name: "state", Cell: formatServerState, Tint: serverTint},
	{Name: "lag", AlignRight: true, Cell: func(r serverRow) string { return formatLag(r.Lag) }},
	{Name: "quorum", Cell: func(r serverRow) string { return orDash(r.QuorumAddress) }},
	{Name: "election", WideOnly: true, Cell: func(r serverRow) string { return orDash(r.ElectionAddress) }},
	{Name: "clients", Cell: func(r serverRow) string { return orDash(r.ClientAddress) }},
	{Name: "applied", WideOnly: true, AlignRight: true, Cell: func(r serverRow) string { return strconv.FormatUint(r.AppliedIndex, 10) }},
	{Name: "detail", Cell: func(r serverRow) string { return r.Detail }},
}

// formatServerState includes the progress of a server that is catching up.
func formatServerState(r serverRow) string {
	text := r.State
	if r.State == api.StateCatchingUp && r.LeaderCommitted != nil {
		text += fmt.Sprintf(" %d of %d", min(r.AppliedIndex, *r.LeaderCommitted), *r.LeaderCommitted)
		if r.EntriesPerSecond != nil {
			text += fmt.Sprintf(", %d/s", *r.EntriesPerSecond)
		}
	}
	if r.IsDrained {
		text += ", drained"
	}
	return text
}

func serverTint(r serverRow) Tint {
	switch r.State {
	case api.StateLeader:
		return Green
	case api.StateSilent, api.StateNotServing, api.StateRemoved:
		return Red
	case api.StateCatchingUp, api.StateJoining, api.StateLeaving, api.RoleReadOnly:
		return Yellow
	}
	return Plain
}

var shortServerLine = regexp.MustCompile(`^\s*[0-9]+\s*=`)

// parseServerLine parses a line such as server.4=zoo4:2888:3888;2181 or 4=zoo4:2888:3888;2181.
func parseServerLine(line string) (serverlist.Server, error) {
	if shortServerLine.MatchString(line) {
		line = "server." + strings.TrimSpace(line)
	}
	list, err := serverlist.ParseList(line)
	switch {
	case err != nil:
		return serverlist.Server{}, WithStatus(UsageError, err)
	case len(list) != 1:
		return serverlist.Server{}, UsageError.Errorf("%.80q: give the line of one server", line)
	case list[0].ClientPort == 0:
		return serverlist.Server{}, UsageError.Errorf("%v: the port for clients is missing; write the line with ;clientPort at "+
			"the end", list[0])
	}
	return list[0], nil
}

func parseServerID(text string) (uint32, error) {
	id, err := serverlist.ParseID(text, serverlist.MaxID)
	if err != nil {
		return 0, UsageError.Errorf("%.40q is not the id of a server: must be %w", text, err)
	}
	return id, nil
}

// findServer also reports whether the list has the server; raft's configuration may have it nevertheless.
func findServer(m api.Members, id uint32) (s api.Server, listed bool) {
	i := slices.IndexFunc(m.Items, func(s api.Server) bool { return s.MemberID == id })
	if i < 0 {
		return api.Server{}, false
	}
	return m.Items[i], m.Items[i].Role != ""
}

type membersResult struct {
	Member  uint32 `json:"member"`  // that it was about; of replace the new one
	Outcome string `json:"done"`    // "votes", "observes", "removed", "replaced", "moved", "leads" or "drained"
	Changed bool   `json:"changed"` // this command has changed something; false: all was as it should be
	Version string `json:"version"` // of the list
	Leader  uint32 `json:"leader"`  // the member that leads; 0: none is known
}

// membersCommand changes the server list, and waits until raft's configuration has followed.
type membersCommand struct {
	*adminCommand
	force      bool
	changed    bool
	lastReport string // the last line about the progress
}

func newMembersCommand(w IOStreams) *membersCommand {
	return &membersCommand{adminCommand: newAdminCommand(w)}
}

// registerRun sets RunE of cmd to run, whose errors get the name of the command in front.
func (k *membersCommand) registerRun(cmd *cobra.Command,
	run func(ctx context.Context, args []string) error,
) *cobra.Command {
	cmd.RunE = PrefixErrors(func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), args) })
	return k.adminCommand.registerFlags(cmd)
}

func (k *membersCommand) registerForce(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&k.force, "force", false,
		"go on even if few voters would be alive; the leader still rejects a list if it reaches no majority of its voters")
	return cmd
}

// fetchMembers returns the list. If only a removed member replies, it returns that member's list and an
// error.
func (k *membersCommand) fetchMembers(ctx context.Context) (api.Members, error) {
	m, err := fetchServerList(ctx, k.adminCommand)
	if err == nil && m.WasRemoved {
		err = WithStatus(Unavailable, errRemovedList)
	}
	return m, err
}

func (k *membersCommand) fetchServer(ctx context.Context, id uint32) (m api.Members, s api.Server, err error) {
	if m, err = k.fetchMembers(ctx); err != nil {
		return m, s, err
	}
	s, listed := findServer(m, id)
	if !listed {
		err = unlistedError(id)
	}
	return m, s, err
}

func unlistedError(id uint32) error {
	return NotFound.Errorf("the list has no member %d; rollcall members list shows the servers", id)
}

// requestChange posts a change, provided that the list is still m.
func (k *membersCommand) requestChange(ctx context.Context, m api.Members, c api.MembersChange) error {
	c.Version, c.Force = m.Version, k.force
	_, err := postInEnsemble[api.MembersChanged](ctx, k.ensemble, "members", c)
	var apiErr *api.Error
	switch {
	case err == nil:
		k.changed = true
		return nil
	case errors.As(err, &apiErr) && apiErr.Status == http.StatusConflict:
		return fmt.Errorf("%w%s", err, k.forceHint(apiErr.Text))
	case mayHaveArrived(err) || errors.As(err, &apiErr) && apiErr.Status == http.StatusGatewayTimeout:
		return OutcomeUnknown.Errorf("the change is not confirmed: %w; run the command again: it continues where it is", err)
	}
	return WithAdvice(err)
}

func (k *membersCommand) forceHint(text string) string {
	if k.force || !strings.Contains(text, "force ") {
		return ""
	}
	return " (--force)"
}

func (k *membersCommand) printResult(m api.Members, id uint32, done, text string) error {
	if !k.changed {
		text += "; nothing was to be changed"
	}
	row := membersResult{Member: id, Outcome: done, Changed: k.changed, Version: m.Version, Leader: m.LeaderID}
	return PrintText(k.output, fmt.Sprintf("%s; the list has version %s\n", text, m.Version), row)
}
