package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"
)

// listenerFor returns a listener for the connections of l: plain ones if config is nil, those over TLS if ForceHTTPS is set, and otherwise
// both. The caller must call run.
func (h *HTTP) listenerFor(l *boundedListener, config *tls.Config) (_ net.Listener, run func(context.Context)) {
	switch {
	case config == nil:
		return l, func(context.Context) {}
	case h.cfg.ForceHTTPS:
		return tls.NewListener(l, config), func(context.Context) {}
	}
	u := &unifiedListener{boundedListener: l, config: config, readyConns: make(chan net.Conn), acceptErrors: make(chan error)}
	return u, u.run
}

// unifiedListener is a listener for connections with TLS and without. The first byte tells them apart.
type unifiedListener struct {
	*boundedListener
	config       *tls.Config
	readyConns   chan net.Conn
	acceptErrors chan error
}

// tlsHandshakeRecord is the first byte of a connection over TLS. No method of HTTP begins with it.
const tlsHandshakeRecord = 0x16

// run accepts connections until the listener is closed. Each waits for its first byte in a goroutine of its own, of which there
// are as many as connections. The server gets each error: it tries again after one that passes, and closes the listener after others.
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

// detectTLS finds out whether a connection speaks TLS.
func (u *unifiedListener) detectTLS(c net.Conn) {
	first := make([]byte, 1)
	err := c.SetReadDeadline(time.Now().Add(headerTimeout))
	if err == nil {
		_, err = c.Read(first)
	}
	if err = errors.Join(err, c.SetReadDeadline(time.Time{})); err != nil {
		_ = c.Close() // nobody waits for the outcome
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

// Accept implements net.Listener.
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

// CloseWrite is as that of boundedConn.
func (c *peekedConn) CloseWrite() error { return closeWrite(c.Conn) }

// Read implements net.Conn.
func (c *peekedConn) Read(b []byte) (int, error) {
	if len(c.peekedBytes) == 0 {
		return c.Conn.Read(b)
	}
	n := copy(b, c.peekedBytes)
	c.peekedBytes = c.peekedBytes[n:]
	return n, nil
}

// NetConn returns the connection below.
func (c *peekedConn) NetConn() net.Conn { return c.Conn }
