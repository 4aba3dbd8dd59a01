package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The kubelet starts a container that has ended again: the first time at once, and then after a time that doubles each time up to a limit.
// A container that has run for longer than twice that limit begins anew.
const (
	firstBackoff = 10 * time.Second
	mostBackoff  = 5 * time.Minute
)

const (
	// tickEvery is the time between two looks at the probes of a pod.
	tickEvery = 100 * time.Millisecond
	// refreshEvery is the time between two looks at the Secrets and ConfigMaps of a pod. The kubelet takes a minute or two.
	refreshEvery = 5 * time.Second
	// leastGrace is the time between SIGTERM and SIGKILL if the hook took all of the time of grace, as the kubelet has it.
	leastGrace = 2 * time.Second
)

// pod is a pod on a node that lives. Its goroutine, work, has all fields below the first line to itself.
type pod struct {
	*corev1.Pod // as it was when the node saw it first
	nodes       *nodes
	root        string // the directory that the container has as its root
	link        string // of its network namespace, and of its device on the bridge
	address     string
	token       string // of its service account; "": none yet

	container *container // nil: none runs
	starts    int
	startedAt time.Time
	backoff   time.Duration // before the next start
	probes    probes
	refreshed time.Time
	reported  string // the status that the API has

	isReady  atomic.Bool // as reported
	outdated atomic.Bool // the API shows something else than what was reported: report again

	deletion sync.Once
	grace    chan time.Duration // gets one value when the pod is deleted
	ended    chan struct{}      // closed at the end of work
	running  chan *container    // has the container that runs, for other goroutines
}

func newPod(n *nodes, seen *corev1.Pod, number int) *pod {
	return &pod{
		Pod: seen.DeepCopy(), nodes: n, root: n.plane.file("pod-" + string(seen.UID)), link: fmt.Sprintf("p%d", number),
		address: fmt.Sprintf("10.77.%d.%d", 1+number/250, 1+number%250),
		grace:   make(chan time.Duration, 1), ended: make(chan struct{}), running: make(chan *container, 1),
	}
}

// see compares what the API shows with what was reported. Controllers take the pods of a node without heartbeats for not ready, and only
// the node takes that back.
func (p *pod) see(seen *corev1.Pod) {
	for _, condition := range seen.Status.Conditions {
		if condition.Type == corev1.PodReady && (condition.Status == corev1.ConditionTrue) != p.isReady.Load() {
			p.outdated.Store(true)
		}
	}
}

// delete begins the end of the pod. Only the first call counts.
func (p *pod) delete(grace time.Duration) { p.deletion.Do(func() { p.grace <- grace }) }

func (p *pod) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// work runs the pod until it is deleted and its object is removed, or until its node dies.
func (p *pod) work(node context.Context) {
	defer close(p.ended)
	defer p.removeNetwork()
	defer p.kill()
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for {
		select {
		case <-node.Done():
			return
		case grace := <-p.grace:
			p.stop(node, grace)
			p.removeObject(node)
			return
		case <-p.containerEnded():
			p.log("its container has ended: %v", p.container.err)
			p.probes = probes{}
			p.forgetContainer()
		case <-ticker.C:
			p.tick(node)
		}
	}
}

// tick starts the container if it is due, looks at the probes, refreshes the files, and reports what has changed.
func (p *pod) tick(node context.Context) {
	if p.container == nil {
		if time.Since(p.startedAt) < p.backoff {
			p.report(node)
			return
		}
		if err := p.start(node); err != nil {
			p.log("its start failed: %v", err)
			p.nextBackoff()
			p.startedAt = time.Now()
			return
		}
	}
	if time.Since(p.refreshed) > refreshEvery {
		p.refreshed = time.Now()
		if err := p.writeFiles(node); err != nil && node.Err() == nil {
			p.log("its files were not refreshed: %v", err)
		}
	}
	if !p.probes.look(node, p) {
		p.log("its liveness or startup probe has failed: its container is stopped")
		p.stop(node, time.Duration(*p.Spec.TerminationGracePeriodSeconds)*time.Second)
	}
	p.report(node)
}

// nextBackoff sets the time before the next start.
func (p *pod) nextBackoff() {
	switch {
	case p.starts <= 1 || time.Since(p.startedAt) > 2*mostBackoff:
		p.backoff = 0
	case p.backoff == 0:
		p.backoff = firstBackoff
	default:
		p.backoff = min(2*p.backoff, mostBackoff)
	}
}

func (p *pod) start(ctx context.Context) error {
	p.starts++
	if err := p.makeNetwork(); err != nil {
		return err
	}
	mounts, err := p.fill(ctx)
	if err != nil {
		return err
	}
	if p.container, err = startContainer(p, mounts); err != nil {
		return err
	}
	p.running <- p.container
	p.startedAt, p.refreshed, p.probes = time.Now(), time.Now(), newProbes(p.Spec.Containers[0])
	return nil
}

// containerEnded is closed when the container has ended. It is nil if none runs.
func (p *pod) containerEnded() <-chan struct{} {
	if p.container == nil {
		return nil
	}
	return p.container.ended
}

