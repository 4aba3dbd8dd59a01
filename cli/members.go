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
func newMembers(w World) *cobra.Command {
	a := newAsk(w)
	cmd := &cobra.Command{
		Use: "members [flags]", Short: "list the servers of the ensemble, and add, change, remove or drain one", GroupID: Act,
		Long: "Without a subcommand it lists the servers, as rollcall members list does.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return With(WrongUse, fmt.Errorf("members: %w", unknownCommand(cmd, args[0])))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return printServers(cmd.Context(), a) },
	}
	a.Register(cmd)
	cmd.AddCommand(newMembersList(w), newMembersAdd(w), newMembersRemove(w), newMembersReplace(w), newMembersAddress(w),
		newMembersRole(w, "promote"), newMembersRole(w, "demote"), newMembersLead(w), newMembersDrain(w), newMembersRebalance(w))
	return cmd
}

// rateTime is the time between the two questions from which rollcall members list takes how fast a server copies
// the log.
const rateTime = time.Second

// serverRow is a server in the list.
type serverRow struct {
	api.Server
	Target *uint64 `json:"target"`     // index of the last log entry that the leader knows to be committed; null: the leader did not answer
	Rate   *int64  `json:"rate_per_s"` // log entries that a server that catches up applies in a second; null: it is not known, or not catching up
}

// newMembersList returns the command that lists the servers.
func newMembersList(w World) *cobra.Command {
	a := newAsk(w)
	cmd := &cobra.Command{
		Use: "list [flags]", Short: "list the servers: addresses, roles, who votes, and how far each of them is", Args: Takes(0, 0, "flags only"),
		Long: "Shows a row for each server of the ensemble's list and of raft's configuration. The list says which servers the ensemble wants. Raft's configuration says which ones have a copy of the log and a vote, " +
			"and follows the list. A server that catches up has how far it is and at what rate, for which the command asks twice, a second apart.",
		RunE: func(cmd *cobra.Command, _ []string) error { return printServers(cmd.Context(), a) },
	}
	a.Register(cmd)
	return cmd
}

// printServers prints the servers.
func printServers(ctx context.Context, a *ask) error {
	rows, members, err := serverRows(ctx, a)
	if err != nil {
		return err
	}
	if members.Removed {
		warn(a.World, "the member that answers was removed from the ensemble: the list is as this member last knew it")
	} else if !members.Settled {
		warn(a.World, "raft's configuration does not follow the list yet")
	}
	return Print(a.Output, serverColumns, rowsOf(rows))
}

// serverRows returns the servers by id. If one of them catches up, it asks twice.
func serverRows(ctx context.Context, a *ask) (rows []serverRow, members api.Members, err error) {
	if members, err = listServers(ctx, a); err != nil {
		return nil, members, err
	}
	before, asked := map[uint32]uint64{}, time.Now()
	for _, s := range members.Items {
		if s.State == api.StateCatchingUp {
			before[s.Member] = s.Applied
		}
	}
	if len(before) > 0 {
		if err := pause(ctx, rateTime); err != nil {
			return nil, members, err
		}
		if members, err = listServers(ctx, a); err != nil {
			return nil, members, err
		}
	}
	for _, s := range members.Items {
		row := serverRow{Server: s, Target: members.Committed}
		if from, known := before[s.Member]; known && s.State == api.StateCatchingUp {
			row.Rate = rateOf(from, s.Applied, time.Since(asked))
		}
		rows = append(rows, row)
	}
	return rows, members, nil
}

// listServers asks for the list of servers. A member that was removed has the list as it was then: listServers returns that one only
// if no other member answers.
func listServers(ctx context.Context, a *ask) (m api.Members, err error) {
	err = a.inEnsemble(ctx, func(c *api.Client) error {
		answer, err := api.Get[api.Members](ctx, c, "members", nil)
		if err != nil {
			return err
		}
		if m = answer; m.Removed {
			return errOldList
		}
		return nil
	})
	if errors.Is(err, errOldList) {
		return m, nil
	}
	return m, Explained(err)
}

// rateOf returns how many entries in a second a server has applied. It is nil if none were, or if it has begun anew.
func rateOf(from, to uint64, over time.Duration) *int64 {
	if to <= from || over <= 0 {
		return nil
	}
	rate := int64(float64(to-from) / over.Seconds())
	return &rate
}

// pause waits for d. It returns the error of ctx if that ends before.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

var serverColumns = []Column[serverRow]{
	{Name: "member", Right: true, Cell: func(r serverRow) string { return member(r.Member) }},
	{Name: "role", Cell: func(r serverRow) string { return orDash(r.Role) }},
	{Name: "votes", Cell: func(r serverRow) string { return map[bool]string{true: "yes", false: "no"}[r.Voter] }},
	{Name: "state", Cell: serverText, Tint: serverTint},
	{Name: "lag", Right: true, Cell: func(r serverRow) string {
		if r.Lag == nil {
			return unknown
		}
		return strconv.FormatUint(*r.Lag, 10)
	}},
	{Name: "quorum", Cell: func(r serverRow) string { return orDash(r.Quorum) }},
	{Name: "election", Wide: true, Cell: func(r serverRow) string { return orDash(r.Election) }},
	{Name: "clients", Cell: func(r serverRow) string { return orDash(r.Clients) }},
	{Name: "applied", Wide: true, Right: true, Cell: func(r serverRow) string { return strconv.FormatUint(r.Applied, 10) }},
	{Name: "detail", Cell: func(r serverRow) string { return r.Detail }},
}

