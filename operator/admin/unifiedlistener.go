package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"
)

// listenerFor returns a listener for plain connections if config is nil, for TLS if ForceHTTPS is set, and
// otherwise for both. The caller must call run.
func (h *HTTP) listenerFor(l *boundedListener, config *tls.Config) (_ net.Listener, run func(context.Context)) {
	switch {
	case config == nil:
		return l, func(context.Context) {}
	case h.cfg.ForceHTTPS:
		return tls.NewListener(l, config), func(context.Context) {}
	}
	u := &unifiedListener{
		boundedListener: l, config: config, readyConns: make(chan net.Conn),
		acceptErrors: make(chan error),
	}
	return u, u.run
}

// unifiedListener accepts connections with and without TLS. Their first byte distinguishes them.
type unifiedListener struct {
	*boundedListener
	config       *tls.Config
	readyConns   chan net.Conn
	acceptErrors chan error
}

// tlsHandshakeRecord is the first byte of a TLS connection. No HTTP method begins with it.
const tlsHandshakeRecord = 0x16

// run accepts connections until the listener is closed. A goroutine waits for the first byte of each; the limit
// on connections bounds them. The server gets each error: it retries after a temporary one, and closes the
// listener after others.
func (u *unifiedListener) run(context.Context) {
	for {
		c, err := u.boundedListener.Accept()
		if err == nil {
			go u.detectTLS(c)
			continue
		}
		select {
		case u.acceptErrors <- err:
		case <-u.closed:
			return
		}
	}
}

// detectTLS reads the first byte of a connection and passes the connection on.
func (u *unifiedListener) detectTLS(c net.Conn) {
	first := make([]byte, 1)
	err := c.SetReadDeadline(time.Now().Add(headerTimeout))
	if err == nil {
		_, err = c.Read(first)
	}
	if err = errors.Join(err, c.SetReadDeadline(time.Time{})); err != nil {
		_ = c.Close() // the outcome does not matter
		return
	}
	c = &peekedConn{Conn: c, peekedBytes: first}
	if first[0] == tlsHandshakeRecord {
		c = tls.Server(c, u.config)
	}
	select {
	case u.readyConns <- c:
	case <-u.closed:
		_ = c.Close() // likewise
	}
}

func (u *unifiedListener) Accept() (net.Conn, error) {
	select {
	case c := <-u.readyConns:
		return c, nil
	case err := <-u.acceptErrors:
		return nil, err
	case <-u.closed:
		return nil, net.ErrClosed
	}
}

// peekedConn is a connection whose first bytes have been read.
type peekedConn struct {
	net.Conn
	peekedBytes []byte
}

// CloseWrite is for net/http: see boundedConn.CloseWrite.
func (c *peekedConn) CloseWrite() error { return closeWrite(c.Conn) }

func (c *peekedConn) Read(b []byte) (int, error) {
	if len(c.peekedBytes) == 0 {
		return c.Conn.Read(b)
	}
	n := copy(b, c.peekedBytes)
	c.peekedBytes = c.peekedBytes[n:]
	return n, nil
}

// NetConn returns the underlying connection.
func (c *peekedConn) NetConn() net.Conn { return c.Conn }
