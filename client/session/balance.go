package session

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
)

// errServersChanged is the reason for leaving a server after UpdateServers.
var errServersChanged = errors.New("client: the list of servers has changed")

// UpdateServers replaces Config.Servers. The rule is that of ZooKeeper's clients, with which the load of all servers is
// even again if each client follows it and the load was even before: a client leaves a server that has left the list
// at once, and if the list has grown from n to m servers, it moves to one of the new ones with the probability
// 1 − n/m. It never moves otherwise. Requests in flight then end with ErrConnectionLost.
//
// An SRV entry is one entry, however many servers it has. UpdateServers does not wait. It returns an error and keeps
// the old list if the new one is empty or too long.
func (c *Session) UpdateServers(list []string) error {
	if err := checkServerCount(list); err != nil {
		return err
	}
	list = withoutDuplicates(list)
	c.mu.Lock()
	defer c.mu.Unlock()
	first := serversToMoveTo(c.servers.entries, list, c.servers.last.entry, rand.Float64)
	c.servers.setServers(list, first, c.cfg.Shuffle)
	if c.link != nil && first != nil {
		c.link.abort(errServersChanged)
	}
	return nil
}

func checkServerCount(list []string) error {
	if len(list) == 0 {
		return errors.New("client: no servers")
	}
	if len(list) > maxServers {
		return fmt.Errorf("client: %d servers; at most %d are allowed", len(list), maxServers)
	}
	return nil
}

// serversToMoveTo returns list in the order in which a client of the server current tries it when the list has been
// old, or nil if the client stays. random returns a number from 0 to 1. If the list has not grown and current has left
// it, the servers that were kept get the clients that they lack for an even load, and the added ones the rest.
func serversToMoveTo(old, list []string, current string, random func() float64) []string {
	var kept, added []string
	for _, entry := range list {
		if slices.Contains(old, entry) {
			kept = append(kept, entry)
		} else {
			added = append(added, entry)
		}
	}
	before, now, stays := float64(len(old)), float64(len(list)), slices.Contains(list, current)
	chanceOfKept := 0.0
	switch {
	case now > before && stays:
		if random() >= 1-before/now {
			return nil
		}
	case now > before:
	case stays:
		return nil
	case len(kept) < len(old):
		chanceOfKept = float64(len(kept)) * (before - now) / (now * (before - float64(len(kept))))
	}
	for _, group := range [][]string{kept, added} {
		rand.Shuffle(len(group), func(i, j int) { group[i], group[j] = group[j], group[i] })
	}
	if random() < chanceOfKept {
		return slices.Concat(kept, added)
	}
	return slices.Concat(added, kept)
}
