package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"rollcall/operator/api"
)

const (
	// queryLimit bounds the wait for one member's reply. A member that is well replies within milliseconds.
	queryLimit = 3 * time.Second
	// queryInterval is the time between two queries of an ensemble that is not well yet.
	queryInterval = 20 * time.Millisecond
	// maxAnswer is far more than the answer to any word takes, in bytes.
	maxAnswer = 1 << 20
)

// memberReply is one member's reply to srvr, and that of Rollcall's HTTP API.
type memberReply struct {
	mode    string // "leader", "follower", "observer", "standalone"; "": it does not serve
	version string
	wrong   string // what is not well, "": nothing
}

// Healthy returns nil if all members serve clients under one leader, and, on Rollcall, none of them joins, is drained,
// hangs or is damaged as far as Member.Admin says. Otherwise its error names each member that is not well. It queries
// with srvr, which ZooKeeper and Rollcall answer by default. It blocks for a few seconds at most.
func Healthy(ctx context.Context, members []Member) error {
	if len(members) == 0 {
		return errors.New("the ensemble has no members")
	}
	var wrong []string
	var leaders []string
	for i, a := range queryAll(ctx, members) {
		if a.wrong != "" {
			wrong = append(wrong, fmt.Sprintf("member %s (%s) %s", members[i].Name, members[i].Clients, a.wrong))
		}
		if a.mode == "leader" || a.mode == "standalone" {
			leaders = append(leaders, members[i].Name)
		}
	}
	switch {
	case len(leaders) > 1:
		wrong = append(wrong, "members "+strings.Join(leaders, " and ")+" both say that they lead")
	case len(leaders) == 0 && len(wrong) == 0:
		wrong = append(wrong, "none of the members says that it leads")
	}
	if len(wrong) == 0 {
		wrong = askStatus(ctx, members)
	}
	if len(wrong) > 0 {
		return fmt.Errorf("the ensemble is not well: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// AwaitHealthy returns nil as soon as Healthy does. When ctx ends, it returns an error with the last one of Healthy.
func AwaitHealthy(ctx context.Context, members []Member) error {
	for {
		err := Healthy(ctx, members)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(queryInterval):
		case <-ctx.Done():
			return fmt.Errorf("%w (%w)", err, context.Cause(ctx))
		}
	}
}

// awaitAnswer returns nil as soon as one member serves clients.
func awaitAnswer(ctx context.Context, m Member) error {
	for {
		wrong := queryAll(ctx, []Member{m})[0].wrong
		if wrong == "" {
			return nil
		}
		select {
		case <-time.After(queryInterval):
		case <-ctx.Done():
			return fmt.Errorf("member %s (%s) %s (%w)", m.Name, m.Clients, wrong, context.Cause(ctx))
		}
	}
}

// Leader returns the name of the member that says that it leads, or "" if none or more than one does. It blocks for a
// few seconds at most.
func Leader(ctx context.Context, members []Member) string {
	leader := ""
	for i, a := range queryAll(ctx, members) {
		if a.mode != "leader" && a.mode != "standalone" {
			continue
		}
		if leader != "" {
			return ""
		}
		leader = members[i].Name
	}
	return leader
}

// Software returns the members' software and its version, such as "Rollcall 0.1.0" or "ZooKeeper 3.8.0", or "unknown". During an
// upgrade it returns all versions, with commas. It blocks for a few seconds at most.
func Software(ctx context.Context, members []Member) string {
	var all []string
	for _, a := range queryAll(ctx, members) {
		if name := softwareName(a.version); name != "" && !strings.Contains(strings.Join(all, ", ")+",", name+",") {
			all = append(all, name)
		}
	}
	if len(all) == 0 {
		return "unknown"
	}
	return strings.Join(all, ", ")
}

// queryAll queries all members at once.
func queryAll(ctx context.Context, members []Member) []memberReply {
	ctx, cancel := context.WithTimeout(ctx, queryLimit)
	defer cancel()
	answers := make([]memberReply, len(members))
	var g errgroup.Group
	for i, m := range members {
		g.Go(func() error {
			answers[i] = queryMember(ctx, m)
			return nil
		})
	}
	_ = g.Wait() // none returns an error
	return answers
}

func queryMember(ctx context.Context, m Member) memberReply {
	text, err := Word(ctx, m.Clients, "srvr")
	if err != nil {
		return memberReply{wrong: "does not answer: " + err.Error()}
	}
	a := parseServer(text)
	if a.wrong == "" && m.Admin != "" {
		a.wrong = askProbes(ctx, m)
	}
	return a
}

// Word returns a member's answer to a four-letter word, such as "srvr". addr is its address for clients.
func Word(ctx context.Context, addr, word string) (string, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(conn, maxAnswer))
	if ctx.Err() != nil {
		err = fmt.Errorf("no answer to %s in time: %w", word, context.Cause(ctx))
	}
	return string(text), err
}

var (
	modeLine    = regexp.MustCompile(`(?m)^Mode: (\S+)\r?$`)
	versionLine = regexp.MustCompile(`(?m)^(?:Zookeeper|ClickHouse Keeper) version: (.*)$`)
)

// parseServer reads an answer to srvr.
func parseServer(text string) memberReply {
	var a memberReply
	if match := versionLine.FindStringSubmatch(text); match != nil {
		a.version = strings.TrimSpace(match[0])
	}
	if match := modeLine.FindStringSubmatch(text); match != nil {
		a.mode = match[1]
	}
	switch a.mode {
	case "leader", "follower", "observer", "standalone":
	case "":
		line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
		a.wrong = fmt.Sprintf("does not serve: it answers %.200q to srvr", line)
	default:
		a.wrong = "does not serve all clients: its mode is " + a.mode
	}
	return a
}

var (
	rollcallVersion = regexp.MustCompile(`-rollcall-([^,\s]+)`)
	plainVersion    = regexp.MustCompile(`version: v?([0-9][0-9A-Za-z.]*)`)
)

// softwareName returns the name and the version that a line of srvr stands for, or "".
func softwareName(line string) string {
	if match := rollcallVersion.FindStringSubmatch(line); match != nil {
		return "Rollcall " + strings.TrimSuffix(match[1], "-unknown")
	}
	name := "ZooKeeper"
	if strings.HasPrefix(line, "ClickHouse") {
		name = "ClickHouse Keeper"
	}
	if match := plainVersion.FindStringSubmatch(line); match != nil {
		return name + " " + match[1]
	}
	return ""
}

// askProbes requests one member's health from Rollcall's HTTP API, and returns its complaints, or "".
func askProbes(ctx context.Context, m Member) string {
	c := &api.Client{BaseURL: m.Admin}
	for _, probe := range []string{"/livez", "/readyz"} {
		if _, err := c.GetText(ctx, probe); err != nil {
			return fmt.Sprintf("is not well: %s of %s: %v", probe, m.Admin, err)
		}
	}
	return ""
}

// askStatus requests the status of all from one member with an HTTP API, and returns the complaints. If it wants another
// token, nothing is known.
func askStatus(ctx context.Context, members []Member) (wrong []string) {
	i := slices.IndexFunc(members, func(m Member) bool { return m.Admin != "" })
	if i < 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryLimit)
	defer cancel()
	c := &api.Client{BaseURL: members[i].Admin}
	if members[i].Token != "" {
		c.Authorization = "Bearer " + members[i].Token
	}
	status, err := api.Get[api.List[api.Member]](ctx, c, "status", nil)
	refused := (*api.Error)(nil)
	switch {
	case errors.As(err, &refused) && (refused.Status == http.StatusUnauthorized || refused.Status == http.StatusForbidden):
		return nil
	case err != nil:
		return []string{fmt.Sprintf("/v1/status of %s: %v", members[i].Admin, err)}
	}
	for _, s := range status.Silent {
		wrong = append(wrong, fmt.Sprintf("member %d does not reply to the others: %s (%s)", s.MemberID, s.Reason, s.Detail))
	}
	for _, s := range status.Items {
		if text := wrongOf(s); text != "" {
			wrong = append(wrong, fmt.Sprintf("member %d %s", s.MemberID, text))
		}
	}
	return append(wrong, queryVoters(ctx, c)...)
}

// queryVoters reports whether the expected members vote. Until all do, fewer disks may be lost: a member that is wiped
// in the first second of an ensemble may have had one of only two votes.
func queryVoters(ctx context.Context, c *api.Client) (wrong []string) {
	members, err := api.Get[api.Members](ctx, c, "members", nil)
	switch {
	case err != nil:
		return []string{fmt.Sprintf("/v1/members of %s: %v", c.BaseURL, err)}
	case !members.IsSettled:
		return []string{"not all members of the server list vote yet; rollcall members lists them"}
	}
	return nil
}

// wrongOf returns the complaints in a member's own status, or "".
func wrongOf(s api.Member) string {
	switch {
	case s.DamageReason != "":
		return "is damaged: " + s.DamageReason
	case s.StallReason != "":
		return "hangs: " + s.StallReason
	case s.WasRemoved:
		return "was removed from the ensemble"
	case s.IsDrained:
		return "is drained"
	case s.NoMemory:
		return "is short of memory"
	case s.IsJoining:
		return "has not caught up yet, and has no vote in elections"
	case s.DigestVerdict == "differs":
		return "has a state that differs from the others'"
	}
	return ""
}
