package config

import (
	"strconv"

	"rollcall/operator/admin"
)

// RuntimeValues are the values that conf shows besides the settings.
type RuntimeValues struct {
	ClientPort        int // the port in use: with clientPort=0 the system has chosen it
	SecurePort        int // for TLS; -1: none
	DataSize, LogSize int64
	MemberID          uint32 // this and the following only in an ensemble
	ElectionPort      int    // server.N's third field
	QuorumPort        int    // its second
	Observer          bool   // it does not vote
	Ensemble          string // the text of /zookeeper/config; "": standalone
}

// confLine is a row of the table of conf.
type confLine struct {
	name         string                        // of a key, or of another line
	runtimeValue func(r *RuntimeValues) string // nil: the key's value, or its default if it sets no field
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
	{name: "peerType", runtimeValue: func(r *RuntimeValues) string {
		return map[bool]string{
			false: "0",
			true:  "1",
		}[r.Observer]
	}, ensembleOnly: true},
}

// ConfLines returns the lines of conf without the list of members, which follows them. s are the member's settings
// with all defaults.
func ConfLines(s Settings, r RuntimeValues) []admin.ConfLine {
	d := &rawConfig{config: Config{Settings: s}}
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
