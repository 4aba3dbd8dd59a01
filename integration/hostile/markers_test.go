package hostile

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// secretMarker is in every secret of the member in TestSecretsAreNotShown.
const secretMarker = "MARKER5ecret0"

// markedKeys are lines of zoo.cfg whose values must not be shown. The last three are no keys that are served.
const markedKeys = `DigestAuthenticationProvider.superDigest=super:` + secretMarker + `
ssl.keyStore.password=` + secretMarker + `
ssl.trustStore.password=` + secretMarker + `
ssl.quorum.keyStore.password=` + secretMarker + `
ssl.quorum.somethingElse.password=` + secretMarker + `
authProvider.1=` + secretMarker + `
metricsProvider.password=` + secretMarker + `
`

// markedPaths are the requests that operators can send over HTTP, all with the credentials of an administrator.
var markedPaths = []string{
	"/v1/config", "/v1/status", "/v1/log", "/v1/health", "/v1/whoami", "/v1/connections", "/v1/sessions", "/commands", "/commands/configuration", "/commands/environment",
	"/commands/initial_configuration", "/commands/monitor", "/commands/server_stats", "/commands/system_properties", "/metrics", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2",
	"/debug/pprof/heap?debug=1", "/",
}

// Whatever the source of a secret is, no word, no endpoint, no line of the log and no report shows it. Of a flag the
// arguments of the process do, and docs/security.md says so.
func TestSecretsAreNotShown(t *testing.T) {
	needs.Check(t, needs.Nightly)
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte(secretMarker+secretMarker), 0o600); err != nil {
		t.Fatal(err)
	}
	binary := rollcall
	env := []string{"JVMFLAGS=-Dzookeeper.ssl.quorum.trustStore.password=" + secretMarker + " -Dzookeeper.quorum.auth.password=" + secretMarker}
	e := process.StartEnsemble(t, process.Config{
		Binary: binary, Size: 1, Tick: time.Second, Env: env, Flags: []string{"-log-level", "debug"},
		Lines: process.AnyHTTP + "admin.tokenFile=" + token + "\naudit.enable=true\naudit.file=" + filepath.Join(dir, "audit") + "\n" + markedKeys,
	})
	m := e.Members[0]
	clean := func(where string, text []byte) {
		t.Helper()
		if bytes.Contains(text, []byte(secretMarker)) {
			t.Errorf("%s shows a secret:\n%s", where, text)
		}
	}
	answers := 0
	for _, word := range strings.Fields("conf cons crst dirs dump envi gtmk hash isro mntr ruok srst srvr stat stmk wchc wchp wchs") {
		conn, err := net.DialTimeout("tcp", m.Clients, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = conn.Write([]byte(word)) // an error shows as an empty answer
		text, _ := io.ReadAll(conn)
		_ = conn.Close()
		clean(word, text)
		if len(text) > 0 {
			answers++
		}
	}
	addr, err := m.HTTP()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range markedPaths {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+secretMarker+secretMarker)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		clean(path, text)
		if answer.StatusCode == http.StatusOK {
			answers++
		}
	}
	if answers < 25 {
		t.Errorf("only %d answers", answers)
	}
	check := exec.CommandContext(t.Context(), binary, "config", "check", m.Config)
	check.Env = append(os.Environ(), env...)
	report, _ := check.CombinedOutput() // its status is not what this test is about
	clean("config check", report)
	if !bytes.Contains(report, []byte("superDigest")) {
		t.Errorf("config check prints\n%s", report)
	}
	for _, file := range []string{m.Log, filepath.Join(dir, "audit")} {
		text, err := os.ReadFile(file)
		if err != nil || len(text) == 0 {
			t.Errorf("%s: %d bytes, %v", file, len(text), err)
		}
		clean(file, text)
	}
}
