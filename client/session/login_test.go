package session

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"rollcall/zk/jute"
	"rollcall/zk/sasl"
)

// logsIn runs the server's part of a login. change may change one of the server's replies.
func (p *peer) logsIn(users map[string]string, change func(answer []byte) []byte) {
	p.t.Helper()
	x := sasl.NewExchange(sasl.NewUsers(users))
	for done := false; !done; {
		r := p.want(jute.OpSASL)
		var token jute.SASLToken
		d := jute.NewDecoder(r.body)
		token.Decode(&d)
		var answer []byte
		var err error
		if answer, done, err = x.Step(token.Token); d.Err() != nil || err != nil {
			p.reply(r.Xid, 0, jute.AuthFailed, nil)
			return
		}
		sent := change(answer)
		p.reply(r.Xid, 0, jute.OK, jute.SASLToken{Token: sent})
		if !bytes.Equal(sent, answer) {
			return // the client gives up
		}
	}
}

func same(answer []byte) []byte { return answer }

// A client logs in first on each of its connections, before the identities of Auth.
func TestLogin(t *testing.T) {
	users := map[string]string{"bob": "bobsecret"}
	within(t, func(t *testing.T, f *fake) {
		var p *peer
		welcome := func() {
			p = <-f.peers
			p.accept()
			p.logsIn(users, same)
			p.want(jute.OpAuth)
			p.reply(jute.XidAuth, 0, jute.OK, nil)
		}
		c := f.open(Config{Login: &Login{"bob", "bobsecret"}, Auth: []Auth{{"ip", nil}}}, welcome)
		_ = p.Close()
		welcome()
		done := make(chan error, 1)
		go func() { done <- c.sync(ctx) }()
		p.reply(p.want(jute.OpSync).Xid, 5, jute.OK, jute.SyncResponse{})
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A login that fails ends the client: it does not try again.
func TestLoginRefused(t *testing.T) {
	for _, tt := range []struct {
		users  map[string]string
		change func([]byte) []byte
		want   string
	}{
		{map[string]string{"bob": "other"}, same, "the server rejects the login of user bob"},
		{nil, same, "the server rejects the login of user bob"},
		{map[string]string{"bob": "bobsecret"}, func([]byte) []byte { return nil }, "no login by DIGEST-MD5"}, // as ZooKeeper without SASL
		{map[string]string{"bob": "bobsecret"}, func(answer []byte) []byte {
			if strings.HasPrefix(string(answer), "rspauth=") {
				return []byte("rspauth=00000000000000000000000000000000")
			}
			return answer
		}, "does not prove"},
	} {
		within(t, func(t *testing.T, f *fake) {
			go func() {
				p := <-f.peers
				p.accept()
				p.logsIn(tt.users, func(answer []byte) []byte { return tt.change(answer) })
				_ = p.Close()
			}()
			_, err := Open(ctx, Config{Servers: []string{"a"}, Dial: f.dial, Login: &Login{"bob", "bobsecret"}})
			if !errors.Is(err, jute.AuthFailed) || !strings.Contains(err.Error(), tt.want) ||
				strings.Contains(err.Error(), "bobsecret") || len(f.dials) != 1 {
				t.Errorf("open: %v, after dialling %q; want %s", err, f.dials, tt.want)
			}
		})
	}
}
