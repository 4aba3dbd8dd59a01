package chart

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
)

// The package that make chart writes has the same bytes each time, and Helm reads the same files from it as from the tree.
func TestChartPackage(t *testing.T) {
	first, second := pack(t), pack(t)
	one, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	two, err := os.ReadFile(second)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one, two) {
		t.Error("two packages of one tree differ")
	}
	packed, err := loader.LoadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := loader.Load(chartDirectory)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, f := range packed.Raw {
		texts[f.Name] = string(f.Data)
	}
	for _, f := range loaded.Raw {
		if texts[f.Name] != string(f.Data) {
			t.Errorf("%s differs in the package", f.Name)
		}
	}
	if len(packed.Raw) != len(loaded.Raw) || len(packed.Raw) < 10 {
		t.Errorf("the package has %d files, and the chart %d", len(packed.Raw), len(loaded.Raw))
	}
	if want := "rollcall-" + packed.Metadata.Version + ".tgz"; filepath.Base(first) != want {
		t.Errorf("the package is %s, want %s", first, want)
	}
}

// pack runs the script of make chart, and returns the path of the package.
func pack(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "../../deploy/packages/chart.sh")
	cmd.Env = append(os.Environ(), "OUT="+t.TempDir())
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
