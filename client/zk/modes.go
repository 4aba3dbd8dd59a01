package zk

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"rollcall/client"
	"rollcall/zk/jute"
)

// Kinds of nodes, for Create and the like.
const (
	FlagPersistent                  = 0
	FlagEphemeral                   = 1
	FlagSequence                    = 2
	FlagEphemeralSequential         = 3
	FlagContainer                   = 4
	FlagTTL                         = 5
	FlagPersistentSequentialWithTTL = 6
)

// createMode is a kind of node.
type createMode struct {
	flag        int32       // for that library's tests
	mode        client.Mode // without a TTL
	isContainer bool
	isTTL       bool
}

var createModes = [...]createMode{
	FlagPersistent:          {mode: client.Persistent},
	FlagEphemeral:           {mode: client.Ephemeral},
	FlagSequence:            {mode: client.PersistentSequential},
	FlagEphemeralSequential: {mode: client.EphemeralSequential},
	FlagContainer:           {mode: client.Container, isContainer: true},
	FlagTTL:                 {mode: client.Persistent, isTTL: true},

	FlagPersistentSequentialWithTTL: {mode: client.PersistentSequential, isTTL: true},
}

func parseCreateMode(flag int32) (createMode, error) {
	if flag < 0 || int(flag) >= len(createModes) {
		return createMode{}, fmt.Errorf("invalid flag value: [%v]", flag)
	}
	m := createModes[flag]
	m.flag = flag
	return m, nil
}

// clientMode returns the mode with a TTL, if it has one, and an ACL.
func (m createMode) clientMode(ttl time.Duration, acl []ACL) client.Mode {
	mode := m.mode
	if m.isTTL {
		mode = mode.WithTTL(ttl)
	}
	return mode.WithACL(clientACL(acl)...)
}

// FormatServers adds DefaultPort to addresses without a port.
func FormatServers(servers []string) []string {
	list := make([]string, len(servers))
	for i, address := range servers {
		if list[i] = address; !strings.Contains(address, ":") {
			list[i] += ":" + strconv.Itoa(DefaultPort)
		}
	}
	return list
}

// validatePath returns ErrInvalidPath if no node can have the path.
func validatePath(path string, isSequential bool) error {
	if isSequential {
		path += "1" // the servers append a number
	}
	if !jute.ValidPath(path) {
		return ErrInvalidPath
	}
	return nil
}
