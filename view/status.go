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

	"rollcall/proto"
)

// Status is the status of a member.
type Status struct {
	Member   uint32
	Clients  string // host:port where the member listens for clients. If it has no plain port, this is the port for TLS. It is empty if the member takes no clients
	Quorum   string // host:port of its port for members
	Election string // host:port of its port for the log
	Console  string // URL of its page for operators; "": it serves none; members of older versions do not say so
	Role     string // "leader", "follower", "observer", "standalone", "read-only"; "": it serves no client
	Term     uint64 // raft's
	Leader   uint32 // that it knows; 0: none

	Applied   uint64 // index of the last log entry applied
	Committed uint64 // index of the last one that it knows to be committed
	Zxid      int64  // of the last transaction applied; 0 while it stalls
	Lag       uint64 // entries that the leader knows to be committed and that are not applied here
	LagKnown  bool   // the leader has answered

	Sessions    int // with a connection here
	Connections int // of clients
	Watches     int // 0 while it stalls

	DataBytes, LogBytes int64     // of files; 0 while it stalls
	SnapshotIndex       uint64    // of the newest snapshot; 0: there is none
	SnapshotAt          time.Time // when it was written

	Digest      Verdict // of its state beside those of the others
	DigestIndex uint64  // log entry that the verdict is about

	Version    string
	Started    time.Time     // its process
	ClockAhead time.Duration // by how much its wall clock is ahead of that of the member that asked; as exact as half the time that the answer took

	Disk     uint64 // the id of its disk; 0: not known
	Joining  bool   // it catches up, and has no vote in elections
	Drained  bool   // it takes no more clients, and is about to stop; members of older versions do not say so
	Exposed  string // how its ports for members are open to processes that are no members; members of older versions do not say so
	Removed  bool   // it was removed from the ensemble; members of older versions do not say so
	NoMemory bool   // it is short of memory, and refuses its clients' writes that add data; members of older versions do not say so
	Stalled  string // why its disk or apply is taken to hang
	Damaged  string // why its state is taken to be damaged
}

// Verdict says whether a member's state is that of the others.
type Verdict int

// These are the verdicts.
const (
	Unmarked Verdict = iota // there is no log entry after which its state can be compared
	Agrees                  // with more than half of the members that have answered
	Differs                 // it does not, or its state is known to be damaged
)

var verdictNames = map[Verdict]string{Unmarked: "unknown", Agrees: "agrees", Differs: "differs"}

// String returns the verdict as operators see it.
func (v Verdict) String() string { return verdictNames[v] }

// Status returns the status of each member that answers, by id.
func (c *Collector) Status(ctx context.Context) (a Answer[Status], err error) {
	requests, members := map[uint32]*proto.ViewRequest{}, c.members()
	for _, id := range members {
		requests[id] = &proto.ViewRequest{About: &proto.ViewRequest_Status{Status: &proto.ViewStatus{}}}
	}
	marks := map[uint32]*proto.Marks{}
	err = c.within(ctx, func(ctx context.Context) error {
		a.Silent = byMember(c.ask(ctx, requests, func(one answer) error {
			row, err := c.status(one)
			if err != nil {
				return err
			}
			a.Rows = append(a.Rows, row)
			marks[one.member] = one.reply.GetStatus().GetMarks()
			return nil
		}))
		return nil
	})
	if err != nil {
		return Answer[Status]{}, err
	}
	slices.SortFunc(a.Rows, func(a, b Status) int { return cmp.Compare(a.Member, b.Member) })
	compareMarks(a.Rows, marks, len(members))
	measureLag(a.Rows, c.cfg.Leader())
	return a, nil
}

// status returns the status in a member's reply.
func (c *Collector) status(a answer) (s Status, err error) {
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
	s = Status{
		Console: console,
		Member:  a.member, Clients: r.ClientAddress, Quorum: member.Quorum, Election: member.Election,
		Role: r.Role, Term: r.Term, Leader: r.Leader, Applied: r.Applied, Committed: r.Committed, Zxid: r.Zxid,
		Sessions: int(r.Sessions), Connections: int(r.Connections), Watches: int(r.Watches),
		DataBytes: r.DataBytes, LogBytes: r.LogBytes, SnapshotIndex: r.SnapshotIndex,
		Version: r.Version, Started: time.UnixMilli(r.StartedMs),
		Disk: r.Disk, Joining: r.Joining, Stalled: r.Stalled, Damaged: r.Damaged, Drained: r.Drained, Exposed: r.Exposed, NoMemory: r.NoMemory, Removed: r.Removed,
	}
	if r.SnapshotIndex != 0 {
		s.SnapshotAt = time.UnixMilli(r.SnapshotMs)
	}
	s.ClockAhead = time.UnixMilli(r.ClockMs).Sub(a.asked.Add(a.came.Sub(a.asked) / 2).Round(0))
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
func measureLag(rows []Status, leader uint32) {
	i := slices.IndexFunc(rows, func(s Status) bool { return s.Member == leader })
	if i < 0 {
		return
	}
	for k := range rows {
		rows[k].Lag = rows[i].Committed - min(rows[i].Committed, rows[k].Applied)
		rows[k].LagKnown = true
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
// after which a member stops serving, is in Status.Damaged.
func compareMarks(rows []Status, marks map[uint32]*proto.Marks, members int) {
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
		row.Digest, row.DigestIndex = verdict(marks[row.Member], at, members)
		if row.Damaged != "" {
			row.Digest = Differs
		}
	}
}

// verdict compares one member's marks with those of all, which include its own.
func verdict(own *proto.Marks, at map[uint64]map[digest]int, members int) (v Verdict, index uint64) {
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
