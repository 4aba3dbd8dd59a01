package member

import (
	"slices"

	"rollcall/znode"
)

// ruleKeys returns the configuration keys whose values differ between the rules of a leader and those of this member.
func ruleKeys(leader, own znode.Rules) (keys []string) {
	for key, differs := range map[string]bool{
		"skipACL":                         leader.SkipACL != own.SkipACL,
		"extendedTypesEnabled":            leader.TTLNodes != own.TTLNodes,
		"enforceQuota":                    leader.EnforceQuota != own.EnforceQuota,
		"ssl.clientAuth":                  leader.X509 != own.X509,
		"java.security.auth.login.config": leader.SASL != own.SASL,
		"dataQuota":                       leader.DataQuota != own.DataQuota,
		"reconfigEnabled":                 leader.Reconfig != own.Reconfig,
		"longSequentialNames":             leader.LongNames != own.LongNames,
		"letAnySaslUserDoX":               leader.AnySASLUser != own.AnySASLUser,
		"readConsistency":                 leader.ReadLeaseMs != own.ReadLeaseMs,
	} {
		if differs {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// reportDifferingRules queues an event if the term's leader has other rules than this member. It is called for the
// TermStarts after this process's announcement, and for the announcement, so replayed entries report nothing.
func (h hooks) reportDifferingRules(t znode.Term) {
	if keys := ruleKeys(t.Rules, h.m.cfg.Rules); len(keys) > 0 && h.m.applyProgress.announced.Load() {
		h.m.eventQueue.enqueueOrDrop(Event{Kind: EventRulesDiffer, Term: t.Term, Member: t.Leader, Keys: keys})
	}
}
