package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/strvals"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const chartDirectory = "../../deploy/chart"

// loadChart reads the chart once: each time, Helm logs that some of its files are links.
var loadChart = sync.OnceValues(func() (*helmchart.Chart, error) { return loader.Load(chartDirectory) })

// object is a manifest as JSON has it.
type object = map[string]any

// render returns what helm install RELEASE deploy/chart --set SETTINGS makes, by "KIND NAME". Settings are separated by
// spaces.
func render(release, settings string) (map[string]object, error) {
	all, err := renderAll(release, settings)
	objects := maps.Clone(all)
	maps.DeleteFunc(objects, func(_ string, o object) bool { return at(o, "metadata", "annotations", "helm.sh/hook") != nil })
	return objects, err
}

// rendered has what renderAll has returned, by its arguments: most tests of a feature have the same ones.
var rendered = map[[2]string]struct {
	objects map[string]object
	err     error
}{}

// renderAll does the same with the objects of helm test. The caller must not change them.
func renderAll(release, settings string) (map[string]object, error) {
	key := [2]string{release, settings}
	result, known := rendered[key]
	if !known {
		result.objects, result.err = renderAnew(release, settings)
		rendered[key] = result
	}
	return result.objects, result.err
}

func renderAnew(release, settings string) (map[string]object, error) {
	loaded, err := loadChart()
	if err != nil {
		return nil, err
	}
	values := object{}
	for _, setting := range strings.Fields(settings) {
		if err := strvals.ParseInto(setting, values); err != nil {
			return nil, err
		}
	}
	all, err := chartutil.ToRenderValues(loaded, values, chartutil.ReleaseOptions{Name: release, Namespace: "here", IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(loaded, all)
	if err != nil {
		return nil, err
	}
	objects := map[string]object{}
	for path, text := range files {
		if filepath.Ext(path) == ".yaml" {
			err = decode(objects, text)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w:\n%s", path, err, text)
		}
	}
	return objects, nil
}

// knownTypes returns the types of Kubernetes, cert-manager and Prometheus' operator.
var knownTypes = sync.OnceValues(func() (*runtime.Scheme, error) {
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, certmanagerv1.AddToScheme, monitoringv1.AddToScheme} {
		if err := add(types); err != nil {
			return nil, err
		}
	}
	return types, nil
})

// decode adds the manifests in a file. A field that is in none of knownTypes is an error, and so is one of another type.
func decode(objects map[string]object, text string) error {
	types, err := knownTypes()
	if err != nil {
		return err
	}
	known := serializer.NewCodecFactory(types, serializer.EnableStrict).UniversalDeserializer()
	for _, part := range strings.Split(text, "\n---\n") {
		if strings.TrimSpace(part) == "" {
			continue // the values ask for none of the objects in this file
		}
		if _, _, err := known.Decode([]byte(part), nil, nil); err != nil {
			return err
		}
		var o object
		if err := yaml.Unmarshal([]byte(part), &o); err != nil {
			return err
		}
		objects[fmt.Sprintf("%v %v", o["kind"], at(o, "metadata", "name"))] = o
	}
	return nil
}

// at returns what is in an object at a path, or nil.
func at(o any, path ...string) any {
	for _, name := range path {
		m, _ := o.(object)
		o = m[name]
	}
	return o
}

// differences returns the paths at which two values differ, each with both values.
func differences(path string, a, b any) (list []string) {
	switch x := a.(type) {
	case object:
		if y, same := b.(object); same {
			keys := maps.Clone(x)
			maps.Copy(keys, y)
			for _, key := range slices.Sorted(maps.Keys(keys)) {
				list = append(list, differences(path+"/"+key, x[key], y[key])...)
			}
			return list
		}
	case []any:
		if y, same := b.([]any); same && len(x) == len(y) {
			for i := range x {
				list = append(list, differences(fmt.Sprintf("%s/%d", path, i), x[i], y[i])...)
			}
			return list
		}
	}
	if reflect.DeepEqual(a, b) {
		return nil
	}
	return []string{fmt.Sprintf("%s: %s and %s", path, brief(a), brief(b))}
}

// brief returns a value as JSON.
func brief(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// compare returns the differences between two sets of objects.
func compare(a, b map[string]object) (list []string) {
	both := maps.Clone(a)
	maps.Copy(both, b)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		list = append(list, differences(name+" ", any(a[name]), any(b[name]))...)
	}
	return list
}

// chartsOwn are the labels and annotations that only the chart gives.
var chartsOwn = []string{"app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by", "helm.sh/chart", "checksum/config"}

// plain returns a copy of a value without chartsOwn, without maps that are then empty, and with the keys of zoo.cfg in
// order and without comments.
func plain(v any) any {
	switch v := v.(type) {
	case object:
		kept := object{}
		for key, value := range v {
			value = plain(value)
			if m, isMap := value.(object); slices.Contains(chartsOwn, key) || key == "annotations" && isMap && len(m) == 0 {
				continue
			}
			if text, isText := value.(string); key == "zoo.cfg" && isText {
				value = settings(text)
			}
			kept[key] = value
		}
		return kept
	case []any:
		kept := make([]any, len(v))
		for i := range v {
			kept[i] = plain(v[i])
		}
		return kept
	}
	return v
}

// settings returns the keys and values in the text of a zoo.cfg.
func settings(text string) object {
	keys := object{}
	for _, m := range regexp.MustCompile(`(?m)^([^#\s=]+)=(.*)$`).FindAllStringSubmatch(text, -1) {
		keys[m[1]] = m[2]
	}
	return keys
}

// plainAll does the same for all objects.
func plainAll(objects map[string]object) map[string]object {
	kept := map[string]object{}
	for name, o := range objects {
		kept[name] = plain(o).(object) // a copy of a map is one
	}
	return kept
}
