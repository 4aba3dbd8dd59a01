package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// portCheck finds out what listens at a port after something has failed there. It opens no session, and sends no
// credentials.
type portCheck struct {
	delay        time.Duration // that a session has to open before the ports are checked; usually it takes milliseconds
	replyTimeout time.Duration // of each of the two steps of a check
}

// newPortCheck returns a portCheck with which a command says within a second that a port is the wrong one.
func newPortCheck(w IOStreams) portCheck {
	return portCheck{delay: 200 * time.Millisecond, replyTimeout: cmp.Or(w.portReplyTimeout, 350*time.Millisecond)}
}

// wordHeadStart is the time after which a port is not likely to be one for clients, which replies to a word at once.
const wordHeadStart = 80 * time.Millisecond

// maxPortReply is longer than the part of any reply that a check reads.
const maxPortReply = 64

// portKind is a kind of listener.
type portKind int

const (
	unknownPort  portKind = iota // nothing listens, or it cannot be said what does
	clientPort                   // clients, without TLS
	httpPort                     // HTTP, without TLS
	httpsPort                    // HTTP over TLS
	otherTLSPort                 // TLS, but not HTTP
	mutePort                     // it closes connections of HTTP and of TLS, and ignores words: so does a port for members
)

// describe names the listener at a port that flag names, and the right address. flag is hosts, admin, or plain for the --hosts of
// a command that speaks no TLS.
func (k portKind) describe(addr, flag string) string {
	clients, operators := net.JoinHostPort(hostOf(addr), "2181"), net.JoinHostPort(hostOf(addr), strconv.Itoa(defaultAdminPort))
	instead := "--hosts takes a port for clients, such as " + clients
	if flag == "admin" {
		instead = "--admin takes a port for operators, such as http://" + operators
	}
	switch k {
	case clientPort:
		if flag == "admin" {
			return fmt.Sprintf("%s is a port for clients: %s; --hosts %[1]s takes this one", addr, instead)
		}
		return addr + " is a port for clients without TLS: leave out --tls-ca and ROLLCALL_TLS_CA, or name secureClientPort"
	case httpPort:
		return fmt.Sprintf("%s is a port for HTTP: %s; --admin http://%[1]s takes this one, if it is for operators", addr, instead)
	case httpsPort:
		return fmt.Sprintf("%s is a port for HTTPS: %s; --admin https://%[1]s takes this one, if it is for operators", addr, instead)
	case otherTLSPort:
		switch flag {
		case "admin":
			return addr + " is a port for TLS without HTTP, such as secureClientPort, or that of a server line, which is for members: " + instead
		case "plain":
			return addr + " is a port for TLS, which this command does not speak: " + instead
		}
		return addr + " is a port for TLS: if it is secureClientPort, add --tls-ca FILE with the authority of its certificate"
	case mutePort:
		return addr + " is a port for neither clients nor operators; it may be that of a server line, which is for members: " + instead
	}
	return ""
}

// describeForHealth names the listener at a port that --addr of rollcall health names, and the right address. It returns "" if
// the port may be right.
func (k portKind) describeForHealth(addr string) string {
	instead := "--addr takes a port for clients without TLS, such as " + net.JoinHostPort(hostOf(addr), "2181")
	switch k {
	case httpPort:
		return fmt.Sprintf("%s is a port for HTTP: %s; if this one is for operators, http://%[1]s/readyz says whether the member serves", addr, instead)
	case httpsPort:
		return fmt.Sprintf("%s is a port for HTTPS: %s; if this one is for operators, https://%[1]s/readyz says whether the member serves", addr, instead)
	case otherTLSPort:
		return addr + " is a port for TLS, such as secureClientPort, and health speaks no TLS: " + instead
	case mutePort:
		return addr + " is a port for neither clients nor operators; it may be that of a server line, which is for members: " + instead
	}
	return ""
}

