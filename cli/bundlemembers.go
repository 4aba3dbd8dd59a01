package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"rollcall/operator/api"
)

// notAsked is a server of the ensemble that has no files in a bundle, as JSON has it.
type notAsked struct {
	Member  uint32 `json:"member"`  // its id; 0: only an address is known
	Address string `json:"address"` // where it was looked for, or its address in the list of servers; "": the list does not say
	Reason  string `json:"reason"`  // why it was not asked
}

// String returns the line of the file MISSING.
func (n notAsked) String() string {
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

// skip notes a server that was not asked.
func (b *archive) skip(n notAsked) {
	b.notAsked = append(b.notAsked, n)
	b.missing = append(b.missing, n.String())
}

// skipAddresses notes the addresses of --hosts where no port for operators was found. err has a line for each.
func (b *archive) skipAddresses(err error) {
	if err == nil {
		return
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		b.skip(notAsked{Reason: line})
	}
}

// reach asks a member for its id, and reports whether it answers. It notes one that does not.
func (b *archive) reach(ctx context.Context, member *api.Client) bool {
	timed, stop := context.WithTimeout(ctx, bundleTime)
	defer stop()
	who, err := api.Get[api.Caller](timed, member, "whoami", nil)
	var answer *api.Error
	if err != nil && !errors.As(err, &answer) {
		b.skip(notAsked{Address: member.BaseURL, Reason: err.Error()})
		return false
	}
	b.asked[who.Member] = true
	return true
}

// skipRest notes the servers of the ensemble's list that were not asked, as the first member says that knows the list.
func (b *archive) skipRest(ctx context.Context, members []*api.Client) {
	failed := errors.New("no member was reached")
	for _, member := range members {
		timed, stop := context.WithTimeout(ctx, bundleTime)
		list, err := api.Get[api.Members](timed, member, "members", nil)
		stop()
		if err != nil {
			failed = err
			continue
		}
		silent := map[uint32]string{}
		for _, s := range list.Silent {
			silent[s.Member] = silence(s)
		}
		for _, s := range list.Items {
			if b.asked[s.Member] {
				continue
			}
			reason := "none of the addresses that were asked is its own; name its port for operators with --admin"
			if why := silent[s.Member]; why != "" {
				reason = "the other members get no answer from it either: " + why
			}
			b.skip(notAsked{Member: s.Member, Address: s.Quorum, Reason: reason})
		}
		return
	}
	b.skip(notAsked{Reason: fmt.Sprintf("the list of the ensemble's servers: %v; there may be servers that were not asked", failed)})
}
