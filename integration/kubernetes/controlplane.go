package kubernetes

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// gateway is the address of the bridge that all pods are connected to. The API listens there.
	gateway = "10.77.0.1"
	apiPort = "6443"
	// adminToken is the token of the test, of the controllers and of the scheduler.
	adminToken = "administrator"
	// readyWithin limits the wait for the API, on a machine that does other things as well.
	readyWithin = 60 * time.Second
)

// programs are built into one directory, see binaries.
var programs = []string{
	"go.etcd.io/etcd/server/v3",
	"k8s.io/kubernetes/cmd/kube-apiserver",
	"k8s.io/kubernetes/cmd/kube-controller-manager",
	"k8s.io/kubernetes/cmd/kube-scheduler",
}

// controllers are what a StatefulSet, its volumes, its names and its budget need, and what notices that a node has died.
const controllers = "statefulset-controller,endpointslice-controller,disruption-controller,serviceaccount-controller," +
	"serviceaccount-token-controller,root-ca-certificate-publisher-controller,garbage-collector-controller," +
	"persistentvolume-binder-controller,persistentvolumeclaim-protection-controller,persistentvolume-protection-controller," +
	"pod-garbage-collector-controller,node-lifecycle-controller,taint-eviction-controller"

const (
	// nodeSilentFor is the time without a heartbeat after which the controllers take a node for dead: 50 s by default.
	nodeSilentFor = 10 * time.Second
	// deadNodeKeepsPodsFor is the time for which a pod tolerates that its node is dead, in seconds. By default it is 300.
	deadNodeKeepsPodsFor = "10"
)

// binaries builds the control plane, which takes minutes of processor time once, and returns the directory that has it.
func binaries() (string, error) {
	dir := filepath.Join(os.TempDir(), "rollcall-kubernetes")
	for _, program := range programs {
		build := exec.Command("go", "build", "-C", "controlplane", "-p", "2", "-trimpath", "-o", dir+"/", program)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("go build %s: %w\n%s", program, err, out)
		}
	}
	return dir, nil
}

// controlPlane is the API with its store, its controllers and its scheduler.
type controlPlane struct {
	t      *testing.T
	dir    string // of certificates, logs and etcd's data
	bin    string
	client *kubernetes.Clientset
	api    *exec.Cmd
}

// startControlPlane starts etcd and the API, and waits until the API is ready.
func startControlPlane(t *testing.T, bin string) *controlPlane {
	t.Helper()
	c := &controlPlane{t: t, dir: t.TempDir(), bin: bin}
	c.writeFiles()
	c.start("server", "--data-dir="+c.file("etcd"), "--unsafe-no-fsync")
	c.startAPI()
	config := &rest.Config{
		Host: "https://" + gateway + ":" + apiPort, BearerToken: adminToken, QPS: 200, Burst: 400,
		TLSClientConfig: rest.TLSClientConfig{CAFile: c.file("server.crt")},
	}
	var err error
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	c.waitReady()
	return c
}

// startControllers starts what makes pods of a StatefulSet, and gives them nodes.
func (c *controlPlane) startControllers() {
	c.t.Helper()
	c.start("kube-controller-manager", "--kubeconfig="+c.file("kubeconfig"), "--leader-elect=false", "--controllers="+controllers,
		"--service-account-private-key-file="+c.file("accounts.key"), "--root-ca-file="+c.file("server.crt"), "--bind-address=127.0.0.1",
		"--node-monitor-period=1s", "--node-monitor-grace-period="+nodeSilentFor.String())
	c.start("kube-scheduler", "--kubeconfig="+c.file("kubeconfig"), "--leader-elect=false", "--bind-address=127.0.0.1")
}

func (c *controlPlane) file(name string) string { return filepath.Join(c.dir, name) }

// startAPI starts kube-apiserver.
func (c *controlPlane) startAPI() {
	c.t.Helper()
	c.api = c.start("kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", "--secure-port="+apiPort, "--bind-address="+gateway,
		"--advertise-address="+gateway, "--tls-cert-file="+c.file("server.crt"), "--tls-private-key-file="+c.file("server.key"),
		"--token-auth-file="+c.file("tokens"), "--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+c.file("accounts.crt"),
		"--service-account-signing-key-file="+c.file("accounts.key"),
		"--default-unreachable-toleration-seconds="+deadNodeKeepsPodsFor, "--default-not-ready-toleration-seconds="+deadNodeKeepsPodsFor)
}

// killAPI ends kube-apiserver at once. startAPI starts another one on the same store.
func (c *controlPlane) killAPI() {
	_ = c.api.Process.Kill()
	_, _ = c.api.Process.Wait()
}

// start starts a program whose output goes into a log, and ends it with the test. The end of the log is shown if the test failed.
func (c *controlPlane) start(name string, args ...string) *exec.Cmd {
	c.t.Helper()
	out, err := os.OpenFile(c.file(name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(c.bin, name), args...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = out.Close()
		if c.t.Failed() {
			c.t.Logf("the end of the log of %s:\n%s", name, tail(out.Name(), 3000))
		}
	})
	return cmd
}

// waitReady waits until the API says that it is ready.
func (c *controlPlane) waitReady() {
	c.t.Helper()
	await(c.t, readyWithin, "the API is ready", func(ctx context.Context) error {
		return c.client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// writeFiles writes the certificate of the API, the key that signs the tokens of service accounts, and who may do what.
func (c *controlPlane) writeFiles() {
	c.t.Helper()
	for _, name := range []string{"server", "accounts"} {
		if err := writeCertificate(c.file(name)); err != nil {
			c.t.Fatal(err)
		}
	}
	kubeconfig := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: test,
clusters: [{name: test, cluster: {server: "https://%s:%s", certificate-authority: %q}}],
users: [{name: test, user: {token: %s}}], contexts: [{name: test, context: {cluster: test, user: test}}]}`,
		gateway, apiPort, c.file("server.crt"), adminToken)
	for name, text := range map[string]string{"tokens": adminToken + `,administrator,1,"system:masters"`, "kubeconfig": kubeconfig} {
		if err := os.WriteFile(c.file(name), []byte(text), 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
}

// writeCertificate writes PATH.key and PATH.crt, a certificate for the gateway that signs itself.
func writeCertificate(path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IPAddresses: []net.IP{net.ParseIP(gateway), net.ParseIP("127.0.0.1")},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".key", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}), 0o600); err != nil {
		return err
	}
	return os.WriteFile(path+".crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), 0o600)
}
