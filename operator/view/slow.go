package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"rollcall/internal/stages"
	"rollcall/operator/api"
	"rollcall/proto"
	"rollcall/zk/jute"
)

// maxStages limits the stages and causes of a slow request: each stage may be divided by pauses.
const maxStages = 4 * stages.MaxCauses

// SlowFilter selects slow requests. A zero field selects all.
type SlowFilter struct {
	Member  uint32
	Number  uint64
	Session jute.SessionID
	Address string // host or host:port of the client
}

// SlowID returns the id of a slow request: its member, and its number on that member.
func SlowID(member uint32, number uint64) string { return fmt.Sprintf("%d-%x", member, number) }

// ErrBadSlowID is the error of ParseSlowID.
var ErrBadSlowID = errors.New("must be the id of a slow request, such as 2-19a3f0c2b41")

// ParseSlowID returns the member and the number in an id.
func ParseSlowID(id string) (SlowFilter, error) {
	member, number, ok := strings.Cut(id, "-")
	m, merr := strconv.ParseUint(member, 10, 32)
	n, nerr := strconv.ParseUint(number, 16, 64)
	if !ok || merr != nil || nerr != nil || m == 0 || n == 0 {
		return SlowFilter{}, ErrBadSlowID
	}
	return SlowFilter{Member: uint32(m), Number: n}, nil
}

// slowRequest is a row with the number by which rows of all members are sorted.
type slowRequest struct {
	number uint64
	api.SlowRequest
}

// SlowRequests returns a page of the slow requests that a filter selects, and of the pauses of members unless it selects
// clients, the newest first. Each member keeps those of its clients in the last hour.
func (c *Collector) SlowRequests(ctx context.Context, f SlowFilter, p Page) (a api.List[api.SlowRequest], err error) {
	from, limit, err := p.startAndLimit(slowList)
	if err != nil {
		return a, err
	}
	a.Silent = from.skippedMembers()
	requests := map[uint32]*proto.ViewRequest{}
	for _, id := range c.memberIDs() {
		if f.Member != 0 && id != f.Member || isSilent(a.Silent, id) {
			continue
		}
		q := &proto.ViewSlow{
			Number: f.Number, Before: from.First, Limit: uint32(limit), Session: uint64(f.Session), Address: []byte(f.Address),
		}
		if from.First != 0 && id > from.Member {
			q.Before++ // the last row of the page before has the same number, and comes first
		}
		requests[id] = &proto.ViewRequest{About: &proto.ViewRequest_Slow{Slow: q}}
	}
	var rows []slowRequest
	more := uint64(0)
	a.Silent, err = c.runMemberQuery(ctx, requests, a.Silent, func(one memberReply) error {
		found, next, err := parseSlowRows(one.member, one.reply.GetSlow(), requests[one.member].GetSlow())
		rows, more = append(rows, found...), max(more, next)
		return err
	})
	if err != nil {
		return api.List[api.SlowRequest]{}, err
	}
	slices.SortFunc(rows, func(a, b slowRequest) int {
		return cmp.Or(cmp.Compare(b.number, a.number), cmp.Compare(a.MemberID, b.MemberID))
	})
	shown := min(limit, len(rows))
	for _, row := range rows[:shown] {
		a.Items = append(a.Items, row.SlowRequest)
	}
	if shown > 0 && (len(rows) > limit || more != 0) {
		last := rows[shown-1]
		a.NextCursor = position{Member: last.MemberID, First: last.number}.encodeCursor(slowList, a.Silent)
	}
	return withNonNilSlices(a, nil)
}

// parseSlowRows returns the requests in a member's reply, and the number before which the member has more, or 0.
func parseSlowRows(member uint32, r *proto.SlowRows, asked *proto.ViewSlow) (rows []slowRequest, next uint64, err error) {
	switch {
	case r == nil:
		return nil, 0, errUnrelatedReply
	case len(r.Rows) > int(asked.Limit):
		return nil, 0, errTooManyRows(len(r.Rows), int(asked.Limit))
	}
	last, want := asked.Before, NewClientFilter(string(asked.Address))
	for _, row := range r.Rows {
		switch {
		case row.Number == 0 || last != 0 && row.Number >= last || asked.Number != 0 && row.Number != asked.Number:
			return nil, 0, fmt.Errorf("slow request %d is out of order", row.Number)
		case len(row.Stages) > maxStages || len(row.Causes) > maxStages || len(row.Op) > maxTextBytes ||
			len(row.Address) > maxTextBytes || len(row.Path) > maxTextBytes || len(row.Missing) > maxStages:
			return nil, 0, fmt.Errorf("slow request %d is too long", row.Number)
		case asked.Session != 0 && row.Session != asked.Session || !want.Matches(string(row.Address)):
			return nil, 0, fmt.Errorf("slow request %d is of another client than the query", row.Number)
		}
		last = row.Number
		rows = append(rows, slowRequest{row.Number, apiSlowRequest(member, row)})
	}
	if r.Next != 0 && (len(r.Rows) == 0 || r.Next != last) {
		return nil, 0, fmt.Errorf("the next page would begin before slow request %d, with which this one does not end", r.Next)
	}
	return rows, r.Next, nil
}

