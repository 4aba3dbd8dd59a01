package cli

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/operator/api"
)

// goldenLine is a command line, with the name of its files in testdata.
type goldenLine struct{ name, line string }

// goldenLines are command lines whose output is in testdata, in each format.
var goldenLines = []goldenLine{
	{"status", "status"},
	{"members-list", "members list"},
	{"sessions", "sessions"},
	{"sessions-by-ephemerals", "sessions --sort -ephemerals --limit 2"},
	{"session-show", "session show 0x1000012f99a0001"},
	{"session-kill", "session kill --yes --token-file TOKEN 0x1000012f99a0001 0x200004f0a2b0000"},
	{"who-owns", "who-owns /locks/a"},
	{"who-owns-nobody", "who-owns /plain"},
	{"who-owns-line", "who-owns /locks/b"},
	{"who-owns-ended", "who-owns /swept"},
	{"who-owns-hostile", "who-owns " + hostile},
	{"why", "why"},
	{"why-since", "why --since 1h --limit 1"},
	{"why-session", "why 0x1000012f99a0009"},
	{"why-address", "why 10.0.0.7"},
	{"why-path", "why /locks/a"},
	{"connections", "connections"},
	{"slow", "slow"},
	{"slow-one", "slow 2-19a3f0c2b41"},
	{"watches", "watches /config"},
	{"log-level", "log-level"},
	{"log-level-set", "log-level debug --token-file TOKEN"},
	{"limits", "limits"},
	{"limits-set", "limits --set batch=address/requests=5 --remove clients --token-file TOKEN"},
	{"backup-inspect", "backup inspect --depth 2 " + sampleFile},
	{"backup-verify", "backup verify " + sampleFile},
	{"watches-of-session", "watches --session 0x1000012f99a0001"},
}

// Each command prints in each format what testdata says: tables for people, and JSON and YAML with the same
// content. Nothing of it is an escape sequence or a colour.
func TestCommandsPrint(t *testing.T) {
	f := newFakeMember(t)
	token := tokenFile(t)
	for _, tt := range goldenLines {
		for _, format := range outputFormats {
			args := strings.Fields(strings.ReplaceAll(tt.line, "TOKEN", token))
			out, errs, err := f.execute(t, nil, append(args, "-o", format)...)
			if err != nil {
				t.Errorf("%s: %v", tt.line, err)
			}
			golden(t, tt.name+"."+format, out.String()+errs.String())
			if text := strings.ReplaceAll(out.String()+errs.String(), "\n", ""); EscapeUnprintable(text) != text {
				t.Errorf("%q -o %s prints what a terminal would not simply show: %q", tt.line, format, text)
			}
		}
	}
}

func tokenFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(name, []byte("abcdefghijklmnop\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// A command that cannot do what it is asked ends with the status that scripts go by, and prints no rows.
func TestCommandsFail(t *testing.T) {
	f := newFakeMember(t)
	token := tokenFile(t)
	for _, tt := range []struct {
		line   string
		status Status
		want   string
	}{
		{"session", UsageError, "say show or kill: rollcall session show ID"},
		{"session show", UsageError, "it takes the id of one session"},
		{"session show 1000012f99a0001", UsageError, `"1000012f99a0001" is not the id of a session: that is 0x and`},
		{"session show 0x0", UsageError, "is not the id"},
		{"session show ../../x", UsageError, "is not the id"},
		{"session show 0x77", NotFound, "there is no session 0x77"},
		{"session show 0x77 --hosts h:x", UsageError, "--hosts: "},
		{"session show 0x1000012f99a0009", NotFound, "session 0x1000012f99a0009 has ended: it was expired 3m ago; rollcall why 0x1000012f99a0009 says more"},
		{"session kill 0x1000012f99a0001", Denied, "session kill: this needs credentials; --token-file or --auth"},
		{"session kill --token-file TOKEN 0x77", NotFound, "there is no session 0x77"},
		{"session kill --token-file TOKEN 0x1000012f99a0001", UsageError, "there is no terminal to ask on; --yes"},
		{"session kill --yes 0x1000012f99a0001", Denied, "--token-file or --auth digest:super:PASSWORD gives them"},
		{"session kill --yes --token-file TOKEN 0x77", NotFound, "there is no session 0x77"},
		{"session kill --yes --token-file TOKEN 0xdead", OutcomeUnknown, "the leader was lost"},
		{"session kill --yes --token-file TOKEN 0x1000012f99a0001 x", UsageError, `"x" is not the id of a session`},
		{"who-owns", UsageError, "it takes one path"},
		{"who-owns locks", UsageError, `"locks" is not a path`},
		{"who-owns /none", NotFound, "there is no node /none; rollcall why /none says what removed it"},
		{"why locks", UsageError, "is none of: the id of a session"},
		{"why 0xx", UsageError, "is not the id"},
		{"why --since -1s", UsageError, "--since -1s: must be a duration"},
		{"why --since 1h 0x1000012f99a0009", UsageError, "--since is for lists"},
		{"why --since 1m /none", NotFound, "that the ensemble remembers within 1m"},
		{"why --since 1s 10.0.0.7", NotFound, "none of the last 10,000 sessions that ended within 1s had a client at 10.0.0.7"},
		{"why --limit 0 /a", UsageError, `--limit "0": must be a number of at least 1`},
		{"why /none", NotFound, "there is no node /none, and its removal is not among those"},
		{"why 0x1000012f99a0001", NotFound, "session 0x1000012f99a0001 has not ended: it is connected, of 10.0.0.1:46396 on member 1"},
		{"why 0x77", NotFound, "there is no session 0x77, and none of the last 10,000 that ended is it"},
		{"why 10.9.9.9", NotFound, "had a client at 10.9.9.9"},
		{"sessions --sort size", UsageError, `--sort "size": must be one of id, state, member, address`},
		{"connections --sort size", UsageError, `--sort "size": must be one of member, address, session, age, received, sent, rate, bytes, queued, average, slowest`},
		{"connections --sort tls", UsageError, `--sort "tls": must be one of member`},
		{"connections --every 1ms --watch", UsageError, "--every 1ms: must be 200ms or longer"},
		{"sessions --limit -1", UsageError, `--limit "-1": must be a number of at least 0`},
		{"sessions --every 1ms --watch", UsageError, "--every 1ms: must be 200ms or longer"},
		{"sessions -o xml", UsageError, `sessions: --output "xml": there are table, wide, json, yaml`},
		{"sessions --no", UsageError, "unknown flag: --no"},
		{"sessions --hosts x --admin=", UsageError, `--hosts: "x" has no port; must be host:port`},
		{"sessions --admin 127.0.0.1:1", Unavailable, "connection refused"},
		{"connections --limit -1", UsageError, `--limit "-1": must be a number of at least 0`},
		{"connections --address 10.0.0.0/8", UsageError, "allowed are an IP address"},
		{"watches", UsageError, "it takes one path, or --session ID"},
		{"watches --session 0x1 /a", UsageError, "it takes one path, or --session ID"},
		{"watches --session 1", UsageError, "is not the id of a session"},
		{"watches a", UsageError, "is not a path"},
		{"slow --session 2", UsageError, `"2" is not the id of a session`},
		{"slow --session 0x2 2-19a3f0c2b41", UsageError, "an ID names one request; leave --member, --session and --address out"},
		{"log-level all", UsageError, `"all": there are debug, info, warn, error`},
		{"log-level debug", Denied, "member 2: this is served on the member's own machine alone"},
		{"log-level --admin 127.0.0.1:1", Unavailable, "connection refused"},
		{"log-level --hosts 127.0.0.1:1 --admin=", Unavailable, "no member answers operators"},
		{"word", UsageError, "it takes one word"},
		{"word four", Unavailable, "connection refused"},
		{"word 'x", UsageError, "is not a word of four letters"},
	} {
		noHosts := func(w *IOStreams) {
			w.Env = append(w.Env, "ROLLCALL_HOSTS=127.0.0.1:1")
			if strings.HasSuffix(tt.line, "--admin=") {
				w.Env = nil
			}
		}
		out, _, err := f.execute(t, noHosts, strings.Fields(strings.ReplaceAll(tt.line, "TOKEN", token))...)
		if StatusOf(err) != tt.status || err == nil || !strings.Contains(err.Error(), tt.want) || out.Len() > 0 {
			t.Errorf("%s: %v (status %d), want %s (status %d); printed %s", tt.line, err, StatusOf(err), tt.want, tt.status, out)
		}
	}
}

// A path after the last of --hosts is put before the paths that commands ask about, as commands on nodes have it,
// and answers have paths as the user writes them. Those of nodes that are not below it begin with "..".
func TestPathsBelowRoot(t *testing.T) {
	f := newFakeMember(t)
	const escaped = `/../\u001b]0;owned\u0007\u001b[2J\u202e\u009b31mevil` // hostile in YAML
	f.owners["/app/locks/a"] = api.Owner{Path: "/app/locks/a", Kind: "persistent", Silent: []api.Silence{}}
	f.removals = append(f.removals, api.Removal{Path: "/app/locks/a", RemovedAt: ago(time.Minute), Zxid: "0x1", Cause: "delete"})
	for _, tt := range []struct {
		line  string
		asked []string
		want  []string // paths in the answer, or a part of the error
	}{
		{"who-owns /locks/a", []string{"GET /v1/owner?path=%2Fapp%2Flocks%2Fa"}, []string{"/locks/a"}},
		{"why /locks/a", []string{"GET /v1/owner?path=%2Fapp%2Flocks%2Fa", "GET /v1/removals?limit=20&path=%2Fapp%2Flocks%2Fa"}, []string{"/locks/a", "/locks/a", "/locks/a"}},
		{"watches /", []string{"GET /v1/watches?path=%2Fapp", "GET /v1/watches?from=2&path=%2Fapp"}, []string{"/../config", escaped, "/../config"}},
		{"watches --session 0x2", []string{"GET /v1/sessions/0x2/watches", "GET /v1/sessions/0x2/watches?from=2"}, []string{"/../config", escaped, "/../config"}},
	} {
		f.requests()
		out, _, err := f.execute(t, func(w *IOStreams) { w.Env = append(w.Env, "ROLLCALL_HOSTS=127.0.0.1:1/app") }, append(strings.Fields(tt.line), "-o", "yaml")...)
		if asked := f.requests(); !slices.Equal(asked, tt.asked) || err != nil {
			t.Errorf("%s: asked %q, want %q, %v", tt.line, asked, tt.asked, err)
		}
		var paths []string
		for line := range strings.Lines(out.String()) {
			if _, path, found := strings.Cut(line, "path: "); found {
				paths = append(paths, strings.Trim(strings.ReplaceAll(strings.TrimSpace(path), `\\`, `\`), `"`))
			}
		}
		if !slices.Equal(paths, tt.want) {
			t.Errorf("%s: paths %q, want %q", tt.line, paths, tt.want)
		}
	}
	out, _, err := f.execute(t, func(w *IOStreams) { w.Env = append(w.Env, "ROLLCALL_HOSTS=127.0.0.1:1/locks") }, "session", "show", "0x1000012f99a0001", "-o", "json")
	if text := out.String(); err != nil || !strings.Contains(text, `"/a"`) || !strings.Contains(text, `"/../config"`) {
		t.Errorf("%v: %s", err, text)
	}
	if _, _, err = f.execute(t, func(w *IOStreams) { w.Env = append(w.Env, "ROLLCALL_HOSTS=127.0.0.1:1/app") }, "who-owns", "/none"); StatusOf(err) != NotFound || !strings.Contains(err.Error(), "there is no node /none; rollcall why /none says") {
		t.Errorf("%v", err)
	}
}

// Of several sessions, one that cannot be ended is an error, and the others are ended.
func TestKillGoesOn(t *testing.T) {
	f := newFakeMember(t)
	out, errs, err := f.execute(t, nil, "session", "kill", "--yes", "--token-file", tokenFile(t), "0x77", "0x1000012f99a0001", "0x78")
	if StatusOf(err) != NotFound || !strings.Contains(err.Error(), "0x77") || !strings.Contains(errs.String(), "there is no session 0x78") || !strings.Contains(out.String(), "0x1000012f99a0001") {
		t.Errorf("%v (status %d): %s, %s", err, StatusOf(err), out, errs)
	}
	f.requests()
	_, _, err = f.execute(t, nil, "session", "kill", "--yes", "0x1", "0x2", "0x3")
	if asked := f.requests(); StatusOf(err) != Denied || len(asked) != 1 {
		t.Errorf("%v: without credentials %d requests: %q", err, len(asked), asked)
	}
}

// On a terminal a kill is done only after the word yes.
func TestKillAsks(t *testing.T) {
	f := newFakeMember(t)
	f.sessions[0].EphemeralCount = 1
	_, errs, err := f.execute(t, func(w *IOStreams) { w.InTerminal = true }, "session", "kill", "--token-file", tokenFile(t), "0x1000012f99a0001")
	if want := "on member 1, with 1 ephemeral node\nEnd 1 session?"; err == nil || !strings.Contains(errs.String(), want) {
		t.Errorf("%v: %s, want %s", err, errs, want)
	}
	for answer, killed := range map[string]bool{"yes\n": true, "no\n": false, "": false, "y\n": false, "YES\n": false} {
		f.requests()
		out, errs, err := f.execute(t, func(w *IOStreams) {
			w.In, w.InTerminal = strings.NewReader(answer), true
		}, "session", "kill", "--token-file", tokenFile(t), "0x300004f0a2b0007")
		posted := slices.ContainsFunc(f.requests(), func(r string) bool { return strings.HasPrefix(r, "POST") })
		if posted != killed || (err == nil) != killed || !strings.Contains(errs.String(), `Session 0x300004f0a2b0007 of host\x1b[31m on member 3, with 0 ephemeral nodes`) {
			t.Errorf("after %q: killed %t, %v: %s%s", answer, posted, err, out, errs)
		}
	}
}

// Flags of a list are parameters of the question, and the rows come page by page. The credentials go with
// each request.
func TestSessionsAsks(t *testing.T) {
	f := newFakeMember(t)
	f.removals = f.removals[:2] // one page: of more, the next may have been asked for when the reader stops
	for _, tt := range []struct {
		line string
		want []string
	}{
		{"sessions", []string{"GET /v1/sessions", "GET /v1/sessions?from=2"}},
		{"sessions --limit 1", []string{"GET /v1/sessions?limit=1"}},
		{"sessions --limit 2", []string{"GET /v1/sessions?limit=2"}},
		{"sessions --sort id --limit 1", []string{"GET /v1/sessions?limit=1"}},
		{"sessions --sort left --limit 1", []string{"GET /v1/sessions", "GET /v1/sessions?from=2"}},
		{"sessions --state connected --member 2 --address 10.0.0.1 --auth digest:super:x", []string{"GET /v1/sessions?address=10.0.0.1&member=2&state=connected"}},
		{"connections --member 2 --address [fd00::7]:41234 --limit 1", []string{"GET /v1/connections?address=%5Bfd00%3A%3A7%5D%3A41234&limit=1&member=2"}},
		{"watches --limit 1 /app", []string{"GET /v1/watches?limit=1&path=%2Fapp"}},
		{"why --since 1s", []string{"GET /v1/ends?limit=20", "GET /v1/removals?limit=20"}},
		{"why --limit 1", []string{"GET /v1/ends?limit=1", "GET /v1/removals?limit=1"}},
		{"why --limit 1 10.0.0.7", []string{"GET /v1/ends?address=10.0.0.7&limit=1"}},
	} {
		f.requests()
		if _, _, err := f.execute(t, nil, strings.Fields(tt.line)...); err != nil {
			t.Errorf("%s: %v", tt.line, err)
		}
		if asked := f.requests(); !slices.Equal(asked, tt.want) {
			t.Errorf("%s: asked %q, want %q", tt.line, asked, tt.want)
		}
	}
}

// The rows of sessions -o json are those of the member, also with keys of a later version. Each is on a line of
// its own, in characters that a terminal simply shows.
func TestSessionsAsMemberWritesThem(t *testing.T) {
	f := newFakeMember(t)
	f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"items":[{"id":"0x1","later":[1,{"a":"}"}]},{"id":"0x2",`+"\n"+`"address":"`+"\u202e"+`"}],"next":"","silent":[]}`)
	})
	out, _, err := f.execute(t, nil, "sessions", "-o", "json")
	if want := "[\n{\"id\":\"0x1\",\"later\":[1,{\"a\":\"}\"}]},\n{\"id\":\"0x2\",\"address\":\"\\u202e\"}\n]\n"; out.String() != want || err != nil {
		t.Errorf("%s%v, want\n%s", out, err, want)
	}
}

// A list of many pages is read to its end, or to the limit. A page that fails ends it with an error, after the
// rows before it.
func TestListOfManyPages(t *testing.T) {
	f := newFakeMember(t)
	for i := range 9 {
		f.sessions = append(f.sessions, api.Session{ID: fmt.Sprintf("0x4%d", i)})
	}
	for limit, want := range map[string]int{"0": 12, "1": 1, "2": 2, "3": 3, "4": 4, "11": 11, "12": 12, "13": 12, "2000": 12} {
		out, _, err := f.execute(t, nil, "sessions", "--limit", limit)
		if rows := strings.Count(out.String(), "0x"); rows != want || err != nil {
			t.Errorf("--limit %s: %d rows, want %d, %v", limit, rows, want, err)
		}
	}
	f.broken = "4" // the third page
	out, _, err := f.execute(t, nil, "sessions", "-o", "json")
	if rows := strings.Count(out.String(), `"timeout_ms":`); rows != 5 || StatusOf(err) != Unavailable || strings.HasSuffix(out.String(), "]\n") {
		t.Errorf("%d rows, %v (status %d): %s", rows, err, StatusOf(err), out)
	}
}

// Sessions are sorted by the values, not by their texts, and what is not known comes first.
func TestSessionsSort(t *testing.T) {
	f := newFakeMember(t)
	f.sessions[0].ID = "0xf000000000000001"
	for _, tt := range []struct{ by, want string }{
		{"id", "0xf000000000000001 0x200004f0a2b0000 0x300004f0a2b0007"}, // as they came
		{"-id", "0xf000000000000001 0x300004f0a2b0007 0x200004f0a2b0000"},
		{"left", "0x300004f0a2b0007 0x200004f0a2b0000 0xf000000000000001"},
		{"-heard", "0x200004f0a2b0000 0xf000000000000001 0x300004f0a2b0007"},
		{"age", "0x300004f0a2b0007 0x200004f0a2b0000 0xf000000000000001"},
		{"-queued", "0xf000000000000001 0x200004f0a2b0000 0x300004f0a2b0007"},
		{"address", "0xf000000000000001 0x200004f0a2b0000 0x300004f0a2b0007"},
		{"rate", "0xf000000000000001 0x200004f0a2b0000 0x300004f0a2b0007"}, // the greatest first, with and without a minus
		{"-rate", "0xf000000000000001 0x200004f0a2b0000 0x300004f0a2b0007"},
		{"slowest", "0xf000000000000001 0x200004f0a2b0000 0x300004f0a2b0007"},
	} {
		out, _, err := f.execute(t, nil, "sessions", "--sort", tt.by)
		var got []string
		for line := range strings.Lines(out.String()) {
			if id, _, _ := strings.Cut(line, " "); id != "ID" {
				got = append(got, id)
			}
		}
		if strings.Join(got, " ") != tt.want || err != nil {
			t.Errorf("--sort %s: %q, %v, want %s", tt.by, got, err, tt.want)
		}
	}
}

// Rows that need sorting are held up to a bound. With a limit the bound is that of the limit.
func TestSortedIsBounded(t *testing.T) {
	down := rowOrder[int]{compare: func(a, b int) int { return a - b }, reverse: true}
	numbers := func(yield func(int, error) bool) {
		for i := range maxSorted + 1 {
			if !yield(i, nil) {
				return
			}
		}
	}
	if _, err := down.sortRows(numbers, 0); err == nil || !strings.Contains(err.Error(), "--limit N") {
		t.Errorf("%v", err)
	}
	got, err := down.sortRows(numbers, 3)
	if fmt.Sprint(got) != fmt.Sprintf("[%d %d %d]", maxSorted, maxSorted-1, maxSorted-2) || err != nil || cap(got) > 10*alignRows {
		t.Errorf("%v, %v, room for %d", got, err, cap(got))
	}
	got, err = down.sortRows(RowsOf([]int{1, 3, 2}), 0)
	if fmt.Sprint(got) != "[3 2 1]" || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}

// --watch prints the list until it is stopped. On a terminal each list replaces the one before and has no
// more rows than there are lines.
func TestWatchSessions(t *testing.T) {
	f := newFakeMember(t)
	for _, terminal := range []bool{false, true} {
		var stop func()
		lists := 0
		out, _, err := f.executeUntil(t, func(w *IOStreams, end func()) {
			stop = end
			now := w.Now
			w.Now = func() time.Time { // asked once for each list
				if lists++; lists == 3 {
					stop()
				}
				return now()
			}
			if terminal {
				w.OutTerminal, w.TerminalSize = true, func() (int, int) { return 80, 3 }
			}
		}, "sessions", "--watch", "--every", "200ms")
		want := "ID "
		if terminal {
			want = homeAndClear + string(Bold) + "ID" + tintReset
		}
		parts := strings.Count(out.String(), want)
		if err != nil || parts != 2 && parts != 3 {
			t.Errorf("terminal %t: %v: %d lists in %q", terminal, err, parts, out)
		}
		if rows := strings.Count(out.String(), "0x"); rows != parts*map[bool]int{false: 3, true: 1}[terminal] {
			t.Errorf("terminal %t: %d rows in %d lists", terminal, rows, parts)
		}
	}
}
