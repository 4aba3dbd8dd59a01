package config

import (
	"strconv"

	"rollcall/operator/admin"
)

// Running is what conf shows of a member besides its settings.
type Running struct {
	ClientPort        int // where clients connect now: clientPort=0 leaves the choice to the system
	SecurePort        int // where they connect over TLS; -1: nowhere
	DataSize, LogSize int64
	ID                uint32 // this and the rest only in an ensemble
	ElectionPort      int    // server.N's third field
	QuorumPort        int    // its second
	Observer          bool   // it does not vote
	Ensemble          string // the text of /zookeeper/config; "": standalone
}

// confLine is a row of the table of conf.
type confLine struct {
	name     string                  // that of a key, or of a line that no key has
	value    func(r *Running) string // nil: the value of the key in the settings, or its default if it sets nothing
	ensemble bool                    // only in an ensemble
}

// confLines are all lines but the list of members, in ZooKeeper's order.
var confLines = []confLine{
	{name: "clientPort", value: func(r *Running) string { return strconv.Itoa(r.ClientPort) }},
	{name: "secureClientPort", value: func(r *Running) string { return strconv.Itoa(r.SecurePort) }},
	{name: "dataDir"},
	{name: "dataDirSize", value: func(r *Running) string { return text(r.DataSize) }},
	{name: "dataLogDir"},
	{name: "dataLogSize", value: func(r *Running) string { return text(r.LogSize) }},
	{name: "tickTime"},
	{name: "maxClientCnxns"},
	{name: "minSessionTimeout"},
	{name: "maxSessionTimeout"},
	{name: "clientPortListenBacklog"},
	{name: "serverId", value: func(r *Running) string {
		if r.Ensemble == "" {
			return "0"
		}
		return text(r.ID)
	}},
	{name: "initLimit", ensemble: true},
	{name: "syncLimit", ensemble: true},
	{name: "electionAlg", ensemble: true},
	{name: "electionPort", value: func(r *Running) string { return strconv.Itoa(r.ElectionPort) }, ensemble: true},
	{name: "quorumPort", value: func(r *Running) string { return strconv.Itoa(r.QuorumPort) }, ensemble: true},
	{name: "peerType", value: func(r *Running) string { return map[bool]string{false: "0", true: "1"}[r.Observer] }, ensemble: true},
}

// Conf returns what conf shows of a member, line by line. s are its settings, with every default filled
// in. The list of members, which comes after these lines, is not among them.
func Conf(s Settings, r Running) []admin.Line {
	d := &rawConfig{Config: Config{Settings: s}}
	lines := make([]admin.Line, 0, len(confLines))
	for _, c := range confLines {
		if c.ensemble && r.Ensemble == "" {
			continue
		}
		if c.value != nil {
			lines = append(lines, admin.Line{Name: c.name, Value: c.value(&r)})
			continue
		}
		k := lookup(c.name)
		value := k.def
		if k.kind.show != nil {
			value = k.kind.show(d)
		}
		lines = append(lines, admin.Line{Name: c.name, Value: value})
	}
	return lines
}
