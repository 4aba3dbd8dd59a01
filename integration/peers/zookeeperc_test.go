package peers

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"rollcall/integration/needs"
)

func TestZooKeeperC(t *testing.T) {
	r := newRun(t, zooKeeperC, needs.ZooKeeperC)
	source := r.zooKeeperSource(t)
	if out, err := exec.Command(program(t, "zookeeper/build-c-tests"), source).CombinedOutput(); err != nil {
		t.Fatalf("%s cannot be built: %v\n%s", r.suite.name, err, tail(out))
	}
	r.env = append(r.env, "PATH="+r.standIn(t, "java")+":"+os.Getenv("PATH"), "ZKROOT="+source)
	r.play(t, r.cppUnit(filepath.Join(source, "zookeeper-client", "zookeeper-client-c")))
}

// zooKeeperSource returns a directory with the source of the ZooKeeper that is installed.
func (r *run) zooKeeperSource(t *testing.T) string {
	t.Helper()
	version := debianVersion(t, "libzookeeper-java")
	r.wantVersion(t, version)
	dir := t.TempDir()
	if out, err := exec.Command(program(t, "debian-source"), "zookeeper", version, dir).CombinedOutput(); err != nil {
		t.Fatalf("the source of zookeeper %s cannot be fetched: %v\n%s", version, err, tail(out))
	}
	return glob(t, filepath.Join(dir, "zookeeper-*", "."))[0]
}

// glob returns the files that match, at least one.
func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no file matches %s (%v)", pattern, err)
	}
	return files
}

// cppUnit returns a command that runs the tests of the C client in its directory. The tests of the client with threads
// run by their classes, because a class may end the process. Without threads no class does.
func (r *run) cppUnit(client string) command {
	return func(t *testing.T, only []string) (map[string]outcome, string) {
		t.Helper()
		parts := []string{"st"}
		for _, class := range cppClasses(t, client) {
			parts = append(parts, "mt."+class)
		}
		dirs := map[string]string{}
		for _, part := range parts {
			dirs[part] = t.TempDir()
		}
		ownTmp := []string{program(t, "with-own-tmp"), filepath.Dir(t.TempDir())} // the tests write files of fixed names to /tmp
		return inParts(partsOf(parts, only), func(part string) (map[string]outcome, string) {
			binary, class, _ := strings.Cut(part, ".")
			if err := os.Symlink(filepath.Join(client, "tests"), filepath.Join(dirs[part], "tests")); err != nil {
				return map[string]outcome{part: failed}, err.Error()
			}
			return r.cppUnitPart(part, dirs[part], append(slices.Clone(ownTmp), filepath.Join(client, "zktest-"+binary), cmp.Or(class, "all")))
		})
	}
}

// cppUnitPart runs a part of the tests in a directory that has the tests' own one.
func (r *run) cppUnitPart(part, dir string, words []string) (map[string]outcome, string) {
	cmd := r.inOwnNetwork(words...)
	cmd.Dir = dir
	out, runErr := cmd.CombinedOutput()
	report, err := os.ReadFile(filepath.Join(dir, "tests.xml"))
	if err != nil { // the process ended before the report
		return map[string]outcome{part: failed}, fmt.Sprintf("%s\n%v", out, runErr)
	}
	binary, _, _ := strings.Cut(part, ".")
	outcomes, err := parseCppUnit(binary, report)
	if err != nil {
		return map[string]outcome{part: failed}, fmt.Sprintf("%s\n%v", out, err)
	}
	return outcomes, string(out)
}

var cppClass = regexp.MustCompile(`CPPUNIT_TEST_SUITE\((\w+)\)`)

// cppClasses returns the names of the C client's classes of tests, sorted.
func cppClasses(t *testing.T, client string) (classes []string) {
	t.Helper()
	for _, file := range glob(t, filepath.Join(client, "tests", "*.cc")) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range cppClass.FindAllSubmatch(text, -1) {
			classes = append(classes, string(match[1]))
		}
	}
	slices.Sort(classes)
	return classes
}

// parseCppUnit returns the outcomes in a report of CppUnit, by names that have the binary, the class and the test.
func parseCppUnit(binary string, text []byte) (map[string]outcome, error) {
	var report struct {
		Failed []string `xml:"FailedTests>FailedTest>Name"`
		Passed []string `xml:"SuccessfulTests>Test>Name"`
	}
	d := xml.NewDecoder(bytes.NewReader(text))
	d.CharsetReader = func(_ string, text io.Reader) (io.Reader, error) { return text, nil } // it is ASCII, and says ISO-8859-1
	if err := d.Decode(&report); err != nil {
		return nil, err
	}
	outcomes := map[string]outcome{}
	for _, name := range report.Passed {
		outcomes[binary+"."+strings.Replace(name, "::", ".", 1)] = passed
	}
	for _, name := range report.Failed {
		outcomes[binary+"."+strings.Replace(name, "::", ".", 1)] = failed
	}
	return outcomes, nil
}
