package kubernetes

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"rollcall/operator/api"
)

const (
	// availableWithin limits the wait for pods: one step of an update takes a drain of 10 s, a stop, a start, and 10 s of minReadySeconds.
	availableWithin = 4 * time.Minute
	// votersWithin limits the wait for members to have their votes, after all pods are available.
	votersWithin = 2 * time.Minute
)

// cluster is a control plane with nodes and a release of the chart.
type cluster struct {
	t        *testing.T
	plane    *controlPlane
	nodes    *nodes
	settings string // of the release, as helm upgrade --reuse-values keeps them

	clientTLS *tls.Config // of the guard's clients; nil: they connect without TLS
}

// startCluster starts a control plane and nodes, and installs the chart with settings. It does not wait for the pods.
func startCluster(t *testing.T, bin string, nodes int, settings string) *cluster {
	t.Helper()
	c := prepareCluster(t, bin, nodes)
	c.upgrade(settings)
	return c
}

// prepareCluster starts a control plane and nodes, and creates the Secrets that docs/kubernetes.md says to create first.
func prepareCluster(t *testing.T, bin string, nodes int) *cluster {
	t.Helper()
	c := &cluster{t: t, plane: startControlPlane(t, bin), settings: "image.tag=first"}
	c.plane.startControllers()
	await(t, readyWithin, "the controllers have made the authority's ConfigMap", func(ctx context.Context) error {
		_, err := c.plane.client.CoreV1().ConfigMaps(namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err
	})
	c.createSecret("rollcall-secret", map[string]string{"secret": rand.Text() + rand.Text()})
	c.createSecret("rollcall-token", map[string]string{"token": rand.Text() + rand.Text()})
	c.nodes = startNodes(t, c.plane, images(bin), nodes)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.nodes.logs(2000))
		}
	})
	return c
}

// createSecret creates a Secret.
func (c *cluster) createSecret(name string, data map[string]string) {
	c.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}
	if _, err := c.plane.client.CoreV1().Secrets(namespace).Create(c.t.Context(), secret, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// upgrade changes settings of the release, as helm upgrade --reuse-values --set does. It does not wait.
func (c *cluster) upgrade(settings string) {
	c.t.Helper()
	c.settings += " " + settings
	objects, err := renderChart(c.settings)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, object := range objects {
		if err := c.plane.apply(c.t.Context(), object, false); err != nil {
			c.t.Fatal(err)
		}
	}
}

// scale changes the number of pods, as kubectl scale does.
func (c *cluster) scale(replicas int) {
	c.t.Helper()
	scale := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: release, Namespace: namespace},
		Spec:       autoscalingv1.ScaleSpec{Replicas: int32(replicas)},
	}
	sets := c.plane.client.AppsV1().StatefulSets(namespace)
	if _, err := sets.UpdateScale(c.t.Context(), release, scale, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// awaitPods waits until exactly so many pods exist, have the newest template, and are available.
func (c *cluster) awaitPods(count int) {
	c.t.Helper()
	await(c.t, availableWithin, fmt.Sprintf("%d pods are available", count), func(ctx context.Context) error {
		set, err := c.plane.client.AppsV1().StatefulSets(namespace).Get(ctx, release, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return lacks(set, int32(count))
	})
}

// lacks returns an error unless exactly so many pods of the newest template are available.
func lacks(set *appsv1.StatefulSet, count int32) error {
	s := set.Status
	switch {
	case s.ObservedGeneration < set.Generation:
		return fmt.Errorf("the controller has seen generation %d of %d", s.ObservedGeneration, set.Generation)
	case s.Replicas != count, s.UpdatedReplicas != count, s.AvailableReplicas != count:
		return fmt.Errorf("%d pods, %d of the newest template, %d ready, %d available",
			s.Replicas, s.UpdatedReplicas, s.ReadyReplicas, s.AvailableReplicas)
	}
	return nil
}

// awaitVoters waits until the ensemble has exactly so many members, all of which vote and serve.
func (c *cluster) awaitVoters(count int) {
	c.t.Helper()
	await(c.t, votersWithin, fmt.Sprintf("%d members vote", count), func(ctx context.Context) error {
		members, err := c.members(ctx)
		if err != nil {
			return err
		}
		voting := 0
		for _, m := range members {
			if m.IsVoter && (m.State == "leader" || m.State == "follower" || m.State == "standalone") {
				voting++
			}
		}
		if voting != count || len(members) != count {
			return fmt.Errorf("%d of %d members vote: %+v", voting, len(members), members)
		}
		return nil
	})
}

// members returns the members that rollcall-0 shows.
func (c *cluster) members(ctx context.Context) (members []api.Server, err error) {
	out, err := c.nodes.exec(ctx, podName(0), "/rollcall", "members", "list", "-o", "json")
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return members, json.Unmarshal(out, &members)
}

// leaderPod returns the number of the pod that leads.
func (c *cluster) leaderPod() (number int) {
	c.t.Helper()
	await(c.t, votersWithin, "a member leads", func(ctx context.Context) error {
		members, err := c.members(ctx)
		if err != nil {
			return err
		}
		leader := slices.IndexFunc(members, func(m api.Server) bool { return m.State == "leader" })
		if leader < 0 {
			return errors.New("none does")
		}
		number = int(members[leader].MemberID) - 1
		return nil
	})
	return number
}

// pod returns the object of a pod.
func (c *cluster) pod(number int) *corev1.Pod {
	c.t.Helper()
	pod, err := c.plane.client.CoreV1().Pods(namespace).Get(c.t.Context(), podName(number), metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return pod
}

// deletePod deletes a pod, as kubectl delete pod --wait=false does.
func (c *cluster) deletePod(number int) {
	c.t.Helper()
	if err := c.plane.client.CoreV1().Pods(namespace).Delete(c.t.Context(), podName(number), metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// awaitAnother waits until a pod has been replaced by another one of its name.
func (c *cluster) awaitAnother(before *corev1.Pod) {
	c.t.Helper()
	await(c.t, availableWithin, before.Name+" has been replaced", func(ctx context.Context) error {
		pod, err := c.plane.client.CoreV1().Pods(namespace).Get(ctx, before.Name, metav1.GetOptions{})
		if err == nil && pod.UID == before.UID {
			err = fmt.Errorf("it is still there; deleted: %v", pod.DeletionTimestamp)
		}
		return err
	})
}

// wantImage checks that the binaries of all pods are those of an image.
func (c *cluster) wantImage(pods int, image string) {
	c.t.Helper()
	for i := range pods {
		out, err := c.nodes.exec(c.t.Context(), podName(i), "/rollcall", "version")
		if commit, _, _ := strings.Cut(stamp(image), ","); err != nil || !strings.Contains(string(out), commit) {
			c.t.Errorf("%s runs %s, %v, and not the image %s", podName(i), out, err, image)
		}
	}
}

// podName returns the name of the pod of a number.
func podName(number int) string { return fmt.Sprintf("%s-%d", release, number) }
