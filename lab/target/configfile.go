package target

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"rollcall/internal/durable"
)

// writeFiles writes a member's files.
func (t *Processes) writeFiles(m *member) error {
	var b strings.Builder
	fmt.Fprintf(&b, "tickTime=%d\ninitLimit=10\nsyncLimit=5\ndataDir=%s\nclientPortAddress=%s\nclientPort=%d\n"+
		"maxClientCnxns=0\n4lw.commands.whitelist=*\n%s", t.cfg.Tick.Milliseconds(), m.data, m.ip, m.ports.clients,
		t.cfg.Lines)
	if t.token != "" {
		fmt.Fprintf(&b, "admin.serverAddress=%s\nadmin.serverPort=%d\nadmin.tokenFile=%s\n", m.ip, m.ports.http, t.token)
		m.Admin = "http://" + net.JoinHostPort(m.ip.String(), strconv.Itoa(m.ports.http))
	} else {
		b.WriteString("admin.enableServer=false\n")
	}
	lines, err := prover{operators{t}}.proofLines(m)
	b.WriteString(lines + serverLines(t.members, m))
	return errors.Join(err, os.WriteFile(m.config, []byte(b.String()), 0o600), m.writeID())
}

// serverLines returns the lines of a member's zoo.cfg about the ensemble. A member alone has none.
func serverLines(members []*member, m *member) string {
	var b strings.Builder
	if len(members) == 1 {
		return ""
	}
	if members[1].observer { // there is one voter
		b.WriteString("standaloneEnabled=false\n") // a standalone server takes no observers
	}
	if m.observer {
		b.WriteString("peerType=observer\n")
	}
	for _, other := range members {
		role := ""
		if other.observer {
			role = ":observer"
		}
		fmt.Fprintf(&b, "server.%d=%s:%d:%d%s\n", other.id, other.ip, other.ports.quorum, other.ports.election, role)
	}
	return b.String()
}

// writeID writes the member's id into its data directory, durably: a disk that fails loses what was not synced.
func (m *member) writeID() error {
	f, err := os.OpenFile(filepath.Join(m.data, "myid"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(m.Name + "\n")
	return errors.Join(err, f.Sync(), f.Close(), durable.SyncDirectory(m.data), durable.SyncDirectory(filepath.Dir(m.data)))
}
