package cli

import (
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"rollcall/operator/api"
)

func newSlow(w IOStreams) *cobra.Command {
	a, limit := newAdminCommand(w), 20
	var of slowFilter
	var chosen slowSelection
	cmd := a.registerFlags(&cobra.Command{
		Use: "slow [flags] [ID]", Short: "say where the time of slow requests went", GroupID: InspectGroup,
		Args: RangeArgs(0, 1, "the id of a slow request"),
		Long: "Lists the requests of the last hour that took longer than their threshold, the newest first, each with " +
			"the stage that took longest. With an ID it prints all stages of one request, on all members, and what else " +
			"happened there meanwhile. Each member keeps the slow requests of its clients in memory, at most 8 of a second " +
			"and 512 of an hour, the slowest ones. A restart forgets them.\n\n" +
			"A time in which the process of a member did not run is a row of its own, with the operation pause: requests that " +
			"came meanwhile waited in their sockets, so none of them looks slow. Each member keeps up to 128 pauses of an " +
			"hour. With --session or --address there are none, because they concern all clients of a member.\n\n" +
			"Below the list it adds up the stages of its requests.",
		Example: "  rollcall slow\n  rollcall slow --member 2 --limit 0\n  rollcall slow --session 0x1000012f99a0001\n  " +
			"rollcall slow --since 10m --path /locks --watch\n  " +
			"rollcall slow 2-19a3f0c2b41",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := of.check(len(args) == 1); err != nil {
				return err
			}
			if err := chosen.check(len(args) == 1); err != nil {
				return err
			}
			space, err := a.ensemble.rootOnlySpace()
			if err != nil {
				return err
			}
			relative := func(r api.SlowRequest) api.SlowRequest {
				if r.Path != "" {
					r.Path = space.RelativePath(r.Path)
				}
				return r
			}
			if len(args) == 1 {
				found, err := getObject[api.SlowRequest](cmd.Context(), a, "slow/"+url.PathEscape(args[0]), nil)
				if err != nil {
					return err
				}
				found = relative(found)
				return printRow(a.output, oneSlowColumns(w.Now(), found), found)
			}
			print := func(w IOStreams, _ int) error {
				listed := limit
				if chosen.path != "" || chosen.since > 0 {
					listed = 0 // the members do not know what is chosen
				}
				rows := listRows[api.SlowRequest](cmd.Context(), a, "slow",
					queryWithoutEmpty("member", of.member, "session", of.session, "address", of.address), listed)
				return printSlowList(w, a.output, chosen.choose(MapRows(rows, relative), w.Now(), limit))
			}
			if chosen.watch {
				return printRepeatedly(cmd.Context(), w, chosen.every, print)
			}
			return print(w, 0)
		},
	})
	chosen.register(cmd)
	cmd.Flags().StringVar(&of.member, "member", "", "only requests that the member with this `number` received")
	cmd.Flags().StringVar(&of.session, "session", "", "only requests of the session with this `id`")
	cmd.Flags().StringVar(&of.address, "address", "", "only requests of a client at this `address`, an IP with or without a port")
	addIntFlag(cmd, &limit, "limit", "print the newest `N` only; 0: all", 0, noMaximum)
	return cmd
}

// slowFilter selects slow requests. An empty field selects all.
type slowFilter struct{ member, session, address string }

// check returns an error if the session is no id, or the filter comes with the ID of one request.
func (f slowFilter) check(ofOne bool) error {
	switch {
	case ofOne && f != slowFilter{}:
		return UsageError.Errorf("slow: an ID names one request; leave --member, --session and --address out")
	case f.session != "":
		return checkSessionID(f.session)
	}
	return nil
}

func slowColumns(now time.Time) []Column[api.SlowRequest] {
	return []Column[api.SlowRequest]{
		{Name: "id", Cell: func(r api.SlowRequest) string { return r.ID }},
		{Name: "received", AlignRight: true, Cell: func(r api.SlowRequest) string { return formatAge(now, r.ReceivedAt) + " ago" }},
		{Name: "member", AlignRight: true, Cell: func(r api.SlowRequest) string { return formatMember(r.MemberID) }},
		{Name: "session", Cell: func(r api.SlowRequest) string { return orDash(r.SessionID) }},
		{Name: "address", Cell: func(r api.SlowRequest) string { return orDash(r.Address) }},
		{Name: "operation", Cell: func(r api.SlowRequest) string { return r.Op }},
		{Name: "path", Cell: func(r api.SlowRequest) string { return orDash(r.Path) }},
		{Name: "took", AlignRight: true, Cell: func(r api.SlowRequest) string { return formatLatency(r.TotalUs) }},
		{Name: "longest", Cell: formatLongestStage},
		{Name: "at", WideOnly: true, Cell: func(r api.SlowRequest) string { return formatMillisecond(r.ReceivedAt) }},
	}
}

// formatLongestStage returns the longest stage in words, with its length.
func formatLongestStage(r api.SlowRequest) string {
	longest := int64(0)
	for _, s := range r.Stages {
		longest = max(longest, s.TookUs)
	}
	text := formatLatency(longest) + ": " + r.Largest
	if !r.Complete {
		text += " (the other members are still being asked)"
	}
	return text
}

// oneSlowColumns returns the lines of one request: its own, one for each stage, and one for each cause.
func oneSlowColumns(now time.Time, r api.SlowRequest) []Column[api.SlowRequest] {
	var lines fixedLines[api.SlowRequest]
	for _, c := range slowColumns(now) {
		if c.Name != "longest" {
			lines.columns = append(lines.columns, c)
		}
	}
	for _, s := range r.Stages {
		lines.add("stages", fmt.Sprintf("%7s  %s", formatLatency(s.TookUs), s.Text))
	}
	for _, c := range r.Causes {
		lines.add("meanwhile", fmt.Sprintf("%7s  %s", formatLatency(c.TookUs), formatSlowCause(c)))
	}
	if r.Lost {
		lines.add("reply", "none: the connection ended")
	}
	if len(r.MissingIDs) > 0 {
		lines.add("missing", "what these members recorded: "+JoinFunc(r.MissingIDs, ", ", formatMember))
	}
	if r.ErrorUs > 0 {
		lines.add("error", "a stage between two members may be wrong by "+formatLatency(r.ErrorUs))
	}
	if !r.Complete {
		lines.add("but", "the other members are still being asked: try again in a second")
	}
	return lines.columns
}

func formatSlowCause(c api.SlowCause) string {
	switch c.Cause {
	case "paused":
		return fmt.Sprintf("the process of member %d did not run", c.MemberID)
	case "paused before":
		return fmt.Sprintf("the process of member %d had not run, and the request may have waited for that long", c.MemberID)
	case "no leader":
		return fmt.Sprintf("member %d had no leader that serves", c.MemberID)
	case "snapshot", "backup":
		return fmt.Sprintf("member %d wrote a %s", c.MemberID, c.Cause)
	case "slow sync":
		return fmt.Sprintf("member %d was in a slow sync of the log", c.MemberID)
	}
	return fmt.Sprintf("something else on member %d", c.MemberID)
}
