package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"rollcall/operator/api"
)

// skippedServer is a server of the ensemble that has no files in a bundle, as JSON has it.
type skippedServer struct {
	Member  uint32 `json:"member"`  // its id; 0: only an address is known
	Address string `json:"address"` // where it was looked for, or its address in the list of servers; "": the list does not say
	Reason  string `json:"reason"`  // why it was not asked
}

// String returns the line of the file MISSING.
func (n skippedServer) String() string {
	switch {
	case n.Member == 0 && n.Address == "":
		return n.Reason
	case n.Member == 0:
		return fmt.Sprintf("%s: not asked: %s", n.Address, n.Reason)
	case n.Address == "":
		return fmt.Sprintf("member %d: not asked: %s", n.Member, n.Reason)
	}
	return fmt.Sprintf("member %d (%s): not asked: %s", n.Member, n.Address, n.Reason)
}

// noteSkipped notes a server that was not asked.
func (b *bundleArchive) noteSkipped(n skippedServer) {
	b.skippedServers = append(b.skippedServers, n)
	b.missingParts = append(b.missingParts, n.String())
}

// noteUnfoundAddresses notes the addresses of --hosts where no port for operators was found. err has a line for each.
func (b *bundleArchive) noteUnfoundAddresses(err error) {
	if err == nil {
		return
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		b.noteSkipped(skippedServer{Reason: line})
	}
}

// identifyMember asks a member for its id, and reports whether it answers. It notes one that does not.
func (b *bundleArchive) identifyMember(ctx context.Context, member *api.Client) bool {
	timed, stop := context.WithTimeout(ctx, bundlePartTimeout)
	defer stop()
	who, err := api.Get[api.Caller](timed, member, "whoami", nil)
	var answer *api.Error
	if err != nil && !errors.As(err, &answer) {
		b.noteSkipped(skippedServer{Address: member.BaseURL, Reason: err.Error()})
		return false
	}
	b.askedMembers[who.MemberID] = true
	return true
}

// noteSkippedServers notes the servers of the ensemble's list that were not asked, as the first member says that knows the list.
func (b *bundleArchive) noteSkippedServers(ctx context.Context, members []*api.Client) {
	failed := errors.New("no member was reached")
	for _, member := range members {
		timed, stop := context.WithTimeout(ctx, bundlePartTimeout)
		list, err := api.Get[api.Members](timed, member, "members", nil)
		stop()
		if err != nil {
			failed = err
			continue
		}
		silent := map[uint32]string{}
		for _, s := range list.Silent {
			silent[s.MemberID] = silenceReason(s)
		}
		for _, s := range list.Items {
			if b.askedMembers[s.MemberID] {
				continue
			}
			reason := "none of the addresses that were asked is its own; name its port for operators with --admin"
			if why := silent[s.MemberID]; why != "" {
				reason = "the other members get no answer from it either: " + why
			}
			b.noteSkipped(skippedServer{Member: s.MemberID, Address: s.QuorumAddress, Reason: reason})
		}
		return
	}
	b.noteSkipped(skippedServer{Reason: fmt.Sprintf("the list of the ensemble's servers: %v; there may be servers that were not asked", failed)})
}
