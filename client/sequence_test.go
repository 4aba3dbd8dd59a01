package client

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"rollcall/zk/jute"
)

// A sequential create for which no number is left says so, and names the path. If the name is taken for another reason, it does not.
func TestNumbersUsedUp(t *testing.T) {
	for _, tt := range []struct {
		name   string
		mode   Mode
		asked  jute.Op   // after the create; 0: nothing
		answer jute.Code // to it
		usedUp bool
	}{
		{"the last name is there", PersistentSequential, jute.OpExists, jute.OK, true},
		{"the last name is hidden", EphemeralSequential.WithACL(testACL...), jute.OpExists, jute.NoAuth, true},
		{"another name is there", PersistentSequential, jute.OpExists, jute.NoNode, false},
		{"nobody knows", PersistentSequential, jute.OpExists, jute.ThrottledOp, false},
		{"no sequential mode", Persistent, 0, 0, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, s := dialScripted(t, "fake:1/app", Config{})
			go func() {
				s.reply(s.next(), jute.NodeExists, nil)
				if tt.asked != 0 {
					r := s.next()
					var exists jute.ExistsRequest
					d := jute.NewDecoder(r.record)
					if exists.Decode(&d); r.Op != tt.asked || string(exists.Path) != "/app/q/n-2147483647" {
						t.Errorf("%s: asked %v of %q", tt.name, r.Op, exists.Path)
					}
					if tt.answer == jute.OK {
						s.reply(r, jute.OK, jute.Stat{})
					} else {
						s.reply(r, tt.answer, nil)
					}
				}
			}()
			_, _, err := c.Create(t.Context(), "/q/n-", nil, tt.mode)
			wantError(t, err, ErrNodeExists)
			if errors.Is(err, ErrNumbersUsedUp) != tt.usedUp || !strings.Contains(err.Error(), "/q/n-") || MayHaveHappened(err) {
				t.Errorf("%s: %v; used up: %t", tt.name, err, tt.usedUp)
			}
		})
	}
}
