package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"rollcall/cli"
	"rollcall/operator/api"
)

// config check shows every key and every error. Its status is 0 if a member would start.
func TestConfigCheck(t *testing.T) {
	_, at := inDir(t, map[string]string{
		"good": "dataDir=DIR\nclientPort=2181\nskipACL=yes\nleaderServes=no\nno.such=\x1b[2J\nDigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4=\n",
		"bad":  "dataDir=DIR\nclientPort=2181\ntickTime=x\nsnapCount=1\n",
		"two":  "dataDir=DIR\nclientPort=2181\ninitLimit=5\nsyncLimit=2\nserver.1=a:1:2\nserver.2=b:1:2\n",
	})
	for _, tt := range []struct {
		args   string
		status cli.Status
		out    []string // parts of stdout, in order, with one blank for several
		err    string   // a part of stderr or of the error
	}{
		{"config check DIR/good", cli.OK, []string{
			"KEY VALUE STATE FROM WARNING", "dataLogDir (dataDir) default default", "skipACL yes dangerous DIR/good:3 every client may read and change every node",
			"superDigest in force DIR/good:6", "leaderServes no no effect DIR/good:4 the leader takes clients, too", `no.such unknown DIR/good:5 there is no such key`,
		}, ""},
		{"config check -o wide -tick 700 DIR/good", cli.OK, []string{"FROM DEFAULT WARNING", "tickTime 700 in force --tick 3000"}, ""},
		{"config check DIR/bad", cli.Failed, []string{"tickTime x refused DIR/bad:3", "snapCount 1 refused DIR/bad:4"}, "2 values are refused; DIR/bad:3: tickTime=x: must be"},
		{"config check DIR/two", cli.Failed, []string{"syncLimit 2 in force"}, "warning: DIR/two: 2 members"},
		{"config check DIR/none", cli.Failed, nil, "DIR/none"},
		{"config check a b", cli.UsageError, nil, "one zoo.cfg"},
		{"config", cli.UsageError, nil, "name a subcommand: show or check"},
	} {
		var out, errs strings.Builder
		err := runCommandLine(t.Context(), strings.Fields(at(tt.args)), cli.IOStreams{Out: &out, Err: &errs})
		if err != nil {
			errs.WriteString(err.Error())
		}
		if got := cli.StatusOf(err); got != tt.status || !strings.Contains(errs.String(), at(tt.err)) {
			t.Errorf("%s: status %d, %s, want %d, %s", tt.args, got, errs.String(), tt.status, at(tt.err))
		}
		text := strings.Join(strings.Fields(out.String()), " ")
		for _, part := range tt.out {
			_, rest, ok := strings.Cut(text, at(part))
			if !ok {
				t.Errorf("%s: no %q in\n%s", tt.args, at(part), out.String())
			}
			text = rest
		}
	}
}

// config show prints what a member says.
func TestConfigShow(t *testing.T) {
	member := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/config" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		_ = json.NewEncoder(w).Encode(api.List[api.Setting]{Items: []api.Setting{{Key: "tickTime", Value: "700", Default: "3000", Origin: "a:1", State: "in force"}}})
	}))
	defer member.Close()
	var out strings.Builder
	if err := runCommandLine(t.Context(), []string{"config", "show", "--admin", member.URL, "-o", "json"}, cli.IOStreams{Out: &out, Err: &out}); err != nil {
		t.Fatal(err)
	}
	var rows []map[string]string
	if err := json.Unmarshal([]byte(out.String()), &rows); err != nil || len(rows) != 1 || rows[0]["key"] != "tickTime" || rows[0]["state"] != "in force" || rows[0]["from"] != "a:1" {
		t.Errorf("%v, %s", err, out.String())
	}
	out.Reset()
	if err := runCommandLine(t.Context(), []string{"config", "show", "--admin", "http://127.0.0.1:1"}, cli.IOStreams{Out: &out, Err: &out}); cli.StatusOf(err) != cli.Unavailable {
		t.Errorf("nothing listens: %v, status %d", err, cli.StatusOf(err))
	}
}
