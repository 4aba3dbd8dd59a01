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

// newMembers returns the command about the servers of the ensemble.
func newMembers(w IOStreams) *cobra.Command {
	a := newAdminCommand(w)
	cmd := &cobra.Command{
		Use: "members [flags]", Short: "list the servers of the ensemble, and add, change, remove or drain one", GroupID: ChangeGroup,
		Long: "Without a subcommand it lists the servers, as rollcall members list does.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return WithStatus(UsageError, fmt.Errorf("members: %w", unknownCommand(cmd, args[0])))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return printServers(cmd.Context(), a) },
	}
	a.Register(cmd)
	cmd.AddCommand(newMembersList(w), newMembersAdd(w), newMembersRemove(w), newMembersReplace(w), newMembersAddress(w),
		newMembersRole(w, "promote"), newMembersRole(w, "demote"), newMembersLead(w), newMembersDrain(w), newMembersRebalance(w))
	return cmd
}

// rateSampleTime is the time between the two questions from which rollcall members list takes how fast a server copies
// the log.
const rateSampleTime = time.Second

// serverRow is a server in the list.
type serverRow struct {
	api.Server
	LeaderCommitted  *uint64 `json:"target"`     // index of the last log entry that the leader knows to be committed; null: the leader did not answer
	EntriesPerSecond *int64  `json:"rate_per_s"` // log entries that a server that catches up applies in a second; null: it is not known, or not catching up
}

// newMembersList returns the command that lists the servers.
func newMembersList(w IOStreams) *cobra.Command {
	a := newAdminCommand(w)
	cmd := &cobra.Command{
		Use: "list [flags]", Short: "list the servers: addresses, roles, who votes, and how far each of them is", Args: RangeArgs(0, 0, "flags only"),
		Long: "Shows a row for each server of the ensemble's list and of raft's configuration. The list says which servers the ensemble wants. Raft's configuration says which ones have a copy of the log and a vote, " +
			"and follows the list. A server that catches up has how far it is and at what rate, for which the command asks twice, a second apart.",
		RunE: func(cmd *cobra.Command, _ []string) error { return printServers(cmd.Context(), a) },
	}
	a.Register(cmd)
	return cmd
}

// printServers prints the servers.
func printServers(ctx context.Context, a *adminCommand) error {
	rows, members, err := serverRows(ctx, a)
	if err != nil {
		return err
	}
	if members.WasRemoved {
		warnf(a.IOStreams, "the member that answers was removed from the ensemble: the list is as this member last knew it")
	} else if !members.IsSettled {
		warnf(a.IOStreams, "raft's configuration does not follow the list yet")
	}
	return PrintRows(a.Output, serverColumns, rowsOf(rows))
}

