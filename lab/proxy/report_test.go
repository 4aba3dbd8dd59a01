package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

// reported is a result with one run of each outcome.
func reported() Result {
	key := Key{1, "create2", "/<b>&/*", 1}
	return Result{
		Format: ResultFormat, Command: []string{"./tests", "--fast"}, Ensemble: "3 servers in memory",
		Began: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), TookMS: 65_000, Seed: 7, Faults: []Fault{Before, After, Expire, Late},
		Recorded: []Request{
			{Session: 1, Op: OpConnect, Occurrence: 1, InRun: 1, Opens: true},
			{Session: 2, Op: "create2", Path: "/<b>&/0123456789", Occurrence: 1, InRun: 1},
		},
		Unsteady: 1, TimeoutMS: 3000, RunMS: 400, LimitMS: 16_200, Skipped: 1, LeftOut: 3,
		Counts: map[Outcome]int{Survived: 1, Broke: 1, Hung: 1, NotDone: 1},
		Runs: []Run{
			{Point: Point{key, Before}, Outcome: Survived},
			{
				Point: Point{key, After}, Path: "/<b>&/0123456789", Outcome: Broke, Exit: "exit status 1", Again: Survived,
				Output: []string{"Traceback <module>", "AssertionError: b'4'"}, Repeat: "rollcall proxy --repeat-at='x' -- ./tests",
				Next: []Request{{Session: 1, Op: "getData", Path: "/c", Occurrence: 2, InRun: 2}},
			},
			{Point: Point{key, Expire}, Outcome: NotDone, Reason: "no server"},
			{Point: Point{Key{0, "delete", "/c", 2}, Late}, Outcome: Hung, Exit: "it did not end in 16.2s", Again: Hung},
		},
	}
}

const wantText = `fault   survived  broke  hung  not done
before  1         0      0     0
after   0         1      0     0
expire  0         0      0     1
late    0         0      1     0

broke       after  at s1 create2 /<b>&/* #1; exit status 1; when it was repeated: survived
  the request is carried out, and the connection breaks in place of its reply
  path: /<b>&/0123456789
  then it requested:
    s1 getData /c #2
  its last lines:
    | Traceback <module>
    | AssertionError: b'4'
  to repeat it: rollcall proxy --repeat-at='x' -- ./tests

hung        late   at any delete /c #2; it did not end in 16.2s; and once more when it was repeated
  the reply, and everything after it on the connection, comes a session timeout later

the program survived 1 of 3 faults; 1 run showed nothing; 3 were left out by the limit
`

func TestText(t *testing.T) {
	var out bytes.Buffer
	if err := WriteText(&out, reported()); err != nil || out.String() != wantText {
		t.Errorf("%v\n%s\nwant\n%s", err, out.String(), wantText)
	}
	const want = "recorded 2 requests in 2 sessions; a run took 400ms, and may take 16.2s with a fault; the longest session " +
		"timeout is 3s; 1 request did not come in the same session in a second run"
	if got := reported().Summary(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	const wantVerdict = "the program survived 0 of 0 faults; 1 session that the program left could not be ended, and will expire (no server)"
	if got := (Result{Unended: 1, UnendedReason: "no server"}).Verdict(); got != wantVerdict {
		t.Errorf("%s\nwant %s", got, wantVerdict)
	}
}

// The page needs no network, and nothing of a program can add elements to it.
func TestPage(t *testing.T) {
	var out bytes.Buffer
	if err := WriteHTML(&out, reported()); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{
		"<h1>The program broke at 2 faults</h1>", "prefers-color-scheme: dark", "s1 create2 /&lt;b&gt;&amp;/* #1", `<a href="#break-2">hung</a>`,
		`<section id="break-2">`, "| Traceback &lt;module&gt;", "to repeat it: rollcall proxy --repeat-at=&#39;x&#39; -- ./tests",
		`<td class="not-done" title="no server">not done</td>`, "<code>./tests --fast</code>", `<td class="faint">–</td>`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	for _, other := range []string{"http:", "https:", "src=", "<script", "<link", "<b>", "ZgotmplZ"} {
		if strings.Contains(text, other) {
			t.Errorf("the page has %s", other)
		}
	}
	for want, counts := range map[string]map[Outcome]int{
		"The program survived every fault": {Survived: 2}, "No fault happened": {NotReached: 1},
	} {
		out.Reset()
		if err := WriteHTML(&out, Result{Counts: counts}); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v, the page lacks %q", err, want)
		}
	}
}

func TestJSON(t *testing.T) {
	var out bytes.Buffer
	if err := WriteJSON(&out, reported()); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Format int
		Runs   []struct{ Request, Fault, Outcome, Again string }
		Counts map[string]int
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if r := got.Runs[1]; got.Format != 1 || got.Counts["not done"] != 1 || r.Request != "s1 create2 /<b>&/* #1" ||
		r.Fault != "after" || r.Outcome != "broke" || r.Again != "survived" {
		t.Errorf("%+v", got)
	}
}

// Programs choose the names of nodes and their own output. Neither can send a terminal anything but text, and tabs stay
// tabs.
func TestTextIsEscaped(t *testing.T) {
	r := reported()
	run := &r.Runs[1]
	run.Key.Pattern, run.Path, run.Output, run.Repeat = "/\x1b[2Jkey", "/\x1b[2Jpath", []string{"\x1b]0;title\a\tfrom a test"}, "--repeat-at='\x1b'"
	run.Next[0].Path = "/\u202enext"
	var out, page bytes.Buffer
	if err := errors.Join(WriteText(&out, r), WriteHTML(&page, r)); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\a\u202e") {
		t.Errorf("%q", out.String())
	}
	for _, want := range []string{`/\x1b[2Jkey`, `/\x1b[2Jpath`, `\x1b]0;title\x07    from a test`, `/\u202enext`} {
		if !strings.Contains(out.String(), want) || !strings.Contains(page.String(), want) && want != `/\x1b[2Jkey` {
			t.Errorf("%q is missing:\n%s", want, out.String())
		}
	}
}
