package main

import (
	"fmt"
	"log/slog"
	"net"

	"rollcall/config"
	"rollcall/internal/localsocket"
	"rollcall/member"
)

// listenOperators opens the port for operators. If there are credentials, an error ends the start: another user's program
// may listen there, and administrators would believe it. Otherwise a member serves its clients all the same: a port
// that is in use, mostly by another member on this machine, is a warning. The result is nil then, and if there is no port.
func listenOperators(cfg config.Config, advice string, logger *slog.Logger) (net.Listener, error) {
	addr := cfg.HTTP.Addr
	if addr == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", addr)
	switch {
	case err == nil:
		return l, nil
	case cfg.SuperDigest != "" || cfg.HTTP.HasToken():
		return nil, explainedError{fmt.Errorf("HTTP for operators: %w; another program, perhaps of another user, may listen where administrators expect this member; %s", err, advice)}
	}
	logger.Warn("HTTP for operators is not served; "+advice, "err", err)
	return nil, nil
}

// serveSocket makes a member that serves operators answer the commands of its own machine in its data directory, too. Where
// others could replace the socket, there is none.
func serveSocket(m *member.Member, settings member.Config, logger *slog.Logger) {
	if settings.OperatorListener == nil {
		return
	}
	l, err := localsocket.Listen(settings.Dir)
	if err != nil {
		logger.Info("commands reach this member over TCP alone: there is no socket in its data directory", "reason", err)
		return
	}
	m.ServeOnSocket(l)
}
