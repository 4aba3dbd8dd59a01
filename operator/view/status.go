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

// Values of api.Member.DigestVerdict.
const (
	DigestUnknown = "unknown" // no log entry allows a comparison
	DigestAgrees  = "agrees"  // with more than half of the members that replied
	DigestDiffers = "differs" // from most members, or its state is known to be damaged
)

// memberStatus is a member's own status.
type memberStatus struct {
	api.Member
	diskID    uint64 // the id of its disk; 0: not known
	wantsVote bool   // see Server.WantsVote
	leaves    bool   // see Server.Leaves
}

// MemberStatuses returns the status of each member that replies, by id.
func (c *Collector) MemberStatuses(ctx context.Context) (api.List[api.Member], error) {
	rows, silent, err := c.queryStatuses(ctx)
	a := api.List[api.Member]{Items: make([]api.Member, len(rows)), Silent: silent}
	for i := range rows {
		a.Items[i] = rows[i].Member
	}
	return withNonNilSlices(a, err)
}

func (c *Collector) queryStatuses(ctx context.Context) (rows []memberStatus, silent []api.Silence, err error) {
	requests, members := map[uint32]*proto.ViewRequest{}, c.memberIDs()
	for _, id := range members {
		requests[id] = &proto.ViewRequest{About: &proto.ViewRequest_Status{Status: &proto.ViewStatus{}}}
	}
	marks := map[uint32]*proto.StateHashes{}
	silent, err = c.runMemberQuery(ctx, requests, nil, func(one memberReply) error {
		row, err := c.parseStatus(one)
		if err != nil {
			return err
		}
		rows = append(rows, row)
		marks[one.member] = one.reply.GetStatus().GetStateHashes()
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(rows, func(a, b memberStatus) int { return cmp.Compare(a.Member.MemberID, b.Member.MemberID) })
	compareMarks(rows, marks, len(members))
	fillLag(rows, c.cfg.Leader())
	return rows, silent, nil
}

func (c *Collector) parseStatus(a memberReply) (s memberStatus, err error) {
	r := a.reply.GetStatus()
	switch {
	case r == nil:
		return s, errUnrelatedReply
	case r.Member != a.member:
		return s, fmt.Errorf("it is the status of member %d", r.Member)
	case len(r.GetStateHashes().GetIndexes()) != len(r.GetStateHashes().GetDigests()) || len(r.GetStateHashes().GetIndexes()) > maxMarks:
		return s, fmt.Errorf("%d marks with %d digests, want as many, and at most %d", len(r.GetStateHashes().GetIndexes()),
			len(r.GetStateHashes().GetDigests()), maxMarks)
	}
	for _, text := range []string{r.Role, r.ClientAddress, r.Version, r.Stalled, r.Damaged, r.Exposed, r.Operators, r.NotServing} {
		if len(text) > maxTextBytes {
			return s, fmt.Errorf("a text of %d bytes, at most %d are allowed", len(text), maxTextBytes)
		}
	}
	member := c.memberByID(a.member)
	console, err := consoleURL(r.Operators, member.QuorumAddress)
	if err != nil {
		return s, err
	}
	s = memberStatus{diskID: r.Disk, wantsVote: r.WantsVote, leaves: r.Leaves, Member: api.Member{
		MemberID: a.member, ConsoleURL: console, Role: r.Role, LeaderID: r.Leader, Term: r.Term,
		ClientAddress: r.ClientAddress, QuorumAddress: member.QuorumAddress, ElectionAddress: member.ElectionAddress,
		Zxid: ZxidText(r.Zxid), AppliedIndex: r.Applied, CommittedIndex: r.Committed,
		Sessions: int(r.Sessions), Connections: int(r.Connections), Watches: int(r.Watches),
		DataBytes: r.DataBytes, LogBytes: r.LogBytes, SnapshotIndex: r.SnapshotIndex,
		Version: r.Version, Started: timeOf(r.StartedMs),
		IsJoining: r.Joining, IsDrained: r.Drained, InsecurePorts: r.Exposed, WasRemoved: r.Removed, NoMemory: r.NoMemory,
		StallReason: r.Stalled, DamageReason: r.Damaged, NotServing: r.NotServing,
		DataFree: r.DataFree, LogFree: r.LogFree, DataQuota: r.DataQuota, DataUsed: r.DataUsed,
		MemoryLimit: r.MemoryLimit, MemoryUsed: r.MemoryUsed,
	}}
	if r.SnapshotIndex != 0 {
		written := timeOf(r.SnapshotMs)
		s.SnapshotAt = &written
	}
	// The error is at most half of the round trip.
	s.ClockMs = time.UnixMilli(r.ClockMs).Sub(a.sentAt.Add(a.receivedAt.Sub(a.sentAt) / 2).Round(0)).Milliseconds()
	return s, nil
}

// consoleURL returns the URL of a member's console. If listens, the member's own address, is unspecified, the
// URL has the host of quorum instead, where other members reach it.
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

// fillLag sets the lag of the members, if the leader has replied.
func fillLag(rows []memberStatus, leader uint32) {
	i := slices.IndexFunc(rows, func(s memberStatus) bool { return s.Member.MemberID == leader })
	if i < 0 {
		return
	}
	for k := range rows {
		lag := rows[i].CommittedIndex - min(rows[i].CommittedIndex, rows[k].AppliedIndex)
		rows[k].Lag = &lag
	}
}

// maxMarks limits the state hashes in a reply, to a few times as many as a member sends.
const maxMarks = 64

// versionedDigest is a state hash. Hashes of different versions cannot be compared.
type versionedDigest struct {
	version uint32
	digest  uint64
}

// compareMarks compares each member's state at the newest index that another member has hashed with the same
// version: it agrees if more than half of those members have the same hash. The leader's own comparison, after
// which a member stops serving, is in api.Member.DamageReason.
func compareMarks(rows []memberStatus, marks map[uint32]*proto.StateHashes, members int) {
	at := map[uint64]map[versionedDigest]int{} // how many members have marked an index so
	for _, m := range marks {
		for i, index := range m.GetIndexes() {
			if at[index] == nil {
				at[index] = map[versionedDigest]int{}
			}
			at[index][versionedDigest{m.GetVersion(), m.GetDigests()[i]}]++
		}
	}
	for i := range rows {
		row := &rows[i]
		row.DigestVerdict, row.DigestIndex = compareWithOthers(marks[row.Member.MemberID], at, members)
		if row.DamageReason != "" {
			row.DigestVerdict = DigestDiffers
		}
	}
}

// compareWithOthers compares one member's marks with those in at, which include its own.
func compareWithOthers(own *proto.StateHashes, at map[uint64]map[versionedDigest]int, members int) (v string, index uint64) {
	v = DigestUnknown
	for i, marked := range own.GetIndexes() {
		mine := versionedDigest{own.GetVersion(), own.GetDigests()[i]}
		marking := 0
		for d, n := range at[marked] {
			if d.version == mine.version {
				marking += n
			}
		}
		if marked <= index || marking < min(2, members) {
			continue
		}
		if v, index = DigestDiffers, marked; at[marked][mine] > marking/2 {
			v = DigestAgrees
		}
	}
	return v, index
}
