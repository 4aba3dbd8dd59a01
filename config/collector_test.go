package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The URL of a collector is checked, and no error shows a secret in it.
func TestCollectorURL(t *testing.T) {
	for value, want := range map[string]string{
		"http://127.0.0.1:4318":               "",
		"HTTPS://collector.example:4318/base": "",
		"http://[::1]:4318/":                  "",
		"collector:4317":                      "a URL such as",
		"grpc://collector:4317":               "a URL such as",
		"http://":                             "a URL such as",
		"http:///path":                        "a URL such as",
		"http://a:b":                          "a URL such as",
		"http://a/\x00":                       "a URL such as",
		"http://" + strings.Repeat("a", 2000): "a URL such as",
		"https://me:s3cret@collector":         "otlp.headersFile",
		"https://collector/?token=s3cret":     "otlp.headersFile",
		"https://collector/#s3cret":           "otlp.headersFile",
		"http://collector:4318/v1/traces":     "must be the URL before /v1/traces",
		"http://collector:4318/x/v1/metrics/": "must be the URL before /v1/traces",
	} {
		r := checkCollectorText(t, "otlp.endpoint="+value)
		switch err := r.Err(); {
		case want == "" && (err != nil || r.Config.OTLP.Endpoint != value):
			t.Errorf("%q: the endpoint is %q, and the error %v", value, r.Config.OTLP.Endpoint, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret")):
			t.Errorf("%q: the error is %v, want %q", value, err, want)
		}
	}
}

// Keys about the collector that have no effect are named, as are paths that others may read on the way.
func TestCollectorWarnings(t *testing.T) {
	for text, want := range map[string]string{
		"otlp.traces=false\n": "otlp.traces has no effect without otlp.endpoint",
		"otlp.endpoint=http://localhost:4318\notlp.keyStore.location=/key.pem\n":                                "otlp.keyStore.location has no effect, because otlp.endpoint does not begin with https",
		"otlp.endpoint=https://collector\notlp.metrics=false\notlp.metricsInterval=1000\n":                      "because otlp.metrics is false",
		"otlp.endpoint=https://collector\notlp.metrics=false\notlp.traces=false\n":                              "otlp.endpoint has no effect",
		"otlp.endpoint=https://collector\notlp.trustStore.location=/ca.pem\notlp.headersFile=/h\n":              "",
		"otlp.endpoint=http://127.0.0.1:4318\notlp.metricsInterval=1000\notlp.metrics=true\notlp.traces=true\n": "",
	} {
		r := checkCollectorText(t, text)
		var got []string
		for _, w := range r.Warnings {
			if strings.Contains(w.Text, "otlp.") {
				got = append(got, w.Text)
			}
		}
		if all := strings.Join(got, "; "); want == "" && all != "" || !strings.Contains(all, want) || len(got) > 1 {
			t.Errorf("%q: the warnings are %q, want %q", text, got, want)
		}
	}
	for value, dangerous := range map[string]bool{
		"http://collector:4318": true, "https://collector:4318": false, "http://127.0.0.1:4318": false, "http://[::1]:4318": false, "http://localhost:4318": false,
	} {
		r := checkCollectorText(t, "otlp.endpoint="+value)
		for _, k := range r.Config.Keys {
			if k.Name == "otlp.endpoint" && (k.Verdict == Dangerous) != dangerous {
				t.Errorf("%s is %s: %s", value, k.Verdict, k.Reason)
			}
		}
	}
}

// checkCollectorText returns the report on a standalone server with more lines.
func checkCollectorText(t *testing.T, text string) Report {
	t.Helper()
	file := filepath.Join(t.TempDir(), "zoo.cfg")
	if err := os.WriteFile(file, []byte("dataDir=/data\nclientPort=2181\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Check(file, nil, Flags{})
}
