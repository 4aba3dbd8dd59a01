package session

import (
	"fmt"

	"rollcall/zk/jute"
	"rollcall/zk/sasl"
)

// Login is a user who logs in by SASL with the mechanism DIGEST-MD5.
type Login struct{ User, Password string }

// logIn logs in, if there is a user. The session exists, and the connection carries nothing else yet. If the
// server rejects the user, or does not prove that it knows the password, the error is jute.AuthFailed.
func (l *link) logIn() error {
	who := l.c.cfg.Login
	if who == nil {
		return nil
	}
	login, token := sasl.NewLogin(who.User, who.Password), []byte{}
	for {
		answer, err := l.exchangeToken(token)
		if err != nil {
			return err
		}
		var done bool
		switch token, done, err = login.Step(answer); {
		case err != nil:
			return fmt.Errorf("client: login: %w: %w", err, jute.AuthFailed)
		case done:
			return nil
		}
	}
}

// exchangeToken sends a token and returns the server's, which is valid until the next frame is read.
func (l *link) exchangeToken(token []byte) ([]byte, error) {
	frame := jute.SASLToken{Token: token}.Append(jute.RequestHeader{Op: jute.OpSASL}.Append(nil))
	if err := jute.WriteFrame(l.conn, frame); err != nil {
		return nil, err
	}
	frame, err := l.nextFrame(maxHandshake)
	if err != nil {
		return nil, err
	}
	d := jute.NewDecoder(frame)
	var header jute.ReplyHeader
	if header.Decode(&d); d.Err() == nil && header.Err != jute.OK {
		return nil, fmt.Errorf("client: the server rejects the login of user %s: %w", l.c.cfg.Login.User, jute.AuthFailed)
	}
	var answer jute.SASLToken
	if answer.Decode(&d); d.Err() != nil {
		return nil, fmt.Errorf("%w: no reply to a login", ErrProtocol)
	}
	return answer.Token, nil
}
