// Command manifests checks manifests of Kubernetes without a cluster. Each must decode into its type,
// without unknown fields. What names something else in the files, such as a label or a port, must name it
// rightly.
//
//	go -C tools/pinned run ./manifests ../../deploy/kubernetes
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: manifests DIRECTORY")
		os.Exit(2)
	}
	if err := check(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// objects are the manifests of a directory.
type objects struct {
	config   corev1.ConfigMap
	services map[string]corev1.Service
	set      appsv1.StatefulSet
	budget   policyv1.PodDisruptionBudget
	network  networkingv1.NetworkPolicy
}

// check returns all that is wrong with the manifests that the kustomization in a directory names.
func check(directory string) error {
	o := objects{services: map[string]corev1.Service{}}
	var list struct {
		Resources []string `json:"resources"`
	}
	text, err := os.ReadFile(filepath.Join(directory, "kustomization.yaml"))
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(text, &list); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(directory, "*.yaml"))
	if err != nil {
		return err
	}
	if len(list.Resources)+1 != len(files) {
		err = errors.Join(err, fmt.Errorf("kustomization.yaml names %d files of %d", len(list.Resources), len(files)-1))
	}
	for _, name := range list.Resources {
		err = errors.Join(err, o.read(filepath.Join(directory, name)))
	}
	return errors.Join(err, o.agree())
}

// read decodes the manifests in a file.
func (o *objects) read(path string) (err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for _, part := range bytes.Split(text, []byte("\n---\n")) {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(part, &kind); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		var service corev1.Service
		types := map[string]any{
			"v1/ConfigMap": &o.config, "v1/Service": &service, "apps/v1/StatefulSet": &o.set,
			"policy/v1/PodDisruptionBudget": &o.budget, "networking.k8s.io/v1/NetworkPolicy": &o.network,
		}
		name := kind.APIVersion + "/" + kind.Kind
		if types[name] == nil {
			err = errors.Join(err, fmt.Errorf("%s: %s is not among the kinds that are known here", path, name))
			continue
		}
		if wrong := yaml.UnmarshalStrict(part, types[name]); wrong != nil {
			err = errors.Join(err, fmt.Errorf("%s: %s: %w", path, name, wrong))
		}
		if kind.Kind == "Service" {
			o.services[service.Name] = service
		}
	}
	return err
}

// agree returns what in the manifests does not fit together.
func (o *objects) agree() (err error) {
	wrong := func(format string, args ...any) { err = errors.Join(err, fmt.Errorf(format, args...)) }
	pod := o.set.Spec.Template
	selects := func(what string, labels map[string]string) {
		for name, value := range labels {
			if pod.Labels[name] != value {
				wrong("%s selects %s=%s, and the pods have %q", what, name, value, pod.Labels[name])
			}
		}
		if len(labels) == 0 {
			wrong("%s selects every pod", what)
		}
	}
	ports := map[string]int32{}
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			ports[p.Name] = p.ContainerPort
		}
		for name, probe := range map[string]*corev1.Probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
			if probe == nil || probe.HTTPGet == nil || ports[probe.HTTPGet.Port.StrVal] == 0 {
				wrong("the %s probe asks no port of the container", name)
			}
		}
		for _, m := range c.VolumeMounts {
			if !o.volume(m.Name) {
				wrong("the container mounts %s, which is no volume", m.Name)
			}
		}
	}
	port := func(what string, p *intstr.IntOrString) {
		if p == nil || ports[p.StrVal] == 0 {
			wrong("%s names the port %v, which the container has not", what, p)
		}
	}
	selects("the StatefulSet", o.set.Spec.Selector.MatchLabels)
	selects("the disruption budget", o.budget.Spec.Selector.MatchLabels)
	selects("the network policy", o.network.Spec.PodSelector.MatchLabels)
	for _, rule := range o.network.Spec.Ingress {
		for _, p := range rule.Ports {
			port("the network policy", p.Port)
		}
	}
	for name, s := range o.services {
		selects("the service "+name, s.Spec.Selector)
		for _, p := range s.Spec.Ports {
			if ports[p.Name] != p.Port {
				wrong("the service %s has %s at %d, and the container at %d", name, p.Name, p.Port, ports[p.Name])
			}
		}
	}
	if s, known := o.services[o.set.Spec.ServiceName]; !known || s.Spec.ClusterIP != corev1.ClusterIPNone {
		wrong("the StatefulSet's serviceName, %q, is no headless service", o.set.Spec.ServiceName)
	}
	return err
}

// volume reports whether the pods have a volume of a name.
func (o *objects) volume(name string) bool {
	for _, v := range o.set.Spec.Template.Spec.Volumes {
		if v.Name == name {
			return v.ConfigMap == nil || v.ConfigMap.Name == o.config.Name
		}
	}
	for _, claim := range o.set.Spec.VolumeClaimTemplates {
		if claim.Name == name {
			return true
		}
	}
	return false
}
