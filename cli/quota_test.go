package cli

import (
	"strings"
	"testing"
	"time"

	"rollcall/operator/past/pasttest"
)

// newQuotaWorld returns an ensemble with a soft quota on /app and a hard one on /app/jobs, which is used up at 0x10000000a.
func newQuotaWorld(t *testing.T) *pastWorld {
	w := &pastWorld{Ensemble: pasttest.New(t, at0312.UnixMilli()), t: t}
	w.first = w.Connect("10.0.0.7:41234")
	for _, n := range [][2]string{
		{"/app", "1234"},
		{"/app/jobs", "12"},
		{"/other", ""},
		{"/zookeeper/quota/app", ""},
		{"/zookeeper/quota/app/zookeeper_limits", "count=1,bytes=-1"},
		{"/zookeeper/quota/app/zookeeper_stats", ""},
		{"/zookeeper/quota/app/jobs", ""},
		{"/zookeeper/quota/app/jobs/zookeeper_limits", "count=-1,bytes=100=;byteHardLimit=2048;countHardLimit=2"},
		{"/zookeeper/quota/app/jobs/zookeeper_stats", ""},
	} {
		w.first.Create(n[0], n[1], 0)
	}
	w.NowMs = at0312.Add(time.Minute).UnixMilli()
	w.first.Create("/app/jobs/1", "123", 0)
	return w
}

// The quotas above, at and below a path are listed, now and in the past, whichever node is / for the user.
func TestQuota(t *testing.T) {
	w := newQuotaWorld(t)
	const (
		header = "NODES  SOFT LIMIT  HARD LIMIT  BYTES  SOFT LIMIT OF BYTES  HARD LIMIT OF BYTES  PATH\n"
		ofApp  = "    2           1           -    6 B                    -                    -  /app\n"
		ofJobs = "    2           -           2    5 B                100 B              2.0 KiB  /app/jobs\n"
	)
	for _, tt := range []struct{ line, want string }{
		{"quota --dir d", header + ofApp + ofJobs},
		{"quota /app --dir d", header + ofApp + ofJobs},
		{"quota /app/jobs --dir d", header + ofApp + ofJobs},
		{"quota /app/jobs/1 --dir d", header + ofApp + ofJobs},
		{"quota /app/jobsx --dir d", header + ofApp},
		{"quota /other --dir d", header},
		{"quota --at 0x100000009", header + ofApp + strings.Replace(strings.Replace(ofJobs, "    2 ", "    1 ", 1), "5 B", "2 B", 1)},
		{"quota --at 0x100000003", header},
		{"quota --limit 1 --sort -bytes --dir d", header + ofApp},
		{"quota /jobs --hosts 127.0.0.1:1/app --dir d", header + strings.Replace(ofApp, "/app", "/", 1) + strings.Replace(ofJobs, "/app", "", 1)},
		{"quota --hosts 127.0.0.1:1/app/jobs --dir d", header + strings.Replace(ofJobs, "/app/jobs", "/", 1) + strings.Replace(ofApp, "/app", "/..", 1)},
	} {
		if out, _ := w.mustRun(tt.line); out != tt.want {
			t.Errorf("%s printed\n%swant\n%s", tt.line, out, tt.want)
		}
	}
	out, _ := w.mustRun("quota /app/jobs -o json --dir d")
	checkSchema(t, "quota", out)
	if want := `"nodes_hard_limit":2`; !strings.Contains(out, want) {
		t.Errorf("no %s in %s", want, out)
	}
}
