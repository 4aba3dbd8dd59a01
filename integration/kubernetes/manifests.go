package kubernetes

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/strvals"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

const (
	// namespace is where all objects are.
	namespace = "default"
	// release is the name of the chart's release, and of its StatefulSet.
	release = "rollcall"

	manifestsDir = "../../deploy/kubernetes"
	chartDir     = "../../deploy/chart"
)

// resources are the paths of the kinds that the manifests and the chart have.
var resources = map[string]string{
	"ConfigMap":             "/api/v1/namespaces/" + namespace + "/configmaps",
	"Service":               "/api/v1/namespaces/" + namespace + "/services",
	"ServiceAccount":        "/api/v1/namespaces/" + namespace + "/serviceaccounts",
	"PersistentVolumeClaim": "/api/v1/namespaces/" + namespace + "/persistentvolumeclaims",
	"Pod":                   "/api/v1/namespaces/" + namespace + "/pods",
	"Role":                  "/apis/rbac.authorization.k8s.io/v1/namespaces/" + namespace + "/roles",
	"RoleBinding":           "/apis/rbac.authorization.k8s.io/v1/namespaces/" + namespace + "/rolebindings",
	"StatefulSet":           "/apis/apps/v1/namespaces/" + namespace + "/statefulsets",
	"PodDisruptionBudget":   "/apis/policy/v1/namespaces/" + namespace + "/poddisruptionbudgets",
	"NetworkPolicy":         "/apis/networking.k8s.io/v1/namespaces/" + namespace + "/networkpolicies",
	"CronJob":               "/apis/batch/v1/namespaces/" + namespace + "/cronjobs",
}

// readManifests returns the objects in the files that the kustomization lists.
func readManifests() ([]*unstructured.Unstructured, error) {
	var list struct{ Resources []string }
	text, err := os.ReadFile(filepath.Join(manifestsDir, "kustomization.yaml"))
	if err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, name := range list.Resources {
		text, err := os.ReadFile(filepath.Join(manifestsDir, name))
		if err != nil {
			return nil, err
		}
		read, err := decode(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		objects = append(objects, read...)
	}
	return objects, nil
}

// loadChart reads the chart once: each time, Helm logs that some of its files are links.
var loadChart = sync.OnceValues(func() (*helmchart.Chart, error) { return loader.Load(chartDir) })

// renderChart returns the objects that helm install rollcall deploy/chart --set SETTINGS makes, without those of helm test. Settings are
// separated by spaces. The StatefulSet is the last one.
func renderChart(settings string) ([]*unstructured.Unstructured, error) {
	loaded, err := loadChart()
	if err != nil {
		return nil, err
	}
	values := map[string]any{}
	for _, setting := range strings.Fields(settings) {
		if err := strvals.ParseInto(setting, values); err != nil {
			return nil, err
		}
	}
	all, err := chartutil.ToRenderValues(loaded, values, chartutil.ReleaseOptions{Name: release, Namespace: namespace, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(loaded, all)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for path, text := range files {
		if filepath.Ext(path) != ".yaml" {
			continue
		}
		read, err := decode([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		objects = append(objects, read...)
	}
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetAnnotations()["helm.sh/hook"] != "" })
	slices.SortFunc(objects, func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetKind(), b.GetKind()) })
	return objects, nil
}

// decode returns the objects in a file.
func decode(text []byte) (objects []*unstructured.Unstructured, err error) {
	for part := range bytes.SplitSeq(text, []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(part, &object.Object); err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
	return objects, nil
}

// apply applies an object at the server, which rejects fields that it does not know. A dry run changes nothing.
func (c *controlPlane) apply(ctx context.Context, object *unstructured.Unstructured, dryRun bool) error {
	resource, ok := resources[object.GetKind()]
	if !ok {
		return fmt.Errorf("the kind %s of %s has no path in resources: add it", object.GetKind(), object.GetName())
	}
	body, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	request := c.client.CoreV1().RESTClient().Patch(types.ApplyPatchType).AbsPath(resource, object.GetName()).
		Param("fieldManager", "rollcall").Param("force", "true").Param("fieldValidation", "Strict").Body(body)
	if dryRun {
		request.Param("dryRun", "All")
	}
	if err := request.Do(ctx).Error(); err != nil {
		return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}
