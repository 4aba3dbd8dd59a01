package view

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"

	"rollcall/operator/api"
	"rollcall/proto"
)

// These are the verdicts on a member's state, api.Member.Digest.
const (
	Unmarked = "unknown" // there is no log entry after which its state can be compared
	Agrees   = "agrees"  // with more than half of the members that have answered
	Differs  = "differs" // it does not, or its state is known to be damaged
)

// memberStatus is what a member has answered of itself.
type memberStatus struct {
	api.Member
	disk uint64 // the id of its disk; 0: not known
}

// Status returns the status of each member that answers, by id.
func (c *Collector) Status(ctx context.Context) (api.List[api.Member], error) {
	rows, silent, err := c.statuses(ctx)
	if err != nil {
		return api.List[api.Member]{}, err
	}
	a := api.List[api.Member]{Items: make([]api.Member, len(rows)), Silent: silent}
	for i := range rows {
		a.Items[i] = rows[i].Member
	}
	return complete(a), nil
}

// statuses returns the same with the disks of the members.
func (c *Collector) statuses(ctx context.Context) (rows []memberStatus, silent []api.Silence, err error) {
	requests, members := map[uint32]*proto.ViewRequest{}, c.members()
	for _, id := range members {
		requests[id] = &proto.ViewRequest{About: &proto.ViewRequest_Status{Status: &proto.ViewStatus{}}}
	}
	marks := map[uint32]*proto.Marks{}
	err = c.within(ctx, func(ctx context.Context) error {
		silent = byMember(c.ask(ctx, requests, func(one answer) error {
			row, err := c.status(one)
			if err != nil {
				return err
			}
			rows = append(rows, row)
			marks[one.member] = one.reply.GetStatus().GetMarks()
			return nil
		}))
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(rows, func(a, b memberStatus) int { return cmp.Compare(a.Member.Member, b.Member.Member) })
	compareMarks(rows, marks, len(members))
	measureLag(rows, c.cfg.Leader())
	return rows, silent, nil
}

// status returns the status in a member's reply.
func (c *Collector) status(a answer) (s memberStatus, err error) {
	r := a.reply.GetStatus()
	switch {
	case r == nil:
		return s, errOther
	case r.Member != a.member:
		return s, fmt.Errorf("it is the status of member %d", r.Member)
	case len(r.GetMarks().GetIndexes()) != len(r.GetMarks().GetDigests()) || len(r.GetMarks().GetIndexes()) > maxMarks:
		return s, fmt.Errorf("%d marks with %d digests, want as many, and at most %d", len(r.GetMarks().GetIndexes()), len(r.GetMarks().GetDigests()), maxMarks)
	}
	for _, text := range []string{r.Role, r.ClientAddress, r.Version, r.Stalled, r.Damaged, r.Exposed, r.Operators} {
		if len(text) > maxText {
			return s, fmt.Errorf("a text of %d bytes, at most %d are allowed", len(text), maxText)
		}
	}
	member := c.member(a.member)
	console, err := consoleURL(r.Operators, member.Quorum)
	if err != nil {
		return s, err
	}
	s = memberStatus{disk: r.Disk, Member: api.Member{
		Member: a.member, Console: console, Role: r.Role, Leader: r.Leader, Term: r.Term,
		Clients: r.ClientAddress, Quorum: member.Quorum, Election: member.Election,
		Zxid: ZxidText(r.Zxid), Applied: r.Applied, Committed: r.Committed,
		Sessions: int(r.Sessions), Connections: int(r.Connections), Watches: int(r.Watches),
		DataBytes: r.DataBytes, LogBytes: r.LogBytes, Snapshot: r.SnapshotIndex,
		Version: r.Version, Started: at(r.StartedMs),
		Joining: r.Joining, Drained: r.Drained, Exposed: r.Exposed, Removed: r.Removed, NoMemory: r.NoMemory, Stalled: r.Stalled, Damaged: r.Damaged,
	}}
	if r.SnapshotIndex != 0 {
		written := at(r.SnapshotMs)
		s.SnapshotAt = &written
	}
	// As exact as half the time that the reply took.
	s.ClockMs = time.UnixMilli(r.ClockMs).Sub(a.asked.Add(a.came.Sub(a.asked) / 2).Round(0)).Milliseconds()
	return s, nil
}

// consoleURL returns the URL of a member's console. listens is where the member says that it listens. If that is every address of
// its machine, the URL has the host at which other members reach it, which is that of quorum.
func consoleURL(listens, quorum string) (string, error) {
	if listens == "" {
		return "", nil
	}
	u, err := url.Parse(listens)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || listens != u.Scheme+"://"+u.Host {
		return "", fmt.Errorf("it listens for operators at %.100q, which is no URL with an address alone", listens)
	}
	at, err := netip.ParseAddrPort(u.Host)
	if err != nil {
		return "", fmt.Errorf("it listens for operators at %.100q, which has no address and port", listens)
	}
	host, _, err := net.SplitHostPort(quorum)
	if err == nil && at.Addr().IsUnspecified() {
		return u.Scheme + "://" + net.JoinHostPort(host, strconv.Itoa(int(at.Port()))), nil
	}
	return listens, nil
}

// measureLag fills in by how much the members lag behind the leader, if that has answered.
func measureLag(rows []memberStatus, leader uint32) {
	i := slices.IndexFunc(rows, func(s memberStatus) bool { return s.Member.Member == leader })
	if i < 0 {
		return
	}
	for k := range rows {
		lag := rows[i].Committed - min(rows[i].Committed, rows[k].Applied)
		rows[k].Lag = &lag
	}
}

// maxMarks is how many marks a member may answer with: a few times as many as any member sends.
const maxMarks = 64

// digest is a digest of a version. Those of different versions cannot be compared.
type digest struct {
	version uint32
	digest  uint64
}

// compareMarks fills in the verdict on each member's state: at the newest index that another member has
// marked with the same version, whether more than half of those that marked it have the same digest. The leader's own verdict,
// after which a member stops serving, is in api.Member.Damaged.
func compareMarks(rows []memberStatus, marks map[uint32]*proto.Marks, members int) {
	at := map[uint64]map[digest]int{} // how many members have marked an index so
	for _, m := range marks {
		for i, index := range m.GetIndexes() {
			if at[index] == nil {
				at[index] = map[digest]int{}
			}
			at[index][digest{m.GetVersion(), m.GetDigests()[i]}]++
		}
	}
	for i := range rows {
		row := &rows[i]
		row.Digest, row.DigestIndex = verdict(marks[row.Member.Member], at, members)
		if row.Damaged != "" {
			row.Digest = Differs
		}
	}
}

// verdict compares one member's marks with those of all, which include its own.
func verdict(own *proto.Marks, at map[uint64]map[digest]int, members int) (v string, index uint64) {
	v = Unmarked
	for i, marked := range own.GetIndexes() {
		mine := digest{own.GetVersion(), own.GetDigests()[i]}
		marking := 0
		for d, n := range at[marked] {
			if d.version == mine.version {
				marking += n
			}
		}
		if marked <= index || marking < min(2, members) {
			continue
		}
		if v, index = Differs, marked; at[marked][mine] > marking/2 {
			v = Agrees
		}
	}
	return v, index
}
