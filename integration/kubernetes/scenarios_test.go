package kubernetes

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"rollcall/operator/api"
)

const (
	// nodeCount is one more than three members need, so that a pod can move.
	nodeCount = 4
	// settle is how long the clients run before something is done, and after it: as long as a session lives without its client.
	settle = sessionTimeout
	// evictEvery is the time between two requests to evict a pod whose budget does not allow it, as kubectl drain has it.
	evictEvery = 5 * time.Second
)

// scenario is something that is done to a cluster while clients use it.
type scenario struct {
	name    string
	what    string // is done
	before  int    // pods at the beginning
	after   int    // pods in the end, which the clients know from the beginning
	perform func(*cluster)
}

var scenarios = []scenario{
	{"RollingUpdate", "another image, and back", 3, 3, rollingUpdate},
	{"Drain", "kubectl drain of each node, one after the other", 3, 3, drainNodes},
	{"LostVolume", "claim and pod of rollcall-1 are deleted", 3, 3, loseVolume},
	{"DeadNode", "the leader's node loses its power", 3, 3, loseNode},
	{"NoAPI", "the API is gone while rollcall-2 stops", 3, 3, stopWithoutAPI},
	{"Upgrade3To5To3", "helm upgrade --set members=5, and =3", 3, 3, upgradeTo(5, 3)},
	{"Scale3To5To3", "kubectl scale --replicas=5, and =3", 3, 3, scaleTo(5, 3)},
	{"Scale5To3To5", "kubectl scale --replicas=3, and =5", 5, 5, scaleTo(3, 5)},
	{"Upgrade1To3", "helm upgrade --set members=3", 1, 3, upgradeTo(3)},
	{"Scale3To1To3", "kubectl scale --replicas=1, and =3", 3, 3, scaleTo(1, 3)},
	{"NoAPIAtScaleDown", "kubectl scale --replicas=3 while the API is gone, then rollcall members remove", 5, 3, scaleDownWithoutAPI},
}

// Whatever is done to the cluster, no acknowledged write and no session is lost, and all members vote in the end.
func TestScenarios(t *testing.T) {
	var table strings.Builder
	t.Cleanup(func() { t.Logf("what was done, and what the clients saw:\n%s", table.String()) })
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			c := startCluster(t, os.Getenv(inside), nodeCount, fmt.Sprintf("members=%d", s.before))
			c.awaitPods(s.before)
			c.awaitVoters(s.before)
			g := c.startGuard(s.after)
			time.Sleep(settle)
			began := time.Now()
			s.perform(c)
			c.awaitPods(s.after)
			c.awaitVoters(s.after)
			took := time.Since(began)
			time.Sleep(settle)
			found := g.check()
			_, _ = fmt.Fprintf(&table, "%s: %s: %v; %v\n", s.name, s.what, took.Round(time.Second), found)
			t.Logf("%s: %v; %v", s.what, took.Round(time.Second), found)
		})
	}
}

// rollingUpdate replaces the image, and brings the first one back.
func rollingUpdate(c *cluster) {
	for _, tag := range []string{"next", "first"} {
		c.upgrade("image.tag=" + tag)
		c.awaitPods(3)
		c.wantImage(3, "rollcall:"+tag)
	}
}

// drainNodes drains the node of each pod, one after the other. It does not wait for the pods between them, because the budget does.
func drainNodes(c *cluster) {
	rejected := 0
	for i := range 3 {
		pod := c.pod(i)
		c.cordon(pod.Spec.NodeName, true)
		rejected += c.evict(pod)
		c.awaitAnother(pod)
		if there := c.pod(i).Spec.NodeName; there == pod.Spec.NodeName {
			c.t.Errorf("%s is again on %s, which is drained", pod.Name, there)
		}
		c.cordon(pod.Spec.NodeName, false)
	}
	if rejected == 0 {
		c.t.Error("the budget has rejected no eviction: the second pod was evicted before the first one was back")
	}
}

// cordon sets whether the scheduler may use a node.
func (c *cluster) cordon(node string, isCordoned bool) {
	c.t.Helper()
	patch := fmt.Sprintf(`{"spec":{"unschedulable":%t}}`, isCordoned)
	c.patchNode(node, patch)
}

func (c *cluster) patchNode(node, patch string) {
	c.t.Helper()
	nodes := c.plane.client.CoreV1().Nodes()
	if _, err := nodes.Patch(c.t.Context(), node, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// evict evicts a pod. It tries again while the budget does not allow that, and returns how many requests were rejected.
func (c *cluster) evict(pod *corev1.Pod) (rejected int) {
	c.t.Helper()
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: namespace}}
	for end := time.Now().Add(availableWithin); ; time.Sleep(evictEvery) {
		err := c.plane.client.PolicyV1().Evictions(namespace).Evict(c.t.Context(), eviction)
		if err == nil {
			c.t.Logf("%s was evicted after %d rejections", pod.Name, rejected)
			return rejected
		}
		if !apierrors.IsTooManyRequests(err) || time.Now().After(end) {
			c.t.Fatal(err)
		}
		rejected++
	}
}

