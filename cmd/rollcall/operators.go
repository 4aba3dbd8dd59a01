package main

import (
	"fmt"
	"log/slog"
	"net"

	"rollcall/config"
	"rollcall/internal/localsocket"
	"rollcall/member"
)

// listenOperators opens the port for operators. It returns nil without a configured port. With credentials, an
// error prevents the start: another user's program may listen there, and administrators would trust it.
// Without credentials an error is only a warning, because the port is mostly in use by another member of this
// machine, and the result is nil.
func listenOperators(cfg config.Config, advice string, logger *slog.Logger) (net.Listener, error) {
	if cfg.SuperDigest == "" && !cfg.HTTP.HasToken() {
		return listenHTTPOrWarn(cfg.HTTP.Addr, "HTTP for operators is not served; "+advice, logger), nil
	}
	l, err := listenTCPIfSet(cfg.HTTP.Addr)
	if err != nil {
		return nil, explainedError{fmt.Errorf("HTTP for operators: %w; another program, perhaps of another user, may "+
			"listen where administrators expect this member; %s", err, advice)}
	}
	return l, nil
}

// serveOperatorSocket serves operators on a socket in the member's data directory too. If other users could replace
// the socket, there is none.
func serveOperatorSocket(m *member.Member, settings member.Config, logger *slog.Logger) {
	if settings.OperatorListener == nil {
		return
	}
	l, err := localsocket.Listen(settings.Dir)
	if err != nil {
		logger.Info("commands reach this member over TCP alone: there is no socket in its data directory", "reason", err)
		if settings.HTTP.DistrustLoopback {
			logger.Warn("this member takes no changes over HTTP: admin.loopbackTrust=false, and there is no socket", "reason", err)
		}
		return
	}
	m.ServeOnSocket(l)
}
