package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// heartbeatEvery is the time between two heartbeats of a node. The kubelet's is 10 s, and the controllers' limit is five times as
	// long: nodeSilentFor has the same proportion.
	heartbeatEvery = 2 * time.Second
	// mostPods limits the addresses that a test gives to pods.
	mostPods = 1 << 15
)

// nodes are all nodes of the cluster. One loop looks at the API for all of them, and starts a goroutine for each pod.
type nodes struct {
	t      *testing.T
	plane  *controlPlane
	images map[string]string // the binary in each image
	names  *names

	working sync.WaitGroup // the goroutines of the pods

	mu         sync.Mutex
	alive      map[string]context.Context // by name of node; its end is the death of the node
	kills      map[string]context.CancelFunc
	heartbeat  map[string]time.Time // of each node, the last one
	pods       map[types.UID]*pod
	beforeHook func() // is called before the hook before the stop of a pod; nil: nothing is
	started    int    // pods, in all: the next one's address depends on it
}

// startNodes registers so many nodes, and runs them until the test ends. images are the binaries in each image.
func startNodes(t *testing.T, plane *controlPlane, images map[string]string, count int) *nodes {
	t.Helper()
	n := &nodes{
		t: t, plane: plane, images: images, alive: map[string]context.Context{}, kills: map[string]context.CancelFunc{},
		heartbeat: map[string]time.Time{}, pods: map[types.UID]*pod{},
	}
	var err error
	if n.names, err = newNames(plane); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background()) // the pods outlive the test's context, which ends before its cleanups
	for i := range count {
		name := "node-" + strconv.Itoa(i)
		await(t, readyWithin, "a node is registered", func(ctx context.Context) error { return n.register(ctx, name) })
		n.alive[name], n.kills[name] = context.WithCancel(ctx)
	}
	n.working.Go(func() { n.loop(ctx) })
	t.Cleanup(func() { cancel(); n.working.Wait() })
	return n
}

// loop runs step again and again. It logs an error once until another one follows.
func (n *nodes) loop(ctx context.Context) {
	logged := ""
	for ; ctx.Err() == nil; time.Sleep(pollEvery) {
		text := ""
		if err := n.step(ctx); err != nil && ctx.Err() == nil {
			text = err.Error()
		}
		if text != logged && text != "" {
			n.t.Log(text)
		}
		logged = text
	}
}

// register adds a Node that is ready and has room.
func (n *nodes) register(ctx context.Context, name string) error {
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("16Gi"),
		corev1.ResourcePods: resource.MustParse("20"),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": name}},
		Status:     corev1.NodeStatus{Capacity: room, Allocatable: room, Conditions: []corev1.NodeCondition{readyNow()}},
	}
	_, err := n.plane.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// kill ends a node like a loss of power: its processes die at once, and it sends no heartbeat and no status any more.
func (n *nodes) kill(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.kills[name]()
}

// step looks at the claims, the names and the pods once, and sends the heartbeats that are due.
func (n *nodes) step(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	failed := []error{n.provision(ctx), n.names.publish(ctx), n.beat(ctx)}
	list, err := n.plane.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return errors.Join(append(failed, err)...)
	}
	exist := map[types.UID]bool{}
	for i := range list.Items {
		exist[list.Items[i].UID] = true
		n.sync(&list.Items[i])
	}
	n.forget(exist)
	return errors.Join(failed...)
}

// sync starts the goroutine of a pod that is new on a node that lives, and passes on that a pod is deleted.
func (n *nodes) sync(seen *corev1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pods[seen.UID]
	if p == nil {
		node := n.alive[seen.Spec.NodeName]
		if node == nil || node.Err() != nil || seen.DeletionTimestamp != nil && seen.Status.PodIP == "" {
			return
		}
		if n.started++; n.started > mostPods {
			n.t.Errorf("more than %d pods were started", mostPods)
			return
		}
		p = newPod(n, seen, n.started)
		n.pods[seen.UID] = p
		n.working.Go(func() { p.work(node) })
	}
	p.see(seen)
	if seen.DeletionTimestamp != nil {
		p.delete(time.Duration(*seen.DeletionGracePeriodSeconds) * time.Second)
	}
}

// forget ends pods whose objects do not exist any more: they were deleted by force.
func (n *nodes) forget(exist map[types.UID]bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, p := range n.pods {
		if !exist[id] {
			p.delete(0)
			delete(n.pods, id)
		}
	}
}

// beat renews the Lease of each node that lives, and takes back that it was taken for dead.
func (n *nodes) beat(ctx context.Context) error {
	n.mu.Lock()
	var due []string
	for name, alive := range n.alive {
		if alive.Err() == nil && time.Since(n.heartbeat[name]) > heartbeatEvery {
			due = append(due, name)
		}
	}
	n.mu.Unlock()
	var failed []error
	for _, name := range due {
		if err := errors.Join(n.renew(ctx, name), n.reportReady(ctx, name)); err != nil {
			failed = append(failed, fmt.Errorf("the heartbeat of %s: %w", name, err))
			continue
		}
		n.mu.Lock()
		n.heartbeat[name] = time.Now()
		n.mu.Unlock()
	}
	return errors.Join(failed...)
}

func (n *nodes) renew(ctx context.Context, name string) error {
	leases := n.plane.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	seconds, now := int32(nodeSilentFor/time.Second), metav1.NowMicro()
	spec := coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &now}
	lease, err := leases.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec = spec
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

// reportReady reports that a node is ready, unless the API shows that.
func (n *nodes) reportReady(ctx context.Context, name string) error {
	nodes := n.plane.client.CoreV1().Nodes()
	node, err := nodes.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	isReady := func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}
	if slices.ContainsFunc(node.Status.Conditions, isReady) {
		return nil
	}
	body, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{readyNow()}}})
	if err != nil {
		return err
	}
	_, err = nodes.PatchStatus(ctx, name, body)
	return err
}

func readyNow() corev1.NodeCondition {
	now := metav1.Now()
	return corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: now, LastTransitionTime: now}
}

// find returns the pod of a name that runs, or nil.
func (n *nodes) find(name string) *pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.pods {
		if p.Name == name && !p.hasEnded() {
			return p
		}
	}
	return nil
}

// exec runs a command in a pod, as kubectl exec does, and returns what it prints.
func (n *nodes) exec(ctx context.Context, name string, command ...string) ([]byte, error) {
	p := n.find(name)
	if p == nil {
		return nil, fmt.Errorf("no pod %s runs", name)
	}
	return p.exec(ctx, command)
}

// logs returns the ends of the logs of all pods, with the newest lines last.
func (n *nodes) logs(bytes int) (all string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.pods {
		all += fmt.Sprintf("the end of the log of %s on %s:\n%s\n", p.Name, p.Spec.NodeName, tail(p.root+".log", bytes))
	}
	return all
}

// writeWhole replaces a file by another one at once, so that a reader sees the old text or the new one.
func writeWhole(path string, text []byte, mode os.FileMode) error {
	if err := os.WriteFile(path+".new", text, mode); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
