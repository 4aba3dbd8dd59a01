package server

import (
	"bytes"
	"testing"

	"rollcall/audit"
)

// auditLines is an audit log whose lines a test reads.
type auditLines struct {
	log *audit.Log
	out bytes.Buffer // until the log is closed, the log writes it
}

func newAuditLines(t *testing.T) *auditLines {
	t.Helper()
	a := new(auditLines)
	var err error
	if a.log, err = audit.Open(audit.Config{Settings: audit.Settings{Enable: true}, Out: &a.out}); err != nil {
		t.Fatal(err)
	}
	a.log.Start()
	t.Cleanup(a.log.Close)
	return a
}

// text closes the log and returns its lines.
func (a *auditLines) text() string {
	a.log.Close()
	return a.out.String()
}
