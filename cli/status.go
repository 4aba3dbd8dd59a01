package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/operator/api"
)

func newStatus(w IOStreams) *cobra.Command {
	a, watch, every := newAdminCommand(w), false, defaultWatchInterval
	cmd := a.registerFlags(&cobra.Command{
		Use: "status [flags]", Short: "show the members: roles, lag, sessions, disk, whether their states agree",
		GroupID: InspectGroup, Args: RangeArgs(0, 0, "flags only"),
		Long: "Shows a row for each member. A member that does not answer has a row with the reason, and the other " +
			"members' rows are not delayed by it for longer than a tick. FREE is the space that is left for files, or for " +
			"data/log if these are on different disks. Each rollcall recover adds 65,536 to the term, which is shown apart: " +
			"6+recovery. The reason for which a member does not serve is the one that rollcall health and /readyz give. Below the table " +
			"it says how many more voters may be lost, why the leader changed, and how many sessions have just expired.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !watch {
				return printStatus(cmd.Context(), a, w)
			}
			return printRepeatedly(cmd.Context(), w, every, func(w IOStreams, _ int) error { return printStatus(cmd.Context(), a, w) })
		},
	})
	cmd.Flags().BoolVar(&watch, "watch", false, "print the table again and again, until Ctrl-C")
	cmd.Flags().DurationVar(&every, "every", defaultWatchInterval, "with --watch: the `time` between two tables")
	return cmd
}

// printStatus prints the table of the members once, and the summary below it unless the format is for programs.
func printStatus(ctx context.Context, a *adminCommand, w IOStreams) error {
	var admin *api.Client // that has replied
	members, err := askEnsemble(ctx, a.ensemble, func(c *api.Client) (api.List[api.Member], error) {
		admin = c
		reply, err := api.Get[api.List[api.Member]](ctx, c, "status", nil)
		return reply, WithAdvice(err)
	})
	if err != nil {
		return err
	}
	out := *a.output
	out.streams = w
	if err := PrintRows(&out, statusColumns(w.Now()), RowsOf(memberRows(members))); err != nil || !out.IsText() {
		return err
	}
	for _, line := range statusSummary(ctx, admin, w.Now(), members) {
		if _, err := fmt.Fprintln(w.Out, EscapeUnprintable(line)); err != nil {
			return err
		}
	}
	return nil
}

// memberRow is a member in the list. If the member did not reply, its JSON has the reason as "silent", and
// all other keys but "member" are null.
type memberRow struct {
	api.Member
	silentReason string
}

// memberRows returns all members by id, including those that did not reply.
func memberRows(members api.List[api.Member]) []memberRow {
	rows := make([]memberRow, 0, len(members.Items)+len(members.Silent))
	for _, m := range members.Items {
		rows = append(rows, memberRow{Member: m})
	}
	for _, s := range members.Silent {
		rows = append(rows, memberRow{api.Member{MemberID: s.MemberID}, silenceReason(s)})
	}
	slices.SortStableFunc(rows, func(a, b memberRow) int { return int(a.Member.MemberID) - int(b.Member.MemberID) })
	return rows
}

