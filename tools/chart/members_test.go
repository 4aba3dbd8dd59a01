package chart

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// A member takes the zoo.cfg of each set of values without a warning, and finds every file that it names.
func TestMembersTakeTheConfiguration(t *testing.T) {
	program := buildProgram(t)
	for _, values := range []string{"", everything, certificates + "tls.clients.plain=false"} {
		objects, err := render("one", values)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := field(objects[cfg], []string{"data"}).(object)["zoo.cfg"].(string)
		if err := checkConfiguration(t, program, "one-0", text, objects); err != "" {
			t.Errorf("with the values %q: %s:\n%s", values, err, text)
		}
		if values != "" {
			continue
		}
		for _, host := range []string{"one-3", "one-31"} { // which kubectl scale has added
			if err := checkConfiguration(t, program, host, text, objects); err != "" {
				t.Errorf("%s: %s:\n%s", host, err, text)
			}
		}
	}
}

// programDirectory has the program once a test has needed it. TestMain removes it.
var programDirectory string

// buildOnce builds the program.
var buildOnce = sync.OnceValue(func() (err error) {
	if programDirectory, err = os.MkdirTemp("", "rollcall"); err != nil {
		return err
	}
	build := exec.Command("go", "build", "-o", filepath.Join(programDirectory, "rollcall"), "./cmd/rollcall")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
})

// buildProgram returns the path of the program.
func buildProgram(t *testing.T) string {
	t.Helper()
	if err := buildOnce(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(programDirectory, "rollcall")
}

func TestMain(m *testing.M) {
	status := m.Run()
	if programDirectory != "" {
		_ = os.RemoveAll(programDirectory) // of the system's directory for such files
	}
	os.Exit(status)
}

// absolute is a value in zoo.cfg that is a path in the pod.
var absolute = regexp.MustCompile(`(?m)=(/\S+)$`)

// checkConfiguration returns what rollcall config check says against a zoo.cfg in a pod, on a machine with the pod's volumes, or "".
func checkConfiguration(t *testing.T, program, host, zooCfg string, objects map[string]object) string {
	t.Helper()
	root := t.TempDir()
	certs := exec.CommandContext(t.Context(), program, "certs", "--out", root+"/certs", "one-0.one-members,one,localhost,127.0.0.1")
	if out, err := certs.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, m := range field(objects[set], strings.Fields(serving+"volumeMounts")).([]any) {
		mount := m.(object)
		directory := root + mount["mountPath"].(string)
		if err := os.MkdirAll(directory, 0o750); err != nil {
			t.Fatal(err)
		}
		items, _ := field(objects[set], strings.Fields(pod+"volumes "+mount["name"].(string)+" secret items")).([]any)
		files := []string{mount["name"].(string)} // a Secret without items has files with the names of its keys, which here are those of the volumes
		for _, item := range items {
			files = append(files, item.(object)["path"].(string))
		}
		for _, file := range files {
			if err := os.WriteFile(filepath.Join(directory, file), contentOf(t, root, file), 0o640); err != nil {
				t.Fatal(err)
			}
		}
	}
	path := filepath.Join(root, "conf", "zoo.cfg")
	if err := os.WriteFile(path, []byte(absolute.ReplaceAllString(zooCfg, "="+root+"$1")), 0o600); err != nil {
		t.Fatal(err)
	}
	check := exec.CommandContext(t.Context(), program, "config", "check", "-o", "json", path)
	check.Env = append(os.Environ(), "HOSTNAME="+host)
	var complaints bytes.Buffer
	check.Stderr = &complaints
	if err := check.Run(); err != nil {
		return err.Error() + ": " + complaints.String()
	}
	return complaints.String()
}

// contentOf returns the content of a file in a Secret.
func contentOf(t *testing.T, root, file string) []byte {
	t.Helper()
	if file == "credentials" {
		return []byte("aws_access_key_id = KEY\naws_secret_access_key = SECRET\n")
	}
	source, known := map[string]string{"member.pem": "one-0.one-members.pem", "ca.pem": "ca.pem"}[file]
	if !known {
		return []byte(strings.Repeat("x", 32) + "\n")
	}
	content, err := os.ReadFile(filepath.Join(root, "certs", source))
	if err != nil {
		t.Fatal(err)
	}
	return content
}