// serverRows returns the servers by id. If one of them catches up, it asks twice.
func serverRows(ctx context.Context, a *adminCommand) (rows []serverRow, members api.Members, err error) {
	if members, err = listServers(ctx, a); err != nil {
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
		if members, err = listServers(ctx, a); err != nil {
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

// listServers asks for the list of servers. A member that was removed has the list as it was then: listServers returns that one only
// if no other member answers.
func listServers(ctx context.Context, a *adminCommand) (m api.Members, err error) {
	err = a.callInEnsemble(ctx, func(c *api.Client) error {
		answer, err := api.Get[api.Members](ctx, c, "members", nil)
		if err != nil {
			return err
		}
		if m = answer; m.WasRemoved {
			return errRemovedList
		}
		return nil
	})
	if errors.Is(err, errRemovedList) {
		return m, nil
	}
	return m, WithAdvice(err)
}

// entriesPerSecond returns how many entries in a second a server has applied. It is nil if none were, or if it has begun anew.
func entriesPerSecond(from, to uint64, over time.Duration) *int64 {
	if to <= from || over <= 0 {
		return nil
	}
	rate := int64(float64(to-from) / over.Seconds())
	return &rate
}

// sleepContext waits for d. It returns the error of ctx if that ends before.
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
	{Name: "lag", AlignRight: true, Cell: func(r serverRow) string {
		if r.Lag == nil {
			return unknownText
		}
		return strconv.FormatUint(*r.Lag, 10)
	}},
	{Name: "quorum", Cell: func(r serverRow) string { return orDash(r.QuorumAddress) }},
	{Name: "election", WideOnly: true, Cell: func(r serverRow) string { return orDash(r.ElectionAddress) }},
	{Name: "clients", Cell: func(r serverRow) string { return orDash(r.ClientAddress) }},
	{Name: "applied", WideOnly: true, AlignRight: true, Cell: func(r serverRow) string { return strconv.FormatUint(r.AppliedIndex, 10) }},
	{Name: "detail", Cell: func(r serverRow) string { return r.Detail }},
}

// formatServerState returns the state of a server, with how far it is if it catches up.
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

// shortServerLine fits the line of a server without the beginning of its key in zoo.cfg.
var shortServerLine = regexp.MustCompile(`^\s*[0-9]+\s*=`)

// parseServerLine returns the server that a line such as server.4=zoo4:2888:3888;2181 or 4=zoo4:2888:3888;2181 means.
func parseServerLine(line string) (serverlist.Server, error) {
	if shortServerLine.MatchString(line) {
		line = "server." + strings.TrimSpace(line)
	}
	list, err := serverlist.ParseList(line)
	switch {
	case err != nil:
		return serverlist.Server{}, WithStatus(UsageError, err)
	case len(list) != 1:
		return serverlist.Server{}, WithStatus(UsageError, fmt.Errorf("%.80q: give the line of one server", line))
	case list[0].ClientPort == 0:
		return serverlist.Server{}, WithStatus(UsageError, fmt.Errorf("%v: the port for clients is missing; write the line with ;clientPort at the end", list[0]))
	}
	return list[0], nil
}

// parseServerID returns the id of a server.
func parseServerID(text string) (uint32, error) {
	id, err := serverlist.ParseID(text, serverlist.MaxID)
	if err != nil {
		return 0, WithStatus(UsageError, fmt.Errorf("%.40q is not the id of a server: allowed is %w", text, err))
	}
	return id, nil
}

// findServer returns the server with an id, and whether the list has it.
func findServer(m api.Members, id uint32) (s api.Server, listed bool) {
	i := slices.IndexFunc(m.Items, func(s api.Server) bool { return s.MemberID == id })
	if i < 0 {
		return api.Server{}, false
	}
	return m.Items[i], m.Items[i].Role != ""
}

// membersResult says what a command has done.
type membersResult struct {
	Member  uint32 `json:"member"`  // that it was about; of replace the new one
	Outcome string `json:"done"`    // what has become of it: "votes", "observes", "removed", "replaced", "moved", "leads" or "drained"
	Changed bool   `json:"changed"` // this command has changed something; false: all was as it should be
	Version string `json:"version"` // of the list
	Leader  uint32 `json:"leader"`  // the member that leads; 0: none is known
}

// membersCommand is a command that changes the list, and waits until raft's configuration has followed.
type membersCommand struct {
	*adminCommand
	commandName string // of the command, as errors begin
	force       bool
	changed     bool
	lastReport  string // the last line about the progress
}

func newMembersCommand(w IOStreams, name string) *membersCommand {
	return &membersCommand{adminCommand: newAdminCommand(w), commandName: "members " + name}
}

// Register adds the flags to cmd.
func (k *membersCommand) Register(cmd *cobra.Command) {
	k.adminCommand.Register(cmd)
	cmd.Flags().BoolVar(&k.force, "force", false, "skip this check; the leader still rejects a list if it reaches no majority of the list's voters")
}

// fetchMembers asks for the list. If only a member answers that was removed, look returns its list and an error.
func (k *membersCommand) fetchMembers(ctx context.Context) (api.Members, error) {
	m, err := listServers(ctx, k.adminCommand)
	if err == nil && m.WasRemoved {
		err = WithStatus(Unavailable, errRemovedList)
	}
	return m, k.wrapError(err)
}

// wrapError begins an error with the command.
func (k *membersCommand) wrapError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", k.commandName, err)
}

// requestChange asks for a change of the list as it is in m.
func (k *membersCommand) requestChange(ctx context.Context, m api.Members, c api.MembersChange) error {
	c.Version, c.Force = m.Version, k.force
	_, err := postInEnsemble[api.MembersChanged](ctx, k.Link, "members", c)
	var answer *api.Error
	switch {
	case err == nil:
		k.changed = true
		return nil
	case errors.As(err, &answer) && answer.Status == http.StatusConflict:
		return k.wrapError(fmt.Errorf("%w%s", err, k.forceHint(answer.Text)))
	case mayHaveArrived(err) || errors.As(err, &answer) && answer.Status == http.StatusGatewayTimeout:
		return WithStatus(OutcomeUnknown, k.wrapError(fmt.Errorf("the change is not confirmed: %w; run the command again: it goes on where it is", err)))
	}
	return k.wrapError(WithAdvice(err))
}

// forceHint names the flag, if the member speaks of force.
func (k *membersCommand) forceHint(text string) string {
	if k.force || !strings.Contains(text, "force ") {
		return ""
	}
	return " (--force)"
}

// printResult prints what the command has done.
func (k *membersCommand) printResult(m api.Members, id uint32, done, text string) error {
	if !k.changed {
		text += "; nothing was to be changed"
	}
	row := membersResult{Member: id, Outcome: done, Changed: k.changed, Version: m.Version, Leader: m.LeaderID}
	return PrintText(k.Output, fmt.Sprintf("%s; the list has version %s\n", text, m.Version), row)
}
