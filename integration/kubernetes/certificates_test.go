package kubernetes

import (
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// While certificates are renewed, for clients and between members, no acknowledged write and no session is lost, and no pod restarts. A pod
// that starts later comes in with the new ones.
func TestRenewedCertificates(t *testing.T) {
	a, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	issue := func() map[string]string {
		files, err := a.issue()
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	first := issue()
	secrets := map[string]string{"members-tls": "tls.members.secret", "clients-tls": "tls.clients.secret"}
	settings := "members=3 tls.http=true"
	for secret, setting := range secrets {
		settings += " " + setting + "=" + secret
	}
	c := prepareCluster(t, os.Getenv(inside), nodeCount)
	for secret := range secrets {
		c.createSecret(secret, first)
	}
	if c.clientTLS, err = clientTLS(first); err != nil {
		t.Fatal(err)
	}
	c.upgrade(settings)
	c.awaitPods(3)
	c.awaitVoters(3)
	g := c.startGuard(3)
	time.Sleep(settle)

	began := time.Now()
	next := issue()
	for secret := range secrets {
		c.renew(secret, next)
	}
	for i := range 3 {
		c.awaitSerial(podName(i), a.issued)
	}
	t.Logf("all ports of all pods show the new certificate after %v", time.Since(began).Round(time.Second))
	pods, err := c.plane.client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		if n := pod.Status.ContainerStatuses[0].RestartCount; n != 0 || pod.DeletionTimestamp != nil {
			t.Errorf("%s was restarted %d times; deleted: %v", pod.Name, n, pod.DeletionTimestamp)
		}
	}
	before := c.pod(1)
	c.deletePod(1)
	c.awaitAnother(before)
	c.awaitPods(3)
	c.awaitVoters(3)
	time.Sleep(settle)
	t.Logf("certificates of members and clients renewed, then a pod replaced: %v; %v", time.Since(began).Round(time.Second), g.check())
}
