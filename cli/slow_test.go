package cli

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/operator/api"
)

// The words of a cause say what went on, and not that it took as long as stands before them: that is only the time that it
// overlaps the request.
func TestFormatSlowCause(t *testing.T) {
	for cause, want := range map[string]string{
		"paused":        "the process of member 2 did not run",
		"paused before": "the process of member 2 had not run, and the request may have waited for that long",
		"no leader":     "member 2 had no leader that serves",
		"snapshot":      "member 2 wrote a snapshot",
		"backup":        "member 2 wrote a backup",
		"slow sync":     "member 2 was in a slow sync of the log",
		"unknown":       "something else on member 2",
	} {
		if got := formatSlowCause(api.SlowCause{Cause: cause, MemberID: 2, TookUs: 1}); got != want {
			t.Errorf("%s: %q; want %q", cause, got, want)
		}
	}
}

// A request whose connection ended before there was a reply says so.
func TestSlowWithoutReply(t *testing.T) {
	for _, lost := range []bool{true, false} {
		r := api.SlowRequest{Lost: lost, Complete: true}
		columns := oneSlowColumns(time.Now(), r)
		found := slices.ContainsFunc(columns, func(c Column[api.SlowRequest]) bool {
			return c.Name == "reply" && c.Cell(r) == "none: the connection ended"
		})
		if found != lost {
			t.Errorf("lost %t: the columns say so: %t", lost, found)
		}
	}
}

// The members select the requests of a member, a session or an address.
func TestSlowFilters(t *testing.T) {
	f := newFakeMember(t)
	for line, want := range map[string]string{
		"slow": "2-19a3f0c2b41 1-19a3f0c2a00 3-19a3f0c29ff", "slow --member 1": "1-19a3f0c2a00", "slow --session 0x2": "2-19a3f0c2b41",
		"slow --address 10.0.0.7": "2-19a3f0c2b41", "slow --session 0x1 --address 10.0.0.7": "",
	} {
		out, _, err := f.execute(t, nil, append(strings.Fields(line), "-o", "json")...)
		var rows []api.SlowRequest
		if err = errors.Join(err, json.Unmarshal(out.Bytes(), &rows)); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range rows {
			got = append(got, r.ID)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
