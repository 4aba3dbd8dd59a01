package serverlist

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// List is the servers of an ensemble, sorted by id, each id once. A list does not change: a change makes a
// new one.
type List []Server

// Find returns the server with this id, and whether there is one.
func (l List) Find(id uint32) (Server, bool) {
	at, ok := l.search(id)
	if !ok {
		return Server{}, false
	}
	return l[at], true
}

// With returns a list that has s, too, in its place, and true. If a server of the list has that id, With returns the list and false.
func (l List) With(s Server) (List, bool) {
	at, ok := l.search(s.ID)
	if ok {
		return l, false
	}
	return slices.Concat(l[:at], List{s}, l[at:]), true
}

// search returns the place of the server with this id, and whether there is one.
func (l List) search(id uint32) (at int, ok bool) {
	return slices.BinarySearchFunc(l, id, func(s Server, id uint32) int { return cmp.Compare(s.ID, id) })
}

// Voters returns the ids of the participants, ascending.
func (l List) Voters() []uint32 {
	var ids []uint32
	for _, s := range l {
		if !s.Observer {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// CanonicalText returns the canonical server lines, separated by newlines. ParseList reads it.
func (l List) CanonicalText() string { return strings.Join(l.CanonicalLines(), "\n") }

// CanonicalLines returns the canonical server lines.
func (l List) CanonicalLines() []string {
	lines := make([]string, len(l))
	for i, s := range l {
		lines[i] = s.String()
	}
	return lines
}

// ConfigText returns the content of /zookeeper/config for this version of the list. ParseList reads it, too.
func (l List) ConfigText(version int64) string {
	return l.CanonicalText() + "\nversion=" + strconv.FormatUint(uint64(version), 16)
}

// ParseList returns the servers of a text with server lines as in zoo.cfg. Lines end with a newline or a
// comma. Empty lines, and a line with a version, are ignored. The list has at least one server, and its
// addresses are checked.
func ParseList(text string) (List, error) {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == ',' })
	return ParseLines(lines)
}

// ParseLines is ParseList for separate lines.
func ParseLines(lines []string) (List, error) {
	var list List
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "version=") {
			continue
		}
		server, err := parseLine(line)
		if err != nil {
			return nil, err
		}
		if len(list) == MaxID { // at least one id is a duplicate now
			return nil, fmt.Errorf("more than %d servers, each needs an id of its own", MaxID)
		}
		list = append(list, server)
	}
	return list.sortAndCheck()
}

// parseLine returns the server of a line server.N=….
func parseLine(line string) (Server, error) {
	key, value, _ := strings.Cut(line, "=")
	number, ok := strings.CutPrefix(strings.TrimSpace(key), "server.")
	if !ok {
		return Server{}, fmt.Errorf("%.80q: must be server.N=host:quorumPort:electionPort[:role][;[clientHost:]clientPort]",
			line)
	}
	id, err := ParseID(number, MaxID)
	if err != nil {
		return Server{}, fmt.Errorf("%.80q: the number after server. must be %w", line, err)
	}
	server, err := ParseServer(id, strings.TrimSpace(value))
	if err != nil {
		return Server{}, fmt.Errorf("server.%d: %w", id, err)
	}
	return server, nil
}

// sortAndCheck sorts the list and checks it as a whole.
func (l List) sortAndCheck() (List, error) {
	if len(l) == 0 {
		return nil, errors.New("no server line; write one for each server")
	}
	slices.SortFunc(l, func(a, b Server) int { return cmp.Compare(a.ID, b.ID) })
	for i, s := range l[1:] {
		if s.ID == l[i].ID {
			return nil, fmt.Errorf("server %d is named twice; remove one of the two", s.ID)
		}
	}
	if err := CheckAddresses(l); err != nil {
		return nil, err
	}
	return l, nil
}
