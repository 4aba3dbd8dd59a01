package serverlist

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Change is a change of a list, in the texts of ZooKeeper's reconfig. If Members is set, the change replaces
// all servers, and the other fields have no effect, as in ZooKeeper.
type Change struct {
	Joining string // server lines with commas between them: servers to add, or to change if their id is known
	Leaving string // ids with commas between them; an unknown id changes nothing
	Members string // the server lines of a whole list, with commas or newlines between them
}

// Apply returns the list after the change. The leaving servers go first. Each server in the change must have
// an address for clients, as ZooKeeper demands, and at least one participant must remain.
func (l List) Apply(c Change) (List, error) {
	named, err := c.parseServers()
	if err != nil {
		return nil, err
	}
	for _, s := range named {
		if s.ClientPort == 0 {
			return nil, fmt.Errorf("server.%d has no port for clients; write its line with ;clientPort at the end", s.ID)
		}
	}
	next := named
	if c.Members == "" {
		left, err := parseIDSet(c.Leaving)
		if err != nil {
			return nil, err
		}
		kept := slices.DeleteFunc(slices.Clone(l), func(s Server) bool {
			_, joins := named.Find(s.ID)
			return joins || left[s.ID]
		})
		if next, err = append(kept, named...).sortAndCheck(); err != nil {
			return nil, err
		}
	}
	if len(next.Voters()) == 0 {
		return nil, errors.New("no participant would be left; an ensemble needs one to vote")
	}
	return next, nil
}

// CheckAddressCycles returns an error if servers of the list take each other's addresses in the next one. raft's
// configuration gives one server after the other its address, and none of these is free before another one
// has moved.
func (l List) CheckAddressCycles(next List) error {
	holders := map[string]uint32{}
	for _, s := range l {
		holders[normalizeAddr(s.ElectionAddr())] = s.ID
	}
	after := map[uint32]uint32{} // by server: the one that must move first
	for _, s := range next {
		if holder := holders[normalizeAddr(s.ElectionAddr())]; holder != s.ID {
			after[s.ID] = holder // 0: none
		}
	}
	for _, s := range next {
		for at := after[s.ID]; at != 0; at = after[at] { // an address has one holder, so this comes back, or ends
			if at == s.ID {
				return fmt.Errorf("server.%d would get the address %s of server.%d, which in turn waits for the address of "+
					"server.%d; give server.%d an address that is free first, and its new one afterwards",
					s.ID, s.ElectionAddr(), after[s.ID], s.ID, s.ID)
			}
		}
	}
	return nil
}

// CheckClientPortConflicts returns an error if a new or changed server of the next list takes clients at a port that
// another server of the same host uses, or the other way round. Only one of two such processes starts.
// Unchanged lines are not compared, so that a list with such servers can be repaired.
func (l List) CheckClientPortConflicts(next List) error {
	for _, s := range next {
		if known, listed := l.Find(s.ID); listed && known == s {
			continue
		}
		for _, other := range next {
			if other.ID == s.ID {
				continue
			}
			for _, a := range s.namedPorts() {
				for _, b := range other.namedPorts() {
					if (a.name == clientPortName || b.name == clientPortName) && a.addr == b.addr {
						return fmt.Errorf("server.%d would have the address %s (%s), which server.%d has (%s); give it a port that is "+
							"free on its host", s.ID, a.addr, a.name, other.ID, b.name)
					}
				}
			}
		}
	}
	return nil
}

const clientPortName = "clientPort"

// namedPort is a port of a server, at the host where it is reached.
type namedPort struct{ name, addr string }

// namedPorts returns the ports in a server's line. A server that listens at a wildcard or a loopback address for
// clients takes the port of its host.
func (s Server) namedPorts() []namedPort {
	all := []namedPort{{"quorumPort", normalizeAddr(s.QuorumAddr())}, {"electionPort", normalizeAddr(s.ElectionAddr())}}
	if s.ClientPort == 0 {
		return all
	}
	host := s.ClientHost
	if isWildcardOrLoopback(host) {
		host = s.Host
	}
	return append(all, namedPort{clientPortName, normalizeAddr(joinHostPort(host, s.ClientPort))})
}

// parseServers returns the servers whose lines the change has. There may be none.
func (c Change) parseServers() (List, error) {
	if c.Members != "" {
		return ParseList(c.Members)
	}
	if c.Joining == "" {
		return nil, nil
	}
	return ParseLines(strings.Split(c.Joining, ","))
}

// parseIDSet returns the set of servers in a comma-separated text. ZooKeeper accepts any number, so there may
// be ids that no server can have. A text of a megabyte has half a million ids, so they are not compared with
// each server.
func parseIDSet(text string) (named [MaxID + 1]bool, err error) {
	for field := range strings.SplitSeq(text, ",") {
		if field = strings.TrimSpace(field); field == "" {
			continue
		}
		id, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return named, fmt.Errorf("leaving server %.80q: must be comma-separated ids of servers", field)
		}
		if id >= 0 && id <= MaxID {
			named[id] = true
		}
	}
	return named, nil
}
