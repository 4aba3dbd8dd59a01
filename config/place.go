package config

import "strings"

// MemberPlace is the data directory and the client ports of a configured member.
type MemberPlace struct {
	Dir         string   // dataDir; "": unknown
	ClientPorts []string // of clients, as in the configuration
}

// LocateMember returns the place of the member that file describes. If file is "", it chooses a source as Load does.
// It reads no secrets and checks nothing, because a command's user may not be able to read the member's files.
func LocateMember(file string, env []string) (MemberPlace, error) {
	_, all, err := readSources(file, env, Flags{})
	var at MemberPlace
	for _, s := range all.list {
		switch {
		case s.key == "dataDir":
			at.Dir = s.value
		case s.key == "clientPort" || s.key == "secureClientPort":
			at.ClientPorts = append(at.ClientPorts, s.value)
		case strings.HasPrefix(s.key, "server."):
			if _, clients, ok := strings.Cut(s.value, ";"); ok {
				at.ClientPorts = append(at.ClientPorts, clients[strings.LastIndexByte(clients, ':')+1:])
			}
		}
	}
	return at, err
}
