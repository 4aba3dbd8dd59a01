package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
)

const (
	// removedText begins the line of a reply to srvr with the reason for which a member that was removed does not serve.
	removedText = "Reason: this member was removed"
	// maxSrvrReply is longer than the reply to srvr of a member that does not serve.
	maxSrvrReply = 1 << 10
)

// describeUnreachable returns the reason for which no session opens at addr while a user waits: no process listens there, the name
// is unknown, or the member was removed from the ensemble. It returns "" for anything else, such as a member that hangs
// or has no leader.
func (p portCheck) describeUnreachable(ctx context.Context, addr string) string {
	ctx, stop := context.WithTimeout(ctx, p.replyTimeout)
	defer stop()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return describeDialError(addr, err)
	}
	defer func() { _ = conn.Close() }()
	end, _ := ctx.Deadline()
	_ = conn.SetDeadline(end) // an error shows in the read
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return ""
	}
	reply, err := io.ReadAll(io.LimitReader(conn, maxSrvrReply))
	if _, reason, found := strings.Cut(string(reply), "\n"+removedText); err == nil && found {
		line, _, _ := strings.Cut(reason, "\n")
		return fmt.Sprintf("%s: the member there was removed%s; name others with --hosts", addr, line)
	}
	return ""
}

// describeDialError returns the text for an error of a dial that does not go away by itself, or "".
func describeDialError(addr string, err error) string {
	var lookup *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return addr + ": connection refused: no process listens there; start the member, or name others with --hosts"
	case errors.As(err, &lookup) && lookup.IsNotFound:
		return fmt.Sprintf("%s: no machine has the name %s; name others with --hosts", addr, hostOf(addr))
	}
	return ""
}