func (m memberRow) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	fields := reflect.TypeFor[api.Member]()
	for i := range fields.NumField() {
		var value any
		if key := fields.Field(i).Tag.Get("json"); m.silentReason == "" || key == "member" {
			value = reflect.ValueOf(m.Member).Field(i).Interface()
		}
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%q:%s,", fields.Field(i).Tag.Get("json"), text)
	}
	text, err := json.Marshal(m.silentReason)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{%s"silent":%s}`, b.Bytes(), text), nil
}

func statusColumns(now time.Time) []Column[memberRow] {
	columns := []Column[memberRow]{
		{Name: "member", AlignRight: true, Cell: func(m memberRow) string { return formatMember(m.Member.MemberID) }},
		{Name: "role", Cell: func(m memberRow) string { return orDash(m.Role) }, Tint: roleTint},
		{Name: "term", AlignRight: true, Cell: func(m memberRow) string { return FormatTerm(m.Term) }},
		{Name: "lag", AlignRight: true, Cell: func(m memberRow) string { return formatLag(m.Lag) }, Tint: lagTint},
		{Name: "sessions", AlignRight: true, Cell: func(m memberRow) string { return formatNumber(m.Sessions) }},
		{Name: "conns", AlignRight: true, Cell: func(m memberRow) string { return formatNumber(m.Connections) }},
		{Name: "watches", AlignRight: true, WideOnly: true, Cell: func(m memberRow) string { return formatNumber(m.Watches) }},
		{Name: "disk", AlignRight: true, Cell: func(m memberRow) string { return FormatSize(m.DataBytes + m.LogBytes) }},
		{Name: "free", AlignRight: true, Cell: func(m memberRow) string { return freeText(m.Member) }},
		shareColumn("quota", func(m memberRow) (used, limit int64) { return m.DataUsed, m.DataQuota }),
		shareColumn("memory", func(m memberRow) (used, limit int64) { return m.MemoryUsed, m.MemoryLimit }),
		{Name: "snapshot", AlignRight: true, Cell: func(m memberRow) string { return snapshotText(now, m) }},
		{
			Name: "digest", Cell: func(m memberRow) string { return m.DigestVerdict },
			Tint: func(m memberRow) Tint { return tintIf(m.DigestVerdict == "differs", Red) },
		},
		{Name: "clients", WideOnly: true, Cell: func(m memberRow) string { return orDash(m.ClientAddress) }},
		{Name: "zxid", WideOnly: true, AlignRight: true, Cell: func(m memberRow) string { return m.Zxid }},
		{Name: "applied", WideOnly: true, AlignRight: true, Cell: func(m memberRow) string { return formatNumber(m.AppliedIndex) }},
		{Name: "clock", WideOnly: true, AlignRight: true, Cell: func(m memberRow) string { return fmt.Sprintf("%+dms", m.ClockMs) }},
		{Name: "up", WideOnly: true, AlignRight: true, Cell: func(m memberRow) string { return formatAge(now, m.Started) }},
		{Name: "version", Cell: func(m memberRow) string { return m.Version }},
	}
	for i := range columns[1:] { // the number of a silent member is known
		columns[i+1] = dashIfSilent(columns[i+1])
	}
	return append(columns, Column[memberRow]{Name: "problem", Cell: problemText, Tint: func(memberRow) Tint { return Red }})
}

// manyEntriesBehind is the lag that is coloured. A busy member applies a few thousand entries at a time.
const manyEntriesBehind = 10_000

func lagTint(m memberRow) Tint { return tintIf(m.Lag != nil && *m.Lag > manyEntriesBehind, Yellow) }

// shareColumn shows how much of a limit is used.
func shareColumn(name string, share func(memberRow) (used, limit int64)) Column[memberRow] {
	return Column[memberRow]{
		Name: name, AlignRight: true, WideOnly: true, Cell: func(m memberRow) string { return shareText(share(m)) },
		Tint: func(m memberRow) Tint { return tintIf(shareReached(share(m)), Yellow) },
	}
}

// recoveryTerms is the number that `rollcall recover` adds to the term (quorum). No ensemble holds as many elections.
const recoveryTerms = 1 << 16

// FormatTerm formats a term for operators: the terms that elections began, and apart from them the recoveries, such as
// "6+recovery".
func FormatTerm(term uint64) string {
	switch recoveries := term / recoveryTerms; recoveries {
	case 0:
		return strconv.FormatUint(term, 10)
	case 1:
		return fmt.Sprintf("%d+recovery", term%recoveryTerms)
	default:
		return fmt.Sprintf("%d+%d recoveries", term%recoveryTerms, recoveries)
	}
}

// freeText returns the free space of the disk, or of both disks: that of the data, and that of the log.
func freeText(m api.Member) string {
	switch {
	case m.DataFree == 0 && m.LogFree == 0:
		return unknownText
	case FormatSize(m.DataFree) == FormatSize(m.LogFree):
		return FormatSize(m.DataFree)
	}
	return FormatSize(m.DataFree) + "/" + FormatSize(m.LogFree)
}

// lowSpace is the free space, in bytes, below which a disk is shown as a problem, as the alert RollcallDiskFull does.
const lowSpace = 1 << 30

// isShortOfSpace reports whether a disk of a member is nearly full. Space of 0 is unknown.
func isShortOfSpace(m api.Member) bool {
	isLow := func(free int64) bool { return free > 0 && free < lowSpace }
	return isLow(m.DataFree) || isLow(m.LogFree)
}

// fullShare is the share of a limit, in percent, from which it is shown as a problem: the first at which the leader
// warns of its data quota.
const fullShare = 80

func shareReached(used, limit int64) bool { return limit > 0 && used >= limit/100*fullShare }

// dataQuotaProblem returns the text about a data quota that is used up or nearly so, or "".
func dataQuotaProblem(used, quota int64) string {
	switch {
	case !shareReached(used, quota):
		return ""
	case quota-used < quota/100: // writes of many sizes no longer fit
		return "the data quota is used up: " + shareText(used, quota) + "; writes that add data are rejected: delete nodes, or raise dataQuota"
	}
	return "the data quota is nearly used up: " + shareText(used, quota) + "; a write that does not fit is rejected"
}

func shareText(used, limit int64) string {
	if limit <= 0 {
		return unknownText
	}
	return FormatSize(used) + " of " + FormatSize(limit)
}

func dashIfSilent(c Column[memberRow]) Column[memberRow] {
	known := c.Cell
	c.Cell = func(m memberRow) string {
		if m.silentReason != "" {
			return unknownText
		}
		return known(m)
	}
	return c
}

func tintIf(yes bool, tint Tint) Tint {
	if yes {
		return tint
	}
	return Plain
}

func roleTint(m memberRow) Tint {
	switch m.Role {
	case "":
		return Red
	case api.RoleReadOnly:
		return Yellow
	case "follower", "observer":
		return Plain
	}
	return Green
}

func formatLag(entries *uint64) string {
	if entries == nil {
		return unknownText
	}
	return strconv.FormatUint(*entries, 10)
}

func snapshotText(now time.Time, m memberRow) string {
	if m.SnapshotAt == nil {
		return unknownText
	}
	return formatAge(now, *m.SnapshotAt) + " ago"
}

func problemText(m memberRow) string {
	isServing := m.NotServing == ""
	problems := []string{}
	for _, p := range []struct {
		holds bool
		text  string
	}{
		{m.silentReason != "", "no answer: " + m.silentReason},
		{m.StallReason != "", "stalled: " + m.StallReason},
		{m.DamageReason != "", "damaged: " + m.DamageReason},
		{m.Role == api.RoleReadOnly && isServing, "read-only: it knows no leader"},
		{m.WasRemoved, "removed from the ensemble: stop it, or add it again"},
		{!m.WasRemoved && m.StallReason == "" && m.DamageReason == "", m.NotServing},
		{!m.WasRemoved && m.IsJoining && isServing && m.silentReason == "", "joining: it has no vote yet"},
		{true, m.InsecurePorts},
		{m.NoMemory, "short of memory: it rejects writes that add data"},
		{isShortOfSpace(m.Member), "the disk is nearly full: " + freeText(m.Member) + " free; a member whose disk is full stops"},
		{true, dataQuotaProblem(m.DataUsed, m.DataQuota)},
		{
			shareReached(m.MemoryUsed, m.MemoryLimit) && !m.NoMemory,
			"the memory limit is nearly reached: " + shareText(m.MemoryUsed, m.MemoryLimit),
		},
		{m.IsDrained && isServing, "drained: it takes no clients"},
	} {
		if p.holds && p.text != "" {
			problems = append(problems, p.text)
		}
	}
	return strings.Join(problems, "; ")
}
