package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"rollcall/operator/api"
)

const (
	// summaryTimeout bounds the queries of a summary together. What is not known by then is left out.
	summaryTimeout = 2 * time.Second
	// recentEnds is the time for which expired sessions are counted.
	recentEnds = time.Minute
	// maxCountedEnds bounds the ends that are read. The ensemble stores as many.
	maxCountedEnds = 10_000
	// shownChanges is the number of changes of the leader that a summary shows.
	shownChanges = 3
)

// statusSummary returns the lines below the table of the members: the effect of one more loss, the last changes of the leader,
// and the number of sessions that have just expired. A line is left out if its query fails.
func statusSummary(ctx context.Context, admin *api.Client, now time.Time, members api.List[api.Member]) []string {
	ctx, stop := context.WithTimeout(ctx, summaryTimeout)
	defer stop()
	var voters, dead, expired string
	var leaders []string
	var queries sync.WaitGroup
	queries.Go(func() {
		if list, err := api.Get[api.Members](ctx, admin, "members", nil); err == nil {
			voters, dead = voterLine(list, members), deadVotersLine(list)
		}
	})
	queries.Go(func() {
		term := leaderTerm(members)
		leaders = leaderLines(fetchLeaderChanges(ctx, admin, term), term)
	})
	queries.Go(func() { expired = expiredLine(ctx, admin, now) })
	queries.Wait()
	var lines []string
	for _, line := range append(append([]string{voters, dead}, leaders...), expired) {
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// voterLine says how many more voters may be lost before writes stop, or returns "" without a list of an ensemble.
func voterLine(list api.Members, members api.List[api.Member]) string {
	work := map[uint32]bool{}
	for _, m := range members.Items {
		work[m.MemberID] = m.StallReason == "" && m.DamageReason == "" && m.LeaderID != 0
	}
	voters, working := 0, 0
	for _, s := range list.Items {
		if s.IsVoter {
			voters++
			if work[s.MemberID] {
				working++
			}
		}
	}
	needed := voters/2 + 1
	begin := fmt.Sprintf("%d of %d voters work", working, voters)
	switch spare := working - needed; {
	case voters == 0 || list.WasRemoved:
		return ""
	case spare < 0:
		return fmt.Sprintf("%s, and writes need %d: writes have stopped", begin, needed)
	case spare == 0:
		return begin + ": one more loss stops writes"
	default:
		return fmt.Sprintf("%s: writes stop when %d more are lost", begin, spare+1)
	}
}

// deadVotersLine names the voters that do not reply, with the command for those that do not come back, or returns "" if there are none.
func deadVotersLine(list api.Members) string {
	var silent []string
	for _, s := range list.Items {
		if s.IsVoter && s.State == api.StateSilent {
			silent = append(silent, fmt.Sprint(s.MemberID))
		}
	}
	switch {
	case len(silent) == 0 || list.WasRemoved:
		return ""
	case len(silent) == 1:
		return fmt.Sprintf("voter %s does not answer: start it, or if it is gone for good, run rollcall members remove %[1]s", silent[0])
	}
	return fmt.Sprintf("voters %s do not answer: start them, or for each that is gone for good, run rollcall members remove NUMBER",
		strings.Join(silent, ", "))
}

func leaderTerm(members api.List[api.Member]) uint64 {
	for _, m := range members.Items {
		if m.Role == "leader" {
			return m.Term
		}
	}
	return 0
}

// fetchLeaderChanges returns the last changes of the leader that a member remembers, oldest first. A stream of events begins
// with them. It reads as far as the change to term, if term is not 0.
func fetchLeaderChanges(ctx context.Context, admin *api.Client, term uint64) (changes []api.LeaderEvent) {
	_ = admin.GetStream(ctx, "events", nil, func(r io.Reader) error { // what came before an error counts
		event := ""
		for lines := bufio.NewScanner(r); lines.Scan(); {
			switch field, value, _ := strings.Cut(lines.Text(), ": "); {
			case field == "event" && value != "leader":
				return io.EOF
			case field == "event":
				event = value
			case field == "data" && event == "leader":
				var change api.LeaderEvent
				if err := json.Unmarshal([]byte(value), &change); err != nil {
					return err
				}
				if changes = append(changes, change); change.Term == term {
					return io.EOF
				}
			}
		}
		return io.EOF
	})
	return changes
}

// leaderLines describes the last changes of the leader, the newest first. term is that of the present leader, or 0.
func leaderLines(changes []api.LeaderEvent, term uint64) (lines []string) {
	for i := len(changes) - 1; i >= 0 && len(lines) < shownChanges; i-- {
		c := changes[i]
		led := "led from"
		if c.Term == term {
			led = "has led since"
		}
		lines = append(lines, fmt.Sprintf("member %d %s %s, in term %s: %s", c.LeaderID, led, c.At.UTC().Format("2006-01-02 15:04:05 UTC"),
			FormatTerm(c.Term), leaderCause(c)))
	}
	return lines
}

// leaderCause describes what ended the leader before.
func leaderCause(c api.LeaderEvent) string {
	switch c.Cause {
	case "handed over":
		return fmt.Sprintf("member %d handed over", c.FormerID)
	case "died":
		return fmt.Sprintf("the process of member %d ended", c.FormerID)
	case "silent":
		return fmt.Sprintf("member %d sent no heartbeat for %s", c.FormerID, formatMillis(&c.SilentMs))
	case "elected again":
		return "it stepped down, and was elected again"
	case "resumed":
		return "it began once more in the same term"
	case "started":
		return "it had known no leader since its start"
	}
	return "the cause is not known"
}

// expiredLine counts the sessions that expired within recentEnds before now, and the hosts of their clients. It returns "" if there
// are none.
func expiredLine(ctx context.Context, admin *api.Client, now time.Time) string {
	expired, read, hosts := 0, 0, map[string]bool{}
	prefix := ""
	for end, err := range api.AllRows[api.End](ctx, admin, "ends", url.Values{}, nil) {
		if err != nil {
			if expired == 0 {
				return ""
			}
			prefix = "at least " // more of them may be on the pages that did not come
			break
		}
		if read++; now.Sub(end.EndedAt) > recentEnds || read > maxCountedEnds {
			break
		}
		if end.Reason == "expired" {
			expired++
			host, _, err := net.SplitHostPort(end.Address)
			if err != nil {
				host = end.Address
			}
			hosts[host] = true
		}
	}
	if expired == 0 {
		return ""
	}
	return fmt.Sprintf("%s%s expired in the last minute, from %s: rollcall why --since 1m lists them", prefix, counted(expired, "session"), counted(len(hosts), "address"))
}

// counted returns a number with a noun, such as "1 session" or "5 addresses".
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	plural := "s"
	if strings.HasSuffix(noun, "s") {
		plural = "es"
	}
	return fmt.Sprintf("%d %s%s", n, noun, plural)
}
