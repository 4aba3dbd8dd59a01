package member_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/internal/serverlist"
	"rollcall/member"
	"rollcall/operator/logs/logtest"
)

// A machine is lost, and its member comes back with its number at another address, with or without its data. Its health and its
// log, the logs of the others, and the status of every member name both addresses and the command. Nothing does so any more once
// the list has the address.
func TestMemberAtAnotherAddress(t *testing.T) {
	for _, empty := range []bool{true, false} {
		t.Run(fmt.Sprintf("empty %t", empty), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lines logtest.Buffer
				e := cluster.Start(t, 3, cluster.Options{Reconfig: true, Adjust: func(cfg *member.Config) {
					cfg.Logger = slog.New(slog.NewTextHandler(&lines, nil))
				}})
				e.Ready()
				listed := e.ServerLine(3, false)
				e.Kill(3)
				if empty {
					e.Wipe(3)
				}
				e.Move(3)
				e.Boot(3)
				own := e.ServerLine(3, false)
				want := []string{addressesIn(t, listed), addressesIn(t, own), "rollcall members address 3 '" + own + "'"}

				e.Wait("the member's own health", time.Minute, func() bool {
					text, serves := e.Member(3).Health().StatusText()
					return !serves && containsAll(text, want)
				})
				for _, id := range []uint32{1, 2} {
					e.Wait(fmt.Sprintf("member %d names the addresses", id), time.Minute, func() bool {
						return containsAll(silenceOf(t, e, id, 3), want)
					})
				}
				time.Sleep(time.Minute) // with many more Hellos
				for message, count := range map[string]int{
					"this member waits at an address that the list of servers does not have": 1,
					"a member waits at an address that the list of servers does not have":    2,
				} {
					got := linesOf(&lines, message)
					if len(got) != count || !containsAll(strings.Join(got, "\n"), want) {
						t.Errorf("%d lines %q, want %d with %q: %q", len(got), message, count, want, got)
					}
				}

				if _, err := e.Reconfigure(context.Background(), 1, serverlist.Change{Joining: own}); err != nil {
					t.Fatal(err)
				}
				e.Follow()
				e.Ready()
				e.Kill(3)
				time.Sleep(time.Minute)
				for _, id := range []uint32{1, 2} {
					if text := silenceOf(t, e, id, 3); text == "" || strings.Contains(text, "members address") {
						t.Errorf("member %d says of member 3, which is down: %q", id, text)
					}
				}
			})
		})
	}
}

// A member that is down, or waits at its listed address without a majority, is not said to be at another one.
func TestMemberAtItsAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		e.Ready()
		e.Kill(2)
		e.Kill(3)
		e.Wipe(3)
		e.Boot(3)
		time.Sleep(time.Minute)
		for _, id := range []uint32{1, 3} {
			if text, serves := e.Member(id).Health().StatusText(); serves || strings.Contains(text, "members address") {
				t.Errorf("member %d serves %t: %s", id, serves, text)
			}
		}
	})
}

// A member whose own server line has another name of its machine has a leader, so nothing is wrong.
func TestMemberWithAnotherName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines logtest.Buffer
		e := cluster.Start(t, 3, cluster.Options{Reconfig: true, Adjust: func(cfg *member.Config) {
			cfg.Logger = slog.New(slog.NewTextHandler(&lines, nil))
			if cfg.ID == 3 {
				cfg.EnsembleText = bytes.ReplaceAll(cfg.EnsembleText, []byte("=m3:"), []byte("=alias:"))
			}
		}})
		e.Ready()
		time.Sleep(time.Minute)
		if !strings.Contains(lines.String(), "=alias:2888:3888") || strings.Contains(lines.String(), "at an address that the list") {
			t.Errorf("the log has %s", lines.String())
		}
		e.Kill(1)
		e.Kill(2)
		time.Sleep(time.Minute) // without a leader, which is not because of the name
		if strings.Contains(lines.String(), "at an address that the list") {
			t.Errorf("in an outage, the log has %s", lines.String())
		}
	})
}

// addressesIn returns the addresses of a server line, as a conflict names them.
func addressesIn(t *testing.T, line string) string {
	t.Helper()
	list, err := serverlist.ParseList(line)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s:%d", list[0].QuorumAddr(), list[0].ElectionPort)
}

// silenceOf returns what member via says of another one that does not reply, or "" if that replies.
func silenceOf(t *testing.T, e *cluster.Ensemble, via, of uint32) string {
	t.Helper()
	a, err := e.Member(via).View().MemberStatuses(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range a.Silent {
		if s.MemberID == of {
			return s.Detail
		}
	}
	return ""
}

func containsAll(text string, want []string) bool {
	for _, one := range want {
		if !strings.Contains(text, one) {
			return false
		}
	}
	return true
}
