package member

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/internal/admission"
	"rollcall/internal/serverlist"
	"rollcall/quorum"
)

// A machine may be lost, and its member come back with its number at another address. The others dial the address in their list,
// where nobody is, so the member waits until an operator changes the list. It reports its own server line to the others in its
// Hellos, and all of them name both addresses and the command.
//
// The leader does not take the new address by itself. The address in the list is all that tells a member from another process
// that was given its number by mistake: the secret of the ensemble proves no number, and a certificate proves hosts, of which the
// new one is none in the list. docs/members.md says so, too.

// otherAddress notices that this member waits for a leader at an address that the ensemble's list does not have. It is safe for
// concurrent use.
type otherAddress struct {
	serverLists *serverLists
	node        *quorum.Node
	log         *slog.Logger

	waiting atomic.Pointer[addressConflict] // nil: there is none, or this member has a leader
}

// addressConflict is a member's line in the list, and another one that the member has.
type addressConflict struct{ listed, own serverlist.Server }

const (
	// otherAddressDelay is the time without a leader after which a member reports its address: a list may have another name of the
	// same machine, and then a leader comes in that time.
	otherAddressDelay = 3 * time.Second
	// otherAddressStep is the time between two checks.
	otherAddressStep = 500 * time.Millisecond
)

// command returns the command that gives the list the member's own address.
func (c *addressConflict) command() string {
	moved := c.own
	if moved.Observer = c.listed.Observer; moved.ClientPort == 0 {
		moved.ClientHost, moved.ClientPort = c.listed.ClientHost, c.listed.ClientPort
	}
	if moved.ClientPort == 0 { // it must be in the line, and neither has it
		return fmt.Sprintf("rollcall members address %d '%v;PORT', where PORT is its port for clients", moved.ID, moved)
	}
	return fmt.Sprintf("rollcall members address %d '%v'", moved.ID, moved)
}

// ownReason describes the conflict of this member.
func (c *addressConflict) ownReason() string {
	return fmt.Sprintf("this member has found no leader. The list of servers has it at %s, and its own server line has %s. If that is no other "+
		"name of the same machine, the others do not look for it there: as an administrator, run: %s", addressPair(c.listed), addressPair(c.own), c.command())
}

// advice describes the conflict of another member.
func (c *addressConflict) advice() string {
	return fmt.Sprintf("the list has it at %s, and a process with its number says hello from %s: if that is its new machine, run %s",
		addressPair(c.listed), addressPair(c.own), c.command())
}

func addressPair(s serverlist.Server) string {
	return fmt.Sprintf("%s:%d", s.QuorumAddr(), s.ElectionPort)
}

func sameAddresses(a, b serverlist.Server) bool {
	return a.QuorumAddr() == b.QuorumAddr() && a.ElectionAddr() == b.ElectionAddr()
}

// addressConflictOf returns the conflict of a member whose own server line is own, or nil if the newest list does not have it, or
// has the same addresses.
func (l *serverLists) addressConflictOf(own serverlist.Server) *addressConflict {
	newest := l.newestList()
	if newest == nil {
		return nil
	}
	listed, found := newest.Servers.Find(own.ID)
	if !found || sameAddresses(listed, own) {
		return nil
	}
	return &addressConflict{listed, own}
}

// ownConflict returns this member's conflict.
func (l *serverLists) ownConflict() *addressConflict {
	if own, found := l.ownLine(); found {
		return l.addressConflictOf(own)
	}
	return nil
}

// ownLine returns this member's own server line. It is false for a line for all addresses of the machine, which names none.
func (l *serverLists) ownLine() (serverlist.Server, bool) {
	configured, err := serverlist.ParseList(string(l.configuredText))
	own, found := configured.Find(l.memberID)
	if addr, parseErr := netip.ParseAddr(own.Host); err != nil || !found || parseErr == nil && addr.Unmap().IsUnspecified() {
		return serverlist.Server{}, false
	}
	if own.ClientPort == 0 && l.clientPort > 0 { // clientPort is a key of its own, and the list wants it in the line
		own.ClientHost, own.ClientPort = serverlist.AllHosts, l.clientPort
	}
	return own, true
}

// watchLoop reports and logs the conflict of this member while it has had no leader for otherAddressDelay.
func (o *otherAddress) watchLoop(ctx context.Context) error {
	ticker := time.NewTicker(otherAddressStep)
	defer ticker.Stop()
	logged, reached := "", addressConflict{} // reached: a leader has found this member in spite of it, by another name of the same machine
	for since := time.Now(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		conflict := o.serverLists.ownConflict()
		if conflict != nil && o.node.Status().LeaderID() != 0 {
			reached = *conflict
		}
		if conflict == nil || *conflict == reached || o.node.Reachability().HasRival() { // a rival may be this member, and this process an old one
			o.waiting.Store(nil)
			since, logged = time.Now(), ""
			continue
		}
		if time.Since(since) < otherAddressDelay {
			continue
		}
		o.waiting.Store(conflict)
		if reason := conflict.ownReason(); reason != logged {
			logged = reason
			o.log.Warn("this member waits at an address that the list of servers does not have", "reason", reason)
		}
	}
}

