package kubernetes

import (
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The API takes all objects of deploy/kubernetes, and of the chart with what needs no other operator, in a strict dry run. It rejects a
// field that it does not know.
func TestTheAPITakesTheManifests(t *testing.T) {
	plane := startControlPlane(t, os.Getenv(inside))
	for name, read := range map[string]func() ([]*unstructured.Unstructured, error){
		"manifests": readManifests,
		"chart":     func() ([]*unstructured.Unstructured, error) { return renderChart("") },
		"features": func() ([]*unstructured.Unstructured, error) {
			return renderChart("members=5 tls.members.secret=m tls.clients.secret=c tls.http=true antiAffinity=required external.type=NodePort " +
				"metrics.dashboard.enabled=true archive.to=s3://bucket/prefix archive.verify=@daily archive.credentials.name=s3 " +
				"backup.schedule=@hourly backup.membersClaim=backups authorities.configMap=authorities")
		},
	} {
		objects, err := read()
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			if err := plane.apply(t.Context(), object, true); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			object.Object["unknown"] = "field"
			if err := plane.apply(t.Context(), object, true); err == nil {
				t.Errorf("%s: %s %s was taken with an unknown field", name, object.GetKind(), object.GetName())
			}
		}
		t.Logf("%s: %d objects", name, len(objects))
	}
}

// The controllers and the scheduler make three pods, on three nodes, and all become ready.
func TestThreePodsBecomeReady(t *testing.T) {
	began := time.Now()
	c := startCluster(t, os.Getenv(inside), 3, "members=3")
	c.awaitPods(3)
	t.Logf("3 pods are ready after %v", time.Since(began).Round(time.Second))
	c.awaitVoters(3)
	pods, err := c.plane.client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	on := map[string]string{}
	for _, pod := range pods.Items {
		if other := on[pod.Spec.NodeName]; other != "" {
			t.Errorf("%s and %s are both on %s", other, pod.Name, pod.Spec.NodeName)
		}
		on[pod.Spec.NodeName] = pod.Name
	}
}