// forgetContainer is called when the container has ended.
func (p *pod) forgetContainer() {
	<-p.running
	p.nextBackoff()
	p.container, p.startedAt = nil, time.Now()
}

// stop runs the hook before a stop, sends SIGTERM, and SIGKILL when the time of grace is over. The readiness probe continues meanwhile.
func (p *pod) stop(node context.Context, grace time.Duration) {
	if p.container == nil {
		return
	}
	began := time.Now()
	end := began.Add(grace)
	hooked := make(chan struct{})
	p.nodes.working.Go(func() { defer close(hooked); p.runHook(node, end) })
	var killAt <-chan time.Time
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for {
		select {
		case <-node.Done():
			p.kill()
			<-hooked
			return
		case <-hooked:
			hooked = nil
			p.container.signal(syscall.SIGTERM)
			killAt = time.After(max(time.Until(end), leastGrace))
		case <-killAt:
			p.log("it is killed: its time of grace, %v, is over", grace)
			p.container.signal(syscall.SIGKILL)
		case <-p.container.ended:
			p.log("it has stopped after %v, with %v", time.Since(began).Round(time.Millisecond), p.container.err)
			p.probes = probes{}
			p.forgetContainer()
			if hooked != nil {
				<-hooked
			}
			return
		case <-ticker.C:
			p.probes.lookReady(node, p)
			p.report(node)
		}
	}
}

// runHook runs the hook before a stop, if the container has one, until the time of grace is over.
func (p *pod) runHook(node context.Context, end time.Time) {
	p.nodes.mu.Lock()
	before := p.nodes.beforeHook
	p.nodes.mu.Unlock()
	if before != nil {
		before()
	}
	lifecycle := p.Spec.Containers[0].Lifecycle
	if lifecycle == nil || lifecycle.PreStop == nil || time.Until(end) <= 0 {
		return
	}
	ctx, cancel := context.WithDeadline(node, end)
	defer cancel()
	began := time.Now()
	out, err := p.exec(ctx, lifecycle.PreStop.Exec.Command)
	p.log("the hook before its stop took %v, with %v: %s", time.Since(began).Round(time.Millisecond), err, out)
}

// exec runs a command in the container that runs.
func (p *pod) exec(ctx context.Context, command []string) ([]byte, error) {
	c, err := p.awaitContainer(ctx)
	if err != nil {
		return nil, err
	}
	return c.exec(ctx, command)
}

// awaitContainer waits until a container runs, and returns it. Any goroutine may call it.
func (p *pod) awaitContainer(ctx context.Context) (*container, error) {
	select {
	case c := <-p.running:
		p.running <- c
		return c, nil
	case <-p.ended:
	case <-ctx.Done():
	}
	return nil, fmt.Errorf("no container of %s runs", p.Name)
}

// kill ends the container at once.
func (p *pod) kill() {
	if p.container != nil {
		p.container.signal(syscall.SIGKILL)
		<-p.container.ended
		p.forgetContainer()
	}
}

// removeObject tells the API that the pod has ended. It tries until the API has taken that, or the node dies.
func (p *pod) removeObject(node context.Context) {
	now := int64(0)
	for ; node.Err() == nil; time.Sleep(pollEvery) {
		ctx, cancel := context.WithTimeout(node, requestWithin)
		err := p.nodes.plane.client.CoreV1().Pods(namespace).Delete(ctx, p.Name, metav1.DeleteOptions{
			GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &p.UID},
		})
		cancel()
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return
		}
	}
}

// report sends the status of the pod to the API if it has changed. An error is not reported: the next tick tries again.
func (p *pod) report(ctx context.Context) {
	ready := corev1.ConditionFalse
	if p.container != nil && p.probes.isReady() {
		ready = corev1.ConditionTrue
	}
	state := fmt.Sprint(ready, p.container != nil, p.starts)
	if p.starts == 0 || state == p.reported && !p.outdated.Load() {
		return
	}
	container := p.Spec.Containers[0]
	now := metav1.Now()
	own := corev1.ContainerStatus{
		Name: container.Name, Image: container.Image, Ready: ready == corev1.ConditionTrue, RestartCount: int32(p.starts - 1),
	}
	if p.container != nil {
		own.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(p.startedAt)}
	} else {
		own.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
	}
	body, err := json.Marshal(map[string]any{"status": corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: p.address, PodIPs: []corev1.PodIP{{IP: p.address}}, StartTime: &now,
		ContainerStatuses: []corev1.ContainerStatus{own},
		Conditions: []corev1.PodCondition{ // merged by type with those of others
			{Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
			{Type: corev1.ContainersReady, Status: ready},
			{Type: corev1.PodReady, Status: ready, LastTransitionTime: now},
		},
	}})
	if err != nil {
		p.log("its status: %v", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	pods := p.nodes.plane.client.CoreV1().Pods(namespace)
	if _, err := pods.Patch(ctx, p.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status"); err == nil {
		p.reported = state
		p.isReady.Store(ready == corev1.ConditionTrue)
		p.outdated.Store(false)
	}
}

func (p *pod) log(format string, args ...any) {
	p.nodes.t.Logf("%s %s on %s: %s", time.Now().Format("15:04:05.000"), p.Name, p.Spec.NodeName, fmt.Sprintf(format, args...))
}
