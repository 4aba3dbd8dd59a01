package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"rollcall/internal/serverlist"
)

// A member that comes by itself may be one that no server line names, such as a pod of a StatefulSet that got more replicas. members.line
// is a pattern of such lines, in which each member puts its own number.
//
// Such a member never begins an ensemble. Only the voter with the lowest number in its configuration does (quorum's bootstrap), and here a
// server line has a voter with a lower number, because the pattern is for numbers above those of all lines.

// memberLine is the value of members.line.
type memberLine string

const (
	idInLine      = "{id}"
	ordinalInLine = "{ordinal}" // one less than the id, as in the name of a StatefulSet's pod
)

// server returns the server with a number.
func (l memberLine) server(id uint32) (serverlist.Server, error) {
	return serverlist.ParseServer(id, strings.NewReplacer(idInLine, strconv.Itoa(int(id)), ordinalInLine, strconv.Itoa(int(id)-1)).Replace(string(l)))
}

// errNoClientPort is the error of a line with which the leader lets no member in.
var errNoClientPort = errors.New("it has no port for clients, and the leader lets no member in without one; write ;clientPort at the end")

// memberLinePattern takes a pattern that gives two members different addresses.
func memberLinePattern(field func(*rawConfig) *memberLine) kind {
	return kind{
		allowed: "the value of a server line, with `{id}` or `{ordinal}` in its host",
		parse: func(d *rawConfig, s setting) error {
			line := memberLine(s.value)
			one, err := line.server(1)
			if err != nil {
				return err
			}
			two, err := line.server(2)
			switch {
			case err != nil:
				return err
			case one.ClientPort == 0:
				return errNoClientPort
			}
			if err := serverlist.CheckAddresses([]serverlist.Server{one, two}); err != nil {
				return fmt.Errorf("it gives two members one address: %w; write %s or %s in its host", err, idInLine, ordinalInLine)
			}
			return storeValue(d, field, line)
		},
	}
}

// addTo returns a list of server lines with the one of this member, whose number is own. source says where that number is from. If a line of the list has that number,
// it returns the list as it is.
func (l memberLine) addTo(servers serverlist.List, own uint32, source string) (serverlist.List, error) {
	if _, listed := servers.Find(own); listed || l == "" || own == 0 || len(servers) == 0 {
		return servers, nil
	}
	if highest := servers[len(servers)-1].ID; own < highest {
		return nil, fmt.Errorf("this is member %d (%s), and there is a server.%d: members.line is for numbers above those of all server lines; "+
			"write server.%[1]d", own, source, highest)
	}
	s, err := l.server(own)
	if err != nil {
		return nil, fmt.Errorf("server.%d: %w", own, err)
	}
	servers, _ = servers.With(s)
	return servers, serverlist.CheckAddresses(servers)
}
