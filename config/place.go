package config

import "strings"

// Place says where the member that a configuration describes keeps its data, and where it takes clients.
type Place struct {
	Dir   string   // dataDir; "": not known
	Ports []string // of clients, as in the configuration
}

// Locate returns the Place in a zoo.cfg, or in that which Load takes if file is "". It needs no secret and checks nothing: a command
// that looks for the member of its machine uses it, and its user may not read all that the member reads.
func Locate(file string, env []string) (Place, error) {
	_, all, err := read(file, env, Flags{})
	var at Place
	for _, s := range all.list {
		switch {
		case s.key == "dataDir":
			at.Dir = s.value
		case s.key == "clientPort" || s.key == "secureClientPort":
			at.Ports = append(at.Ports, s.value)
		case strings.HasPrefix(s.key, "server."):
			if _, clients, ok := strings.Cut(s.value, ";"); ok {
				at.Ports = append(at.Ports, clients[strings.LastIndexByte(clients, ':')+1:])
			}
		}
	}
	return at, err
}