// ProbeClientPort calls probe, which sends something to the port for clients at addr. If probe has no success at once and
// another kind of port listens there, its context ends, and the error names the listener and the address to write.
func ProbeClientPort(ctx context.Context, w IOStreams, addr string, probe func(ctx context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ports := newPortCheck(w)
	ended := make(chan error, 1)
	go func() { ended <- probe(ctx) }()
	var err error
	select {
	case err = <-ended:
		if err == nil {
			return nil
		}
		ended <- err
	case <-time.After(ports.delay):
	}
	text := ports.kindOf(ctx, addr).describeForHealth(addr)
	if text != "" {
		stop()
	}
	if err = <-ended; err == nil || text == "" {
		return err
	}
	return &wrongPortError{text}
}

// portReply is the beginning of a reply, or the error without one.
type portReply struct {
	text string
	err  error
}

func (r portReply) isOfClientPort() bool {
	return r.text == "imok" || strings.HasPrefix(r.text, "ruok"+notListedText)
}

func (r portReply) isHTTP() bool { return strings.HasPrefix(r.text, "HTTP/") }

func (r portReply) isTimeout() bool {
	return errors.Is(r.err, os.ErrDeadlineExceeded) || errors.Is(r.err, context.DeadlineExceeded)
}

// kindOf returns the kind of the listener at addr.
func (p portCheck) kindOf(ctx context.Context, addr string) portKind {
	ask := func(dial func(context.Context) (net.Conn, error), text string) <-chan portReply {
		reply := make(chan portReply, 1)
		go func() { reply <- p.beginOfReply(ctx, dial, text) }()
		return reply
	}
	plain := func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", addr) }
	overTLS := func(ctx context.Context) (net.Conn, error) {
		d := tls.Dialer{Config: &tls.Config{
			MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, // the other end gets no secret
		}}
		return d.DialContext(ctx, "tcp", addr)
	}
	var word portReply
	words := ask(plain, "ruok")
	select {
	case word = <-words:
	case <-time.After(wordHeadStart):
	}
	if word.isOfClientPort() {
		return clientPort
	}
	webReply, secureReply := ask(plain, httpProbe), ask(overTLS, httpProbe)
	web, secure := <-webReply, <-secureReply
	switch {
	case secure.isHTTP(), web.isHTTP() && isAlert(secure.err):
		return httpsPort // it may take plain HTTP, too
	case web.isHTTP():
		return httpPort
	case secure.text != "" || isAlert(secure.err) || errors.As(secure.err, new(*afterHandshakeError)):
		return otherTLSPort
	}
	if word.text == "" && word.err == nil {
		word = <-words
	}
	switch {
	case word.isOfClientPort():
		return clientPort
	case word.isTimeout() && !web.isTimeout() && !secure.isTimeout():
		return mutePort
	}
	return unknownPort
}

const httpProbe = "GET /livez HTTP/1.1\r\nHost: rollcall\r\nConnection: close\r\n\r\n"

// afterHandshakeError is an error of a connection over TLS whose handshake has succeeded.
type afterHandshakeError struct{ error }

func (e *afterHandshakeError) Unwrap() error { return e.error }

// beginOfReply sends text over a new connection. It waits for the first bytes of the reply, at most for p.replyTimeout.
func (p portCheck) beginOfReply(ctx context.Context, dial func(context.Context) (net.Conn, error), text string) portReply {
	ctx, stop := context.WithTimeout(ctx, p.replyTimeout)
	defer stop()
	conn, err := dial(ctx)
	if err != nil {
		return portReply{err: err}
	}
	defer func() { _ = conn.Close() }()
	end, _ := ctx.Deadline()
	_ = conn.SetDeadline(end) // an error shows in the read
	b := make([]byte, maxPortReply)
	n := 0
	if _, err = io.WriteString(conn, text); err == nil {
		n, err = io.ReadAtLeast(conn, b, len("imok"))
	}
	if n > 0 {
		return portReply{text: string(b[:n])}
	}
	if _, isTLS := conn.(*tls.Conn); isTLS {
		err = &afterHandshakeError{err}
	}
	return portReply{err: err}
}

// isAlert reports whether err is an alert of the other end: it speaks TLS, and rejects this end.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// wrongPortError describes the ports at which no session can ever be opened.
type wrongPortError struct{ text string }

func (e *wrongPortError) Error() string { return e.text }

// giveUpAtWrongPorts calls request with a context that ends early if no session can ever be opened at any of servers with
// these flags, or each of them is unreachable in a way in which waiting does not help. Its error is then a *wrongPortError.
func (l *EnsembleFlags) giveUpAtWrongPorts(ctx context.Context, servers []string, request func(ctx context.Context) error) error {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	go func() {
		if wrong := l.ports.findUselessPorts(ctx, l.streams, &l.tls, servers); wrong != nil {
			giveUp(wrong)
		}
	}()
	err := request(ctx)
	if wrong := new(wrongPortError); err != nil && errors.As(context.Cause(ctx), &wrong) {
		return wrong
	}
	return err
}

// findWrongPorts returns a *wrongPortError if no session can ever be opened at any of servers with these flags. Otherwise
// it returns nil: the command waits for a member that starts, hangs or has no leader.
func (p portCheck) findWrongPorts(ctx context.Context, w IOStreams, flags *TLS, servers []string) error {
	return p.findPorts(ctx, w, flags, servers, func(context.Context, string) string { return "" })
}

// findUselessPorts is findWrongPorts that also gives up at ports where describeUnreachable has a reason.
func (p portCheck) findUselessPorts(ctx context.Context, w IOStreams, flags *TLS, servers []string) error {
	return p.findPorts(ctx, w, flags, servers, p.describeUnreachable)
}

// findPorts returns a *wrongPortError if each of servers is a wrong port, or unreachable has a reason for it.
func (p portCheck) findPorts(ctx context.Context, w IOStreams, flags *TLS, servers []string,
	unreachable func(ctx context.Context, addr string) string,
) error {
	config, err := flags.ClientConfig(w)
	if err != nil {
		return nil // the command has rejected it
	}
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(p.delay):
	}
	return describeWrongPorts(servers, func(addr string) string {
		reason := make(chan string, 1)
		go func() { reason <- unreachable(ctx, addr) }()
		wrong := p.describeWrongPort(ctx, addr, config, func(err error) string { return flags.connectAdvice(w, err) })
		return cmp.Or(wrong, <-reason)
	})
}