// reason describes the conflict of this member, or is "" if there is none.
func (o *otherAddress) reason() string {
	if conflict := o.waiting.Load(); conflict != nil {
		return conflict.ownReason()
	}
	return ""
}

// ownLine returns this member's own server line for a Hello if there is a conflict, or else "".
func (o *otherAddress) ownLine() string {
	if conflict := o.waiting.Load(); conflict != nil {
		return conflict.own.String()
	}
	return ""
}

// reportedAddresses holds the server lines of members that wait at other addresses than the listed ones. It is safe for concurrent
// use.
type reportedAddresses struct {
	serverLists *serverLists
	rivals      func(member uint32) string // describes the processes that have the member's number; "": there is one at most
	lines       *admission.LogLimiter
	log         *slog.Logger

	mu       sync.Mutex
	reported map[uint32]reportedAddress   // by member in the list, so at most serverlist.MaxID
	inOrder  map[uint32]helloOf           // the last Hello of each member that had no conflict
	logged   map[uint32]serverlist.Server // the last line of each member that was logged
}

func newReportedAddresses(m *Member) *reportedAddresses {
	return &reportedAddresses{
		serverLists: m.serverLists, lines: admission.NewLogLimiterOf(reportLogInterval), log: m.log,
		rivals:   func(member uint32) string { return m.node.Reachability().DescribeRivals(member) },
		reported: map[uint32]reportedAddress{}, inOrder: map[uint32]helloOf{}, logged: map[uint32]serverlist.Server{},
	}
}

type reportedAddress struct {
	own serverlist.Server
	at  time.Time
}

// helloOf is a Hello of one process of a member.
type helloOf struct {
	process uint64 // as in HelloRequest.start
	at      time.Time
}

// reportLogInterval is the least time between two lines about reported addresses. Each Hello can bring another one.
const reportLogInterval = time.Minute

// reportLifetime is the time for which a report counts. A member that waits sends one in each round of Hellos, and a round takes a
// few seconds if others are silent.
const reportLifetime = 15 * time.Second

// maxReportedLine limits the bytes of a server line in a Hello: two names of hosts of the greatest length, ports and a role.
const maxReportedLine = 1 << 10

// parseReported returns the server in the line of a Hello of a member, in memory of its own. It is false if the line is none of that
// member, or too long.
func parseReported(member uint32, line string) (serverlist.Server, bool) {
	if line == "" || len(line) > maxReportedLine {
		return serverlist.Server{}, false
	}
	list, err := serverlist.ParseList(strings.Clone(line))
	if err != nil || len(list) != 1 || list[0].ID != member {
		return serverlist.Server{}, false
	}
	return list[0], true
}

func isInList(l serverlist.List, member uint32) bool {
	_, found := l.Find(member)
	return found
}

// record records the server line of a Hello of a member: "" if that has no conflict. It logs each line once. It does not keep a line of a
// member that is not in the list, or of which two processes run: the one at the listed address may be in order.
func (r *reportedAddresses) record(member uint32, process uint64, line string) {
	own, isLine := parseReported(member, line)
	if isLine {
		newest := r.serverLists.newestList()
		isLine = newest != nil && isInList(newest.Servers, member) && r.rivals(member) == ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if line == "" {
		r.inOrder[member] = helloOf{process, time.Now()}
	}
	other := r.inOrder[member]
	if !isLine || other.process != process && time.Since(other.at) < reportLifetime {
		delete(r.reported, member)
		return
	}
	next := reportedAddress{own: own, at: time.Now()}
	if conflict := r.serverLists.addressConflictOf(own); conflict != nil && r.logged[member] != own {
		if _, due := r.lines.AllowLine(next.at); due {
			r.logged[member] = own
			r.log.Warn("a member waits at an address that the list of servers does not have", "peer", member, "reason", conflict.advice())
		}
	}
	r.reported[member] = next
}

// adviceFor returns what an operator must do about a member that has reported another address than the listed one, or "".
func (r *reportedAddresses) adviceFor(member uint32) string {
	r.mu.Lock()
	last, found := r.reported[member]
	r.mu.Unlock()
	if !found || time.Since(last.at) > reportLifetime || r.rivals(member) != "" {
		return ""
	}
	if conflict := r.serverLists.addressConflictOf(last.own); conflict != nil {
		return conflict.advice()
	}
	return ""
}
