package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Resolver resolves the servers of a DNS SRV entry. *net.Resolver is one. The records must be in the order in which
// clients try them: by priority, and at random by weight among those of one priority.
type Resolver interface {
	LookupSRV(ctx context.Context, service, proto, name string) (cname string, records []*net.SRV, err error)
}

// candidate is a server to try.
type candidate struct {
	entry string // of the list, from which the address comes
	addr  string // host:port, or unix: and a path
}

// serverList chooses the server of each attempt to connect, in rounds: each round has every server once. A round begins
// after the server that was tried last. SRV entries are resolved at the beginning of a round, and another round begins
// when a connection to one of their servers is lost. The Session's lock guards all fields except known.
type serverList struct {
	entries  []string // without duplicates, and not empty
	first    []string // entries to try first in the next round, after an update; nil: none
	version  int      // of entries
	all      []candidate
	round    []candidate         // those of all that were not tried yet
	last     candidate           // the one that was tried last, and that of the connection if there is one
	known    map[string][]string // addresses of SRV entries from the last lookup that succeeded; the reader's
	resolver Resolver
}

// errNoServer is the failure of an attempt for which there is no server to try.
var errNoServer = errors.New("no server is known")

// setServers replaces the entries. first are those to try first. The lock is held.
func (s *serverList) setServers(entries, first []string, shuffle bool) {
	s.entries, s.first, s.round = entries, first, nil
	s.version++
	if shuffle {
		rand.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
	}
}

// withoutDuplicates returns list without the entries that it has had before.
func withoutDuplicates(list []string) []string {
	unique := make([]string, 0, len(list))
	for _, entry := range list {
		if !slices.Contains(unique, entry) {
			unique = append(unique, entry)
		}
	}
	return unique
}

// takeServer returns the next server to try, and the number of servers in its round. It resolves SRV entries at the
// beginning of a round, for as long as ctx allows.
func (r *reader) takeServer(ctx context.Context) (next candidate, count int, err error) {
	s := &r.c.servers
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	for len(s.round) == 0 {
		entries, version := slices.Concat(s.first, s.entries), s.version
		r.c.mu.Unlock()
		all, err := s.expand(ctx, withoutDuplicates(entries))
		r.c.mu.Lock()
		if version != s.version {
			continue
		}
		if len(all) == 0 {
			return candidate{}, 0, cmp.Or(err, errNoServer)
		}
		s.beginRound(all)
	}
	next, s.round = s.round[0], s.round[1:]
	s.last = next
	return next, len(s.all), nil
}

// beginRound begins a round of all, after the server that was tried last. If there is an SRV entry, its order is kept,
// and only that server comes last. The lock is held.
func (s *serverList) beginRound(all []candidate) {
	i := slices.Index(all, s.last)
	switch {
	case i < 0 || s.first != nil:
	case slices.ContainsFunc(s.entries, isSRV):
		all = slices.Concat(all[:i], all[i+1:], all[i:i+1])
	default:
		all = slices.Concat(all[i+1:], all[:i+1])
	}
	s.all, s.round, s.first = all, all, nil
}

// prefer makes next the next server to try. The lock is held.
func (s *serverList) prefer(next candidate) {
	others := slices.DeleteFunc(slices.Clone(s.round), func(other candidate) bool { return other == next })
	s.round = append([]candidate{next}, others...)
}

// forgetRound makes another round begin if there are SRV entries. The lock is held.
func (s *serverList) forgetRound() {
	if slices.ContainsFunc(s.entries, isSRV) {
		s.round = nil
	}
}

// expand returns the servers of entries, at most maxServers. If a lookup fails, its last good result counts. err is the
// last failure.
func (s *serverList) expand(ctx context.Context, entries []string) (all []candidate, err error) {
	for _, entry := range entries {
		if !isSRV(entry) {
			all = append(all, candidate{entry, entry})
			continue
		}
		addrs, failure := lookupServers(ctx, s.resolver, strings.TrimPrefix(entry, srvPrefix))
		if failure != nil {
			addrs, err = s.known[entry], failure
		}
		if s.known == nil {
			s.known = make(map[string][]string)
		}
		s.known[entry] = addrs
		for _, addr := range addrs {
			all = append(all, candidate{entry, addr})
		}
	}
	return all[:min(len(all), maxServers)], err
}

// lookupServers returns the addresses of the SRV records of name. There is at least one, or an error.
func lookupServers(ctx context.Context, resolver Resolver, name string) (addrs []string, err error) {
	_, records, err := resolver.LookupSRV(ctx, "", "", name)
	if err != nil {
		return nil, fmt.Errorf("SRV records of %s: %w", name, err)
	}
	for _, record := range records {
		if host := strings.TrimSuffix(record.Target, "."); host != "" { // "." means that there is no such service
			addrs = append(addrs, net.JoinHostPort(host, strconv.Itoa(int(record.Port))))
		}
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("SRV records of %s: %w", name, errNoServer)
	}
	return addrs, nil
}

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
