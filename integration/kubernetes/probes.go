package kubernetes

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// probes are those of a container. The others begin when the startup probe has succeeded once. A probe that the container does not have
// succeeds.
type probes struct{ startup, ready, live probe }

// probe is one probe, and its latest results.
type probe struct {
	spec      *corev1.Probe // nil: the container does not have it
	next      time.Time
	succeeded bool // the last results reached the threshold for success
	successes int32
	failures  int32 // in a row
}

func newProbes(c corev1.Container) probes {
	return probes{startup: probe{spec: c.StartupProbe}, ready: probe{spec: c.ReadinessProbe}, live: probe{spec: c.LivenessProbe}}
}

// look makes the probes that are due. It reports whether the container may go on.
func (s *probes) look(ctx context.Context, p *pod) bool {
	if s.startup.spec != nil && !s.startup.succeeded {
		s.startup.look(ctx, p)
		return !s.startup.hasFailed()
	}
	s.ready.look(ctx, p)
	s.live.look(ctx, p)
	return !s.live.hasFailed()
}

// lookReady makes the readiness probe if it is due. While a pod stops, there is no other one.
func (s *probes) lookReady(ctx context.Context, p *pod) {
	if s.startup.spec == nil || s.startup.succeeded {
		s.ready.look(ctx, p)
	}
}

func (s *probes) isReady() bool {
	return (s.startup.spec == nil || s.startup.succeeded) && (s.ready.spec == nil || s.ready.succeeded)
}

func (b *probe) hasFailed() bool { return b.spec != nil && b.failures >= b.spec.FailureThreshold }

// look makes the probe if it is due. The API has set all defaults of its numbers.
func (b *probe) look(ctx context.Context, p *pod) {
	if b.spec == nil || time.Now().Before(b.next) {
		return
	}
	b.next = time.Now().Add(time.Duration(b.spec.PeriodSeconds) * time.Second)
	if p.succeeds(ctx, b.spec) {
		b.successes, b.failures = b.successes+1, 0
		b.succeeded = b.succeeded || b.successes >= b.spec.SuccessThreshold
		return
	}
	b.successes, b.failures = 0, b.failures+1
	b.succeeded = b.succeeded && b.failures < b.spec.FailureThreshold
}

// probing is the client of the probes. Like the kubelet, it takes any certificate, and a new connection each time.
var probing = http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}

// succeeds makes a probe over HTTP once.
func (p *pod) succeeds(ctx context.Context, probe *corev1.Probe) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(probe.TimeoutSeconds)*time.Second)
	defer cancel()
	address := net.JoinHostPort(p.address, strconv.Itoa(int(p.portOf(probe.HTTPGet.Port))))
	url := strings.ToLower(string(probe.HTTPGet.Scheme)) + "://" + address + probe.HTTPGet.Path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := probing.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode >= 200 && response.StatusCode < 400
}

// portOf returns a port of the container by its name or number, or 0.
func (p *pod) portOf(port intstr.IntOrString) int32 {
	if port.Type == intstr.Int {
		return port.IntVal
	}
	for _, own := range p.Spec.Containers[0].Ports {
		if own.Name == port.StrVal {
			return own.ContainerPort
		}
	}
	return 0
}
