package config

import (
	"strings"

	"rollcall/internal/localsocket"
)

// LocateMember returns the place of the member that file describes. If file is "", it chooses a source as Load does.
// It reads no secrets and checks nothing, because a command's user may not be able to read the member's files.
func LocateMember(file string, env []string) (localsocket.MemberPlace, error) {
	_, all, err := readSources(file, env, Flags{})
	var at localsocket.MemberPlace
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