// serverText returns the state of a server, with how far it is if it catches up.
func serverText(r serverRow) string {
	text := r.State
	if r.State == api.StateCatchingUp && r.Target != nil {
		text += fmt.Sprintf(" %d of %d", min(r.Applied, *r.Target), *r.Target)
		if r.Rate != nil {
			text += fmt.Sprintf(", %d/s", *r.Rate)
		}
	}
	if r.Drained {
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

// shortLine fits the line of a server without the beginning of its key in zoo.cfg.
var shortLine = regexp.MustCompile(`^\s*[0-9]+\s*=`)

// serverOf returns the server that a line such as server.4=zoo4:2888:3888;2181 or 4=zoo4:2888:3888;2181 means.
func serverOf(line string) (serverlist.Server, error) {
	if shortLine.MatchString(line) {
		line = "server." + strings.TrimSpace(line)
	}
	list, err := serverlist.ParseList(line)
	switch {
	case err != nil:
		return serverlist.Server{}, With(WrongUse, err)
	case len(list) != 1:
		return serverlist.Server{}, With(WrongUse, fmt.Errorf("%.80q: give the line of one server", line))
	case list[0].ClientPort == 0:
		return serverlist.Server{}, With(WrongUse, fmt.Errorf("%v: the port for clients is missing; write the line with ;clientPort at the end", list[0]))
	}
	return list[0], nil
}

// idOf returns the id of a server.
func idOf(text string) (uint32, error) {
	id, err := serverlist.ParseID(text, serverlist.MaxID)
	if err != nil {
		return 0, With(WrongUse, fmt.Errorf("%.40q is not the id of a server: allowed is %w", text, err))
	}
	return id, nil
}

// find returns the server with an id, and whether the list has it.
func find(m api.Members, id uint32) (s api.Server, listed bool) {
	i := slices.IndexFunc(m.Items, func(s api.Server) bool { return s.Member == id })
	if i < 0 {
		return api.Server{}, false
	}
	return m.Items[i], m.Items[i].Role != ""
}

// membersDone says what a command has done.
type membersDone struct {
	Member  uint32 `json:"member"`  // that it was about; of replace the new one
	Done    string `json:"done"`    // what has become of it: "votes", "observes", "removed", "replaced", "moved", "leads" or "drained"
	Changed bool   `json:"changed"` // this command has changed something; false: all was as it should be
	Version string `json:"version"` // of the list
	Leader  uint32 `json:"leader"`  // the member that leads; 0: none is known
}

// work is a command that changes the list, and waits until raft's configuration has followed.
type work struct {
	*ask
	name    string // of the command, as errors begin
	force   bool
	changed bool
	said    string // the last line about the progress
}

func newWork(w World, name string) *work { return &work{ask: newAsk(w), name: "members " + name} }

// Register adds the flags to cmd.
func (k *work) Register(cmd *cobra.Command) {
	k.ask.Register(cmd)
	cmd.Flags().BoolVar(&k.force, "force", false, "skip this check; the leader still rejects a list if it reaches no majority of the list's voters")
}

// look asks for the list. If only a member answers that was removed, look returns its list and an error.
func (k *work) look(ctx context.Context) (api.Members, error) {
	m, err := listServers(ctx, k.ask)
	if err == nil && m.Removed {
		err = With(NoMember, errOldList)
	}
	return m, k.wrap(err)
}

// wrap begins an error with the command.
func (k *work) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", k.name, err)
}

// change asks for a change of the list as it is in m.
func (k *work) change(ctx context.Context, m api.Members, c api.MembersChange) error {
	c.Version, c.Force = m.Version, k.force
	_, err := post[api.MembersChanged](ctx, k.Link, "members", c)
	var answer *api.Error
	switch {
	case err == nil:
		k.changed = true
		return nil
	case errors.As(err, &answer) && answer.Status == http.StatusConflict:
		return k.wrap(fmt.Errorf("%w%s", err, k.forceHint(answer.Text)))
	case arrived(err) || errors.As(err, &answer) && answer.Status == http.StatusGatewayTimeout:
		return With(Unknown, k.wrap(fmt.Errorf("the change is not confirmed: %w; run the command again: it goes on where it is", err)))
	}
	return k.wrap(Explained(err))
}

// forceHint names the flag, if the member speaks of force.
func (k *work) forceHint(text string) string {
	if k.force || !strings.Contains(text, "force ") {
		return ""
	}
	return " (--force)"
}

// done prints what the command has done.
func (k *work) done(m api.Members, id uint32, done, text string) error {
	if !k.changed {
		text += "; nothing was to be changed"
	}
	row := membersDone{Member: id, Done: done, Changed: k.changed, Version: m.Version, Leader: m.Leader}
	return PrintText(k.Output, fmt.Sprintf("%s; the list has version %s\n", text, m.Version), row)
}
