package deploy

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"rollcall/integration/needs"
)

// apiServer stands for the API server of Kubernetes, which knows how many pods there are to be.
type apiServer struct {
	*httptest.Server
	replicas atomic.Int64
}

func startAPIServer(t *testing.T, p *scaledPods) *apiServer {
	t.Helper()
	s := &apiServer{}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/apps/v1/namespaces/default/statefulsets/rollcall" {
			http.NotFound(w, r)
			return
		}
		_, _ = fmt.Fprintf(w, `{"spec":{"replicas":%d}}`, s.replicas.Load())
	}))
	t.Cleanup(s.Close)
	account := filepath.Join(p.dir, "account")
	if err := os.Mkdir(account, 0o700); err != nil {
		t.Fatal(err)
	}
	p.write("account/token", "a-token")
	p.write("account/namespace", "default")
	p.write("account/ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	return s
}

// stopPod stops a pod as Kubernetes does, with a drain that asks the API server whether the pod is to go.
func (s *apiServer) stopPod(p *scaledPods, i int) {
	p.t.Helper()
	host, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "https://"), ":")
	p.shell(p.dir, fmt.Sprintf("export HOSTNAME=rollcall-%d KUBERNETES_SERVICE_HOST=%s KUBERNETES_SERVICE_PORT=%s; "+
		"kubectl exec rollcall-%[1]d -- %[4]s --over 1s --service-account %[5]s/account", i, host, port, strings.Join(p.preStop, " "), p.dir))
	m := p.pods[i]
	if err := m.Process.SendSignal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	if status, err := m.Process.ExitStatus(p.t.Context()); err != nil || status != 0 {
		p.t.Fatalf("rollcall-%d ends with status %d, %v", i, status, err)
	}
}

// With the zoo.cfg and the preStop hook of the manifests, a change of the number of pods is all that it takes: three become five,
// three, one and three again under writes, and none that was acknowledged is lost. A restart removes nobody, and the member of a pod that
// was killed leaves with the next one.
func TestScalingPods(t *testing.T) {
	needs.Check(t, needs.Usual)
	p := newScaledPods(t)
	kubernetes := startAPIServer(t, p)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the members at last:\n%s", p.listed)
		}
	})
	for i := range 3 {
		p.start(i)
	}
	for i := range 3 {
		p.serves(i)
	}
	busy := startWriting(t, p.pods[0].Clients)

	kubernetes.replicas.Store(5) // zoo.cfg has three server lines, and members.line
	p.start(3)
	p.start(4)
	p.wantVoters(5)
	kubernetes.stopPod(p, 4) // a restart
	p.start(4)
	p.wantVoters(5)

	kubernetes.replicas.Store(3)
	p.pods[4].Process.Kill()
	kubernetes.stopPod(p, 3)
	p.wantVoters(3)

	kubernetes.replicas.Store(1)
	kubernetes.stopPod(p, 2)
	p.wantVoters(2)
	kubernetes.stopPod(p, 1)
	p.wantVoters(1)

	kubernetes.replicas.Store(3)
	p.start(1)
	p.start(2)
	p.wantVoters(3)
	busy.check(t)
}
