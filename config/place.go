package config

import "strings"

// MemberPlace says where the member that a configuration describes keeps its data, and where it takes clients.
type MemberPlace struct {
	Dir         string   // dataDir; "": not known
	ClientPorts []string // of clients, as in the configuration
}

// LocateMember returns the Place in a zoo.cfg, or in that which Load takes if file is "". It needs no secret and checks nothing: a command
// that looks for the member of its machine uses it, and its user may not read all that the member reads.
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
