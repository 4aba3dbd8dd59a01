package config

import (
	"strconv"

	"rollcall/operator/admin"
)

// RuntimeValues is what conf shows of a member besides its settings.
type RuntimeValues struct {
	ClientPort        int // where clients connect now: clientPort=0 leaves the choice to the system
	SecurePort        int // where they connect over TLS; -1: nowhere
	DataSize, LogSize int64
	MemberID          uint32 // this and the rest only in an ensemble
	ElectionPort      int    // server.N's third field
	QuorumPort        int    // its second
	Observer          bool   // it does not vote
	Ensemble          string // the text of /zookeeper/config; "": standalone
}

// confLine is a row of the table of conf.
type confLine struct {
	name         string                        // that of a key, or of a line that no key has
	runtimeValue func(r *RuntimeValues) string // nil: the value of the key in the settings, or its default if it sets nothing
	ensembleOnly bool                          // only in an ensemble
}

// confLines are all lines but the list of members, in ZooKeeper's order.
var confLines = []confLine{
	{name: "clientPort", runtimeValue: func(r *RuntimeValues) string { return strconv.Itoa(r.ClientPort) }},
	{name: "secureClientPort", runtimeValue: func(r *RuntimeValues) string { return strconv.Itoa(r.SecurePort) }},
	{name: "dataDir"},
	{name: "dataDirSize", runtimeValue: func(r *RuntimeValues) string { return valueText(r.DataSize) }},
	{name: "dataLogDir"},
	{name: "dataLogSize", runtimeValue: func(r *RuntimeValues) string { return valueText(r.LogSize) }},
	{name: "tickTime"},
	{name: "maxClientCnxns"},
	{name: "minSessionTimeout"},
	{name: "maxSessionTimeout"},
	{name: "clientPortListenBacklog"},
	{name: "serverId", runtimeValue: func(r *RuntimeValues) string {
		if r.Ensemble == "" {
			return "0"
		}
		return valueText(r.MemberID)
	}},
	{name: "initLimit", ensembleOnly: true},
	{name: "syncLimit", ensembleOnly: true},
	{name: "electionAlg", ensembleOnly: true},
	{name: "electionPort", runtimeValue: func(r *RuntimeValues) string { return strconv.Itoa(r.ElectionPort) }, ensembleOnly: true},
	{name: "quorumPort", runtimeValue: func(r *RuntimeValues) string { return strconv.Itoa(r.QuorumPort) }, ensembleOnly: true},
	{name: "peerType", runtimeValue: func(r *RuntimeValues) string { return map[bool]string{false: "0", true: "1"}[r.Observer] }, ensembleOnly: true},
}

// ConfLines returns what conf shows of a member, line by line. s are its settings, with every default filled
// in. The list of members, which comes after these lines, is not among them.
func ConfLines(s Settings, r RuntimeValues) []admin.ConfLine {
	d := &rawConfig{Config: Config{Settings: s}}
	lines := make([]admin.ConfLine, 0, len(confLines))
	for _, c := range confLines {
		if c.ensembleOnly && r.Ensemble == "" {
			continue
		}
		if c.runtimeValue != nil {
			lines = append(lines, admin.ConfLine{Name: c.name, Value: c.runtimeValue(&r)})
			continue
		}
		k := lookupKey(c.name)
		value := k.def
		if k.kind.confText != nil {
			value = k.kind.confText(d)
		}
		lines = append(lines, admin.ConfLine{Name: c.name, Value: value})
	}
	return lines
}
