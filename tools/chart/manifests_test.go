package chart

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

const manifestsDirectory = "../../deploy/kubernetes"

// manifests returns the objects of deploy/kubernetes.
func manifests(t *testing.T) map[string]object {
	t.Helper()
	objects, err := readManifests(manifestsDirectory)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// readManifests returns the objects that the kustomization in a directory names. It must name all files.
func readManifests(directory string) (map[string]object, error) {
	var list struct{ Resources []string }
	text, err := os.ReadFile(filepath.Join(directory, "kustomization.yaml"))
	if err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(directory, "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(list.Resources)+1 != len(files) {
		return nil, fmt.Errorf("kustomization.yaml names %d files of %d", len(list.Resources), len(files)-1)
	}
	objects := map[string]object{}
	for _, name := range list.Resources {
		text, err := os.ReadFile(filepath.Join(directory, name))
		if err != nil {
			return nil, err
		}
		if err := decode(objects, string(text)); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return objects, nil
}

// What names something else in the manifests, such as a label or a port, names it rightly. The same holds for the chart, also
// under another name.
func TestManifestsFitTogether(t *testing.T) {
	if err := fitTogether(manifests(t)); err != nil {
		t.Error(err)
	}
	for _, release := range []string{"rollcall", "one"} {
		rendered, err := render(release, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := fitTogether(rendered); err != nil {
			t.Errorf("the chart as %s: %v", release, err)
		}
	}
}

// A manifest with an unknown field is found, and so is what names something that is not there.
func TestBrokenManifests(t *testing.T) {
	for _, tt := range []struct{ file, old, new, want string }{
		{"statefulset.yaml", "terminationGracePeriodSeconds", "terminationGracePeriod", `unknown field "spec.template.spec.terminationGracePeriod"`},
		{"statefulset.yaml", "{path: /readyz, port: http}", "{path: /readyz, port: https}", "the readiness probe asks no port"},
		{"statefulset.yaml", "{name: data, mountPath", "{name: disk, mountPath", "the container mounts disk, which is no volume"},
		{"statefulset.yaml", "        - name: config\n          configMap:\n            name: rollcall", "        - name: config\n          configMap:\n            name: other", "the container mounts config, which is no volume"},
		{"statefulset.yaml", "serviceName: rollcall-members", "serviceName: rollcall", `the StatefulSet's serviceName, "rollcall", is no headless service`},
		{"statefulset.yaml", "matchLabels:\n      app.kubernetes.io/name: rollcall", "matchLabels:\n      app.kubernetes.io/name: other", "the StatefulSet selects app.kubernetes.io/name=other"},
		{"services.yaml", "{name: quorum, port: 2888}", "{name: quorum, port: 2889}", "the service rollcall-members has quorum at 2889, and the container at 2888"},
		{"disruption.yaml", "selector:\n    matchLabels:\n      app.kubernetes.io/name: rollcall", "selector: {}", "the disruption budget selects every pod"},
		{"network.yaml", "{port: election}", "{port: vote}", "the network policy names the port vote"},
		{"network.yaml", "apiVersion: ", "apiVersion: v1\nkind: Namespace\nmetadata: {name: here}\n---\napiVersion: ", "Namespace here is not among the kinds"},
		{"statefulset.yaml", "serviceAccountName: rollcall", "serviceAccountName: other", "the pods run as other, and not as the ServiceAccount"},
		{"statefulset.yaml", "automountServiceAccountToken: true", "automountServiceAccountToken: false", "the pods have no token"},
		{"access.yaml", "resourceNames: [rollcall]", "resourceNames: [other]", "the Role allows something else than reading the StatefulSet rollcall"},
		{"access.yaml", "verbs: [get]", "verbs: [get, update]", "the Role allows something else than reading the StatefulSet rollcall"},
		{"access.yaml", "resources: [statefulsets]", "resources: [deployments]", "the Role allows something else than reading the StatefulSet rollcall"},
		{"access.yaml", "  kind: Role\n  name: rollcall", "  kind: Role\n  name: other", "the RoleBinding gives Role other"},
		{"access.yaml", "- kind: ServiceAccount\n    name: rollcall", "- kind: ServiceAccount\n    name: other", "the RoleBinding is for"},
		{"kustomization.yaml", "  - network.yaml\n", "", "kustomization.yaml names 5 files of 6"},
		{"kustomization.yaml", "  - network.yaml\n", "  - networks.yaml\n", "no such file"},
	} {
		broken := t.TempDir()
		if err := os.CopyFS(broken, os.DirFS(manifestsDirectory)); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(broken, tt.file)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(text), tt.old, tt.new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		objects, err := readManifests(broken)
		if err == nil {
			err = fitTogether(objects)
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q instead of %q: %v, want it to say %s", tt.new, tt.old, err, tt.want)
		}
	}
}

// cluster has the objects of one ensemble by their types.
type cluster struct {
	config   corev1.ConfigMap
	services map[string]corev1.Service
	set      appsv1.StatefulSet
	budget   policyv1.PodDisruptionBudget
	network  networkingv1.NetworkPolicy
	account  corev1.ServiceAccount
	role     rbacv1.Role
	binding  rbacv1.RoleBinding
}

// clusterOf returns the objects by their types. All have been decoded strictly.
func clusterOf(objects map[string]object) (c cluster, err error) {
	c.services = map[string]corev1.Service{}
	for name, o := range objects {
		kind, _, _ := strings.Cut(name, " ")
		var service corev1.Service
		into := map[string]any{
			"ConfigMap": &c.config, "Service": &service, "StatefulSet": &c.set, "PodDisruptionBudget": &c.budget, "NetworkPolicy": &c.network,
			"ServiceAccount": &c.account, "Role": &c.role, "RoleBinding": &c.binding,
		}[kind]
		if into == nil {
			return c, fmt.Errorf("%s is not among the kinds that are known here", name)
		}
		if err := json.Unmarshal([]byte(brief(o)), into); err != nil {
			return c, fmt.Errorf("%s: %w", name, err)
		}
		if kind == "Service" {
			c.services[service.Name] = service
		}
	}
	return c, nil
}

// fitTogether returns what in the objects of an ensemble does not fit together.
func fitTogether(objects map[string]object) error {
	c, err := clusterOf(objects)
	if err != nil {
		return err
	}
	wrong := func(format string, args ...any) { err = errors.Join(err, fmt.Errorf(format, args...)) }
	pod := c.set.Spec.Template
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
	for _, container := range pod.Spec.Containers {
		for _, p := range container.Ports {
			ports[p.Name] = p.ContainerPort
		}
		for name, probe := range map[string]*corev1.Probe{"startup": container.StartupProbe, "liveness": container.LivenessProbe, "readiness": container.ReadinessProbe} {
			if probe == nil || probe.HTTPGet == nil || ports[probe.HTTPGet.Port.StrVal] == 0 {
				wrong("the %s probe asks no port of the container", name)
			}
		}
		for _, m := range container.VolumeMounts {
			if !c.hasVolume(m.Name) {
				wrong("the container mounts %s, which is no volume", m.Name)
			}
		}
	}
	port := func(what string, p *intstr.IntOrString) {
		if p == nil || ports[p.StrVal] == 0 {
			wrong("%s names the port %v, which the container has not", what, p)
		}
	}
	selects("the StatefulSet", c.set.Spec.Selector.MatchLabels)
	selects("the disruption budget", c.budget.Spec.Selector.MatchLabels)
	selects("the network policy", c.network.Spec.PodSelector.MatchLabels)
	for _, rule := range c.network.Spec.Ingress {
		for _, p := range rule.Ports {
			port("the network policy", p.Port)
		}
	}
	for name, s := range c.services {
		selects("the service "+name, s.Spec.Selector)
		for _, p := range s.Spec.Ports {
			if ports[p.Name] != p.Port {
				wrong("the service %s has %s at %d, and the container at %d", name, p.Name, p.Port, ports[p.Name])
			}
		}
	}
	if s, known := c.services[c.set.Spec.ServiceName]; !known || s.Spec.ClusterIP != corev1.ClusterIPNone {
		wrong("the StatefulSet's serviceName, %q, is no headless service", c.set.Spec.ServiceName)
	}
	return errors.Join(err, c.accessFits())
}

// accessFits returns an error unless the pods may read their StatefulSet, and nothing else.
func (c *cluster) accessFits() (err error) {
	wrong := func(format string, args ...any) { err = errors.Join(err, fmt.Errorf(format, args...)) }
	pod := c.set.Spec.Template.Spec
	if pod.ServiceAccountName != c.account.Name {
		wrong("the pods run as %s, and not as the ServiceAccount %s", pod.ServiceAccountName, c.account.Name)
	}
	if pod.AutomountServiceAccountToken == nil || !*pod.AutomountServiceAccountToken {
		wrong("the pods have no token")
	}
	want := []rbacv1.PolicyRule{{APIGroups: []string{"apps"}, Resources: []string{"statefulsets"}, ResourceNames: []string{c.set.Name}, Verbs: []string{"get"}}}
	if !reflect.DeepEqual(c.role.Rules, want) {
		wrong("the Role allows something else than reading the StatefulSet %s: %v", c.set.Name, c.role.Rules)
	}
	if ref := c.binding.RoleRef; ref.Kind != "Role" || ref.Name != c.role.Name {
		wrong("the RoleBinding gives %s %s, and the Role is %s", ref.Kind, ref.Name, c.role.Name)
	}
	if s := c.binding.Subjects; len(s) != 1 || s[0].Kind != "ServiceAccount" || s[0].Name != c.account.Name {
		wrong("the RoleBinding is for %v, and the ServiceAccount is %s", s, c.account.Name)
	}
	return err
}

// hasVolume reports whether the pods have a volume of a name.
func (c *cluster) hasVolume(name string) bool {
	for _, v := range c.set.Spec.Template.Spec.Volumes {
		if v.Name == name {
			return v.ConfigMap == nil || v.ConfigMap.Name == c.config.Name
		}
	}
	for _, claim := range c.set.Spec.VolumeClaimTemplates {
		if claim.Name == name {
			return true
		}
	}
	return false
}