func apiSlowRequest(member uint32, row *proto.SlowRow) api.SlowRequest {
	shown := api.SlowRequest{
		ID: SlowID(member, row.Number), MemberID: member, ReceivedAt: time.UnixMilli(row.ReceivedMs).UTC(),
		SessionID: sessionText(row.Session), Address: string(row.Address), Op: row.Op, Path: string(row.Path), Xid: row.Xid,
		Index: row.Index, TotalUs: clampMicros(row.TotalUs), ErrorUs: clampMicros(row.ErrorUs), Complete: row.Joined,
		Stages: []api.SlowStage{}, Causes: []api.SlowCause{}, MissingIDs: append([]uint32{}, row.Missing...),
		Connections: int(min(row.Connections, math.MaxInt32)), Lost: row.Lost,
	}
	longest := int64(-1)
	for _, s := range row.Stages {
		if s.Kind == 0 || s.Kind >= uint32(stages.NumStages) {
			s.Kind = uint32(stages.StageUnknown) // of a newer version
		}
		stage := stages.Stage{
			Kind: stages.Kind(s.Kind), Member: s.Member, To: s.To, Entry: s.Entry,
			Took: time.Duration(clampMicros(s.TookUs)) * time.Microsecond,
			Of:   time.Duration(clampMicros(s.OfUs)) * time.Microsecond,
		}
		text := StageText(stage)
		if row.Op == stages.PauseOp {
			text += fmt.Sprintf("; connected clients: %d", shown.Connections)
		}
		shown.Stages = append(shown.Stages, api.SlowStage{
			Stage: stage.Kind.String(), MemberID: s.Member, ToMemberID: s.To, TookUs: stage.Took.Microseconds(), Text: text,
		})
		if took := stage.Took.Microseconds(); took > longest {
			longest, shown.Largest = took, text
		}
	}
	if row.Lost {
		shown.Largest += "; no reply: the connection ended"
	}
	for _, c := range row.Causes {
		shown.Causes = append(shown.Causes, api.SlowCause{
			Cause: cmp.Or(slowCauseNames[c.Cause], slowCauseNames[proto.SlowCause_SLOW_CAUSE_UNSPECIFIED]), MemberID: c.Member, TookUs: clampMicros(c.TookUs),
		})
	}
	return shown
}

var slowCauseNames = map[proto.SlowCause]string{
	proto.SlowCause_SLOW_CAUSE_UNSPECIFIED: "unknown", proto.SlowCause_SLOW_CAUSE_PAUSED: "paused",
	proto.SlowCause_SLOW_CAUSE_NO_LEADER: "no leader", proto.SlowCause_SLOW_CAUSE_SNAPSHOT: "snapshot",
	proto.SlowCause_SLOW_CAUSE_BACKUP: "backup", proto.SlowCause_SLOW_CAUSE_SLOW_SYNC: "slow sync",
	proto.SlowCause_SLOW_CAUSE_PAUSED_BEFORE: "paused before",
}

// CauseText returns a cause in words, with its member and its length, such as "snapshot on member 2 for 130ms".
func CauseText(c stages.MemberCause) string {
	name := cmp.Or(slowCauseNames[proto.SlowCause(c.Kind)], slowCauseNames[proto.SlowCause_SLOW_CAUSE_UNSPECIFIED])
	return fmt.Sprintf("%s on member %d for %v", name, c.Member, c.Took.Round(time.Millisecond))
}

// StageText returns a stage in words, without its length.
func StageText(s stages.Stage) string {
	switch s.Kind {
	case stages.StageRoom:
		return fmt.Sprintf("waited for room among the writes of member %d", s.Member)
	case stages.StageForward:
		return fmt.Sprintf("waited on member %d to be sent to the leader", s.Member)
	case stages.StageLink:
		if s.Member == s.To {
			return fmt.Sprintf("handed to the leader, member %d itself", s.Member)
		}
		return fmt.Sprintf("on the way from member %d to the leader, member %d", s.Member, s.To)
	case stages.StageEntry:
		if s.Entry != 0 {
			return fmt.Sprintf("waited for an entry of the leader, member %d, which applied entry %d for %v", s.Member, s.Entry,
				s.Of.Round(time.Millisecond))
		}
		return fmt.Sprintf("waited for an entry of the leader, member %d", s.Member)
	case stages.StageLeader:
		return fmt.Sprintf("waited for the log of the leader, member %d", s.Member)
	case stages.StageReplicate:
		return fmt.Sprintf("the entry was on the way from member %d to member %d", s.Member, s.To)
	case stages.StageDisk:
		return fmt.Sprintf("the disk of member %d", s.Member)
	case stages.StageAck:
		return fmt.Sprintf("the confirmation was on the way from member %d to member %d", s.Member, s.To)
	case stages.StageNotice:
		return fmt.Sprintf("the commit was on the way from member %d to member %d", s.Member, s.To)
	case stages.StageBefore:
		if s.Entry != 0 {
			return fmt.Sprintf("member %d applied earlier entries, entry %d for %v", s.Member, s.Entry, s.Of.Round(time.Millisecond))
		}
		return fmt.Sprintf("member %d applied earlier entries", s.Member)
	case stages.StageLock:
		return fmt.Sprintf("readers on member %d held the state", s.Member)
	case stages.StageApply:
		return fmt.Sprintf("member %d applied the entry", s.Member)
	case stages.StageFresh:
		return fmt.Sprintf("the read waited for a write of its path on member %d", s.Member)
	case stages.StageProof:
		return fmt.Sprintf("member %d waited for the leader's proof, or until it had applied what that covers", s.Member)
	case stages.StageReply:
		return fmt.Sprintf("earlier requests of the connection, on member %d", s.Member)
	case stages.StageTaken:
		return "the client did not take the reply"
	case stages.StagePaused:
		return fmt.Sprintf("the process of member %d did not run", s.Member)
	case stages.StageNoReply:
		return fmt.Sprintf("the connection to member %d ended before there was a reply", s.Member)
	case stages.StageNoLeader:
		return fmt.Sprintf("member %d had no leader that serves", s.Member)
	}
	return "not known"
}