// describeWrongPorts returns a *wrongPortError with the texts of describe, or nil if one of them is "".
func describeWrongPorts(servers []string, describe func(addr string) string) error {
	found := make([]string, len(servers))
	var all sync.WaitGroup
	for i, addr := range servers {
		all.Go(func() { found[i] = describe(addr) })
	}
	all.Wait()
	if slices.Contains(found, "") {
		return nil
	}
	slices.Sort(found)
	return &wrongPortError{strings.Join(slices.Compact(found), "; ")}
}

// CheckClientPorts returns an error if no session can ever be opened at any of servers, the addresses of --hosts, with these flags. It
// names the listener and the address to write. flags is nil for a command that speaks no TLS.
func CheckClientPorts(ctx context.Context, w IOStreams, flags *TLS, servers []string) error {
	p := newPortCheck(w)
	p.delay = 0
	var err error
	if flags != nil {
		err = p.findWrongPorts(ctx, w, flags, servers)
	} else {
		err = describeWrongPorts(servers, func(addr string) string {
			kind := p.kindOf(ctx, addr)
			if kind == clientPort {
				return ""
			}
			return kind.describe(addr, "plain")
		})
	}
	if err != nil {
		return WithStatus(Unavailable, err)
	}
	return nil
}

// describeWrongPort returns the reason that no session can ever be opened at addr. It returns "" if one may be.
func (p portCheck) describeWrongPort(ctx context.Context, addr string, config *tls.Config, advice func(error) string) string {
	kind := p.kindOf(ctx, addr)
	switch {
	case kind == unknownPort, kind == clientPort && config == nil:
		return ""
	case kind != otherTLSPort || config == nil:
		return kind.describe(addr, "hosts")
	}
	dialer := &tls.Dialer{Config: config}
	dial := func(ctx context.Context) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", addr) }
	if err := p.beginOfReply(ctx, dial, "ruok").err; errors.As(err, new(*tls.CertificateVerificationError)) || isAlert(err) {
		return fmt.Sprintf("%v; %s", err, advice(err))
	}
	return ""
}

// explainAdminError explains err, the error of a request to a member's port for operators. If another kind of port
// listens there, the result names it. scheme is the scheme of the request.
func (p portCheck) explainAdminError(ctx context.Context, scheme, addr string, err error) error {
	if ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, new(*net.DNSError)) {
		return err
	}
	kind := p.kindOf(ctx, addr)
	switch {
	case scheme == "https" && isAlert(err) && kind == otherTLSPort: // it may be for HTTPS
		return err
	case kind == unknownPort, scheme == "http" && kind == httpPort, scheme == "https" && kind == httpsPort:
		return err
	}
	text := kind.describe(addr, "admin")
	if kind == mutePort {
		text = fmt.Sprintf("%v; %s", err, text) // the kind is a guess
	}
	return explainedError{text, err}
}