// loseVolume deletes the claim of a pod, and the pod, so that another one begins with an empty volume.
func loseVolume(c *cluster) {
	pod := c.pod(1)
	claims := c.plane.client.CoreV1().PersistentVolumeClaims(namespace)
	before, err := claims.Get(c.t.Context(), "data-rollcall-1", metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	if err := claims.Delete(c.t.Context(), before.Name, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.deletePod(1)
	c.awaitAnother(pod)
	c.awaitPods(3)
	after, err := claims.Get(c.t.Context(), before.Name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	if after.Spec.VolumeName == before.Spec.VolumeName {
		c.t.Errorf("rollcall-1 has the volume %s again", after.Spec.VolumeName)
	}
}

// loseNode ends the node of the leader. Kubernetes starts no other pod before an operator says that the node is gone.
func loseNode(c *cluster) {
	pod := c.pod(c.leaderPod())
	node := pod.Spec.NodeName
	c.nodes.kill(node)
	began := time.Now()
	pods := c.plane.client.CoreV1().Pods(namespace)
	await(c.t, availableWithin, "the pod of the dead node is deleted", func(ctx context.Context) error {
		seen, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && seen.DeletionTimestamp == nil {
			err = fmt.Errorf("not yet")
		}
		return err
	})
	c.t.Logf("the pod of the dead node was deleted after %v", time.Since(began).Round(time.Second))
	time.Sleep(2 * nodeSilentFor)
	if seen := c.pod(int(pod.Name[len(pod.Name)-1] - '0')); seen.UID != pod.UID {
		c.t.Errorf("%s was replaced, although its node may come back", pod.Name)
	}
	c.patchNode(node, `{"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service","value":"nodeshutdown","effect":"NoExecute"}]}}`)
	began = time.Now()
	c.awaitAnother(pod)
	c.t.Logf("the pod was replaced %v after the taint", time.Since(began).Round(time.Second))
}

// stopWithoutAPI deletes a pod, and kills the API before the pod's hook begins. The hook cannot ask whether the pod is to go.
func stopWithoutAPI(c *cluster) {
	pod := c.pod(2)
	apiReturns := c.killAPIBeforeHooks(pod.Name)
	c.deletePod(2)
	apiReturns()
	c.awaitAnother(pod)
}

// scaleDownWithoutAPI removes two pods, and kills the API before their hooks begin. Both stay members, which are down, until an operator
// removes them with the command of docs/kubernetes.md.
func scaleDownWithoutAPI(c *cluster) {
	apiReturns := c.killAPIBeforeHooks(podName(3), podName(4))
	c.scale(3)
	apiReturns()
	c.awaitPods(3)
	members, err := c.members(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	silent := 0
	for _, m := range members {
		if m.State == api.StateSilent {
			silent++
		}
	}
	if len(members) != 5 || silent != 2 {
		c.t.Errorf("%d of %d members are silent: %+v", silent, len(members), members)
	}
	for _, id := range []string{"5", "4"} {
		if out, err := c.nodes.exec(c.t.Context(), podName(0), "/rollcall", "members", "remove", id); err != nil {
			c.t.Fatalf("%v: %s", err, out)
		}
	}
}

// killAPIBeforeHooks makes the API end before the first hook begins. The function that it returns waits until the pods have stopped, and
// starts the API again.
func (c *cluster) killAPIBeforeHooks(pods ...string) (apiReturns func()) {
	c.t.Helper()
	var running []*container
	for _, name := range pods {
		p := c.nodes.find(name)
		if p == nil {
			c.t.Fatalf("no pod %s runs", name)
		}
		found, err := p.awaitContainer(c.t.Context())
		if err != nil {
			c.t.Fatal(err)
		}
		running = append(running, found)
	}
	killOnce := sync.OnceFunc(c.plane.killAPI)
	c.nodes.mu.Lock()
	c.nodes.beforeHook = killOnce
	c.nodes.mu.Unlock()
	return func() {
		c.t.Helper()
		within := time.After(availableWithin)
		for _, one := range running {
			select {
			case <-one.ended:
			case <-within:
				c.t.Fatalf("%s has not stopped", one.pod.Name)
			}
		}
		c.plane.startAPI()
		c.plane.waitReady()
	}
}

// upgradeTo changes the number of members with helm, to each of sizes. With podManagementPolicy: Parallel, the pods that are to go stop at
// the same time, so their members leave at the same time.
func upgradeTo(sizes ...int) func(*cluster) {
	return func(c *cluster) {
		for _, size := range sizes {
			c.upgrade(fmt.Sprintf("members=%d", size))
			c.awaitPods(size)
			c.awaitVoters(size)
		}
	}
}

// scaleTo changes the number of pods alone, to each of sizes.
func scaleTo(sizes ...int) func(*cluster) {
	return func(c *cluster) {
		for _, size := range sizes {
			c.scale(size)
			c.awaitPods(size)
			c.awaitVoters(size)
		}
	}
}
