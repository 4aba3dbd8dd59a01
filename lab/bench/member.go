package bench

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// Limits of a query for a server's role.
const (
	roleTimeout  = 5 * time.Second
	maxRoleReply = 64 << 10 // in bytes
)

// findServersWithRole returns the servers of the role that the case requires. It queries each server.
func (r *caseRun) findServersWithRole() ([]string, error) {
	if r.params.MemberRole == "" {
		return r.target.Servers, nil
	}
	var found, said []string
	for _, addr := range r.target.Servers {
		mode, err := r.queryServerRole(addr)
		if err != nil {
			return nil, fmt.Errorf("role of %s: %w", addr, err)
		}
		said = append(said, addr+" is "+mode)
		if mode == r.params.MemberRole {
			found = append(found, addr)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no %s: %s", r.params.MemberRole, strings.Join(said, ", "))
	}
	return found, nil
}

// queryServerRole queries a server's role with the four-letter command srvr: leader, follower, observer or
// standalone.
func (r *caseRun) queryServerRole(addr string) (string, error) {
	ctx, stop := context.WithTimeout(r.ctx, roleTimeout)
	defer stop()
	conn, err := r.dialServer(ctx, addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(conn, maxRoleReply))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if mode, ok := strings.CutPrefix(line, "Mode: "); ok {
			return strings.TrimSpace(mode), nil
		}
	}
	return "", fmt.Errorf("unexpected reply to srvr: %.100q", text)
}
